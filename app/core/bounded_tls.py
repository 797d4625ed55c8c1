"""TLS towards servers that may be hostile: what they send is opened in short stretches, and none of it is expensive.

A TLS record is opened in 1.5 µs, whether it has 16 KiB or one byte, and a change of keys takes 20 µs for 27 bytes: what
the buffers of one socket hold could keep the loop for half a second, before anybody has seen a byte of an answer.  An
event loop hands OpenSSL all that has come, and reads until nothing is left.  So what it is given here for a connection
hands that on in slices, and says that there is nothing more when a stretch is over.

A handshake cannot be left half done, and the keys, chains and constraints that the other side chooses decide whether it
takes 0.4 ms or 400.  OpenSSL gives up the interpreter's lock for it: so a thread does it, and the event loop is given
the connection when hands have been shaken (`secured`).
"""

import asyncio
import errno
import os
import ssl
from contextvars import ContextVar
from typing import Any, Final, Self, cast

from app.core.clock import stopwatch
from app.core.fair_queue import STRETCH, Consumer

_SLICE: Final = 16 * 1024
"""Bytes that OpenSSL is handed at once: at worst 600 changes of keys, some 10 ms."""
_RECORDS: Final = 64
"""Records after which the stopwatch is looked at."""
_MOST_WASTED: Final = 128 * 1024
"""Bytes that a connection may have received besides what they carried: certificates, tickets, changes of keys."""
_WASTED_OF_EACH: Final = 1 / 8
"""And so many more for each byte that they carried: the shortest records of a Go server have 22 for 1,200."""
_GROUP: Final = "prime256v1"
_CIPHERS: Final = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
"""Python's own for TLS 1.2, without those whose group the server makes up."""


def agree_cheaply(context: ssl.SSLContext) -> None:
    """From now on keys are agreed on P-256 alone, which RFC 8446 demands of everybody.

    In a group of 8,192 bits, which OpenSSL would take too, one handshake takes 130 ms; Python names one group or all.
    """
    context.set_ciphers(_CIPHERS)
    context.set_ecdh_curve(_GROUP)


_SHAKEN: Final[ContextVar[list["BoundedTls"]]] = ContextVar("shaken")
"""The connection that the event loop is about to be given: it has no other way to take one."""


