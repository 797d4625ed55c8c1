"""Who may have a line of the log: so many at once and so many a second for each caller, whatever others do."""

from collections.abc import Callable
from typing import Final

from app.core.limits import Bucket

CALLERS: Final = 30
"""Known callers with a share of their own; those that come while all have one share what is left for them."""


class Shares:
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
