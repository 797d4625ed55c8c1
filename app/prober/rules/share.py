"""What share of the event loop's time looking at one shoot may take, and how long it rests once that is used up.

Reading and judging what a shoot answers takes time for which all others wait.  A shoot that is only large never uses up
its share.  One whose answers are made to cost as much as they can is probed as rarely as it takes to keep to it.
"""

from dataclasses import dataclass
from typing import Final

SHARE: Final = 0.05
"""Of the time of the loop."""
SAVED: Final = 3.0
"""Seconds that are saved up at most, as in a minute of quiet."""
LONGEST_REST: Final = 300.0
"""Seconds after which it is looked at again, whatever the last look took."""
PROBED_LESS_OFTEN: Final = (
    f"probed less often, as its answers take more than {SHARE:.0%} of the process's time"
)


@dataclass(frozen=True, slots=True)
class TimeBalance:
    """What a shoot has left of its share."""

    at: float
    """The instant as of which."""
    seconds: float = SAVED
    """Below 0 where more was taken than there was."""

    def after(self, spent: float, now: float) -> "TimeBalance":
        """As of `now`, so many seconds having been taken since."""
        earned = min(self.seconds + (now - self.at) * SHARE, SAVED)
        return TimeBalance(now, max(earned - spent, -LONGEST_REST * SHARE))

    @property
    def rests_until(self) -> float:
        """When it may be looked at again."""
        return self.at + max(-self.seconds, 0.0) / SHARE

    @property
    def restored(self) -> bool:
        """Whether half of what can be saved up is there: it has not been short for a while."""
        return self.seconds >= SAVED / 2
