"""A queue of keys for level-triggered work: a key waits once, and is worked on by one worker at a time."""

import asyncio


class KeyQueue:
    """Keys to look at, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._working: set[str] = set()
        self._again: set[str] = set()
        self._filled = asyncio.Event()

    def add(self, key: str) -> None:
        """Asks for `key` to be looked at; once more afterwards, if it is being looked at now."""
        if key in self._working:
            self._again.add(key)
            return
        self._waiting[key] = None
        self._filled.set()

    async def take(self) -> str:
        """The next key; `done` must follow."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        key = next(iter(self._waiting))
        del self._waiting[key]
        self._working.add(key)
        return key

    def done(self, key: str) -> None:
        """`key` has been looked at."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
