"""Who may have a line of the log: so many at once and one a second on average for each caller, whatever others do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

AT_ONCE: Final = 20
"""Lines of one caller; then one a second on average."""
CALLERS: Final = 30
"""Known callers with a share of their own; those that come while all have one share what is left for them."""


@dataclass(slots=True)
class _Bucket:
    """What is left of a share, and when that was so."""

    left: float
    at: float

    def fill(self, now: float) -> None:
        self.left, self.at = min(AT_ONCE, self.left + now - self.at), now

    def take(self, now: float) -> bool:
        self.fill(now)
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Shares:
    """A share for each known caller, one for all the others of them, and one for nobody.

    A caller is forgotten when its share is whole again, and not before: no number of names makes a share whole sooner.

    Args:
        now: the instant that it is, as `Clock.now`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._nobody, self._others = _Bucket(AT_ONCE, now()), _Bucket(AT_ONCE, now())
        self._callers: dict[str, _Bucket] = {}

    def take(self, caller: str | None) -> bool:
        """Whether the caller may have a line now; None: nobody is known to call."""
        return self._of(caller).take(self._now())

    def _of(self, caller: str | None) -> _Bucket:
        if caller is None:
            return self._nobody
        if caller not in self._callers:
            self._forget()
            if len(self._callers) >= CALLERS:
                return self._others
            self._callers[caller] = _Bucket(AT_ONCE, self._now())
        return self._callers[caller]

    def _forget(self) -> None:
        """Lets those go who have had no line for a while."""
        for name, bucket in list(self._callers.items()):
            bucket.fill(self._now())
            if bucket.left >= AT_ONCE:
                del self._callers[name]
