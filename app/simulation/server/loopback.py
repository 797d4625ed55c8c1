"""Ports of loopback, each with an authority that vouches for whoever listens there."""

import asyncio
import socket
import ssl
from typing import Final

from aiohttp import web

from app.core.model.shoots import Route
from app.core.tls import load_chain
from app.simulation.server.certificates import CertificateAuthority, Pair

HOST: Final = "127.0.0.1"
_BACKLOG: Final = 128


class Port:
    """One port of loopback: reserved from the start, served when it is open, refused while it is shut.

    While it swallows, the kernel takes connections, and nothing comes back on them or on those that there were.
    """

    def __init__(self) -> None:
        # Bound and never listened on: connections are refused while nobody else listens, and nobody else gets the port.
        self._reserved = _bound(0)
        self.number = int(self._reserved.getsockname()[1])
        self._context = _context()
        self._server: web.Server | None = None
        self._listening: asyncio.Server | None = None
        self._deaf: socket.socket | None = None

    def show(self, pair: Pair) -> None:
        """From the next handshake on it shows this certificate."""
        load_chain(self._context, pair.certificate + pair.key)

    async def open(self, server: web.Server) -> None:
        """Lets `server` answer."""
        self._hear()
        self._server = server
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            server, sock=_bound(self.number), ssl=self._context, backlog=_BACKLOG
        )

    @property
    def is_open(self) -> bool:
        """Whether connections are accepted."""
        return self._listening is not None

    def shut(self) -> None:
        """Refuses connections, and cuts those that there are."""
        self._hear()
        self._stop()
        self.cut()

    @property
    def swallows(self) -> bool:
        """Whether nothing that comes is answered."""
        return self._deaf is not None

    def swallow(self) -> None:
        """Answers nothing any more, on no connection, and refuses none."""
        self._stop()
        self._deaf = _bound(self.number)
        self._deaf.listen(_BACKLOG)
        for connection in self._connections():
            connection.pause_reading()

    def _stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def _hear(self) -> None:
        """What was swallowed until now is cut: nobody has kept it."""
        if self._deaf is not None:
            self._deaf.close()
            self._deaf = None
            self.cut()

    def cut(self) -> None:
        """Cuts the connections that there are."""
        for connection in self._connections():
            connection.abort()

    def _connections(self) -> list[asyncio.Transport]:
        known = () if self._server is None else tuple(self._server.connections)
        return [each.transport for each in known if each.transport is not None]

    async def close(self) -> None:
        """Gives the port back."""
        self.shut()
        if self._server is not None:
            await self._server.shutdown(0)
        self._reserved.close()


class Loopback:
    """A place whose API servers are ports of this machine."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, Route], Port] = {}
        self._authorities: dict[str, CertificateAuthority] = {}

    def port(self, name: str, route: Route = Route.INTERNAL) -> Port:
        """The port of the API server of this name for those who come by this route."""
        place = name, route
        if place not in self._ports:
            self._ports[place] = Port()
        return self._ports[place]

    def url(self, name: str, route: Route = Route.INTERNAL) -> str:
        """Where the API server is by this route."""
        return f"https://{HOST}:{self.port(name, route).number}"

    def authority(self, name: str) -> str:
        """A new authority, as PEM."""
        made = CertificateAuthority.create(f"{name} {len(self._authorities) + 1}")
        pem = made.pem.decode()
        self._authorities[pem] = made
        return pem

    def show(self, name: str, ca: str, route: Route = Route.INTERNAL) -> None:
        """A certificate of this authority is shown there, on new connections: those that there were are cut."""
        port = self.port(name, route)
        port.show(self.certificate(ca))
        port.cut()

    def certificate(self, ca: str) -> Pair:
        """A certificate of this authority, for whoever listens on a port."""
        return self._authorities[ca].server((HOST,))

    async def close(self) -> None:
        """Gives all ports back."""
        for port in self._ports.values():
            await port.close()


def _bound(number: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.settimeout(0)
    made.bind((HOST, number))
    return made


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
