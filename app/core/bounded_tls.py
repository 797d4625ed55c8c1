"""TLS towards servers that may be hostile: records are opened in short stretches, and handshakes run in a thread.

Opening a TLS record takes 1.5 µs, whether it carries 16 KiB or one byte, and a key update takes 20 µs for 27 bytes.
What the receive buffer of one socket holds can therefore block the event loop for half a second before the HTTP parser
sees a byte, because asyncio and uvloop hand OpenSSL everything that has arrived and read until nothing is left.
`BoundedTls` stands between the event loop and OpenSSL: it hands the bytes on in slices and reports "no more data" when
a stretch is over, although there is more. Its reader then waits for its turn in the fair queue.

A handshake cannot be interrupted, and the server chooses the keys, chains and name constraints that decide whether it
takes 0.4 ms or 400 ms. OpenSSL releases the GIL for it, so it runs in a thread; the event loop gets the connection when
the handshake is complete (`secured`). docs/decisions/0043 has the measurements.
"""

import asyncio
import errno
import os
import ssl
from contextvars import ContextVar
from typing import Any, Final, Self, cast

from app.core.clock import stopwatch
from app.core.fair_queue import TIME_SLICE, Consumer

# Bytes that OpenSSL gets at once: at worst 600 key updates, some 10 ms.
_SLICE: Final = 16 * 1024
# Records after which the stopwatch is read.
_RECORDS: Final = 64
# Overhead in bytes that any connection may have: certificates, session tickets, key updates.
_MOST_WASTED: Final = 128 * 1024
# Overhead beyond that, per byte of content: the shortest records of a Go server have 22 bytes for 1,200.
_WASTED_OF_EACH: Final = 1 / 8
_GROUP: Final = "prime256v1"
# Python's default cipher list for TLS 1.2, without finite-field Diffie-Hellman, whose group the server makes up.
_CIPHERS: Final = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"


def agree_cheaply(context: ssl.SSLContext) -> None:
    """Restricts key agreement to P-256, which RFC 8446 requires every implementation to support.

    OpenSSL would also agree on a group of 8,192 bits, where one handshake takes 130 ms. Python's `ssl` can name one
    group or leave all enabled.
    """
    context.set_ciphers(_CIPHERS)
    context.set_ecdh_curve(_GROUP)


# The connection that is about to be handed to the event loop, which has no parameter for it.
_SHAKEN: Final[ContextVar[list["BoundedTls"]]] = ContextVar("shaken")


class BoundedContext(ssl.SSLContext):
    """A client-side TLS context (1.2 or newer) whose connections are charged to one consumer."""

    consumer: Consumer

    def __new__(cls, consumer: Consumer | None = None) -> Self:
        """Creates the context; certificates and host names are verified. `consumer` None charges nobody."""
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
        """Wraps a connection; within `secured`, returns the one whose handshake is already complete."""
        if shaken := _SHAKEN.get(None):
            return shaken.pop().carried_on(incoming, outgoing)
        handed = ssl.MemoryBIO()
        wrapped = super().wrap_bio(handed, outgoing, server_side, server_hostname, session)
        return BoundedTls(wrapped, incoming, handed, outgoing, self.consumer)


