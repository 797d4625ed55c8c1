"""One connection of an HTTP server (threat T15): h11 limits the head of a request, and this module everything else.

Time limits for head, body and answer, a limit on the rate of a peer, and a way to close that lets the last answer
arrive.

h11 is lenient where a proxy in front may read another request than we do: lines that end in a bare LF, continued
headers, several lengths of a body. Such requests are refused before the application sees them (threat T29).

h11 parses all bytes that have arrived in one stretch: 64 KiB in chunks of one byte block the event loop for 70 ms. Here
they are parsed in slices, and whatever a peer causes, handshakes, TLS records (`app.core.bounded_tls`), parsing and
answering, takes its turns in a fair queue (threat T18; `app.core.fair_queue`). A body whose framing outweighs its
content is refused; a connection that changes its TLS keys without end is aborted.
"""

import asyncio
import sys
from functools import cached_property
from typing import Any, Final, cast

import h11
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from app.core.bounded_tls import BoundedTls
from app.core.clock import stopwatch
from app.core.fair_queue import TIME_SLICE, Consumer
from app.core.web.peers import Peers, Proxies

# Seconds from its first byte, or from the start of the connection, to the end of a request's head.
_HEAD: Final = 10.0
# Seconds from the end of the head to the end of the body; the application refuses earlier, with an answer.
_REQUEST: Final = 15.0
# Seconds for which the client may read nothing of an answer.
_STALLED: Final = 20.0
# Seconds that a client that is still sending has to read why it is refused.
_LINGER: Final = 1.0
# Maximum bytes that are discarded meanwhile.
_DISCARDED: Final = 1_048_576
_REFUSED: Final = frozenset({401, 429})
# Seconds for which nothing is read from a connection after such a refusal.
_PENALTY: Final = 1.0
# Bytes of an answer that are written at once; the next ones when these have been sent.
_SLICE: Final = 65_536
# Bytes that are parsed without looking at the stopwatch: at worst 680 chunks, 5 ms.
_PARSED: Final = 4 * 1024
# Maximum bytes of a head.
_HEAD_BYTES: Final = 16 * 1024
# Bytes of framing that any body may have, on top of as many as its content has; as many may wait to be parsed.
_FRAMING: Final = 16 * 1024
# Problems for input that is not a request and so never reaches the application, in the format of `app.api.problems`.
_UNREADABLE: Final = {
    400: ("malformed-request", "The request is malformed", "the request cannot be read"),
    431: ("headers-too-large", "The head of the request is too large", "more than 16384 bytes"),
}


class Line:
    """A connection from its very beginning, as it is counted for its peer.

    Args:
        peer: the peer that it is counted for.
        peers: counts connections.
        proxies: set if the peer is one of these proxies, which many callers share; None if it is a caller itself.
    """

    def __init__(self, peer: str, peers: Peers, proxies: Proxies | None = None) -> None:
        self.peer = peer
        self.peers = peers
        self.proxies = proxies
        self.opening: asyncio.Task[None] | None = None
        """The TLS handshake."""
        self.connection: Connection | None = None

    @property
    def waiting(self) -> bool:
        """Whether no request is being answered on it, as none has arrived whole: nothing is lost if it ends."""
        found = self.connection
        return found is None or found.waiting or found.body_is_coming

    def admitted(self) -> bool:
        """Admits the connection if there is room; if so, `release` has to be called."""
        return self.peers.admit(self.peer, self, many=self.proxies is not None)

    def pause(self, status: int) -> float:
        """Returns the seconds for which it should not be read, after a request with this status."""
        if self.proxies is not None:
            return 0.0
        pause = self.peers.pace(self.peer)
        return max(pause, _PENALTY) if status in _REFUSED else pause

    @cached_property
    def consumer(self) -> Consumer:
        """Who is charged for its event-loop time."""
        return self.peers.consumer(self.peer, many=self.proxies is not None)

    def drop(self) -> None:
        """Aborts the connection."""
        if self.connection is not None:
            self.connection.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def release(self) -> None:
        """It has ended."""
        self.peers.release(self.peer, self)


