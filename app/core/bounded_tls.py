"""TLS with servers and callers that may be hostile: records are opened, and handshakes performed, in short stretches.

Opening a TLS record takes 1.5 µs, whether it carries 16 KiB or one byte, and a key update takes 20 µs for 27 bytes.
What the receive buffer of one socket holds can therefore block the event loop for half a second before the HTTP parser
sees a byte, because asyncio and uvloop hand OpenSSL everything that has arrived and read until nothing is left.
`BoundedTls` stands between the event loop and OpenSSL: it hands the bytes on in slices and reports "no more data" when
a stretch is over, although there is more. Its reader then waits for its turn in the fair queue.

A handshake cannot be interrupted. Towards a server, that chooses the keys, chains and name constraints that decide
whether it takes 0.4 ms or 400 ms. OpenSSL releases the GIL for it, so it runs in a thread. With a caller, it takes what
our own key takes, 0.2 to 5 ms, but hundreds of callers may begin at once: each has its turn in the fair queue. Either
way the event loop gets the connection when the handshake is complete (`secured`, `accepted`). docs/decisions/0043 has
the measurements.
"""

import asyncio
import contextlib
import errno
import os
import ssl
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, Self, cast

from app.core.clock import stopwatch
from app.core.fair_queue import TIME_SLICE, Consumer

# Bytes that OpenSSL gets at once: at worst 150 key updates, some 3 ms. Each connection keeps a buffer of this size.
_SLICE: Final = 4 * 1024
# Bytes that a record carries at most.
_RECORD: Final = 16 * 1024
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
        # Any certificate of the bundle is an anchor, an intermediate alone too, as for Go's clients.
        made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
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


# Passed to the event loop with a connection of a caller, whose own context need not be a `BoundedContext`.
_HANDOVER_CONTEXT: Final = BoundedContext()


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
        self._complete = False
        """Whether the handshake was completed before the event loop got the connection."""
        self._received = self._carried = self._records = 0
        self._begun: float | None = None
        """When the current stretch began; None between stretches."""
        self.interrupted = _nothing
        """Called when a stretch ends although there is more data: the reader has to request another turn."""
        self.wasteful = _nothing
        """Called when the overhead exceeds its limit: the reader has to abort the connection."""
        self.weighed = True
        """Whether the overhead is limited; not on a WebSocket, where small pieces are normal."""
        self._granted = False
        """Whether the next stretch may begin whatever others have taken."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever that is
        """Delegates everything else to the wrapped object."""
        return getattr(self._wrapped, name)

    def do_handshake(self) -> None:
        """Performs the handshake, unless it is complete, in one stretch, however long it takes."""
        if self._complete:
            return
        seconds, error = self._shake_hands(self._arrived.pending)
        self.consumer.charge(seconds)
        if error is not None:
            raise error

    async def advance(self) -> bool:
        """Advances the handshake; returns whether it is complete, otherwise it needs more data.

        It runs in a thread towards a server, and in turns of the consumer with a caller.

        Raises:
            ssl.SSLError: the handshake failed.
        """
        with_caller = self._wrapped.server_side
        if with_caller:
            await self.consumer.turn()
            seconds, error = self._shake_hands(_SLICE)
        else:
            seconds, error = await asyncio.to_thread(self._shake_hands, self._arrived.pending)
        self.consumer.charge(seconds, beside=not with_caller)
        if error is not None and not isinstance(error, ssl.SSLWantReadError):
            raise error
        return error is None

    def _shake_hands(self, most: int) -> tuple[float, ssl.SSLError | None]:
        """Advances the handshake in any thread by `most` bytes; returns the seconds that it took, and its error."""
        begun, failed = stopwatch(), None
        try:
            self._hand(most)
            self._wrapped.do_handshake()
        except ssl.SSLError as error:
            failed = error
        return stopwatch() - begun, failed

    def carried_on(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> Self:
        """Continues this connection on other buffers."""
        if self._arrived.pending:
            incoming.write(self._arrived.read())
        self._arrived, self._outgoing, self._complete = incoming, outgoing, True
        return self

    def unwrap(self) -> None:
        """Ends the connection as `ssl.SSLObject.unwrap` does, but does not wait for a peer that sends too much.

        Raises:
            ssl.SSLWantReadError: the peer has not ended it yet.
        """
        if self._begun is None and self.consumer.may_begin and not self._handed.pending:
            self._hand(_SLICE)
        begun = stopwatch()
        try:
            self._wrapped.unwrap()
        except ssl.SSLWantReadError:
            if not self._arrived.pending:
                raise
        finally:
            self._hand_out()
            self.consumer.charge(stopwatch() - begun)

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

    def grant(self) -> None:
        """The reader's turn has come: a stretch may begin now, or in the next turn of the event loop."""
        self._granted = True
        soon = asyncio.get_running_loop().call_soon
        soon(soon, self._revoke)

    def _revoke(self) -> None:
        # Otherwise many readers that had nothing to read could begin in the same turn later.
        self._granted = False

    def rest(self) -> bytes:
        """Returns more of what arrived before the connection ended; empty if nothing is left or the stretch is over."""
        try:
            return bytes(self.read(_RECORD))
        except ssl.SSLError:
            return b""

    def weigh_anew(self) -> None:
        """Forgets the overhead so far: small requests of a caller may have more overhead than content."""
        self._received = self._carried = 0

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
        waits = readable and not self._granted and self.interrupted is not _nothing
        if waits and not self.consumer.may_begin:
            self.interrupted()
            raise ssl.SSLWantReadError
        self._granted = False
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

    def forget(self) -> None:
        """Drops what the connection no longer needs of it: uvloop keeps a reference to its first protocol."""
        self.arrived = ssl.MemoryBIO()
        del self._transport

    async def heard(self) -> None:
        """Waits until there are bytes, or the connection has ended."""
        while not (self.arrived.pending or self.ended):
            self.more.clear()
            await self.more.wait()


