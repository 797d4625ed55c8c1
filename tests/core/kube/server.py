"""An HTTPS server whose every byte a test decides: for what a real API server would not do on purpose."""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from app.core.clock import Clock
from app.core.kube import kubeconfig
from app.core.kube.seed_api import SeedApi, SeedIdentity
from app.core.metrics import Metrics
from tests.support.certs import Authority, Pair

AUTHORITY = Authority.create()
SERVER_PAIR = AUTHORITY.server()


@dataclass
class Asked:
    """One request as it came, and the means to answer it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    head: str
    """All before the body, as it came."""
    connection: int
    """Number of the connection, from 1."""
    turn: int
    """Number of the request on its connection, from 1."""
    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        # That the other side has gone is heard of in a turn of the loop, and who writes without end gives it none.
        await asyncio.sleep(0)

    async def answer(self, body=b"", status: int = 200, headers=None) -> None:
        if not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()  # as Kubernetes writes it
        data: bytes = body
        lines = {"Content-Length": str(len(data)), "Content-Type": "application/json"}
        lines |= headers or {}
        head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
        await self.raw(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + data)

    async def begin_stream(self) -> None:
        await self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end_stream(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def cut(self) -> None:
        self.writer.transport.abort()
        raise EOFError

    async def hang(self) -> None:
        """Says nothing more until the other side says something, or has gone."""
        await self.reader.read(1)
        raise EOFError

    async def listen(self) -> None:
        """Says nothing more, whatever it hears, until the other side has gone."""
        await self.reader.read()


Handler = Callable[[Asked], Awaitable[None]]


@dataclass
class Server:
    """The server, and what it has seen."""

    handler: Handler
    port: int = 0
    connections: int = 0
    open: int = 0
    asked: list[Asked] = field(default_factory=list)
    tasks: set[Any] = field(default_factory=set)

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        return [each.path for each in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.current_task())
        self.connections += 1
        self.open += 1
        connection, turn = self.connections, 0
        try:
            while True:
                turn += 1
                asked = await self._read(reader, writer, connection, turn)
                self.asked.append(asked)
                await self.handler(asked)
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            if not writer.is_closing():
                writer.transport.abort()
            self.tasks.discard(asyncio.current_task())

    async def _read(self, reader, writer, connection: int, turn: int) -> Asked:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.rstrip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {key.lower(): value.strip() for key, value in (x.split(":", 1) for x in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        url = urlsplit(target)
        query = dict(parse_qsl(url.query))
        return Asked(method, url.path, query, headers, body, head, connection, turn, writer, reader)


def server_context(pair: Pair = SERVER_PAIR, clients: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    descriptor = os.memfd_create("server")
    with os.fdopen(descriptor, "wb") as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    if clients is not None:
        context.load_verify_locations(cadata=clients.pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def until(condition, within: float = 3.0) -> None:
    """Waits for something that is on the other side of a socket, or of virtual time."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - nothing there tells us
            await asyncio.sleep(0.01)


def is_ended(writer: asyncio.StreamWriter) -> bool:
    """Whether the other side has ended this connection, as the kernel knows it, whether we read or not."""
    established = 1
    state = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return bool(state[0] != established)


@asynccontextmanager
async def serving(
    handler: Handler,
    context: ssl.SSLContext | None = None,
    port: int = 0,
    *,
    tls: bool = True,
    host: str = "127.0.0.1",
):
    server = Server(handler=handler)
    context = (context or server_context()) if tls else None
    listener = await asyncio.start_server(server.serve, host, port, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in list(server.tasks):
            task.cancel()
        if server.tasks:
            await asyncio.wait(list(server.tasks))
        await asyncio.sleep(0.01)  # what was aborted says so in the next turns of the loop


def page_of(kind: str, items, query, **meta):
    """The page of a list that a request asks for."""
    limit, start = int(query.get("limit", 10**9)), int(query.get("continue", 0))
    if start + limit < len(items):
        meta |= {"continue": str(start + limit)}
    return {"kind": f"{kind}List", "metadata": meta, "items": items[start : start + limit]}


class FakeCredentials:
    """Who we are in a seed, and what a second reading would say."""

    def __init__(self, server, token="t1", next_token=None):  # noqa: S107 - nobody's token
        context = kubeconfig.client_context(AUTHORITY.pem.decode())
        self.identity = SeedIdentity(server.origin, context, token)
        self.next_token = next_token

    async def current(self):
        return self.identity

    async def refresh(self):
        if self.next_token is not None:
            self.identity = SeedIdentity(
                self.identity.origin, self.identity.context, self.next_token
            )


@asynccontextmanager
async def api_at(server, token="t1", next_token=None, **budgets):  # noqa: S107 - nobody's token
    """The client of a seed's API server."""
    credentials = FakeCredentials(server, token, next_token)
    api = SeedApi(credentials, Clock.system(), Metrics(), **budgets)
    try:
        yield api
    finally:
        await api.close()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def api_of(handler, next_token=None, **budgets):
    """The client of a seed's API server that does this; we have the token `t1`, and read again it is `next_token`."""
    async with serving(handler) as server, api_at(server, next_token=next_token, **budgets) as api:
        yield api, server
