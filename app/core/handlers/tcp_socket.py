"""tcpSocket: a connection can be made; it is closed at once, and nothing is said on it."""

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

# What went wrong with a connection, in a few words: never a byte of what the other side said.


FOREIGN: Final = (aiohttp.ClientError, OSError)
"""What a connection may raise; TimeoutError and ssl.SSLError are OSErrors."""


class Closed(aiohttp.ClientError):
    """The connection ended before an answer began."""


def why(error: Exception) -> str:
    """The reason, for an operator."""
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


# A connection to one of several addresses, in the time that there is.


P = TypeVar("P", bound=asyncio.BaseProtocol)


async def connect(
    protocol: Callable[[], P], addresses: Found, port: int, within: float
) -> tuple[asyncio.Transport, P]:
    """Connects to the first that lets it; the others get what is left of `within` seconds, in equal parts.

    Raises:
        OSError: none of them does.
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
    """Makes connections."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def run(self, handler: TcpSocket, run: HandlerRun) -> Ran:
        """What an attempt to connect brings.

        Raises:
            CannotRun: there is no such port.
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
