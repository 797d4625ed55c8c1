"""Connections in memory: what the API servers of a world are reached by on virtual time, without sockets or TLS.

A connection is a pair of transports. What one end writes arrives at the other one's protocol at the next turn of that
end's event loop, whichever loop that is, so the two ends may live on different machines of one time line. Latency is
that of the server (`traffic.ApiServer`), not of the connection.

The network between the two can do to a connection what a real one does:

- refused: nothing listens, or the server is down; `traffic.ConnectionLoss` says so for a route.
- swallowed: packets are dropped while the route is cut, and TCP sends them again, so they arrive when it is mended. A
  new connection waits likewise. An end that is closed meanwhile is not heard of at the other one.
- reset: both ends hear that the connection is gone (`MemoryPort.reset`).
- half open: one end is gone without a word, as with a machine that lost its power (`MemoryNetwork.vanish`), or the
  network has forgotten the connection (`MemoryPort.forget`): the other end writes, and nothing comes back.
- cut in the middle: an answer ends after so many bytes (`MemoryPort.cut_answers`).
- slow: an end that does not read holds up the writer, as buffers are bounded.

Trust stands in for TLS: a server shows an authority, and a connection fails with a certificate error if the bundle of
the client does not have it. Names are resolved by the place alone.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Self

from app.core.fair_queue import Consumer
from app.core.kube.kubeconfig import ClientCertificate
from app.core.model.shoots import Route
from app.core.name_lookup import Found, IpAddress
from app.simulation.network import SEED
from app.simulation.traffic import ApiServer, ConnectionLoss

_PEM: Final = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
_HIGH: Final = 256 * 1024
"""Bytes on their way at which a writer is asked to pause: what the buffers of two sockets hold."""
_LOW: Final = _HIGH // 4
_SERVER: Final = 443

Ending = Exception | None
"""Why a connection ended; None: the other end closed it."""


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


def _refused() -> ConnectionRefusedError:
    return ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


class Wiretap:
    """Hears what happens at the client's ends of a process's connections, at its instant; this one pays no heed."""

    def connecting(self, name: str, route: Route) -> None:
        """A connection to an API server is being made."""

    def refused(self, name: str, route: Route, error: OSError) -> None:
        """It could not be made."""

    def connected(self, end: "MemoryTransport", name: str, route: Route) -> None:
        """It was made."""

    def sending(self, end: "MemoryTransport", data: bytes) -> None:
        """The client is about to send this; what ends the client here keeps it from being sent."""

    def sent(self, end: "MemoryTransport") -> None:
        """It is on its way."""

    def received(self, end: "MemoryTransport", data: bytes) -> None:
        """This arrives at the client now."""

    def lost(self, end: "MemoryTransport", *, given_up: bool) -> None:
        """The connection is gone: the client has closed it, or hears now that the server or the network has."""


_NOBODY: Final = Wiretap()


class Wire:
    """What both ends of a connection share: the state of the network between them."""

    __slots__ = ("cut_after", "dead", "ends", "held")

    def __init__(self, held: Callable[[], bool]) -> None:
        self.held = held
        """Whether packets are dropped, to be sent again later."""
        self.dead = False
        """Whether nothing arrives any more, ever."""
        self.cut_after: int | None = None
        """So many more bytes of the server pass, then the connection is cut; None: all of them."""
        self.ends: tuple[MemoryTransport, ...] = ()


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, wire: Wire, name: str
    ) -> None:
        super().__init__()
        self._loop, self._protocol = loop, protocol
        self.wire = wire
        """The network between the two ends."""
        self._name = name
        """Of the client, to which process it belongs."""
        self.peer: MemoryTransport
        """The other end."""
        self._inbox: deque[bytes] = deque()
        self._waiting = 0
        """Bytes in the inbox."""
        self._ended: tuple[Ending] | None = None
        """The end of the connection, which arrives after what is in the inbox."""
        self._scheduled = self._paused = self._closing = self._lost = False
        self._given_up = False
        """Whether this end has closed the connection."""
        self._held_up = False
        """Whether the protocol was asked to pause writing."""
        self.gone: Callable[[MemoryTransport], None] = lambda _: None
        """Called when the connection is lost at this end."""
        self.tap = _NOBODY
        """Of the client's end."""
        self.silenced = False
        """Whether the process at this end is gone: nothing that is left of it is heard of any more."""

    @classmethod
    def pair(
        cls,
        client: tuple[asyncio.AbstractEventLoop, asyncio.Protocol],
        server: tuple[asyncio.AbstractEventLoop, asyncio.Protocol],
        name: str,
        wire: Wire,
    ) -> tuple[Self, Self]:
        """Makes both ends of a connection; their protocols do not know them yet."""
        here, there = cls(*client, wire, name), cls(*server, wire, name)
        here.peer, there.peer = there, here
        wire.ends = (here, there)
        return here, there

    # What protocols call.

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - the signature
        """Returns the name of the client as `peername`."""
        return (self._name, 0) if name == "peername" else default

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self.arrive()

    def get_write_buffer_size(self) -> int:
        return self.peer._waiting  # noqa: SLF001 - the other end of this very connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends bytes; those written after the end are lost."""
        if self._closing or not data:
            return
        self.tap.sending(self, bytes(data))
        if self.silenced:
            return
        self.peer._take(bytes(data))  # noqa: SLF001 - the other end of this very connection
        self.tap.sent(self)
        if not self._held_up and self.get_write_buffer_size() > _HIGH:
            self._held_up = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Ends the connection after what was written."""
        self._end(None)

    def abort(self) -> None:
        """Ends the connection at once; the other end hears of a reset, after what it has been sent."""
        self._end(_reset())

    def reset(self) -> None:
        """Both ends hear that the connection is gone; what is on its way is lost."""
        for end in self.wire.ends:
            end._inbox.clear()  # noqa: SLF001 - the two ends of this very connection
            end._waiting = 0  # noqa: SLF001 - the same
        self._end(_reset(), here=_reset())

    def _end(self, why: Ending, *, here: Ending = None) -> None:
        if self._closing or self.silenced:
            return
        self._closing = self._given_up = True
        self._loop.call_soon(self._lose, here)
        self.peer._hear_end(why)  # noqa: SLF001 - the other end of this very connection

    # What the other end does.

    def _take(self, data: bytes) -> None:
        if self.wire.dead or self._lost:
            return
        left = self.wire.cut_after if self is self.wire.ends[0] else None
        if left is not None:
            self.wire.cut_after = max(left - len(data), 0)
        self._inbox.append(data[:left])
        self._waiting += len(self._inbox[-1])
        self.arrive()
        if left is not None and len(data) > left:
            self.peer.close()

    def _hear_end(self, why: Ending) -> None:
        if not self.wire.dead and self._ended is None:
            self._ended = (why,)
            self.arrive()

    def arrive(self) -> None:
        """Lets what is in the inbox arrive at the next turn of the event loop, if it may."""
        if not self._scheduled and not self.wire.held() and (self._inbox or self._ended):
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._lost or self._paused or self.wire.held():
            return
        if self._inbox and not self._closing:
            data = self._inbox.popleft() if len(self._inbox) == 1 else b"".join(self._inbox)
            self._inbox.clear()
            self._waiting = 0
            self.peer._go_on()  # noqa: SLF001 - the other end of this very connection
            self.tap.received(self, data)
            self._protocol.data_received(data)
        if self._inbox and not self._closing:
            self.arrive()
        elif self._ended is not None and not self._paused:
            (why,) = self._ended
            if why is None and not self._closing:
                self._protocol.eof_received()
            self._closing = True
            self._lose(why)

    def _go_on(self) -> None:
        if self._held_up and not self._closing and self.get_write_buffer_size() <= _LOW:
            self._held_up = False
            self._protocol.resume_writing()

    def _lose(self, why: Ending) -> None:
        if not self._lost:
            self._lost = True
            self._inbox.clear()
            self.gone(self)
            self.tap.lost(self, given_up=self._given_up)
            self._protocol.connection_lost(why)


class MemoryPort:
    """What listens for the API server of one name on one route."""

    def __init__(self, name: str, route: Route, address: str) -> None:
        self.address = address
        self.authority = ""
        """The authority that signed what is shown."""
        self.name, self.route = name, route
        self._serve: Callable[[], asyncio.Protocol] | None = None
        self._api: ApiServer | None = None
        self._loop: asyncio.AbstractEventLoop
        self._open: dict[MemoryTransport, None] = {}
        """The servers' ends."""
        self._cut_after: int | None = None
        self._changed: list[asyncio.Event] = []

    def listen(
        self, serve: Callable[[], asyncio.Protocol], api: ApiServer, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Accepts connections; `serve` makes the protocol of each, which runs on `loop`."""
        self._serve, self._api, self._loop = serve, api, loop
        api.subscribe(self._look)
        self._look()

    @property
    def listening(self) -> bool:
        """Whether a server is there."""
        return self._serve is not None

    def _look(self) -> None:
        """Lets through what was dropped, where troubles have ended on this route; a server that is down cuts all."""
        if self._lost is ConnectionLoss.REFUSED:
            self.cut()
        for server in tuple(self._open):
            for end in server.wire.ends:
                end.arrive()
        for waiting in self._changed:
            waiting.set()

    @property
    def _lost(self) -> ConnectionLoss | None:
        return None if self._api is None else self._api.loss(self.route)

    def _swallows(self) -> bool:
        return self._lost is ConnectionLoss.SWALLOWED

    async def connect(
        self, name: str, context: ssl.SSLContext | None, reader: asyncio.Protocol
    ) -> MemoryTransport:
        """Connects a client's `reader`; `name` says whose it is.

        Raises:
            ConnectionRefusedError: no server is there.
            ssl.SSLCertVerificationError: it shows a certificate that `context` does not trust.
        """
        await self._reachable()
        if self._serve is None or self._api is None:
            raise _refused()
        if self._lost is ConnectionLoss.REFUSED:
            self._api.requests.refused[self.name, self.route] += 1
            raise _refused()
        if not isinstance(context, MemoryTlsContext) or not context.trusts(self.authority):
            error = ssl.SSLCertVerificationError(1, "certificate verify failed")
            error.verify_message = "unable to get local issuer certificate"
            raise error
        loop = asyncio.get_running_loop()
        server = self._serve()
        wire = Wire(self._swallows)
        here, there = MemoryTransport.pair((loop, reader), (self._loop, server), name, wire)
        there.wire.cut_after = self._cut_after
        self._open[there] = None
        there.gone = self._closed
        if self.name != SEED:
            self._api.requests.connections[self.name] += 1
        self._loop.call_soon(server.connection_made, there)
        reader.connection_made(here)
        return here

    async def _reachable(self) -> None:
        while self._swallows():
            changed = asyncio.Event()
            self._changed.append(changed)
            try:
                await changed.wait()
            finally:
                self._changed.remove(changed)

    def _closed(self, end: MemoryTransport) -> None:
        self._open.pop(end, None)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    # Faults of the connections that are open now.

    def cut(self) -> None:
        """The server closes all of them, as when it restarts."""
        for end in tuple(self._open):
            end.close()

    def reset(self) -> None:
        """All of them are reset."""
        for end in tuple(self._open):
            end.reset()

    def forget(self) -> None:
        """The network forgets all of them: both ends stay, and nothing arrives."""
        for end in tuple(self._open):
            end.wire.dead = True

    def cut_answers(self, after: int | None) -> None:
        """Each new connection is cut after so many bytes of answers; None ends that."""
        self._cut_after = after


class MemoryTlsContext(ssl.SSLContext):
    """Whom a client trusts; of TLS itself it does nothing."""

    bundle: str

    @classmethod
    def in_bundle(cls, bundle: str) -> Self:
        """Trusts the authorities in `bundle`."""
        made = cls(ssl.PROTOCOL_TLS_CLIENT)
        made.bundle = bundle
        return made

    def trusts(self, authority: str) -> bool:
        """Returns whether a certificate of this authority is accepted."""
        return bool(authority) and authority in self.bundle


class MemoryPlace:
    """A `ServerPlace` whose API servers are reached in memory, under the names that Gardener gives them."""

    def __init__(self) -> None:
        self._numbers, self._addresses = count(1), count(1)
        self._ports: dict[tuple[str, Route], MemoryPort] = {}
        self._names: dict[str, MemoryPort] = {}
        self._by_address: dict[str, MemoryPort] = {}
        self.serve: Callable[[MemoryPort], None] = lambda _: None
        """Lets the server of a name listen, when somebody connects to it for the first time."""

    def host(self, name: str, route: Route = Route.INTERNAL) -> str:
        """Returns the name of the Service, or of the load balancer."""
        if name == SEED:
            return "kubernetes.default.svc"
        match route:
            case Route.INTERNAL:
                return f"kube-apiserver.{name}.svc"
            case Route.EXTERNAL:
                return f"api.{name}.example"

    def url(self, name: str, route: Route = Route.INTERNAL) -> str:
        """Returns the URL of an API server for a route."""
        self.port(name, route)
        return f"https://{self.host(name, route)}"

    def port(self, name: str, route: Route = Route.INTERNAL) -> MemoryPort:
        """Returns what listens for an API server on a route."""
        found = self._ports.get((name, route))
        if found is None:
            number = next(self._addresses)
            address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            found = self._ports[name, route] = MemoryPort(name, route, address)
            self._names[self.host(name, route)] = self._by_address[address] = found
        return found

    def forget(self, name: str) -> None:
        """Ends the API server of a name, on all routes: its connections are cut, and nobody finds it any more."""
        for key in [each for each in self._ports if each[0] == name]:
            port = self._ports.pop(key)
            del self._names[self.host(*key)], self._by_address[port.address]
            port.cut()

    def authority(self, name: str) -> str:
        """Returns a unique authority as PEM, of which only the form is a certificate's."""
        number = f"{next(self._numbers):06}"
        text = "".join(letter for letter in f"{name}{number}" if letter.isalnum())
        return _PEM.format(text)

    def show(self, name: str, ca: str, route: Route = Route.INTERNAL) -> None:
        """Presents a certificate of `ca` on new connections; existing ones are cut."""
        port = self.port(name, route)
        if port.authority != ca:
            port.authority = ca
            port.cut()

    def find(self, host: str) -> Found:
        """Returns the address of a name.

        Raises:
            OSError: there is no such name.
        """
        found = self._names.get(host)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return (IpAddress(socket.AF_INET, found.address),)

    def listening_at(self, address: str, number: int) -> MemoryPort:
        """Returns what listens at an address.

        Raises:
            ConnectionRefusedError: nothing does.
        """
        found = self._by_address.get(address)
        if found is None or number != _SERVER:
            raise _refused()
        if not found.listening:
            self.serve(found)
        return found


class MemoryNetwork:
    """A `Network` that leads one process to the servers of a place."""

    def __init__(self, place: MemoryPlace, name: str = "client", tap: Wiretap = _NOBODY) -> None:
        self._place, self._name, self._tap = place, name, tap
        self._open: dict[MemoryTransport, None] = {}
        self._stopped = False

    async def find(self, host: str) -> Found:
        """Returns the address of a name; raises OSError if there is none."""
        return self._place.find(host)

    async def trusting(
        self,
        ca: str,
        client: ClientCertificate | None = None,  # noqa: ARG002 - no server of the simulation asks for one
        consumer: Consumer | None = None,  # noqa: ARG002 - nothing is decrypted
    ) -> ssl.SSLContext:
        """Returns a context that trusts the authorities in `ca`."""
        return MemoryTlsContext.in_bundle(ca)

    async def connect(
        self, address: str, port: int, context: ssl.SSLContext | None, reader: asyncio.Protocol
    ) -> asyncio.Transport:
        """Connects `reader` to an address; raises OSError or ssl.SSLCertVerificationError."""
        if self._stopped:
            raise _refused()
        there = self._place.listening_at(address, port)
        self._tap.connecting(there.name, there.route)
        try:
            made = await there.connect(self._name, context, reader)
        except OSError as error:
            self._tap.refused(there.name, there.route, error)
            raise
        self._open[made] = None
        made.gone, made.tap = self._closed, self._tap
        self._tap.connected(made, there.name, there.route)
        return made

    def _closed(self, end: MemoryTransport) -> None:
        self._open.pop(end, None)

    @property
    def connections(self) -> int:
        """The number of connections that are open at this end."""
        return len(self._open)

    def stop(self) -> None:
        """The process is gone, and its kernel has not closed its connections yet: `killed` or `vanish` follow."""
        self._stopped = True
        for end in self._open:
            end.silenced = True

    def killed(self) -> None:
        """The process is gone, and its kernel closes its connections."""
        self._stopped = True
        for end in tuple(self._open):
            end.silenced = False
            end.close()
        self._open.clear()

    def vanish(self) -> None:
        """The machine is gone without a word: servers do not hear of it."""
        for end in self._open:
            end.wire.dead = True
