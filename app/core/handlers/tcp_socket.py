"""tcpSocket: a connection can be made; it is closed at once, and nothing is said on it."""

import asyncio

from app.core.handlers.connecting import connect
from app.core.handlers.lookup import Lookup
from app.core.handlers.reasons import why
from app.core.handlers.runs import Run, failure, success
from app.core.model.endpoints import Ran, TcpSocket


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
            transport, _ = await connect(asyncio.Protocol, found, port, run.probe.timeout)
        except OSError as error:
            return failure(why(error))
        transport.close()
        return success("connected")
