"""Two plain pages for people: where everything is, and what each call takes.  No script, nothing from elsewhere."""

import base64
import hashlib
from collections.abc import Container, Iterable
from html import escape
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse

from app.core.model.loops import Loop

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "code{font-family:ui-monospace,monospace}dt{margin-top:1em}"
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
    _Link("/api/v1/weeders", "services that came back, and the pods deleted then", Loop.WEEDER),
    _Link("/docs", "every call and its parameters"),
    _Link("/openapi.json", "the same for programs"),
    _Link("/readyz?verbose", "readiness, check by check"),
    _Link("/livez?verbose", "liveness, check by check"),
    _Link("/metrics", "metrics"),
)


def page(title: str, body: str) -> HTMLResponse:
    """A page of this title, which is escaped here; `body` is HTML whose texts have been."""
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})


def pages_router(app: FastAPI, here: Container[Loop]) -> APIRouter:
    """`/` and `/docs` of `app`, in a process that runs the loops `here`."""
    router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

    @router.get("/")
    async def index() -> HTMLResponse:
        """Where everything is."""
        items = (_item(each) for each in _LINKS if each.loop is None or each.loop in here)
        return page(f"dependency-watchdog {app.version}", f"<ul>{''.join(items)}</ul>")

    @router.get("/docs")
    async def docs() -> HTMLResponse:
        """What each call takes."""
        return page("The REST API", f"<dl>{''.join(_operations(app.openapi()))}</dl>")

    return router


def _item(link: _Link) -> str:
    url = escape(link.url)
    return f'<li><a href="{url}">{url}</a>: {link.text}</li>'


def _operations(schema: dict[str, Any]) -> Iterable[str]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            name = escape(f"{method.upper()} {path}")
            yield f"<dt><code>{name}</code></dt><dd>{escape(operation.get('description', ''))}"
            yield f"<ul>{''.join(_parameters(operation))}</ul></dd>"


def _parameters(operation: dict[str, Any]) -> Iterable[str]:
    for each in operation.get("parameters", ()):
        text = escape(each.get("description", each["in"]))
        yield f"<li><code>{escape(each['name'])}</code>: {text}</li>"