class Connection(H11Protocol):
    """One connection, from the handshake to the end."""

    def __init__(
        self, config: uvicorn.Config, state: ServerState, line: Line, stopping: asyncio.Event
    ) -> None:
        super().__init__(config, state, {})
        self.app = self._answer
        self._stopping = stopping
        self._line = line
        self._head_since: float | None = self.loop.time()
        self._stalled_since: float | None = None
        self._status = 0
        self._resting: asyncio.TimerHandle | None = None
        self._consumer = line.consumer
        self._tls: BoundedTls | None = None
        self._parser = self.conn = _Parser(config.h11_max_incomplete_event_size)
        self._unparsed = b""
        """Received bytes that the parser has not seen."""
        self._parsing = self._waits = False
        """Whether it is parsing; whether a turn was requested."""

    @property
    def waiting(self) -> bool:
        """Whether no request is being answered."""
        cycle: Any = self.cycle  # None until a complete head was received
        return cycle is None or cycle.response_complete

    # Called by the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the connection."""
        self._line.connection = self
        self._lingering = _Lingering(transport, self)
        super().connection_made(cast("asyncio.Transport", self._lingering))
        tls = transport.get_extra_info("ssl_object")
        if isinstance(tls, BoundedTls):
            self._tls = tls
            tls.interrupted, tls.wasteful = self._wait_for_turn, transport.abort
            self._wait_for_turn()  # there may be more with the last bytes of the handshake

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._line.release()
        if self._resting is not None:
            self._resting.cancel()
        self._lingering.ended()
        self._unparsed = b""
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Buffers received bytes, and parses them if there is time in this turn of the event loop."""
        if self._tls is not None:
            self._tls.end_slice()
        if self._lingering.discards(data):
            return
        if self._head_since is None and self.waiting:
            self._head_since = self.loop.time()
        self._unset_keepalive_if_required()
        self._unparsed += data
        self._parse_soon()

    def handle_events(self) -> None:
        """Handles what the parser has understood; the library calls it after an answer, too."""
        if self._parsing:
            super().handle_events()
        else:
            self._wait_for_turn()

    def _parse_soon(self) -> None:
        if self._waits or self._parsing:
            return
        if self._consumer.may_begin:
            self._parse()
        else:
            self._wait_for_turn()

    def _parse(self) -> None:
        """Parses until the stretch is over, or until a request has to be answered or its body to be read first."""
        begun, self._parsing = stopwatch(), True
        try:
            super().handle_events()
            while self._unparsed and not self.flow.read_paused:
                if self.transport.is_closing():
                    self._unparsed = b""
                elif stopwatch() - begun > TIME_SLICE:
                    self._wait_for_turn()
                    break
                else:
                    part, self._unparsed = self._unparsed[:_PARSED], self._unparsed[_PARSED:]
                    super().data_received(part)
        finally:
            self._parsing = False
            self._consumer.charge(stopwatch() - begun)

    def _wait_for_turn(self) -> None:
        if not self._waits:
            self._waits = True
            self._lingering.pause_for_turn()
            self._consumer.wait(self._go_on)

    def _go_on(self) -> None:
        self._waits = False
        if self.transport.is_closing():
            self._unparsed = b""
            return
        if self._tls is not None:
            self._tls.grant()
        self._parse()
        if not self._waits:
            self._lingering.turn_came()

    def takes_up_rest(self) -> bool:
        """Goes on with bytes that have been received but not parsed; returns whether there are any."""
        if self._unparsed:
            self._wait_for_turn()
        return bool(self._unparsed)

    def pause_writing(self) -> None:
        """Records that the client reads more slowly than we write."""
        self._stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Records that the client has caught up."""
        self._stalled_since = None
        super().resume_writing()

    # Called by the server.

    def expire(self, now: float) -> None:
        """Aborts the connection if a time limit has passed."""
        head = self._head_since
        if head is not None:
            most = _HEAD if self.waiting else _REQUEST
            if now - head > most and (self.waiting or self.body_is_coming):
                self.transport.abort()
        if self._stalled_since is not None and now - self._stalled_since > _STALLED:
            self.transport.abort()

    def cut(self) -> None:
        """Cuts off an answer that has begun and not ended."""
        if not self.waiting and self.cycle.response_started:
            self._gone()
            self.transport.close()

    # Called by the request.

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._head_since = self.loop.time()
        if (proxies := self._line.proxies) is not None and scope["client"] is not None:
            proxy, port = scope["client"]
            scope["client"] = proxies.client(proxy, scope["headers"]), port

        async def sliced(message: Message) -> None:
            body: bytes = message.get("body", b"")
            if message["type"] == "http.response.start":
                self._status = message["status"]
                if self.body_is_coming:
                    # Answered before the body was read: nobody will read it, and what follows on this connection is
                    # not a request.
                    headers = [*message.get("headers", ()), (b"connection", b"close")]
                    message = {**message, "headers": headers}
            while len(body) > _SLICE:
                await send({"type": message["type"], "body": body[:_SLICE], "more_body": True})
                body = body[_SLICE:]
                message = {**message, "body": body}
            await send(message)

        try:
            application = cast("Any", self.config.loaded_app)
            await self._consumer.run(application(scope, receive, sliced))
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            # The server has waited for it and is stopping: not a defect, so no traceback.
            self._gone()
            self.transport.close()

    def on_response_complete(self) -> None:
        """Continues with the next request, with a delay if the peer sends too many."""
        self._head_since = None
        if self._tls is not None:
            self._tls.weigh_anew()
        pause = self._line.pause(self._status)
        if pause <= 0 or self.transport.is_closing():
            super().on_response_complete()
            return
        self.flow.pause_reading()
        self._resting = self.loop.call_later(pause, super().on_response_complete)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the library's signature, and its words
        """Answers input that is not a request; called while the error is being handled."""
        error = sys.exc_info()[1]
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        self._gone()
        status = 431 if getattr(error, "error_status_hint", None) == 431 else 400  # noqa: PLR2004 - as HTTP has it
        for event in _unreadable(status):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _gone(self) -> None:
        """Tells a running application that the client has disconnected."""
        cycle: Any = self.cycle
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()

    def _unsupported_upgrade_warning(self) -> None:
        """Logs nothing: otherwise any client could write log lines."""

    @property
    def body_is_coming(self) -> bool:
        """Whether the body of a request has not arrived whole."""
        return self.conn.their_state is h11.SEND_BODY

    @property
    def unread(self) -> bool:
        """Whether the client may still be sending what nobody will read."""
        return self.conn.their_state in {h11.SEND_BODY, h11.ERROR} or self._parser.refused


