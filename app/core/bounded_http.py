"""What aiohttp leaves open, closed: answers that cost more than they say, the end of a connection, asking again.

aiohttp parses all that has come in one stretch: 256 KiB in chunks of one byte keep the loop for 150 ms.  It takes
interim answers (1xx) without end, and answers that nobody asked for.  It ends a TLS connection politely: to a server
that says nothing more, each would be kept for half a minute, with 300 KiB.  And it asks again by itself where a
connection ended.
"""

import asyncio
import functools
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_parser import RawResponseMessage

from app.core.bounded_tls import BoundedContext, BoundedTls, Greeting, secured
from app.core.clock import stopwatch
from app.core.crumbs import Crumbs
from app.core.fair_queue import STRETCH, Consumer, FairQueue

READ_AHEAD: Final = 64 * 1024
"""Bytes of a body that may wait to be read, and 16 times the chunks; twice that for a moment."""
_SLICE: Final = 8 * 1024
"""Bytes that are parsed at once: at worst 1,400 chunks, 5 ms."""
_INTERIM: Final = range(100, 200)
_MOST_INTERIM: Final = 10
_FRAMING: Final = 24 * 1024
"""Bytes that the chunks of a body may have besides what they carry: those of 4,096 chunks ..."""
_SMALL: Final = 6 / 63.5
"""... and of more for as long as they are 64 bytes long on average: those have 6 besides."""


class BoundedReader(ResponseHandler):
    """Reads the answers of one connection in stretches, with a turn of the event loop in between."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: FairQueue) -> None:
        """`queue`: where it waits to go on, unless its TLS context names somebody who is charged."""
        super().__init__(loop)
        self._consumer = Consumer(queue)
        self._tls: BoundedTls | None = None
        self._unparsed, self._at = b"", 0
        """What came, and how much of it is parsed."""
        self._parsing = self._waits = False
        """The latter: for its turn."""
        self._end: tuple[BaseException | None] | None = None
        """Why the connection has ended, for as long as there is something left to parse."""
        self._begin()
        self._answers = 1  # nothing was asked for yet

    def _begin(self) -> None:
        self._interims = self._answers = 0
        self._body: aiohttp.StreamReader | None = None
        """Whose chunks are weighed."""
        self._weighed = self._carried = 0
        """Bytes of that body as they came, and what it had carried before they did."""

    # What aiohttp and the event loop call.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        early = self._unparsed
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if isinstance(tls, BoundedTls):
            self._tls, self._consumer = tls, tls.consumer
            tls.interrupted, tls.wasteful = self._wait_for_turn, self._refuse
        if early:
            self._refuse()  # nobody can have asked yet

    def set_response_params(self, **params: Any) -> None:  # noqa: ANN401 - aiohttp's own
        """Something is about to be asked for."""
        self._begin()
        super().set_response_params(**params)

    def set_parser(self, *parser: Any, **more: Any) -> None:  # noqa: ANN401 - aiohttp's own
        """It goes on as a WebSocket, on which each byte may come by itself: a command writes them so."""
        if self._tls is not None:
            self._tls.weighed = False
        super().set_parser(*parser, **more)

    @property
    def should_close(self) -> bool:
        """Whether nothing more may be asked for on it."""
        return bool(self._unparsed) or super().should_close

    def close(self) -> None:
        """Ends the connection now; what was asked for has been answered, or given up."""
        self.abort()

    def abort(self) -> None:
        """Ends it, and forgets what came and was not parsed."""
        self._unparsed, self._at = b"", 0
        super().abort()
        if self._end is not None and not self._waits:
            self._go_on()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended; what had come before is parsed first."""
        self._end = (exc,)
        if not self._waits:
            self._go_on()

    def feed_data(
        self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0
    ) -> None:
        """A head was parsed; one too many is kept from whoever waits for an answer."""
        if data[0].code in _INTERIM and data[0].code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._interims += 1
        else:
            self._answers += 1
        if not self._too_many():
            super().feed_data(data, size)

    def _too_many(self) -> bool:
        return self._interims > _MOST_INTERIM or self._answers > 1

    def data_received(self, data: bytes) -> None:
        """Something came; nothing where somebody has read what there was, and the parser may go on."""
        if not data or self._parsing:  # the latter: what follows the head of another protocol
            super().data_received(data)
            return
        if self._tls is not None:
            self._tls.end_stretch()
        self._unparsed, self._at = self._unparsed[self._at :] + data, 0
        if not self._waits and self.transport is not None:
            self._parse()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - the signature
        """Somebody has read what there was; called for each piece that was read, whether it was paused or not."""
        if self._reading_paused:
            super().resume_reading(resume_parser)
            self._resumed()

    def _resumed(self) -> None:
        self._weigh(0)
        if self._unparsed and not self._reading_paused:
            self._wait_for_turn()
        if self._waits:
            self._pause_transport_reading()

    # One stretch after the other.

    def _parse(self) -> None:
        """Parses what came until the stretch is over, or the body has to be read first."""
        begun = stopwatch()
        while self._unparsed and not self._reading_paused:
            if stopwatch() - begun > STRETCH:
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
            self.transport.abort()  # it is no HTTP, and aiohttp has ended it politely
        self._weigh(len(part))

    def _answered(self) -> bool:
        """Whether nothing more is to come: it was not asked for."""
        over = self._payload is None or self._payload.is_eof()
        return self._answers > 0 and over and not self._upgraded

    def _weigh(self, length: int) -> None:
        """Ends an answer that comes in crumbs."""
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
        error, body = Crumbs("the answer comes in crumbs"), self._payload
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
        if self._end is not None and not self._unparsed and self.transport is not None:
            self._unparsed = b"" if self._tls is None else self._tls.rest()
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
    """What makes the readers of a pool's connections."""
    made = functools.partial(BoundedReader, loop=asyncio.get_running_loop(), queue=FairQueue())
    return cast("functools.partial[ResponseHandler]", made)


class BoundedConnector(aiohttp.TCPConnector):
    """Makes connections whose ends are `BoundedReader`s; hands are shaken beside the event loop."""

    def __init__(self, **more: Any) -> None:  # noqa: ANN401 - aiohttp's own
        """As aiohttp has it."""
        super().__init__(**more)
        self._factory = bounded_readers()  # aiohttp has no other way to say it

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


def asks_once(closed: type[aiohttp.ClientError]) -> aiohttp.ClientMiddlewareType:
    """Raises `closed` where a connection ended before an answer began: by itself aiohttp would ask again."""

    async def ask(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        try:
            return await handler(request)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise closed(type(error).__name__) from error

    return ask
