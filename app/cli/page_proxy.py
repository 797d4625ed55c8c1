"""`dwd page`: the watchdog's page in a browser, through a proxy on this machine that adds the token.

A browser has no bearer token, and cannot reach a pod. So a server on 127.0.0.1 takes what the browser asks for, and
sends it on to the leader, by the same transports and with the same token as every other command. Whom it serves is
decided in `page_gate`. What it sends on is chosen: of the browser's headers only those that the API reads, never its
cookie or an Authorization of its own, and of the answers' headers none that would change how the browser treats
127.0.0.1. Bodies of requests are short and read whole; answers, streams of events among them, are passed on as they
come.

`LeaderLink` keeps the connection to the leader. When a request finds it broken, it is checked, and restored with
back-off: kubectl is restarted, and the leader looked up again. Meanwhile the browser gets a sentence, and no error of
its own.
"""

import asyncio
import contextlib
import html
import json
import logging
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from rich.text import Text

from app.cli.client import CONNECT, EVENT_STREAM, MAX_PROBLEM, SILENCE, whole
from app.cli.page_gate import LOOPBACK, PageGate, Refused, belongs_to
from app.cli.printing import Answer, Printer
from app.cli.problems import (
    LOOP_NOT_HERE,
    NOT_THE_LEADER,
    CommandFailed,
    Exit,
    ServerRefused,
    refusal,
)
from app.cli.session import Session
from app.core.config.client_settings import PageSettings
from app.core.errors import ConfigurationError
from app.core.limits import Backoff
from app.core.model.instants import rfc3339

_PACE: Final = Backoff(1.0, 30.0)
_MAX_BODY: Final = 1 << 16
"""Most bytes of a request's body; the API takes 16 KiB, and says so itself."""
_BODY_TIME: Final = 10.0
"""Seconds within which the body must arrive."""
_MAX_HEAD: Final = 1 << 14
_LOOK_AGAIN: Final = 5.0
"""Seconds between two searches for a leader that the API itself does not know."""
_REACHED: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE})
"""Refusals that come from the API all the same: the page says what they mean."""
_REFRESH: Final = 5
_PROBLEM: Final = "application/problem+json"
_NOT_FORWARDED: Final = "Not forwarded"

_FORWARDED_REQUEST_HEADERS: Final = (
    *("Accept", "Accept-Language", "Content-Type"),
    *("If-Match", "Last-Event-ID"),
)
"""The headers of a request that the API reads."""
_FORWARDED_RESPONSE_HEADERS: Final = (
    *("Content-Type", "Content-Length", "Content-Language", "Content-Security-Policy"),
    *("Cache-Control", "ETag", "Last-Modified", "Vary", "Allow", "Link", "Location"),
    *("Retry-After", "X-Request-Id", "X-Content-Type-Options", "X-Frame-Options"),
    *("Referrer-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"),
)
_OWN: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of the answers that the proxy makes itself."""
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">{refresh}<title>{title}</title></head>
<body><h1>{title}</h1><p>{sentence}</p></body></html>
"""


async def page(session: Session, settings: PageSettings) -> None:
    """`dwd page`: serve the page to the operator's browser until Ctrl-C.

    Raises:
        CommandFailed: The API cannot be reached at all, does not know the caller, or the port is taken.
    """
    way = LeaderLink(session)
    await way.find()
    async with _listening(way, session.printer, settings.port) as gate:
        told = [Text(f"The page is at {gate.url}")]
        told.append(Text("That address works once, for one browser. Ctrl-C ends it."))
        session.printer.show(Answer({"url": gate.url}, told))
        if not settings.no_browser:
            _open(gate.url, session.printer)
        await way.keep()


def _open(url: str, printer: Printer) -> None:
    """Open the browser; some come back only when they are closed, so nothing waits for it."""

    def opened() -> None:
        # Without a screen webbrowser would start a text browser, which takes the terminal.
        is_open = sys.platform != "linux" or any(map(os.environ.get, _SCREENS))
        try:
            is_open = is_open and webbrowser.open(url)
        except webbrowser.Error:
            is_open = False
        if not is_open:
            printer.tell("dwd page: could not start a browser; open the address yourself")

    threading.Thread(target=opened, name="browser", daemon=True).start()


_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


# The way to the leader.


