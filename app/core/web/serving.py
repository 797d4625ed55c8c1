"""HTTP servers inside our own event loop: ours to start, to watch, and to stop last (threat T15)."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import uvicorn

from app.core.errors import WatchdogError
from app.core.web.connections import Connection, Line
from app.core.web.peers import Network, Peers, Proxies, peer_of

_LISTEN_BACKLOG: Final = 1_024
"""Who finds no place among those who wait to be accepted tries again after a second."""
_READ_AHEAD: Final = 32_768
"""Bytes; the head and the body of a request are half of it each, at most."""
_ACCEPTED_AT_ONCE: Final = 16
"""Connections taken up before others in the loop have their turn."""
_NO_DESCRIPTORS: Final = 0.5
"""Seconds without accepting, where the system has no more to give."""
_HANDSHAKE: Final = 5.0
"""Seconds that a TLS handshake may take."""
_TICK: Final = 1.0
_TENTH: Final = 10
"""The number of a tick at which uvicorn renews the header: each tenth."""
_IDLE: Final = 30
"""Seconds that a connection is kept after an answer."""
_LAST_WORDS: Final = 0.4
"""Seconds that answers without an end have for their end."""
_MOST: Final = 512
_EACH: Final = 256


class AddressUnavailable(WatchdogError):
    """An address that cannot be listened on."""


def stopping_of(scope: Mapping[str, Any]) -> asyncio.Event:
    """Is set when the server of this request stops: an answer without an end must end then, or is cut off."""
    found = scope.get("state", {}).get("stopping")
    return found if isinstance(found, asyncio.Event) else asyncio.Event()


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: who stops is decided in one place, for all of them.

    It accepts by itself: who may connect is decided before a handshake costs anything.
    """

    def __init__(
        self, config: uvicorn.Config, most: int, tls: ssl.SSLContext | None, proxies: Proxies
    ) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()
        self.peers = Peers(most, min(_EACH, most), lambda: asyncio.get_running_loop().time())
        self._tls, self._proxies = tls, proxies
        self._opening: set[asyncio.Task[None]] = set()

    def end(self) -> None:
        """Asks `serve` to return."""
        self.should_exit = True
        self.stopping.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept."""
        await self.lifespan.startup()
        self._loop = asyncio.get_running_loop()
        self.servers = []
        self._listening = list(sockets or ())
        for each in self._listening:
            each.settimeout(0)
            self._loop.add_reader(each, self._accept, each)
        self.started = True

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                found, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptors, no memory: those that are there may give some back
                self._loop.remove_reader(listening)
                self._loop.call_later(_NO_DESCRIPTORS, self._accept_again, listening)
                return
            self._take_up(found, str(address[0]))

    def _accept_again(self, listening: socket.socket) -> None:
        if not self.stopping.is_set():
            self._loop.add_reader(listening, self._accept, listening)

    def _take_up(self, found: socket.socket, host: str) -> None:
        proxies = self._proxies if host in self._proxies else None
        line = Line(peer_of(host), self.peers, proxies)
        if not line.admitted():
            found.close()
            return
        found.settimeout(0)
        task = asyncio.ensure_future(self._open(found, line))
        line.opening = task
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, found: socket.socket, line: Line) -> None:
        """The handshake, if there is one; from then on the connection lives by itself."""
        try:
            await self._loop.connect_accepted_socket(
                lambda: Connection(self.config, self.server_state, line, self.stopping),
                found,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE,
            )
        except OSError:  # what is no TLS, or too slow for it, too
            found.close()
            line.release()
        except asyncio.CancelledError:
            found.close()
            line.release()
            raise

    async def main_loop(self) -> None:
        """Renews the header `Date` and ends what takes too long, once a second until it is to end.

        uvicorn itself looks ten times a second: with three servers, more often than there are looks at 100 shoots.
        """
        while not await self.on_tick(_TENTH):
            now = self._loop.time()
            for each in list(self.server_state.connections):
                if isinstance(each, Connection):
                    each.expire(now)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self.stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops accepting, lets answers end for at most a second, and cuts off those without an end before that."""
        for each in self._listening:
            self._loop.remove_reader(each)
        for task in self._opening:
            task.cancel()
        cutting = self._loop.call_later(_LAST_WORDS, self._cut)
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    def _cut(self) -> None:
        for each in list(self.server_state.connections):
            if isinstance(each, Connection):
                each.cut()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals alone."""
        yield


class HttpServer:
    """One application on one address.

    Each connection has 10 s for the head of a request, 15 s more for its body, 30 s of rest between two of them, and
    20 s in which some of its answer must have gone.  One peer may hold 256 connections.  Whoever comes when there is no
    place left takes that of a connection that waits; so health needs no bound of another kind.  What holds for a peer
    does not hold for a proxy that is named, as others would pay for one who stands behind it: there the application
    looks at the address that the request comes from, which it finds as `client` in the scope.

    Args:
        name: what is served, for messages.
        app: any ASGI application; `stopping_of` its requests says when they have to end.
        host: the address; empty: every one.
        port: 0: any that is free.
        most: connections at the same time; None: 512.
        tls: makes it HTTPS; certificates that are loaded into it later are used from then on.
        proxies: addresses that are believed whom they ask for.
    """

    def __init__(
        self,
        name: str,
        app: Any,  # noqa: ANN401 - any ASGI application
        host: str,
        port: int,
        most: int | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        proxies: Iterable[Network] = (),
    ) -> None:
        self.name = name
        self._socket = listening(name, host, port)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",  # a warning is what a stranger can make it write with any bytes
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,  # which believes whoever asks from 127.0.0.1; `Proxies` does it
            timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config, most or _MOST, tls, Proxies(proxies))

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the port that was chosen where 0 was asked for."""
        name = self._socket.getsockname()
        return name[0], name[1]

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._server.peers)

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
        found = socket.create_server(
            (host, port),
            family=family,
            backlog=_LISTEN_BACKLOG,
            dualstack_ipv6=host == "" and family is socket.AF_INET6,
        )
    except OSError as error:
        where = f"{host}:{port}"
        why = os.strerror(error.errno) if error.errno else str(error)
        raise AddressUnavailable(f"cannot serve {name} on {where}: {why}") from error
    # Inherited by each connection; without it a caller who is not listened to fills hundreds of kB of ours.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ_AHEAD)
    return found
