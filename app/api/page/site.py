"""Templates, static files, and problems as pages for browsers."""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import MEDIA_TYPE
from app.api.schemas import Leader
from app.core.clock import stopwatch
from app.core.model.instants import rfc3339
from app.core.model.probing import ShootState

if TYPE_CHECKING:
    from app.service.selfview import SelfView

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_STATIC: Final = "/static/"
_KINDS: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
# Most characters of a text that a page shows; texts from the seed were cut much shorter before.
_LONGEST: Final = 2_000

LOOK_OF: Final[Mapping[ShootState, tuple[str, str]]] = {
    ShootState.UNPROTECTED: ("bad", "✕"),
    ShootState.PROTECTED: ("act", "■"),
    ShootState.PROTECTING: ("act", "▼"),
    ShootState.RECOVERING: ("act", "▲"),
    ShootState.UNREACHABLE: ("warn", "◆"),
    ShootState.FAILING: ("warn", "◈"),
    ShootState.SUSPECT: ("warn", "◐"),
    ShootState.PENDING: ("calm", "◌"),
    ShootState.HEALTHY: ("good", "●"),
    ShootState.NOT_PROBED: ("calm", "○"),
}
"""Tone and symbol of each state; the symbol is for people who cannot tell the colours apart."""


class _File:
    """A static file; its URL has a hash of the content, so that browsers may cache it for ever."""

    def __init__(self, name: str) -> None:
        self.content = files("app.api.page").joinpath("static", name).read_bytes()
        stem, _, kind = name.rpartition(".")
        digest = hashlib.blake2b(self.content, digest_size=6).hexdigest()
        self.url = f"{_STATIC}{stem}.{digest}.{kind}"
        self.media_type = _KINDS[kind]


_FILES: Final = {name: _File(name) for name in ("page.js", "page.css", "icon.svg")}
_BY_URL: Final = {each.url: each for each in _FILES.values()}


def ago(seconds: float) -> str:
    """A duration in at most two units: `42s`, `3m`, `2h 5m`, `3d 4h`."""
    left = max(0, int(seconds))
    if left < 60:  # noqa: PLR2004 - seconds of a minute, and so on
        return f"{left}s"
    if left < 3_600:  # noqa: PLR2004
        return f"{left // 60}m"
    if left < 86_400:  # noqa: PLR2004
        return f"{left // 3_600}h {left % 3_600 // 60}m"
    return f"{left // 86_400}d {left % 86_400 // 3_600}h"


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def _time(instant: str | None, now: float, form: str) -> Markup:
    """A `time` element that the page's module keeps up to date; `form` is `ago`, `since` (how long) or `left`."""
    if instant is None or instant.startswith("1970-"):
        return Markup("<span class=none>–</span>")
    passed = now - _seconds(instant)
    text = {"ago": f"{ago(passed)} ago", "since": ago(passed), "left": f"{ago(-passed)} left"}[form]
    return Markup('<time datetime="{0}" title="{0}" data-form="{1}">{2}</time>').format(
        instant, form, text
    )


_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)Z")


def _text(value: object) -> Markup:
    """Text from outside in a `bdi` element: right-to-left marks must not reorder its surroundings (threat T13).

    Instants in it become `time` elements with the time of day; their title has the date.
    """
    text = str(value)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
    parts, end = Markup(""), 0
    for found in _INSTANT.finditer(shown):
        parts += escape(shown[end : found.start()]) + _clock(found[0])
        end = found.end()
    return Markup("<bdi>{}</bdi>").format(parts + escape(shown[end:]))


def _clock(instant: str | None) -> Markup:
    """The time of day in UTC, as logs and Events have it; the page's module adds the date where that is not today's."""
    if instant is None:
        return Markup("<span class=none>–</span>")
    return Markup('<time datetime="{0}" title="{0}" data-form="clock">{1} UTC</time>').format(
        instant, instant[11:19]
    )


_WORDS: Final[Mapping[str, str]] = {
    "Look": "probe",
    "Verdict": "verdict",
    "Override": "override",
    "Scale": "scaling",
    "Lifecycle": "life cycle",
    "Weed": "weeder",
    "FlowStarted": "scaling run began",
    "FlowEnded": "scaling run ended",
    "FlowCancelled": "scaling run cancelled",
    "ScaleRequestStarted": "manual scaling began",
    "ScaleRequestSucceeded": "manual scaling succeeded",
    "ScaleRequestFailed": "manual scaling failed",
    "ScaleRequestCancelled": "manual scaling cancelled",
    "ScaleRequestRefused": "manual scaling refused",
    "PauseStarted": "pause began",
    "PauseEnded": "pause ended",
    "PauseIgnored": "pause without effect",
    "MeltdownProtectionStarted": "protection began",
    "MeltdownProtectionEnded": "protection ended",
    "MeltdownKeyPresent": "marked as scaled down",
    "NoMeltdownKey": "not marked as scaled down",
    "APIServerReachable": "API server reachable",
    "LeasesRenewed": "leases renewed",
    "ProtectionActive": "protection active",
    "ScalingSucceeded": "scaling succeeded",
    "Write": "write",
    "Tidy": "tidy up annotations",
    "Skip": "leave as it is",
    "ScaleUp": "verdict: scale up",
    "ScaleDown": "verdict: scale down",
    "Hold": "verdict: hold",
    "NotRead": "not read yet",
    "NoLease": "no lease",
}
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words(code: object) -> str:
    """A code of the API, such as a reason, in words; what is not a code stays as it is."""
    text = str(code)
    if text in _WORDS:
        return _WORDS[text]
    return _CAPITAL.sub(" ", text).lower() if text.isalnum() else text


