"""How soon a service that comes and goes is weeded for again (rules 6, Caps)."""

from collections.abc import Sequence
from typing import Final

from app.core.runtime.backoff import Backoff

_FREE: Final = 3
"""So many recoveries within the window begin at once."""
_WAIT: Final = Backoff(first=30.0, most=120.0)


def wait(begun: Sequence[float], now: float, window: float) -> float:
    """Seconds before the next recovery of the same service begins: 0 for the first three within `window`.

    Then 30, 60, 120, 120 …  `begun` are the instants at which its recoveries began, after their own waits, in any
    order; one that was lost while it waited is not among them.  One as old as `window` no longer counts.
    """
    recent = sum(1 for each in begun if each > now - window)
    return 0.0 if recent < _FREE else _WAIT.delay(recent - _FREE + 1)