class BoundedTls:
    """An `ssl.SSLObject` that may report that it needs more data although there is some."""

    def __init__(
        self,
        wrapped: ssl.SSLObject,
        arrived: ssl.MemoryBIO,
        handed: ssl.MemoryBIO,
        said: ssl.MemoryBIO,
        consumer: Consumer,
    ) -> None:
        """Wraps an `ssl.SSLObject`.

        Args:
            wrapped: the TLS object; reads from `handed` and writes to `said`.
            arrived: filled by the event loop; its bytes are moved to `handed` in slices.
            handed: input of `wrapped`.
            said: output of `wrapped`.
            consumer: charged for the time.
        """
        self._wrapped, self._arrived, self._handed, self._said = wrapped, arrived, handed, said
        self.consumer = consumer
        self._outgoing = said
        """Where the event loop picks up outgoing bytes."""
        self._received = self._carried = self._records = 0
        self._begun: float | None = None
        """When the current stretch began; None between stretches."""
        self.interrupted = _nothing
        """Called when a stretch ends although there is more data: the reader has to request another turn."""
        self.wasteful = _nothing
        """Called when the overhead exceeds its limit: the reader has to abort the connection."""
        self.weighed = True
        """Whether the overhead is limited; not on a WebSocket, where small pieces are normal."""
        self.granted = False
        """Whether the reader's turn has come, so that the next stretch may begin whatever others have taken."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever that is
        """Delegates everything else to the wrapped object."""
        return getattr(self._wrapped, name)

    def do_handshake(self) -> None:
        """Performs the handshake in one stretch, however long it takes."""
        seconds, error = self._shake_hands()
        self.consumer.charge(seconds)
        if error is not None:
            raise error

    async def advance(self) -> bool:
        """Advances the handshake in a thread; returns whether it is complete, otherwise it needs more data.

        Raises:
            ssl.SSLError: the handshake failed.
        """
        seconds, error = await asyncio.to_thread(self._shake_hands)
        self.consumer.charge(seconds, beside=True)
        if error is not None and not isinstance(error, ssl.SSLWantReadError):
            raise error
        return error is None

    def _shake_hands(self) -> tuple[float, ssl.SSLError | None]:
        """Advances the handshake in any thread; returns the seconds that it took, and its error."""
        begun, failed = stopwatch(), None
        try:
            self._hand(self._arrived.pending)
            self._wrapped.do_handshake()
        except ssl.SSLError as error:
            failed = error
        return stopwatch() - begun, failed

    def carried_on(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> Self:
        """Continues this connection on other buffers."""
        if self._arrived.pending:
            incoming.write(self._arrived.read())
        self._arrived, self._outgoing = incoming, outgoing
        return self

    def unwrap(self) -> None:
        self._hand(self._arrived.pending)
        try:
            self._wrapped.unwrap()
        finally:
            self._hand_out()

    def write(self, data: bytes) -> int:
        try:
            return self._wrapped.write(data)
        finally:
            self._hand_out()

    def pending(self) -> int:
        """Returns the number of bytes that can be read, some of them still encrypted."""
        return self._wrapped.pending() + self._handed.pending

    def read(self, most: int = 1024, buffer: bytearray | None = None) -> bytes | int:
        """Reads as `ssl.SSLObject.read` does.

        Raises:
            ssl.SSLWantReadError: nothing more has arrived, or this stretch is over.
            ssl.SSLError: the bytes are not TLS.
        """
        if self._begun is None:
            self._begin_stretch()
        self._records += 1
        if not self._records % _RECORDS:
            self._look_at_time()
        if not self._handed.pending:
            self._hand(_SLICE)
        while True:
            try:
                # `ssl.SSLObject` distinguishes the two by the number of arguments
                if buffer is None:
                    return self._carry(self._wrapped.read(most))
                return self._carry(self._wrapped.read(most, buffer))
            except ssl.SSLWantReadError:
                if not self._arrived.pending:
                    self.end_slice()
                    raise
                self._look_at_time()
                self._hand(_SLICE)
            finally:
                self._hand_out()

    def rest(self) -> bytes:
        """Returns more of what arrived before the connection ended; empty if nothing is left or the stretch is over."""
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
            self.end_slice()
            self.wasteful()
            raise ssl.SSLWantReadError

    def _hand_out(self) -> None:
        if self._outgoing is not self._said and self._said.pending:
            self._outgoing.write(self._said.read())

    def _begin_stretch(self) -> None:
        # without a reader nobody would ask for another turn
        readable = self._handed.pending or self._arrived.pending
        waits = readable and not self.granted and self.interrupted is not _nothing
        if waits and not self.consumer.may_begin:
            self.interrupted()
            raise ssl.SSLWantReadError
        self.granted = False
        self._begun = stopwatch()

    def _look_at_time(self) -> None:
        if self._begun is not None and stopwatch() - self._begun > TIME_SLICE:
            self.end_slice()
            self.interrupted()
            raise ssl.SSLWantReadError

    def end_slice(self) -> None:
        """Ends the stretch and charges its time."""
        if self._begun is not None:
            self.consumer.charge(stopwatch() - self._begun)
            self._begun = None


def _nothing() -> None:
    """The default of the callbacks: does nothing."""


class Greeting(asyncio.Protocol):
    """The protocol of a connection until its TLS handshake is complete.

    It has to be created before the connection: the event loop runs all callbacks of a connection in the context in
    which it was made, and `wrap_bio` finds the completed connection in a context variable.
    """

    def __init__(self) -> None:
        self.arrived = ssl.MemoryBIO()
        self.shaken: list[BoundedTls] = []
        _SHAKEN.set(self.shaken)
        self.more, self.ended = asyncio.Event(), False
        """Set when bytes or the end have arrived; whether the connection has ended."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport does not inherit from it
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Buffers received bytes; aborts if they exceed what any handshake needs."""
        self.arrived.write(data)
        self.more.set()
        if self.arrived.pending > _MOST_WASTED:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
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
    """Performs the TLS handshake on a plain connection and returns the encrypted transport.

    `protocol` receives what follows; its `connection_made` is not called.

    Raises:
        ssl.SSLError: the handshake failed.
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
                transport.write(said.read())  # also after a failure, to send the alert
        while not (done or greeting.arrived.pending or greeting.ended):
            greeting.more.clear()
            await greeting.more.wait()
        if transport.is_closing() and (done or not greeting.arrived.pending):
            raise _ended()


def _ended() -> ConnectionError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
