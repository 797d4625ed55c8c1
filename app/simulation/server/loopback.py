"""Loopback ports with TLS, each with a certificate authority of its own."""

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
    """One loopback port, reserved for its whole life: open, shut (refuses connections), or swallowing.

    While it swallows, the kernel accepts connections, and neither new nor existing ones get an answer.
    """

    def __init__(self) -> None:
        # Bound but not listening: connections are refused while the port is shut, and no other process can take it.
        self._reserved = _bound(0)
        self.number = int(self._reserved.getsockname()[1])
        self._context = _context()
        self._server: web.Server | None = None
        self._listening: asyncio.Server | None = None
        self._deaf: socket.socket | None = None

    def show(self, pair: Pair) -> None:
        """Presents a certificate from the next handshake on."""
        load_chain(self._context, pair.certificate + pair.key)

    async def open(self, server: web.Server) -> None:
        """Accepts connections for `server`."""
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
        """Refuses new connections and cuts existing ones."""
        self._hear()
        self._stop()
        self.cut()

    @property
    def swallows(self) -> bool:
        """Whether the port accepts connections without answering."""
        return self._deaf is not None

    def swallow(self) -> None:
        """Stops answering on all connections, without refusing new ones."""
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
        """Ends swallowing; connections made meanwhile are cut."""
        if self._deaf is not None:
            self._deaf.close()
            self._deaf = None
            self.cut()

    def cut(self) -> None:
        """Cuts existing connections."""
        for connection in self._connections():
            connection.abort()

    def _connections(self) -> list[asyncio.Transport]:
        known = () if self._server is None else tuple(self._server.connections)
        return [each.transport for each in known if each.transport is not None]

    async def close(self) -> None:
        """Releases the port."""
        self.shut()
        if self._server is not None:
            await self._server.shutdown(0)
        self._reserved.close()


class Loopback:
    """A `ServerPlace` whose API servers listen on loopback ports."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, Route], Port] = {}
        self._authorities: dict[str, CertificateAuthority] = {}

    def port(self, name: str, route: Route = Route.INTERNAL) -> Port:
        """Returns the port of an API server for a route."""
        place = name, route
        if place not in self._ports:
            self._ports[place] = Port()
        return self._ports[place]

    def url(self, name: str, route: Route = Route.INTERNAL) -> str:
        """Returns the URL of an API server for a route."""
        return f"https://{HOST}:{self.port(name, route).number}"

    def authority(self, name: str) -> str:
        """Creates a certificate authority; returns its certificate as PEM."""
        made = CertificateAuthority.create(f"{name} {len(self._authorities) + 1}")
        pem = made.pem.decode()
        self._authorities[pem] = made
        return pem

    def show(self, name: str, ca: str, route: Route = Route.INTERNAL) -> None:
        """Presents a certificate of an authority on new connections; existing ones are cut."""
        port = self.port(name, route)
        port.show(self.certificate(ca))
        port.cut()

    def certificate(self, ca: str) -> Pair:
        """Returns a server certificate for loopback, signed by an authority."""
        return self._authorities[ca].server((HOST,))

    def forget(self, name: str) -> None:
        """Ends the API server of a name, on all routes; its ports stay reserved."""
        for (known, _), port in self._ports.items():
            if known == name:
                port.shut()

    async def close(self) -> None:
        """Releases all ports."""
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
