"""HTTP servers in our own event loop, which we start, watch and stop last (threat T15).

Connections are accepted here and not by asyncio, so that a peer that has too many is refused before a TLS handshake
costs anything; those that take too long are dropped.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any, Final

import uvicorn

from app.core.bounded_tls import Greeting, accepted
from app.core.errors import WatchdogError
from app.core.web.connections import Connection, Line
from app.core.web.peers import Network, Peers, Proxies, peer_of

# Length of the accept queue; a client that finds it full retries after a second.
_LISTEN_BACKLOG: Final = 1_024
# Receive buffer in bytes; head and body of a request have at most half of that each.
_READ_AHEAD: Final = 32_768
# Connections that are accepted before the event loop gets a turn.
_ACCEPTED_AT_ONCE: Final = 16
# Seconds without accepting after the system ran out of descriptors or memory.
_NO_DESCRIPTORS: Final = 0.5
# Time limit of a TLS handshake in seconds.
_HANDSHAKE: Final = 5.0
_TICK: Final = 1.0
# uvicorn renews the `Date` header at each tenth tick, so this tick number always does.
_TENTH: Final = 10
# Seconds for which an idle connection is kept after an answer.
_IDLE: Final = 30
# Seconds that endless answers have to finish at a shutdown.
_LAST_WORDS: Final = 0.4
_MOST: Final = 512
_EACH: Final = 256


class AddressUnavailable(WatchdogError):
    """An address cannot be listened on."""


class _Server(uvicorn.Server):
    """uvicorn's server, without its signal handlers, because shutdown is decided in one place for all servers.

    It accepts connections itself, so that a peer can be refused before a handshake costs anything.
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
        """Starts to accept connections."""
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
            except OSError:  # out of descriptors or memory: open connections may free some
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
        """Performs the TLS handshake, if any, and starts the connection."""

        def make() -> Connection:
            return Connection(self.config, self.server_state, line, self.stopping)

        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(make, found)
                return
            greeting = Greeting()
            async with asyncio.timeout(_HANDSHAKE):
                plain, _ = await self._loop.connect_accepted_socket(lambda: greeting, found)
                await accepted(plain, greeting, self._tls, line.consumer, make)
        except OSError:  # also if the input is not TLS, or too slow
            found.close()
            line.release()
        except asyncio.CancelledError:
            found.close()
            line.release()
            raise

    async def main_loop(self) -> None:
        """Renews the `Date` header and drops connections that take too long, once a second.

        uvicorn itself does so ten times a second: with three servers, that is more often than 100 shoots are probed.
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
        """Stops accepting, waits for answers at most a second, and cuts off endless ones before that."""
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
        """Installs no signal handlers."""
        yield


class HttpServer:
    """Serves one application on one address.

    Each connection has 10 s for the head of a request, 15 s more for its body, 30 s of idle time between two requests,
    and 20 s in which the client must read some of the answer. A peer may have 256 connections. If there is no room
    left, a new connection takes the place of one that is waiting, so health checks need no limit of another kind.
    Limits on a peer do not apply to a named proxy, because others behind it would pay for one: there the application
    limits the original address, which it finds as `client` in the scope.

    Args:
        name: what is served, for messages.
        app: any ASGI application; who stops the server has ended its endless answers before, or they are cut off.
        host: the address; empty for all.
        port: 0 for any free port.
        most: maximum number of connections; None stands for 512.
        tls: makes it HTTPS; certificates loaded into it later are used from then on.
        proxies: addresses whose `X-Forwarded-For` is believed.
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
            log_level="error",  # any client could cause warnings, with any bytes
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,  # it would trust 127.0.0.1; `Proxies` does this
            timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config, most or _MOST, tls, Proxies(proxies))

    @property
    def address(self) -> tuple[str, int]:
        """The address that it listens on, with the actual port if 0 was asked for."""
        name = self._socket.getsockname()
        return name[0], name[1]

    @property
    def connections(self) -> int:
        """The current number of connections."""
        return len(self._server.peers)

    async def run(self) -> None:
        """Serves until stopped."""
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Asks `run` to return, after at most a second for requests in progress."""
        self._server.end()

    def close(self) -> None:
        """Closes the listening socket, whether it was served or not."""
        self._socket.close()


def listening(name: str, host: str, port: int) -> socket.socket:
    """Returns a listening socket; an empty host stands for all addresses, IPv6 and IPv4.

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
    # Inherited by each connection; otherwise a client that is not read from could fill hundreds of kB of our memory.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ_AHEAD)
    return found
