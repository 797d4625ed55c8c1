"""A plain page for people: what each call takes.  No script, nothing from elsewhere."""

import base64
import hashlib
from html import escape
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from app.api import docpage

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "code,pre{font-family:ui-monospace,monospace}pre{background:#eee;color:#000;padding:.5em;overflow:auto}"
    "code{overflow-wrap:anywhere}dt{margin-top:.5em}h3{margin-top:2em}li ul{margin-bottom:.5em}"
)
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def page(title: str, body: str) -> HTMLResponse:
    """A page of this title, which is escaped here; `body` is HTML whose texts have been."""
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})


def pages_router() -> APIRouter:
    """`/docs` of the application that has it."""
    router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

    @router.get("/docs")
    async def docs(request: Request) -> HTMLResponse:
        """What each call takes, and what comes back."""
        return page("The REST API", docpage.body(request.app.openapi()))

    return router
