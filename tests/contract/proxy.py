"""A TCP relay before an API server, for what happens to connections and is nobody's intention."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class _Link:
    """One connection: a client and the server behind."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._ends = (client, server)
        self.flowing = asyncio.Event()
        self.flowing.set()

    def cut(self) -> None:
        for end in self._ends:
            end.transport.abort()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.flowing.wait()
            writer.write(data)
            await writer.drain()


class Proxy:
    """Relays to one port of this machine."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing = False
        self.port = 0

    async def start(self) -> None:
        """Listens."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cuts what is open, and listens no more."""
        self._listener.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def url(self) -> str:
        """Where to connect to."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def links(self) -> int:
        """How many connections there are."""
        return len(self._links)

    def _all(self, change: Callable[[_Link], None]) -> None:
        for link in tuple(self._links):
            change(link)

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """Connections are cut, and new ones are, too."""
        self._refusing = True
        self._all(_Link.cut)
        try:
            yield
        finally:
            self._refusing = False

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """The connections that there are carry nothing more; new ones work."""
        held = tuple(self._links)
        for link in held:
            link.flowing.clear()
        try:
            yield
        finally:
            for link in held:
                link.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if not self._refusing:
                await self._relay(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # either end has gone, or the test is over
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        link = _Link(writer, far_writer)
        if self._refusing:  # since a moment ago
            link.cut()
            return
        self._links.add(link)
        there = asyncio.ensure_future(link.pump(reader, far_writer))
        back = asyncio.ensure_future(link.pump(far_reader, writer))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.discard(link)
            link.cut()
            there.cancel()
            back.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