class _Lingering:
    """A transport whose `close` lets the last answer arrive.

    Closing a socket with unread bytes resets the connection, and the client loses the answer.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection
        self._closing: asyncio.TimerHandle | None = None
        self._discarded = 0
        self._paused = self._waits = False
        """Whether the library has paused reading; whether the connection waits for its turn."""

    def pause_reading(self) -> None:
        """Reads nothing until `resume_reading`."""
        self._paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads on, as soon as what has been received is parsed."""
        self._paused = False
        if not self._connection.takes_up_rest() and not self._waits:
            self._transport.resume_reading()

    def pause_for_turn(self) -> None:
        """Reads nothing until `turn_came`."""
        self._waits = True
        self._transport.pause_reading()

    def turn_came(self) -> None:
        """Reads on, unless the library has paused reading."""
        self._waits = False
        if not self._paused:
            self.resume_reading()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Whether it is closing, or lingering before that."""
        return self._closing is not None or self._transport.is_closing()

    def close(self) -> None:
        """Closes now, or in a second if the client is still sending."""
        if self.is_closing():
            return
        if not self._connection.unread:
            self._transport.close()
            return
        self._closing = asyncio.get_running_loop().call_later(_LINGER, self._transport.abort)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def discards(self, data: bytes) -> bool:
        """Returns whether `data` is discarded; too much of it aborts the connection."""
        if self._closing is None:
            return False
        self._discarded += len(data)
        if self._discarded > _DISCARDED:
            self._transport.abort()
        return True

    def ended(self) -> None:
        """Cancels the lingering."""
        if self._closing is not None:
            self._closing.cancel()


class _Parser(h11.Connection):
    """A server's parser that refuses what another one could read differently, and bodies that are mostly framing."""

    def __init__(self, most: int | None) -> None:
        super().__init__(h11.SERVER, most or _HEAD_BYTES)
        self._received = self._carried = 0
        """Bytes received since the head of the request ended, and those of them that are content."""
        self.refused = False
        """Whether a request was refused that h11 itself would have taken."""

    def receive_data(self, data: bytes) -> None:
        """Takes bytes from the network."""
        self._received += len(data)
        super().receive_data(data)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Returns the next part of a request.

        Raises:
            h11.RemoteProtocolError: it is no HTTP, is ambiguous, or comes in crumbs.
        """
        buffered, _ = self.trailing_data
        event = super().next_event()
        if isinstance(event, h11.Request):
            rest, _ = self.trailing_data
            self._received, self._carried = len(rest), 0
            self._refuse(_ambiguity_of_head(buffered[: len(buffered) - len(rest)], event))
        elif isinstance(event, h11.Data):
            self._carried += len(event.data)
        elif isinstance(event, h11.EndOfMessage):
            rest, _ = self.trailing_data
            self._refuse(_ambiguity_of_end(buffered[: len(buffered) - len(rest)]))
        if self.their_state is h11.SEND_BODY and self._received > 2 * self._carried + _FRAMING:
            raise h11.RemoteProtocolError("the body comes in crumbs")
        return event

    def _refuse(self, why: str) -> None:
        if why:
            self.refused = True
            raise h11.RemoteProtocolError(why)


def _ambiguity_of_head(head: bytes, request: h11.Request) -> str:
    """Returns why a proxy could read another request in these bytes than h11 does; empty if none could (RFC 9112).

    h11 has already refused a Transfer-Encoding that is not `chunked` alone, several of them, lengths that differ, and
    white space before a colon.
    """
    if why := _ambiguity_of_lines(head):
        return why
    lines = head.lower().split(b"\r\n")
    lengths = [line for line in lines if line.startswith(b"content-length:")]
    encoded = any(line.startswith(b"transfer-encoding:") for line in lines)
    if len(lengths) + encoded > 1 or any(b"," in length for length in lengths):
        return "the body has several lengths"
    if encoded and request.http_version < b"1.1":
        return "HTTP/1.0 has no Transfer-Encoding"
    return ""


def _ambiguity_of_end(read: bytes) -> str:
    """Returns why a proxy could see another end of a request than h11 does; empty if none could.

    `read` are the last bytes of a request: of a body in chunks its trailers, perhaps with the end of the last chunks.
    """
    # h11 may have read the CR that belongs to an LF at the beginning earlier: that line ends a chunk. A bare LF that
    # ends the request comes alone.
    lines = read[1:] if len(read) > 1 and read.startswith(b"\n") else read
    return _ambiguity_of_lines(lines)


def _ambiguity_of_lines(lines: bytes) -> str:
    if lines.count(b"\n") != lines.count(b"\r\n"):
        return "a line ends in a bare LF"
    if b"\n " in lines or b"\n\t" in lines:
        return "a header goes on in the next line"
    return ""


def _unreadable(status: int) -> list[h11.Event]:
    slug, title, detail = _UNREADABLE[status]
    urn = f"urn:dependency-watchdog:problem:{slug}"
    body = (
        f'{{"type": "{urn}", "title": "{title}", "status": {status}, "detail": "{detail}", "instance": ""}}'
    ).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    return [h11.Response(status_code=status, headers=headers), h11.Data(body), h11.EndOfMessage()]
