"""Where the API servers of a world listen, and the network between the seed and the outside.

Probes of external hosts pass that network, and so do the external routes to shoots, whose API servers have a trouble
while it is cut (`Faults.seed_network_cut`); the seed's own API server and pods are reached without it.
"""

import asyncio
from typing import Final, Protocol

from app.core.model.shoots import Route

SEED: Final = "seed"
"""The name of the seed's API server; that of a shoot is named like its namespace."""


class ServerPlace(Protocol):
    """Provides URLs and certificate authorities for the API servers of a world."""

    def url(self, name: str, route: Route = Route.INTERNAL) -> str:
        """Returns the URL of an API server for a route; it never changes."""
        ...

    def authority(self, name: str) -> str:
        """Creates a new certificate authority for an API server, which its clients have to trust."""
        ...

    def show(self, name: str, ca: str, route: Route = Route.INTERNAL) -> None:
        """Presents a certificate of `authority` on a route from now on, as after a restart of the server."""
        ...

    def forget(self, name: str) -> None:
        """Ends the API server of a name, on all routes."""
        ...


class SeedNetwork:
    """The state of the network; while it is cut, packets are dropped and connections are not refused."""

    def __init__(self) -> None:
        self._cuts = 0
        self._whole = asyncio.Event()
        self._whole.set()

    def cut(self) -> None:
        """Cuts the network; it works again when each cut has been mended."""
        self._cuts += 1
        self._whole.clear()

    def mend(self) -> None:
        """Ends one cut."""
        self._cuts -= 1
        if not self._cuts:
            self._whole.set()

    async def through(self) -> None:
        """Returns as soon as the network works, because lost packets are retransmitted."""
        await self._whole.wait()
