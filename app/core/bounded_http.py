"""An aiohttp connector for servers that may be hostile (threats T7, T18; docs/decisions/0043).

aiohttp's own behaviour is too trusting for that:

- It parses all bytes that have arrived in one stretch: 256 KiB in chunks of one byte block the event loop for 150 ms.
  `BoundedReader` parses in slices and gives up the loop after `TIME_SLICE`, to continue when the fair queue says so. It
  does not even begin if others have used up this turn of the loop.
- It accepts any number of interim answers (1xx), answers that nobody asked for, and bodies whose framing outweighs
  their content. `BoundedReader` aborts the connection.
- It closes TLS connections gracefully: towards a server that has gone silent, each would be kept for half a minute,
  with 300 KiB. `BoundedReader` aborts instead.
- It repeats a request whose connection ended. `bare_session` prevents that: it raises `ConnectionCut`.
"""

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

import aiohttp
from aiohttp.abc import ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_parser import RawResponseMessage

from app import NAME, own_version
from app.core.bounded_tls import BoundedContext, BoundedTls, Greeting, secured
from app.core.clock import stopwatch
from app.core.fair_queue import TIME_SLICE, Consumer, FairQueue
from app.core.name_lookup import Found

AGENT: Final = f"{NAME}/{own_version()}"
"""The `User-Agent` of our requests."""
READ_AHEAD: Final = 64 * 1024
"""Bytes of a body that may wait to be read, and 16 times as many chunks; briefly twice that."""
# Bytes that are parsed without looking at the stopwatch: at worst 1,400 chunks, 5 ms.
_SLICE: Final = 8 * 1024
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
_INTERIM: Final = range(100, 200)
_MOST_INTERIM: Final = 10
# Bytes of chunk framing that any body may have: that of 4,096 chunks ...
_FRAMING: Final = 24 * 1024
# ... and framing per byte of content beyond that: chunks of 64 bytes on average have 6 bytes of it.
_SMALL: Final = 6 / 63.5


class ExcessiveFraming(aiohttp.ClientPayloadError):
    """An answer came in far more chunks, records or interim answers than necessary, or nobody had requested it."""


class ConnectionCut(aiohttp.ClientError):
    """The connection ended before an answer began."""


class BoundedReader(ResponseHandler):
    """Parses the answers of one connection in stretches, with turns of the event loop in between."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: FairQueue) -> None:
        """Creates the reader of one connection.

        `queue` is where it waits for its turns, unless the connection's `BoundedContext` names a consumer with a queue.
        """
        super().__init__(loop)
        self._consumer = Consumer(queue)
        self._tls: BoundedTls | None = None
        self._unparsed, self._at = b"", 0
        """Received bytes, and how many of them are parsed."""
        self._parsing = self._waits = False
        """Whether the parser is running; whether a turn was requested."""
        self._end: tuple[BaseException | None] | None = None
        """The end of the connection, with its cause, while received bytes are still to be parsed."""
        self._begin()
        self._answers = 1  # until a request is sent, any answer is one too many

    def _begin(self) -> None:
        self._interims = self._answers = 0
        self._body: aiohttp.StreamReader | None = None
        """The body whose framing is measured."""
        self._weighed = self._carried = 0
        """Bytes received of that body, framing included, and its content before the measurement began."""

    # Methods that aiohttp and the event loop call.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        early = self._unparsed
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if isinstance(tls, BoundedTls):
            self._tls, self._consumer = tls, tls.consumer
            tls.interrupted, tls.wasteful = self._wait_for_turn, self._refuse
        if early:
            self._refuse()  # bytes before the first request cannot be an answer

    def set_response_params(self, **params: Any) -> None:  # noqa: ANN401 - aiohttp's own
        """Resets the counts: aiohttp calls this before each request."""
        self._begin()
        super().set_response_params(**params)

    def set_parser(self, *parser: Any, **more: Any) -> None:  # noqa: ANN401 - aiohttp's own
        """Continues as a WebSocket, where many tiny messages are normal: a command may write byte by byte."""
        if self._tls is not None:
            self._tls.weighed = False
        super().set_parser(*parser, **more)

    @property
    def should_close(self) -> bool:
        """Whether the connection must not be reused."""
        return bool(self._unparsed) or super().should_close

    def close(self) -> None:
        """Aborts the connection; by then the request has been answered or given up."""
        self.abort()

    def abort(self) -> None:
        """Aborts the connection and drops what was not parsed."""
        self._unparsed, self._at = b"", 0
        super().abort()
        if self._end is not None and not self._waits:
            self._go_on()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Parses what has been received before it reports the end of the connection."""
        self._end = (exc,)
        if not self._waits:
            self._go_on()

    def feed_data(
        self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0
    ) -> None:
        """Passes on a parsed head, unless there were too many."""
        if data[0].code in _INTERIM and data[0].code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._interims += 1
        else:
            self._answers += 1
        if not self._too_many():
            super().feed_data(data, size)

    def _too_many(self) -> bool:
        return self._interims > _MOST_INTERIM or self._answers > 1

    def data_received(self, data: bytes) -> None:
        """Buffers and parses bytes; aiohttp passes none to resume its parser after a body was read."""
        if not data or self._parsing:  # while parsing: the rest after a protocol switch
            super().data_received(data)
            return
        if self._tls is not None:
            self._tls.end_slice()
        self._unparsed, self._at = self._unparsed[self._at :] + data, 0
        if self._waits or self.transport is None:
            return
        if self._consumer.may_begin:
            self._parse()
        else:
            self._wait_for_turn()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - the signature
        """Resumes after some of the body was read.

        aiohttp calls this for each piece that is read, whether reading was paused or not.
        """
        if self._reading_paused:
            super().resume_reading(resume_parser)
            self._resumed()

    def _resumed(self) -> None:
        self._weigh(0)
        if self._unparsed and not self._reading_paused:
            self._wait_for_turn()
        if self._waits:
            self._pause_transport_reading()

    # Parsing in stretches.

    def _parse(self) -> None:
        """Parses until the stretch is over, or until the body has to be read first."""
        begun = stopwatch()
        while self._unparsed and not self._reading_paused:
            if stopwatch() - begun > TIME_SLICE:
                self._wait_for_turn()
                break
            part = self._unparsed[self._at : self._at + _SLICE]
            self._at += len(part)
            if self._at == len(self._unparsed):
                self._unparsed, self._at = b"", 0
            self._parse_part(part)
        self._consumer.charge(stopwatch() - begun)

    def _parse_part(self, part: bytes) -> None:
        if part and self._answered():
            self._refuse()
            return
        self._parsing = True
        super().data_received(part)
        self._parsing = False
        if self.transport is not None and self.transport.is_closing():
            self.transport.abort()  # not HTTP: aiohttp has begun a graceful close
        self._weigh(len(part))

    def _answered(self) -> bool:
        """Whether the answer is complete, so that further bytes were not asked for."""
        over = self._payload is None or self._payload.is_eof()
        return self._answers > 0 and over and not self._upgraded

    def _weigh(self, length: int) -> None:
        """Refuses a body whose framing outweighs its content."""
        body = self._payload
        if self._too_many():
            self._refuse()
        elif body is None or not self._answers or self._upgraded:
            return
        elif body is not self._body:
            self._body, self._weighed, self._carried = body, 0, body.total_bytes
        else:
            self._weighed += length
            carried = body.total_bytes - self._carried
            framing = self._weighed - carried
            if not self._reading_paused and framing > _FRAMING and framing > carried * _SMALL:
                self._refuse()

    def _refuse(self) -> None:
        error, body = (
            ExcessiveFraming("the framing of the answer outweighs its content"),
            self._payload,
        )
        self.abort()
        self.set_exception(error)
        if body is not None and not body.is_eof():
            body.set_exception(error)

    def _wait_for_turn(self) -> None:
        if not self._waits and self.transport is not None:
            self._waits = True
            self._pause_transport_reading()
            self._consumer.wait(self._go_on)

    def _go_on(self) -> None:
        self._waits = False
        if self._tls is not None:
            self._tls.grant()
        if self._end is not None and not self._unparsed and self.transport is not None:
            self._unparsed = b"" if self._tls is None else b"".join(iter(self._tls.rest, b""))
        self._parse()
        if self._waits:
            return
        if self._end is None:
            if not self._reading_paused:
                self._resume_transport_reading()
        elif not self._unparsed:
            ended, self._end, self._tls = self._end, None, None
            super().connection_lost(*ended)