class BoundedContext(ssl.SSLContext):
    """For clients: TLS 1.2 or newer; all that comes on its connections is charged to one consumer."""

    consumer: Consumer

    def __new__(cls, consumer: Consumer | None = None) -> Self:
        """Certificates and host names are checked; `consumer`: None where nobody asks what it takes."""
        made = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.options |= ssl.OP_NO_RENEGOTIATION
        made.consumer = consumer or Consumer()
        return made

    def wrap_bio(  # type: ignore[override]  # it does what event loops ask of an SSLObject
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the signature of `ssl`
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> "BoundedTls":
        """One connection; within `secured`, the one on which hands were shaken there."""
        if shaken := _SHAKEN.get(None):
            return shaken.pop().carried_on(incoming, outgoing)
        handed = ssl.MemoryBIO()
        wrapped = super().wrap_bio(handed, outgoing, server_side, server_hostname, session)
        return BoundedTls(wrapped, incoming, handed, outgoing, self.consumer)


class BoundedTls:
    """One connection: an `ssl.SSLObject` that may say "nothing more now" while there is more."""

    def __init__(
        self,
        wrapped: ssl.SSLObject,
        arrived: ssl.MemoryBIO,
        handed: ssl.MemoryBIO,
        said: ssl.MemoryBIO,
        consumer: Consumer,
    ) -> None:
        """`arrived` is filled by others; `wrapped` reads what is put from there into `handed`, and writes to `said`."""
        self._wrapped, self._arrived, self._handed, self._said = wrapped, arrived, handed, said
        self.consumer = consumer
        self._outgoing = said
        """Where others look for what it says."""
        self._received = self._carried = self._records = 0
        self._begun: float | None = None
        """When this stretch was; None between two."""
        self.interrupted = _nothing
        """Called where a stretch is over and there is more: who reads has to ask to go on."""
        self.wasteful = _nothing
        """Called where far more has come than what it carried: who reads has to end the connection."""
        self.weighed = True
        """Whether it is; not where small pieces are as they should be."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever that is
        """What the other one has and this one does not change."""
        return getattr(self._wrapped, name)

    def do_handshake(self) -> None:
        """As `ssl.SSLObject` has it: in one stretch, whatever it takes."""
        seconds, error = self._shake_hands()
        self.consumer.charge(seconds)
        if error is not None:
            raise error

    async def advance(self) -> bool:
        """As `do_handshake`, beside the event loop; returns whether it is done, if not it needs more of the server.

        Raises:
            ssl.SSLError: it has failed.
        """
        seconds, error = await asyncio.to_thread(self._shake_hands)
        self.consumer.charge(seconds)
        if error is not None and not isinstance(error, ssl.SSLWantReadError):
            raise error
        return error is None

    def _shake_hands(self) -> tuple[float, ssl.SSLError | None]:
        """The seconds that it took, and what went wrong; for any thread."""
        begun, failed = stopwatch(), None
        try:
            self._hand(self._arrived.pending)
            self._wrapped.do_handshake()
        except ssl.SSLError as error:
            failed = error
        return stopwatch() - begun, failed

    def carried_on(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> Self:
        """The same, where what comes and goes is put and looked for elsewhere from now on."""
        if self._arrived.pending:
            incoming.write(self._arrived.read())
        self._arrived, self._outgoing = incoming, outgoing
        return self

    def unwrap(self) -> None:
        """As `ssl.SSLObject` has it."""
        self._hand(self._arrived.pending)
        try:
            self._wrapped.unwrap()
        finally:
            self._hand_out()

    def write(self, data: bytes) -> int:
        """As `ssl.SSLObject` has it."""
        try:
            return self._wrapped.write(data)
        finally:
            self._hand_out()

    def pending(self) -> int:
        """Bytes that can be read, once they are opened."""
        return self._wrapped.pending() + self._handed.pending

    def read(self, most: int = 1024, buffer: bytearray | None = None) -> bytes | int:
        """As `ssl.SSLObject` has it.

        Raises:
            ssl.SSLWantReadError: nothing more has come, or this stretch is over.
            ssl.SSLError: what came is no TLS.
        """
        if self._begun is None:
            self._begun = stopwatch()
        self._records += 1
        if not self._records % _RECORDS:
            self._look_at_time()
        if not self._handed.pending:
            self._hand(_SLICE)
        while True:
            try:
                if buffer is None:  # OpenSSL's own wrapper tells the two apart by their number
                    return self._carry(self._wrapped.read(most))
                return self._carry(self._wrapped.read(most, buffer))
            except ssl.SSLWantReadError:
                if not self._arrived.pending:
                    self.end_stretch()
                    raise
                self._look_at_time()
                self._hand(_SLICE)
            finally:
                self._hand_out()

    def rest(self) -> bytes:
        """More of what came before the connection ended; empty where there is none, or it was interrupted."""
        try:
            return bytes(self.read(_SLICE))
        except ssl.SSLError:
            return b""

    def _carry(self, found: bytes | int) -> bytes | int:
        self._carried += found if isinstance(found, int) else len(found)
        return found

    def _hand(self, most: int) -> None:
        if not self._arrived.pending:
            return
        self._received += self._handed.write(self._arrived.read(most))
        wasted = self._received - self._carried
        if self.weighed and wasted > _MOST_WASTED + self._carried * _WASTED_OF_EACH:
            self.end_stretch()
            self.wasteful()
            raise ssl.SSLWantReadError

    def _hand_out(self) -> None:
        if self._outgoing is not self._said and self._said.pending:
            self._outgoing.write(self._said.read())

    def _look_at_time(self) -> None:
        if self._begun is not None and stopwatch() - self._begun > STRETCH:
            self.end_stretch()
            self.interrupted()
            raise ssl.SSLWantReadError

    def end_stretch(self) -> None:
        """What was done since it began is charged."""
        if self._begun is not None:
            self.consumer.charge(stopwatch() - self._begun)
            self._begun = None


def _nothing() -> None:
    """Until somebody reads."""


class Greeting(asyncio.Protocol):
    """What a server says until hands have been shaken.

    It is made before its connection: what the event loop does for a connection, it does in the context of that moment.
    """

    def __init__(self) -> None:
        """Nothing has been said yet."""
        self.arrived = ssl.MemoryBIO()
        self.shaken: list[BoundedTls] = []
        _SHAKEN.set(self.shaken)
        self.more, self.ended = asyncio.Event(), False
        """Set when something has happened; whether nothing more will come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its type

    def data_received(self, data: bytes) -> None:
        """Something came; no handshake is that long."""
        self.arrived.write(data)
        self.more.set()
        if self.arrived.pending > _MOST_WASTED:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        del exc
        self.ended = True
        self.more.set()


async def secured(
    transport: asyncio.Transport,
    greeting: Greeting,
    context: BoundedContext,
    host: str | None,
    protocol: asyncio.Protocol,
) -> asyncio.Transport:
    """Shakes hands with the server at the other end; `protocol` reads what follows, and is told of no connection.

    Raises:
        ssl.SSLError: the server, or what it says, is not as it should be.
        ConnectionError: the connection ended.
    """
    said = ssl.MemoryBIO()
    try:
        tls = context.wrap_bio(greeting.arrived, said, server_hostname=host)
        tls.wasteful = transport.abort
        await _shake_hands(transport, greeting, tls, said)
        greeting.shaken.append(tls)
        loop = asyncio.get_running_loop()
        made = await loop.start_tls(transport, protocol, context, server_hostname=host)
    except BaseException:
        transport.abort()
        raise
    finally:
        greeting.shaken.clear()
    if made is None:
        raise _ended()
    return made


async def _shake_hands(
    transport: asyncio.Transport, greeting: Greeting, tls: BoundedTls, said: ssl.MemoryBIO
) -> None:
    done = False
    while not done:
        try:
            done = await tls.advance()
        finally:
            if said.pending and not transport.is_closing():
                transport.write(said.read())  # an alert, too
        while not (done or greeting.arrived.pending or greeting.ended):
            greeting.more.clear()
            await greeting.more.wait()
        if transport.is_closing() and (done or not greeting.arrived.pending):
            raise _ended()


def _ended() -> ConnectionError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
