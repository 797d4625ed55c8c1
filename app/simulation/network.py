"""The seed's own way out: what probes of hosts and the external routes to shoots go through.

What is inside of the seed, its API server and its pods, is reached without it.
"""

import asyncio
from collections.abc import Callable


class SeedNetwork:
    """Whether packets get out; one that is cut swallows them, and refuses nothing."""

    def __init__(self) -> None:
        self._cuts = 0
        self._listeners: list[Callable[[], None]] = []
        self._whole = asyncio.Event()
        self._whole.set()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each cut and each mending."""
        self._listeners.append(listener)

    @property
    def down(self) -> bool:
        """Whether it is cut now."""
        return self._cuts > 0

    def cut(self) -> None:
        """Nothing gets out, until each cut is mended."""
        self._cuts += 1
        self._whole.clear()
        self._tell()

    def mend(self) -> None:
        """One cut less."""
        self._cuts -= 1
        if not self._cuts:
            self._whole.set()
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    async def through(self) -> None:
        """Returns when packets get out: at once, or when it is mended, as they are sent again and again."""
        await self._whole.wait()
