"""Who looks at the seed: of each caller one read at a time, so that no caller keeps the others from it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from app.api.problems import Problem, ProblemType, wait

PATIENCE: Final = 2.0
"""Seconds that a read waits for those of the same caller."""
_SOON: Final = 1.0
"""Seconds after which it is worth asking again."""


class Looks:
    """Whose read is in flight; it remembers a caller for as long as one is, or waits."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._turns)

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """For the length of one read of this caller: begins when none of his is in flight, those that wait in turn.

        Raises:
            Problem: his other reads were in the way for 2 s.
        """
        turn = self._turns.setdefault(who, asyncio.Lock())
        try:
            async with asyncio.timeout(PATIENCE):
                await turn.acquire()
        except TimeoutError as error:
            detail = (
                "other reads of the resources by the same caller are in the way, of which one is made at a time: "
                "wait for their answers"
            )
            raise Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=wait(_SOON)) from error
        try:
            yield
        finally:
            turn.release()
