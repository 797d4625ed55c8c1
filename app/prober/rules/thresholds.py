"""How often in a row, and for how long, a direction must be seen before it counts (rules 4.1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.core.model.workloads import Direction

_HOUR: Final = 3600.0
_FIRST_SPAN: Final = 30.0
_LONGEST_SPAN: Final = 300.0
_ROUNDING: Final = 1e-3
"""An instant plus an interval minus the instant is not quite the interval, for floats of this size."""


@dataclass(frozen=True, slots=True)
class Streak:
    """Looks in a row that asked for the same direction."""

    direction: Direction | None = None
    count: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    """Of the last look that counted."""

    def add(
        self, direction: Direction, now: float, apart: float, *, counts: bool = True
    ) -> "Streak":
        """The streak after a look in `direction`; one that is not `apart` seconds from the last adds nothing.

        Nor does one that does not count; in another direction it ends the streak all the same.
        """
        if direction is not self.direction:
            return (
                Streak(direction, 1, now, now) if counts else Streak(direction, 0, now, -math.inf)
            )
        if not counts or now - self.last_at < apart - _ROUNDING:
            return self
        return Streak(direction, self.count + 1, self.first_at, now)

    def reached(self, threshold: int, span: float, now: float) -> bool:
        """Whether there were `threshold` looks, the first of them at least `span` seconds ago."""
        return self.count >= threshold and now - self.first_at >= span - _ROUNDING


NO_STREAK: Final = Streak()


def flapping_span(begins: Sequence[float]) -> float:
    """For how long looks must be good before SCALE UP, in seconds.

    `begins` are the instants at which this process began a protection of this shoot by itself, the active one last.
    At the k-th within an hour, from begin to begin (k ≥ 2): 30 s × 2^(k-2), at most 5 min.
    """
    k = sum(1 for begin in begins if begins[-1] - begin <= _HOUR)
    if k <= 1:
        return 0.0
    return min(_LONGEST_SPAN, _FIRST_SPAN * float(1 << min(k - 2, 10)))


def began(begins: Sequence[float], now: float) -> tuple[float, ...]:
    """`begins` after one more protection began, without those that no longer matter."""
    return (*(begin for begin in begins if now - begin <= _HOUR), now)
