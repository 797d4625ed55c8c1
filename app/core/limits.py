"""Rate limiting and back-off: a token bucket, exponential back-off, refusals in a row, and fair shares for callers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


class Bucket:
    """A token bucket, full at first; the caller passes the time.

    Args:
        rate: tokens that are added per second.
        burst: capacity in tokens.
        now: the current instant.
    """

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = burst, now

    def take(self, now: float) -> bool:
        """Takes one token if there is one; returns whether it did."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def owe(self, now: float) -> float:
        """Takes one token, in advance if necessary; returns the seconds until that token is due."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def seconds_to(self, tokens: float, now: float) -> float:
        """Returns the seconds until the bucket holds so many tokens."""
        self._fill(now)
        return max(0.0, (tokens - self._tokens) / self._rate)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now


# Delays between attempts.


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off that doubles from `first` to `most` seconds."""

    first: float = 1.0
    most: float = 60.0

    def delay(self, failures: int) -> float:
        """Returns the delay after `failures` consecutive failures, counted from 1.

        Raises:
            ValueError: `failures` is less than 1.
        """
        if failures < 1:
            raise ValueError(f"a delay comes after a failure, not after {failures}")
        doublings = float(1 << min(failures - 1, 30))
        return min(self.most, self.first * doublings)

    def jittered(self, failures: int, randomness: float) -> float:
        """Returns the delay shortened by up to half, for `randomness` in 0…1: many clients must not retry together."""
        return self.delay(failures) * (1 - randomness / 2)


# Refusals (403): an API server that has just started refuses for a moment what it is about to allow.


TRANSIENT_REFUSALS: Final = 2
"""After how many refusals in a row a request is sent again."""
AFTER_REFUSAL: Final = 2.0
"""Seconds from a refusal to the next try."""


class RefusalCount:
    """Counts refusals in a row, and says when to try again; refusals of requests in flight at once count as one."""

    def __init__(self, apart: float = math.inf) -> None:
        """Starts at 0; a refusal more than `apart` seconds after the last one is not in a row with it."""
        self.count = 0
        self._apart, self._last = apart, -math.inf

    def refused(self, sent: float, now: float) -> bool:
        """Counts the refusal of a request that was sent at `sent`; returns whether to give up, as it is the third."""
        if sent > self._last:
            self.count = self.count + 1 if now - self._last <= self._apart else 1
            self._last = now
        return self.count > TRANSIENT_REFUSALS

    def allowed(self) -> None:
        """Resets the count, as a request was not refused."""
        self.count = 0

    def next_at(self, *, on_their_way: bool) -> float:
        """When the next request may be sent; after a refusal there is one at a time, so not while one is in flight."""
        if not self.count:
            return -math.inf
        return math.inf if on_their_way else self._last + AFTER_REFUSAL


# Fair limits on log lines: a rate and a burst for each caller, whatever the others do.


CALLERS: Final = 30
"""Callers with a bucket of their own at a time; further ones share one bucket."""


class PerCallerBuckets:
    """A bucket for each known caller, one for all further ones, and one for unauthenticated callers.

    A caller is forgotten when its bucket is full again, and not earlier, so using many names refills none sooner.

    Args:
        now: returns the current instant, as `Clock.now`.
        rate: lines per second of one caller.
        at_once: burst of one caller.
    """

    def __init__(self, now: Callable[[], float], *, rate: float, at_once: float) -> None:
        self._now, self._rate, self._at_once = now, rate, at_once
        self._nobody, self._others = self._whole(), self._whole()
        self._callers: dict[str, Bucket] = {}

    def take(self, caller: str | None) -> bool:
        """Takes a token of the caller and returns whether there was one; None is an unauthenticated caller."""
        return self._of(caller).take(self._now())

    def _whole(self) -> Bucket:
        return Bucket(self._rate, self._at_once, self._now())

    def _of(self, caller: str | None) -> Bucket:
        if caller is None:
            return self._nobody
        if caller not in self._callers:
            self._forget()
            if len(self._callers) >= CALLERS:
                return self._others
            self._callers[caller] = self._whole()
        return self._callers[caller]

    def _forget(self) -> None:
        """Forgets callers whose bucket is full."""
        for name, bucket in list(self._callers.items()):
            if bucket.seconds_to(self._at_once, self._now()) <= 0:
                del self._callers[name]