def bounded_readers() -> functools.partial[ResponseHandler]:
    """Returns the factory of the readers of one pool, which share a fair queue."""
    made = functools.partial(BoundedReader, loop=asyncio.get_running_loop(), queue=FairQueue())
    return cast("functools.partial[ResponseHandler]", made)


class BoundedConnector(aiohttp.TCPConnector):
    """A connector whose connections are read by `BoundedReader`s; TLS handshakes run in a thread."""

    def __init__(self, **more: Any) -> None:  # noqa: ANN401 - aiohttp's own
        """Takes the arguments of `aiohttp.TCPConnector`."""
        # No common limit: one slow server must not make others wait. No cache: each attempt looks its name up itself.
        super().__init__(limit=0, use_dns_cache=False, **more)
        self._factory = bounded_readers()  # aiohttp has no public way to set it

    async def _wrap_create_connection(  # type: ignore[override]  # of what aiohttp calls it with
        self,
        factory: Callable[[], ResponseHandler],
        *,
        req: aiohttp.ClientRequest,
        server_hostname: str | None = None,
        **more: Any,  # noqa: ANN401 - aiohttp's own
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        context = more.get("ssl")
        if not isinstance(context, BoundedContext):
            return await super()._wrap_create_connection(
                factory, req=req, server_hostname=server_hostname, **more
            )
        more["ssl"] = None
        greeting = Greeting()
        plain, _ = await super()._wrap_create_connection(lambda: greeting, req=req, **more)
        try:
            reader = factory()
            transport = await secured(plain, greeting, context, server_hostname, reader)
        except ssl.CertificateError as error:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error
        except ConnectionError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        reader.connection_made(transport)
        return transport, reader


def bare_session(
    connector: BoundedConnector,
    *middlewares: aiohttp.ClientMiddlewareType,
    **more: Any,  # noqa: ANN401 - the other arguments of `aiohttp.ClientSession`
) -> aiohttp.ClientSession:
    """Returns a session without proxies from the environment and what else aiohttp does of its own accord."""
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # no proxy variables, no .netrc
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # callers have their own
        middlewares=(*middlewares, _ask_once),
        **more,
    )


def resolved(host: str, port: int, found: Found) -> list[ResolveResult]:
    """Returns the addresses of a host as aiohttp's connector wants them."""
    return [
        ResolveResult(
            hostname=host, host=address, port=port, family=family, proto=0, flags=_NUMERIC
        )
        for family, address in found
    ]


async def _ask_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware without which aiohttp would repeat a request after its own errors for a cut connection."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise ConnectionCut(type(error).__name__) from error
