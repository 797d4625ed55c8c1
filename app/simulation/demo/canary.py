"""The demo's canary: a loopback server that plays a host outside the seed."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

_HOST: Final = "127.0.0.1"


class Canary:
    """Answers probes while the seed's network works."""

    def __init__(self, through: Callable[[], Awaitable[None]]) -> None:
        """Takes a port; OSError where there is none.

        Args:
            through: returns when what the seed sends arrives outside; until then a probe waits, most of them in vain.
        """
        self._through = through
        self._server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._listening: asyncio.Server | None = None
        self._socket = socket.create_server((_HOST, 0))
        self._socket.settimeout(0)
        self.address = (_HOST, int(self._socket.getsockname()[1]))
        """Host and port."""

    async def open(self) -> None:
        """Begins to answer."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._server, sock=self._socket)

    async def close(self) -> None:
        """Ends it, and gives the port back."""
        if self._listening is not None:
            self._listening.close()
            for connection in tuple(self._server.connections):
                if connection.transport is not None:
                    connection.transport.abort()  # waiting clients would delay the stop
            await self._server.shutdown(0)
        self._socket.close()

    async def _answer(self, _request: web.BaseRequest) -> web.StreamResponse:
        """Answers 204 when the request has passed the seed's network; cancelled if the client disconnects."""
        await self._through()
        return web.Response(status=204)
