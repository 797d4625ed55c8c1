"""tcpSocket: a connection can be made; it is closed at once, and nothing is said on it."""

import asyncio

from app.core.handlers.lookup import Lookup
from app.core.handlers.reasons import why
from app.core.handlers.running import Run, failure, success
from app.core.model.endpoints import Ran, TcpSocket
from app.core.runtime.lookups import Found


class TcpConnects:
    """Makes connections."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def run(self, handler: TcpSocket, run: Run) -> Ran:
        """What an attempt to connect brings.

        Raises:
            CannotRun: there is no such port.
        """
        port = run.port(handler.port)
        try:
            found = await self._lookup.addresses(run.address.host, run)
            run.fails_if_late("no connection")
            await _connect(found, port, run.probe.timeout)
        except OSError as error:
            return failure(why(error))
        return success("connected")


async def _connect(addresses: Found, port: int, within: float) -> None:
    """Connects to the first that lets it; the others get what time is left, in equal parts."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    for left in range(len(addresses), 0, -1):
        address = addresses[-left]
        try:
            async with asyncio.timeout((end - loop.time()) / left if left > 1 else None):
                transport, _ = await loop.create_connection(asyncio.Protocol, address.text, port)
        except OSError:
            if left == 1:
                raise
        else:
            transport.close()
            return