def _prose(text: str) -> Markup:
    """The text of a document, with what stands between backticks as code."""
    parts = str(escape(" ".join(text.split()))).split("`")
    if len(parts) % 2 == 0:
        return Markup("`".join(parts))  # noqa: S704 - it is escaped
    return Markup("".join(f"<code>{p}</code>" if n % 2 else p for n, p in enumerate(parts)))  # noqa: S704 - as above


def _by_leader(
    leaders: Mapping[str, Leader],
) -> list[tuple[tuple[str | None, str | None], list[str]]]:
    """Loops by identity and address of their leader; mostly one instance leads both."""
    found: dict[tuple[str | None, str | None], list[str]] = {}
    for loop, each in leaders.items():
        found.setdefault((each.identity, each.address), []).append(loop)
    return list(found.items())


def _environment() -> Environment:
    """The environment with all templates compiled, so that no request reads from the disk."""
    folder = files("app.api.page").joinpath("templates")
    found = Environment(
        loader=DictLoader({each.name: each.read_text("utf-8") for each in folder.iterdir()}),
        auto_reload=False,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        text=_text,
        ago=lambda instant, now: _time(instant, now, "ago"),
        since=lambda instant, now: _time(instant, now, "since"),
        left=lambda instant, now: _time(instant, now, "left"),
        words=words,
        # The code itself is the title: that is what logs and the API have.
        coded=lambda code: Markup('<span title="{}">{}</span>').format(code, words(code)),
        prose=_prose,
        clock=_clock,
        tone=lambda state: LOOK_OF[ShootState(state)][0],
        shape=lambda state: LOOK_OF[ShootState(state)][1],
        instant=rfc3339,
        by_leader=_by_leader,
        seconds=_seconds,
        lasted=ago,
        initials=lambda name: "".join(part[:1] for part in str(name).split("-")),
        pretty=lambda value: json.dumps(value, indent=1, ensure_ascii=False),
    )
    found.policies["json.dumps_kwargs"] = {"sort_keys": False}
    found.globals["static"] = {name: each.url for name, each in _FILES.items()}
    for name in found.list_templates():
        found.get_template(name)
    return found


TEMPLATES: Final = _environment()


def page(name: str, **values: Any) -> HTMLResponse:  # noqa: ANN401 - what a template takes
    """Render the template `name` as a page with the Content-Security-Policy."""
    return HTMLResponse(TEMPLATES.get_template(name).render(values), headers=HEADERS)


HEADERS: Final = {"Content-Security-Policy": POLICY}

# Seconds that a page is rendered before everything else in the event loop has its turn.
_SLICE: Final = 0.005
_LONGEST_PAUSE: Final = 0.05


def rendered(name: str, process: "SelfView", **values: Any) -> Response:  # noqa: ANN401 - what a template takes
    """Render the template `name` as a page, in slices."""
    return paced(TEMPLATES.get_template(name).generate(values), process)


def paced(parts: Iterable[str], process: "SelfView") -> Response:
    """A page of these parts; after each slice of work it leaves the event loop alone for as long as that took."""

    async def slices() -> AsyncIterator[str]:
        made: list[str] = []
        began = stopwatch()
        for part in parts:
            made.append(part)
            if (took := stopwatch() - began) > _SLICE:
                yield "".join(made)
                made.clear()
                await process.sleep(min(took, _LONGEST_PAUSE))
                began = stopwatch()
        yield "".join(made)

    return StreamingResponse(slices(), media_type="text/html", headers=HEADERS)


class Browsers:
    """Middleware outside of authentication: serves static files to everybody, and shows browsers problems as pages.

    A problem becomes a page if the client accepts HTML and not `application/problem+json`; answers at the paths of the
    API never change.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "GET" and (found := _BY_URL.get(scope["path"])) is not None:
            headers = {"Cache-Control": "public, max-age=31536000, immutable"}
            response = Response(found.content, headers=headers, media_type=found.media_type)
            await response(scope, receive, send)
        else:
            accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
            as_page = b"text/html" in accepted and MEDIA_TYPE.encode() not in accepted
            if as_page and not scope["path"].startswith("/api/"):
                send = _as_page(scope, receive, send)
            await self._app(scope, receive, send)


def _as_page(scope: Scope, receive: Receive, send: Send) -> Send:
    """A `send` that passes an answer on, or replaces it by a page if it is a problem."""
    state = scope.setdefault("state", {})

    async def replaced(message: Message) -> None:
        problem = state.get("problem")
        if problem is None:
            await send(message)
        elif message["type"] == "http.response.start":
            dropped = {b"content-type", b"content-length"}
            headers = [each for each in message["headers"] if each[0].lower() not in dropped]
            response = page("problem.html", problem=problem, path=scope["path"])
            response.status_code = message["status"]
            response.raw_headers.extend(headers)
            await response(scope, receive, send)

    return replaced
