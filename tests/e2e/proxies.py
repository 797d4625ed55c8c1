"""Proxies on the way to a server of 127.0.0.1: of bytes, which delays, stalls and cuts them, and of requests."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web

from tests.e2e.processes import free_port
from tests.support.certs import Authority, server_context

_CHUNK = 256 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Passage:
    """One connection through the proxy."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._ends = (near, far)
        self.open = asyncio.Event()
        """Whether bytes pass on; while they do not, nobody is told: the connection stays open."""
        self.open.set()

    async def carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: Callable[[], float]
    ) -> None:
        """Passes one direction on, each piece `delay()` seconds after it came, until its end."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        clock = asyncio.get_running_loop().time

        async def collect() -> None:
            while data := await reader.read(_CHUNK):
                pieces.put_nowait((clock() + delay(), data))
            pieces.put_nowait((clock() + delay(), b""))

        async def deliver() -> None:
            while True:
                due, data = await pieces.get()
                await asyncio.sleep(max(due - clock(), 0.0))
                await self.open.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()

        async with asyncio.TaskGroup() as both:
            both.create_task(collect())
            both.create_task(deliver())
        writer.close()

    def abort(self) -> None:
        """Closes both ends at once: a reset."""
        self.open.set()  # what is held back has nowhere to go any more
        for end in self._ends:
            end.transport.abort()


class TcpProxy:
    """Passes everything on to a port of 127.0.0.1, until told otherwise.

    Args:
        target: that port.
        onward: connects in another way instead.
        listening: where it is connected to, instead of a port of its own.
    """

    def __init__(
        self,
        target: int = 0,
        *,
        onward: Callable[[], Awaitable[Streams]] | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        self.port = free_port() if listening is None else 0
        self._target, self._onward, self._listening = target, onward, listening
        self._server: asyncio.Server | None = None
        self._passages: set[_Passage] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._delay = 0.0
        self._stalls_new = self._resets_new = False

    @property
    def url(self) -> str:
        """Where to connect to."""
        return f"https://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listens; again too, after `cut`."""
        if self._listening is not None:
            self._server = await asyncio.start_server(self._accept, sock=self._listening)
        elif self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    def slow(self, seconds: float) -> None:
        """From now on every piece of an answer arrives that much later."""
        self._delay = seconds

    def stall(self, *, new: bool = False) -> None:
        """Connections that are open stay open and pass nothing on any more; with `new`, later ones are no better."""
        self._stalls_new = new
        for each in self._passages:
            each.open.clear()

    def reset(self) -> None:
        """Resets all connections, and from now on each new one once it is there."""
        self._resets_new = True
        for each in list(self._passages):
            each.abort()

    def lead_to(self, target: int) -> None:
        """New connections go to another port; those that are open are reset."""
        self._target = target
        for each in list(self._passages):
            each.abort()

    async def cut(self) -> None:
        """Resets all connections and refuses new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for each in list(self._passages):
            each.abort()

    async def heal(self) -> None:
        """Ends all faults; what was held back arrives now."""
        self._delay = 0.0
        self._stalls_new = self._resets_new = False
        for each in self._passages:
            each.open.set()
        await self.start()

    async def stop(self) -> None:
        """Ends it with all its connections."""
        await self.cut()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _to_target(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self._target)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._resets_new:
            writer.transport.abort()
            return
        try:
            beyond, onward = await (self._onward or self._to_target)()
        except OSError:
            writer.transport.abort()
            return
        passage = _Passage(writer, onward)
        if self._server is None:  # cut while it was on its way
            passage.abort()
            return
        if self._stalls_new:
            passage.open.clear()
        self._passages.add(passage)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(passage.carry(reader, onward, lambda: 0.0))
                both.create_task(passage.carry(beyond, writer, lambda: self._delay))
        except* OSError:  # one end has closed: so does the other
            pass
        finally:
            self._passages.discard(passage)
            passage.abort()


_PASSED_ON = ("Authorization", "Accept", "Content-Type")


class HttpProxy:
    """Answers for an API server of 127.0.0.1, with a certificate of the same authority, and asks it for each answer."""

    def __init__(self, target: str, authority: Authority) -> None:
        self.port = free_port()
        self.delay: Callable[[], float] = lambda: 0.0
        """By how many seconds the next answer comes later."""
        self._target, self._authority = target, authority

    @property
    def url(self) -> str:
        """Where to connect to."""
        return f"https://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listens."""
        trusted = ssl.create_default_context(cadata=self._authority.pem.decode())
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted, limit=0))
        context = server_context(self._authority.server())
        server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(server, "127.0.0.1", self.port, ssl=context)
        self._server = server

    async def stop(self) -> None:
        """Ends it with all its connections."""
        self._listener.close()
        await self._server.shutdown(timeout=0.1)
        await self._session.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        body = await request.read()
        async with self._session.request(
            request.method,
            self._target + request.raw_path,
            data=body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            response.enable_chunked_encoding()
            await asyncio.sleep(self.delay())
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
