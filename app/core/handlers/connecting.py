"""A connection to one of several addresses, in the time that there is."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from app.core.name_lookup import Found

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
