"""Targets whose every byte a test decides, and probes of them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

from app.core.clock import Clock
from app.core.handlers.handlers import NetworkHandlers
from app.core.model.endpoints import EndpointProbeSpec, Handler, Ran, TargetAddress
from tests.core.kube.server import server_context
from tests.support.endpointprobes import handled_by

NAMESPACE = "shoot--foo--bar"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Call:
    """One connection: its request's head, and the means to answer it."""

    head: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def fields(self) -> dict[str, str]:
        lines = self.head.rstrip().split("\r\n")[1:]
        return {name.lower(): value.strip() for name, value in (x.split(":", 1) for x in lines)}

    @property
    def path(self) -> str:
        return self.head.split(" ")[1]

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hang(self) -> None:
        """Says nothing more until the other side has gone."""
        await self.reader.read()


Answer = Callable[[Call], Awaitable[None]]


@dataclass
class Target:
    """A server, and what it has been asked."""

    answer: Answer
    port: int = 0
    calls: list[Call] = field(default_factory=list)
    open: int = 0
    connections: int = 0
    tasks: set[Any] = field(default_factory=set)

    @property
    def paths(self) -> list[str]:
        return [call.path for call in self.calls]

    async def serve(self, reader, writer) -> None:
        self.tasks.add(asyncio.current_task())
        self.connections += 1
        self.open += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            call = Call(head, reader, writer)
            self.calls.append(call)
            await self.answer(call)
            writer.close()
        except (OSError, EOFError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self.open -= 1
            self.tasks.discard(asyncio.current_task())


def saying(data: bytes) -> Answer:
    """Says this and closes."""

    async def say(call: Call) -> None:
        await call.say(data)

    return say


@asynccontextmanager
async def serving(
    answer: Answer | bytes, *, tls: SSLContext | bool = False, host: str = "127.0.0.1"
) -> AsyncIterator[Target]:
    """A server that answers so."""

    target = Target(saying(answer) if isinstance(answer, bytes) else answer)
    context = (server_context() if tls is True else tls) or None
    listener = await asyncio.start_server(target.serve, host, 0, ssl=context)
    target.port = listener.sockets[0].getsockname()[1]
    try:
        yield target
    finally:
        listener.close()
        for task in list(target.tasks):
            task.cancel()
        if target.tasks:
            await asyncio.wait(list(target.tasks))
        await asyncio.sleep(0.01)  # what was aborted says so in the next turns of the loop


@asynccontextmanager
async def handlers(**limits: int) -> AsyncIterator[NetworkHandlers]:
    made = NetworkHandlers(Clock.system(), None, **limits)
    try:
        yield made
    finally:
        await made.close()
        await asyncio.sleep(0.01)


def probe(handler: Handler, timeout: float = 2, **more) -> EndpointProbeSpec:
    """`timeout` may be a part of a second here: tests have no time."""
    return EndpointProbeSpec("p", **handled_by(handler), timeout=timeout, **more)  # type: ignore[arg-type]


def at(host: str = "127.0.0.1", namespace: str = NAMESPACE, **more) -> TargetAddress:
    return TargetAddress(namespace, host, **more)


async def ran(handler: Handler, address: TargetAddress | None = None, **more) -> Ran:
    """What one run brings."""
    async with handlers() as made:
        return await made.run(probe(handler, **more), address or at())


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
