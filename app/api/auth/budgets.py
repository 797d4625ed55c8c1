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

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum
from typing import Final

from app.api.limits import Allowance
from app.core.errors import Throttled
from app.core.fair_queue import RoundRobin
from app.core.limits import Bucket

PATIENCE: Final = 3.0
"""Seconds that a review may wait for its turn."""
MOST_WAITING: Final = 20
"""Most waiting reviews of one caller or address: as many as a caller may have concurrent requests (`limits.CALLER`)."""


class Reputation(Enum):
    """What is known of the subject of a review; the value is the budget that the review is taken from."""

    TRUSTED = Allowance(rate=10, burst=20, at_once=5)
    KNOWN = Allowance(rate=3, burst=10, at_once=1)
    DENIED = Allowance(rate=2, burst=5, at_once=1)
    STRANGER = Allowance(rate=5, burst=10, at_once=3)


class FairBudget(RoundRobin):
    """A token bucket with a cap on reviews in flight, whose turns are taken round robin.

    Args:
        share: The size.
        now: The current instant, as `Clock.now`.
    """

    def __init__(self, share: Allowance, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._bucket = Bucket(share.rate, share.burst, now())
        self._free = share.at_once

    @asynccontextmanager
    async def turn(self, who: str, part: str = "") -> AsyncIterator[None]:
        """Wait for a turn of `who`, and hold it until the context ends.

        Args:
            who: Whom the turn is counted for.
            part: Shares the turns of `who` among several, such as the callers behind one address.

        Raises:
            Throttled: No turn came in time, or too many reviews of the same `who` wait.
        """
        if self.waiting(who, part) >= MOST_WAITING:
            raise Throttled("not sent: too many reviews of one caller or address are waiting")
        try:
            await self.wait(who, part, within=PATIENCE)
        except TimeoutError as late:
            raise Throttled("not sent: too many token and access reviews at once") from late
        try:
            yield
        finally:
            self.returned(who)

    def missing(self) -> float | None:
        return self._bucket.seconds_to(1, self._now()) if self._free > 0 else None

    def given(self, _key: str, /) -> None:
        self._bucket.take(self._now())
        self._free -= 1

    def returned(self, _key: str, /) -> None:
        self._free += 1
        self.give()
