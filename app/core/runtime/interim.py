"""What aiohttp leaves open, closed: interim answers (1xx), the end of a connection, a request made again by itself."""

import asyncio
import functools
from typing import Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_parser import RawResponseMessage

_INTERIM: Final = (100, 200)
_MOST_INTERIM: Final = 10


class BoundedInterim(ResponseHandler):
    """Reads answers; a server that sends interim ones without end is left, and none is waited for at the end.

    aiohttp takes interim ones one after the other without coming back to the loop.  And it ends a TLS connection
    politely: to a server that says nothing more, each would be kept for half a minute, with 300 KiB.
    """

    def close(self) -> None:
        """Ends the connection now; what was asked on it has been answered, or given up."""
        self.abort()

    async def read(self) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
        """The next answer, interim or not."""
        message, payload = await super().read()
        if _INTERIM[0] <= message.code < _INTERIM[1]:
            self._interim = getattr(self, "_interim", 0) + 1
            if self._interim > _MOST_INTERIM:
                raise aiohttp.ClientPayloadError("interim answers without end")
        else:
            self._interim = 0
        return message, payload


def bounded_interim() -> functools.partial[ResponseHandler]:
    """What makes the readers of a pool's connections; for its `_factory`: aiohttp has no other way to say it."""
    handler: type[ResponseHandler] = BoundedInterim
    return functools.partial(handler, loop=asyncio.get_running_loop())


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
