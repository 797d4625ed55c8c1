"""A TCP relay before an API server, for what happens to connections and is nobody's intention."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.e2e.proxies import TcpProxy


class Proxy(TcpProxy):
    """Relays to one port of this machine, with troubles that last as long as a block."""

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """Connections are reset, and new ones are refused."""
        await self.cut()
        try:
            yield
        finally:
            await self.heal()

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """The connections that there are carry nothing more; new ones work."""
        held = tuple(self._passages)
        self.stall()
        try:
            yield
        finally:
            for each in held:
                each.abort()
