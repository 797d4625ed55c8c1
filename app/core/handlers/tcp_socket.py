"""The tcpSocket handler: passes if a connection can be made, which is closed at once without sending anything."""

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import Final, TypeVar

import aiohttp

from app.core.handlers.lookup import Lookup, NoAddress
from app.core.handlers.runs import HandlerRun, failure, success
from app.core.model.endpoints import Ran, TcpSocket
from app.core.name_lookup import Found

# Reasons for failed connections, in a few words; never a byte of what the other side sent.


FOREIGN: Final = (aiohttp.ClientError, OSError)
"""Errors that a connection may raise; TimeoutError and ssl.SSLError are OSErrors."""


class Closed(aiohttp.ClientError):
    """The connection ended before an answer began."""


def why(error: Exception) -> str:
    """Returns the reason, for operators."""
    match error:
        case NoAddress() | aiohttp.ClientConnectorDNSError():
            return "the name cannot be resolved"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return "no TLS connection could be made"
        case Closed():
            return "the connection was closed before an answer came"
        case OSError(errno=int() as number):
            return f"no connection: {os.strerror(number)}"
        case aiohttp.ClientResponseError():
            return "the answer is not HTTP"
        case _:
            return f"no answer ({type(error).__name__})"


# Connecting to one of several addresses within a time limit.


P = TypeVar("P", bound=asyncio.BaseProtocol)


async def connect(
    protocol: Callable[[], P], addresses: Found, port: int, within: float
) -> tuple[asyncio.Transport, P]:
    """Connects to the first address that accepts; the attempts share `within` seconds equally.

    Raises:
        OSError: no address accepts.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    for left in range(len(addresses), 1, -1):
        try:
            async with asyncio.timeout((end - loop.time()) / left):
                return await loop.create_connection(protocol, addresses[-left].text, port)
        except OSError:
            continue
    return await loop.create_connection(protocol, addresses[-1].text, port)


class TcpConnects:
    """Runs tcpSocket probes."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def run(self, handler: TcpSocket, run: HandlerRun) -> Ran:
        """Runs one probe.

        Raises:
            CannotRun: the port does not exist.
        """
        port = run.port(handler.port)
        try:
            found = await self._lookup.addresses(run.address.host, run)
            run.fails_if_late("no connection")
            transport, _ = await connect(asyncio.Protocol, found, port, run.probe.timeout)
        except OSError as error:
            return failure(why(error))
        transport.close()
        return success("connected")
