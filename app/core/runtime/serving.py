"""HTTP servers inside our own event loop: ours to start, to watch, and to stop last."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.core.errors import WatchdogError

_LISTEN_BACKLOG: Final = 128
_FIRST_REQUEST: Final = 10.0
"""Seconds in which a new connection must have brought the head of a request."""
_TICK: Final = 1.0
_TENTH: Final = 10
"""The number of a tick at which uvicorn renews the header: each tenth."""
_IDLE: Final = 30
"""Seconds that a connection is kept after an answer."""


class AddressUnavailable(WatchdogError):
    """An address that cannot be listened on."""


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: who stops is decided in one place, for all of them."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Asks `serve` to return."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Renews the header `Date` once a second until it is to end.

        uvicorn itself looks ten times a second: with three servers, more often than there are looks at 100 shoots.
        """
        while not await self.on_tick(_TENTH):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals alone."""
        yield


class _Protocol(H11Protocol):
    """h11, which bounds the size of a request's head; and a connection without a whole one is closed in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the time that a first request may take."""
        super().connection_made(transport)
        self._impatience = self.loop.call_later(_FIRST_REQUEST, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends it."""
        self._impatience.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        cycle: object | None = self.cycle  # None until a whole head has come
        if cycle is None:
            self.transport.close()


class HttpServer:
    """One application on one address.

    Args:
        most: connections that are answered at the same time, more are told 503; None: no bound, as for health, which
            must answer whatever else goes on.
    """

    def __init__(
        self,
        name: str,
        app: Any,  # noqa: ANN401 - any ASGI application
        host: str,
        port: int,
        most: int | None = None,
    ) -> None:
        self.name = name
        self._socket = listening(name, host, port)
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="off",
                http=_Protocol,
                timeout_keep_alive=_IDLE,
                timeout_graceful_shutdown=1,
                limit_concurrency=most,
            )
        )

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the port that was chosen where 0 was asked for."""
        name = self._socket.getsockname()
        return name[0], name[1]

    async def run(self) -> None:
        """Serves until stopped."""
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Asks `run` to return, after at most a second for the requests that are being answered."""
        self._server.end()

    def close(self) -> None:
        """Gives the address back, whether it was served or not."""
        self._socket.close()


def listening(name: str, host: str, port: int) -> socket.socket:
    """A listening socket; an empty host is every address, IPv6 and IPv4.

    Raises:
        AddressUnavailable: the address cannot be listened on; the message names it and `name`.
    """
    family = socket.AF_INET6 if host == "" or ":" in host else socket.AF_INET
    if host == "" and not socket.has_dualstack_ipv6():
        family = socket.AF_INET
    try:
        return socket.create_server(
            (host, port),
            family=family,
            backlog=_LISTEN_BACKLOG,
            dualstack_ipv6=host == "" and family is socket.AF_INET6,
        )
    except OSError as error:
        where = f"{host}:{port}"
        why = os.strerror(error.errno) if error.errno else str(error)
        raise AddressUnavailable(f"cannot serve {name} on {where}: {why}") from error
