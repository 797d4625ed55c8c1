"""The lines of a watch, one for each event."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import aiohttp

from app.core.errors import LimitExceeded, Unreachable
from app.core.kube.byte_budget import MIB
from app.core.kube.failures import Asked

MAX_LINE: Final = 16 * MIB
"""Bytes of one watch event: etcd takes objects up to 1.5 MiB, so this is more than any real one."""


class Silent(Unreachable):
    """A watch on which nothing came for too long: its connection may be dead."""


async def lines_of(
    asked: Asked, response: aiohttp.ClientResponse, silence: float
) -> AsyncIterator[bytes]:
    """The lines of a stream as they come.

    Raises:
        Silent: nothing came for `silence` seconds, or no end of a line that had begun.
        LimitExceeded: a line is too long.
    """
    loop, rest, dripping, until = asyncio.get_running_loop(), bytearray(), False, 0.0
    while True:
        if not dripping:  # more bytes of a line that had begun before give it no more time
            until = loop.time() + silence
        try:
            async with asyncio.timeout_at(until):
                chunk = await response.content.readany()
        except TimeoutError as error:
            raise Silent(f"{asked}: nothing was heard for {silence:g} s") from error
        if not chunk:
            return  # half a line at the end of a stream is none
        dripping = bool(rest) and b"\n" not in chunk
        first, *lines = chunk.split(b"\n")  # and not what came before it, which may be long
        rest += first
        for line in lines:
            if rest.strip():
                yield bytes(rest)
            rest = bytearray(line)
        if len(rest) > MAX_LINE:
            raise LimitExceeded("size", f"{asked}: an event of more than {MAX_LINE} bytes")
