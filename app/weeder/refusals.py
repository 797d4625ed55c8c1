"""Deletions that were refused (403): whether that was in passing, and when the next one may be tried."""

import math
from typing import Final

_IN_PASSING: Final = 2
"""So many refusals are tried again: an API server that has just started refuses for a moment what it is about to
allow, and its restart must not end a recovery (rules 6, gaps)."""
_PAUSE: Final = 2.0
"""Seconds from a refusal to the next try."""


class Refusals:
    """Counts the refusals in a row; those of deletions that were on their way together are one."""

    def __init__(self) -> None:
        self._count = 0
        self._last = -math.inf

    def refused(self, sent: float, now: float) -> bool:
        """A deletion that was sent at `sent` is refused; whether this was one too many: it is not in passing."""
        if sent >= self._last:
            self._count += 1
            self._last = now
        return self._count > _IN_PASSING

    def allowed(self) -> None:
        """A deletion was not refused."""
        self._count = 0

    def next_at(self, *, on_their_way: bool) -> float:
        """When the next deletion may be sent; after a refusal one at a time."""
        if not self._count:
            return -math.inf
        return math.inf if on_their_way else self._last + _PAUSE