class LeaderLink:
    """The connection to the leader; finds it again when it breaks, and says so in the terminal.

    Args:
        session: The session; its client has the transport and the token.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._client = session, session.client
        self.failed = asyncio.Event()
        """Set when a request, or its answer, has broken off."""
        self._finding = asyncio.Lock()
        self._looked_at = float("-inf")
        self._noted = ""
        self.trouble: str | None = None
        """Why the connection is broken; None while it is not."""
        self.moves = 0
        """How often the way has led to another process."""

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> aiohttp.ClientResponse:
        """Send one request by the way as it is now.

        Raises:
            CommandFailed: There is no answer; the way is looked at.
        """
        streams = headers.get("Accept", "").startswith(EVENT_STREAM)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT, sock_read=SILENCE if streams else self._client.timeout
        )
        try:
            return await self._client.exchange(method, target, headers, body, timeout)
        except CommandFailed:
            self.failed.set()
            raise

    async def look_elsewhere(self, moves: int) -> bool:
        """Look for the leader, as the process that was asked is not it.

        Args:
            moves: `moves` when it was asked.

        Returns:
            Whether there is another process to ask now.
        """
        due = self._session.clock.now() - self._looked_at >= _LOOK_AGAIN
        try:
            if due and self.moves == moves and not self._finding.locked():
                await self.find()
            else:
                async with self._finding:  # another request may just be looking
                    pass
        except CommandFailed:
            self.failed.set()
        return self.moves != moves

    async def find(self) -> None:
        """Lead to the leader, by asking for what only a leader answers: shoots, or what the weeder does.

        If the process that answers is a standby, and its leader cannot be reached from here, that process is shown.

        Raises:
            CommandFailed: There is no answer, or nobody is known to ask.
        """
        async with self._finding:
            self._looked_at = self._session.clock.now()
            refused = await self._ask("shoots")
            if refused is not None and refused.problem.type == LOOP_NOT_HERE:
                refused = await self._ask("weeders")
            if refused is None:
                self._noted = ""
            elif refused.status not in _REACHED:
                raise refused

    async def _ask(self, what: str) -> ServerRefused | None:
        """Ask for one item, the leader if a standby names it; the refusal, if it is one."""
        ask = partial(self._client.refused, f"{what}?limit=1")
        refused = await ask()
        if refused is None or refused.problem.type != NOT_THE_LEADER:
            return refused
        transport = self._client.transport
        try:
            await transport.follow(refused)
            again = await ask()
            if again is not None and not again.problem.type:
                raise again  # the leader's address leads to some other server here
        except CommandFailed as trouble:
            if trouble.code is Exit.USAGE and not isinstance(trouble, ServerRefused):
                raise
            await transport.reset()
            sentence = f"connected to a standby, and its leader is unreachable: {trouble}"
            if sentence != self._noted:
                self._noted = sentence
                self._session.printer.tell(f"dwd page: {sentence}")
            return refused
        self.moves += 1
        return again

    async def keep(self) -> None:
        """Look after the way for ever: check it when something has failed, and mend it with back-off."""
        clock, tell, failures = self._session.clock, self._session.printer.tell, 0
        while True:
            await self.failed.wait()
            try:
                await self.find()
            except (CommandFailed, ConfigurationError) as error:
                if self.trouble is None:
                    lost = f"dwd page: connection lost at {rfc3339(clock.now())}"
                    tell(f"{lost}: {error}; retrying")
                elif self.trouble != str(error):
                    tell(f"dwd page: still broken: {error}")
                self.trouble = str(error)
                failures += 1
                await self._client.transport.reset()
                await clock.sleep(_PACE.jittered(failures, self._session.chance.random()))
                continue
            if self.trouble is not None:
                self.trouble, failures = None, 0
                tell(f"dwd page: connection restored at {rfc3339(clock.now())}")
            self.failed.clear()


# The server for the browser.


class _Proxy:
    """Answers the browser's requests."""

    def __init__(self, way: LeaderLink, printer: Printer, gate: PageGate) -> None:
        self._link, self._printer, self._gate = way, printer, gate
        self._warned = False

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        target, headers = request.raw_path, request.headers
        try:
            _check_user(request)
            self._gate.check(request.method, target, headers)
            entered = self._gate.enter(request.method, target, headers)
            if entered is not None:
                return web.Response(status=303, headers={**_OWN, **entered})
            return await self._pass_on(request)
        except Refused as refused:
            if refused.warning and not self._warned:
                self._warned = True
                self._printer.tell(f"dwd page: {refused.warning}")
            return _sentence(request, refused)
        finally:
            if not request.content.is_eof():  # a body that nobody has read
                request.protocol.force_close()

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await _body(request)
        if self._link.trouble is not None:
            raise _unreachable(self._link.trouble)
        headers = _chosen(request.headers, _FORWARDED_REQUEST_HEADERS)
        send = partial(self._link.send, request.method, request.raw_path, headers, body)
        try:
            moves = self._link.moves
            response, said = await send(), b""
            if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
                kind = response.headers.get("Content-Type", "")
                again = request.method in {"GET", "HEAD"}
                if kind.startswith(_PROBLEM):
                    said = await whole(response, MAX_PROBLEM)
                    # What a standby has refused has changed nothing, and is sent again.
                    found = refusal(response.status, kind, said).problem
                    again = found.type == NOT_THE_LEADER
                if again and await self._link.look_elsewhere(moves):
                    response.release()
                    response, said = await send(), b""
        except (CommandFailed, ConfigurationError) as error:
            raise _unreachable(str(error)) from error
        return await _relay(request, response, said, self._link)


