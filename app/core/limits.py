"""A bucket of tokens: so many at once, so many a second over time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


class Bucket:
    """Full at first; instants are handed in.

    Args:
        rate: tokens a second that scaling run in.
        burst: tokens that it holds.
        now: the instant that it is.
    """

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = burst, now

    def take(self, now: float) -> bool:
        """Takes one token, if there is one."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def owe(self, now: float) -> float:
        """Takes one token, of those to come if need be; returns the seconds until it will be there."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def seconds_to(self, tokens: float, now: float) -> float:
        """How long it takes until there are so many."""
        self._fill(now)
        return max(0.0, (tokens - self._tokens) / self._rate)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now


# How long to wait before the next try.


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from `first` to `most`, in seconds."""

    first: float = 1.0
    most: float = 60.0

    def delay(self, failures: int) -> float:
        """The wait after `failures` failures in a row, counted from 1.

        Raises:
            ValueError: there was no failure.
        """
        if failures < 1:
            raise ValueError(f"a delay comes after a failure, not after {failures}")
        doublings = float(1 << min(failures - 1, 30))
        return min(self.most, self.first * doublings)

    def jittered(self, failures: int, randomness: float) -> float:
        """The same, up to half shorter for `randomness` in 0…1, so that many do not come back at once."""
        return self.delay(failures) * (1 - randomness / 2)


# Who may have a line of the log: so many at once and so many a second for each caller, whatever others do.


CALLERS: Final = 30
"""Known callers with a share of their own; those that come while all have one share what is left for them."""


class FairShares:
    """A share for each known caller, one for all the others of them, and one for nobody.

    A caller is forgotten when its share is whole again, and not before: no number of names makes a share whole sooner.

    Args:
        now: the instant that it is, as `Clock.now`.
        rate: lines of one caller a second, over time.
        at_once: lines of one caller after a quiet while.
    """

    def __init__(self, now: Callable[[], float], *, rate: float, at_once: float) -> None:
        self._now, self._rate, self._at_once = now, rate, at_once
        self._nobody, self._others = self._whole(), self._whole()
        self._callers: dict[str, Bucket] = {}

    def take(self, caller: str | None) -> bool:
        """Whether the caller may have a line now; None: nobody is known to call."""
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
        """Lets those go who have had no line for a while."""
        for name, bucket in list(self._callers.items()):
            if bucket.seconds_to(self._at_once, self._now()) <= 0:
                del self._callers[name]
