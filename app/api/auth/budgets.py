"""How many reviews the seed is sent, and for whom: nobody can use up what somebody else needs.

Three budgets, 20 reviews a second and 10 in flight in all, which the seed counts as ours beside those of the loops:

    trusted    about callers who were allowed something in the last ten minutes   in turn by caller
    known      about other callers whose token was good in the last ten minutes   in turn by caller
    strangers  about tokens that were not                                         in turn by the address they came from

A turn is one review.  So whoever asks for little waits for one round of those who ask for much, and those wait behind
themselves; who has waited for three seconds is told to come again.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final

from app.core.errors import Throttled
from app.core.limits import Bucket

PATIENCE: Final = 3.0
"""Seconds that a review may wait for its turn."""
MOST_WAITING: Final = 20
"""Reviews of one caller or address that may wait: as many as the requests that a caller may have in work."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one budget has."""

    rate: float
    """Reviews a second, over time."""
    burst: float
    """Reviews at once, after a quiet while."""
    in_flight: int


class Reputation(Enum):
    """What is known of whoever a review is about, with the budget that it is taken from."""

    TRUSTED = Share(rate=10, burst=20, in_flight=5)
    KNOWN = Share(rate=5, burst=10, in_flight=2)
    STRANGER = Share(rate=5, burst=10, in_flight=3)


class FairBudget:
    """So many a second and so many at a time, in turn for all who ask.

    Args:
        share: how many.
        now: the instant that it is, as `Clock.now`.
    """

    def __init__(self, share: Share, now: Callable[[], float]) -> None:
        self._now = now
        self._bucket = Bucket(share.rate, share.burst, now())
        self._free = share.in_flight
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Waits for a turn of `who`, which is theirs until the context ends.

        Raises:
            Throttled: it did not come in time, or too many wait for one of the same `who`.
        """
        queue = self._waiting.setdefault(who, deque())
        if len(queue) >= MOST_WAITING:
            raise Throttled(
                "not sent: too many reviews of one caller or address wait for their turn"
            )
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._give()
        try:
            await self._wait(turn)
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._free += 1
                self._give()
            else:
                self._leave(who, turn)

    async def _wait(self, turn: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await turn
        except TimeoutError as late:
            if turn.cancelled():  # else it came in the same moment
                raise Throttled("not sent: too many token and access reviews at once") from late

    def _give(self) -> None:
        """Gives turns as long as there are any, and sees to it that the next one is given when it is there."""
        while self._free > 0 and self._waiting:
            missing = self._bucket.seconds_to(1, self._now())
            if missing > 0:
                self._give_in(missing)
                return
            who, queue = next(iter(self._waiting.items()))
            turn = queue.popleft()
            if not turn.done():  # else nobody waits for it any more, and it was no turn of theirs
                self._bucket.take(self._now())
                self._free -= 1
                turn.set_result(None)
                self._waiting.move_to_end(who)
            if not queue:
                del self._waiting[who]

    def _give_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self._give()

    def _leave(self, who: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(who)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[who]