def _check_user(request: web.BaseRequest) -> None:
    """Refuse what another user of this machine has sent."""
    transport = request.transport
    if transport is None:
        return
    here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    if here and there and not belongs_to(os.getuid(), here, there):
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "This belongs to another user of this machine.",
            warning="a request of another user of this machine was refused",
        )


def _unreachable(trouble: str) -> Refused:
    return Refused(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"The watchdog cannot be reached: {trouble}. Retrying.",
        "The watchdog is unreachable",
        again=_REFRESH,
    )


@asynccontextmanager
async def _listening(way: LeaderLink, printer: Printer, port: int) -> AsyncIterator[PageGate]:
    """Serve on 127.0.0.1 for as long as the context lasts.

    Raises:
        CommandFailed: The port is taken.
    """
    try:
        listening = socket.create_server((LOOPBACK, port))
    except OSError as error:
        message = f"--port: {LOOPBACK}:{port} cannot be listened on: {error.strerror}"
        raise CommandFailed(Exit.USAGE, message) from error
    gate = PageGate(listening.getsockname()[1])
    silent = logging.getLogger("dwd.page")
    silent.disabled = True  # what a browser sends wrongly is not the operator's concern
    server = web.Server(
        _Proxy(way, printer, gate).answer,
        handler_cancellation=True,
        access_log=None,
        logger=silent,
        max_line_size=_MAX_HEAD,
        max_field_size=_MAX_HEAD,
    )
    runner = web.ServerRunner(server, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield gate
    finally:
        await runner.cleanup()
        listening.close()


async def _body(request: web.BaseRequest) -> bytes | None:
    """Read the body of a request; None if it has none; raises Refused if it is too long, or too slow."""
    if not request.body_exists:
        return None
    try:
        async with asyncio.timeout(_BODY_TIME):
            return await request.clone(client_max_size=_MAX_BODY).read()
    except web.HTTPRequestEntityTooLarge as error:
        most = f"A request has at most {_MAX_BODY >> 10} KiB."
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, most, _NOT_FORWARDED) from error
    except TimeoutError as error:
        late = f"The request did not arrive within {_BODY_TIME:.0f} s."
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, late, _NOT_FORWARDED) from error


def _chosen(headers: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


async def _relay(
    request: web.BaseRequest, response: aiohttp.ClientResponse, said: bytes, way: LeaderLink
) -> web.StreamResponse:
    """Pass an answer on as it comes, after what was read of it; if it breaks off, so does what the browser gets."""
    async with response:
        headers = _chosen(response.headers, _FORWARDED_RESPONSE_HEADERS)
        if "Location" in headers:  # points there on our own host
            parts = urlsplit(headers["Location"])
            headers["Location"] = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
        answer = web.StreamResponse(status=response.status, headers=headers)
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):  # the browser has gone
            if said:
                await answer.write(said)
            async for chunk in _chunks(response, request, way):
                await answer.write(chunk)
            await answer.write_eof()
        return answer


async def _chunks(
    response: aiohttp.ClientResponse, request: web.BaseRequest, way: LeaderLink
) -> AsyncIterator[bytes]:
    """The body as it comes; where it breaks off the browser's connection does, too, or it would take it for whole."""
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError):
        way.failed.set()
        if request.transport is not None:
            request.transport.abort()


def _sentence(request: web.BaseRequest, refused: Refused) -> web.StreamResponse:
    """An answer of our own: a page for people, and a problem for the page's script."""
    status, title, again = refused.status, refused.title, refused.again
    headers = _OWN if again is None else {**_OWN, "Retry-After": str(again)}
    accepted = request.headers.get("Accept", "")
    if "text/html" in accepted and _PROBLEM not in accepted:
        refresh = "" if again is None else f'<meta http-equiv="refresh" content="{again}">'
        text = _PAGE.format(
            title=html.escape(title), sentence=html.escape(refused.sentence), refresh=refresh
        )
        return web.Response(status=status, text=text, content_type="text/html", headers=headers)
    problem = {"type": "about:blank", "title": title, "status": int(status)}
    body = json.dumps({**problem, "detail": refused.sentence}).encode()
    return web.Response(status=status, body=body, headers={**headers, "Content-Type": _PROBLEM})