async def secured(
    transport: asyncio.Transport,
    greeting: Greeting,
    context: BoundedContext,
    host: str | None,
    protocol: asyncio.Protocol,
) -> asyncio.Transport:
    """Performs the TLS handshake with a server on a plain connection and returns the encrypted transport.

    `protocol` receives what follows; its `connection_made` is not called.

    Raises:
        ssl.SSLError: the handshake failed.
        ConnectionError: the connection ended.
    """
    said = ssl.MemoryBIO()
    with _aborting(transport):
        tls = context.wrap_bio(greeting.arrived, said, server_hostname=host)
        await _shake_hands(transport, greeting, tls, said)
        made = await _hand_over(transport, greeting, tls, protocol, context, host)
    greeting.forget()
    return made


async def accepted(
    transport: asyncio.Transport,
    greeting: Greeting,
    context: ssl.SSLContext,
    consumer: Consumer,
    make: Callable[[], asyncio.Protocol],
) -> None:
    """Performs the TLS handshake with a caller on a plain connection, and then starts the protocol that `make` returns.

    It begins when the caller has sent something. `consumer` is charged for the connection.

    Raises:
        ssl.SSLError: the handshake failed.
        ConnectionError: the connection ended.
    """
    said, handed = ssl.MemoryBIO(), ssl.MemoryBIO()
    with _aborting(transport):
        await greeting.heard()
        wrapped = context.wrap_bio(handed, said, server_side=True)
        tls = BoundedTls(wrapped, greeting.arrived, handed, said, consumer)
        await _shake_hands(transport, greeting, tls, said)
        made = await _hand_over(transport, greeting, tls, greeting, _HANDOVER_CONTEXT)
        if greeting.ended:
            raise _ended()
        protocol = make()
        made.set_protocol(protocol)
        protocol.connection_made(made)
        if greeting.arrived.pending:  # asyncio, unlike uvloop, passes on the first bytes at once
            protocol.data_received(greeting.arrived.read())
    greeting.forget()


@contextlib.contextmanager
def _aborting(transport: asyncio.Transport) -> Iterator[None]:
    """Aborts the connection if anything fails."""
    try:
        yield
    except BaseException:
        transport.abort()
        raise


async def _shake_hands(
    transport: asyncio.Transport, greeting: Greeting, tls: BoundedTls, said: ssl.MemoryBIO
) -> None:
    tls.wasteful = transport.abort
    done = False
    while not done:
        try:
            done = await tls.advance()
        finally:
            if said.pending and not transport.is_closing():
                transport.write(said.read())  # also after a failure, to send the alert
        if not done:
            await greeting.heard()
        if transport.is_closing() and (done or not greeting.arrived.pending):
            raise _ended()


async def _hand_over(
    transport: asyncio.Transport,
    greeting: Greeting,
    tls: BoundedTls,
    protocol: asyncio.Protocol,
    context: BoundedContext,
    host: str | None = None,
) -> asyncio.Transport:
    """Hands a connection whose handshake is complete to the event loop."""
    greeting.shaken.append(tls)
    try:
        made = await asyncio.get_running_loop().start_tls(
            transport, protocol, context, server_side=tls.server_side, server_hostname=host
        )
    finally:
        greeting.shaken.clear()
    if made is None:
        raise _ended()
    return made


def _ended() -> ConnectionError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
