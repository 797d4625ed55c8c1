"""Budgets for the token and access reviews that are sent to the seed (rules 4.3, threat T15).

Each request with an unknown token costs a review. Without limits a flood of random tokens would use up what the seed
grants this process, or keep operators with a good token from being reviewed. So the reviews, 20 a second and 10 in
flight in all, come from four separate budgets, each with a fair queue:

    trusted    callers that were allowed something in the last ten minutes     round robin by caller
    known      other callers with a valid token in the last ten minutes        round robin by address, then by caller
    denied     those of them that were only denied in the last ten minutes     round robin by address, then by caller
    stranger   all other tokens                                                round robin by network address

So after a restart, when nobody is trusted yet, many valid identities without rights compete with each other, and not
with an operator: the first denial moves each of them to a budget of its own.

A turn is one review: a caller with few reviews waits for at most one round of the others, and one with many waits
behind itself. After three seconds without a turn the answer is 429.
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
"""Most waiting reviews of one caller or address: as many as a caller may have concurrent requests (`limits.CALLER`)."""


@dataclass(frozen=True, slots=True)
class BudgetSize:
    """The size of one budget."""

    rate: float
    """Reviews per second, over time."""
    burst: float
    """Reviews at once, after a quiet while."""
    in_flight: int


class Reputation(Enum):
    """What is known of the subject of a review; the value is the budget that the review is taken from."""

    TRUSTED = BudgetSize(rate=10, burst=20, in_flight=5)
    KNOWN = BudgetSize(rate=3, burst=10, in_flight=1)
    DENIED = BudgetSize(rate=2, burst=5, in_flight=1)
    STRANGER = BudgetSize(rate=5, burst=10, in_flight=3)


_Queues = OrderedDict[str, deque[asyncio.Future[None]]]
"""Those of one `who` that wait, by their `part`."""


class FairBudget:
    """A token bucket with a cap on reviews in flight and a round-robin queue, of queues that are round robin, too.

    Args:
        share: The size.
        now: The current instant, as `Clock.now`.
    """

    def __init__(self, share: BudgetSize, now: Callable[[], float]) -> None:
        self._now = now
        self._bucket = Bucket(share.rate, share.burst, now())
        self._free = share.in_flight
        self._waiting: OrderedDict[str, _Queues] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, who: str, part: str = "") -> AsyncIterator[None]:
        """Wait for a turn of `who`, and hold it until the context ends.

        Args:
            who: Whom the turn is counted for.
            part: Shares the turns of `who` among several, such as the callers behind one address.

        Raises:
            Throttled: No turn came in time, or too many reviews of the same `who` wait.
        """
        queue = self._waiting.get(who, _Queues()).get(part, deque())
        if len(queue) >= MOST_WAITING:
            raise Throttled("not sent: too many reviews of one caller or address are waiting")
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._waiting.setdefault(who, _Queues())[part] = queue
        self._give()
        try:
            await self._wait(turn)
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._free += 1
                self._give()
            else:
                self._leave(who, part, turn)

    async def _wait(self, turn: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await turn
        except TimeoutError as late:
            if turn.cancelled():  # otherwise the turn came in the very moment of the timeout
                raise Throttled("not sent: too many token and access reviews at once") from late

    def _give(self) -> None:
        """Give as many turns as the budget has now; schedule the next one if reviews still wait."""
        while self._free > 0 and self._waiting:
            missing = self._bucket.seconds_to(1, self._now())
            if missing > 0:
                self._give_in(missing)
                return
            who, parts = next(iter(self._waiting.items()))
            part, queue = next(iter(parts.items()))
            turn = queue.popleft()
            if not turn.done():  # otherwise the review was cancelled, and must not cost a turn
                self._bucket.take(self._now())
                self._free -= 1
                turn.set_result(None)
                self._waiting.move_to_end(who)
                parts.move_to_end(part)
            self._forget_empty(who, part)

    def _give_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self._give()

    def _leave(self, who: str, part: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(who, _Queues()).get(part, ())
        if queue and turn in queue:
            queue.remove(turn)
            self._forget_empty(who, part)

    def _forget_empty(self, who: str, part: str) -> None:
        if not self._waiting[who][part]:
            del self._waiting[who][part]
        if not self._waiting[who]:
            del self._waiting[who]
