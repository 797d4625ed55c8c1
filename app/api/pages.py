"""Two plain pages for people: where everything is, and what each call takes.  No script, nothing from elsewhere."""

import base64
import hashlib
from collections.abc import Container
from html import escape
from typing import Final, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from app.api import docpage
from app.core.model.loops import Loop

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


class _Link(NamedTuple):
    """A place to go."""

    url: str
    text: str
    loop: Loop | None = None
    """Only a process that runs this loop has it."""


_LINKS: Final = (
    _Link("/api/v1/status", "this process: version, role, what deserves a look"),
    _Link("/api/v1/shoots", "all shoots, worst first", Loop.PROBER),
    _Link("/api/v1/operations", "flows, running and past, step by step", Loop.PROBER),
    _Link("/api/v1/weeders", "services that came back, and the pods deleted then", Loop.WEEDER),
    _Link("/api/v1/audit", "who changed what"),
    _Link("/api/v1/config", "what this process runs with"),
    _Link("/docs", "every call: what it takes, what comes back"),
    _Link("/openapi.json", "the same for programs"),
    _Link("/readyz?verbose", "readiness, check by check"),
    _Link("/livez?verbose", "liveness, check by check"),
    _Link("/metrics", "metrics"),
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


def pages_router(here: Container[Loop]) -> APIRouter:
    """`/` and `/docs` of the application that has them, in a process that runs the loops `here`."""
    router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

    @router.get("/")
    async def index(request: Request) -> HTMLResponse:
        """Where everything is."""
        items = (_item(each) for each in _LINKS if each.loop is None or each.loop in here)
        return page(f"dependency-watchdog {request.app.version}", f"<ul>{''.join(items)}</ul>")

    @router.get("/docs")
    async def docs(request: Request) -> HTMLResponse:
        """What each call takes, and what comes back."""
        return page("The REST API", docpage.body(request.app.openapi()))

    return router


def _item(link: _Link) -> str:
    url = escape(link.url)
    return f'<li><a href="{url}">{url}</a>: {link.text}</li>'
