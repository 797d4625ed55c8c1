"""The constants of rules 3.1, for a shoot's grace g and a lease's duration d (seconds)."""

from dataclasses import dataclass
from typing import Final

DEFAULT_LEASE_DURATION: Final = 40.0
MAX_LEASE_DURATION: Final = 120
READING: Final = 5.0
"""From the request for Leases to the start of the evaluation; later a reading may be untrue."""
SLOW_READINGS: Final = 3
"""So many thrown-away readings in a row are `Failing`, reason `TooSlow`."""
EXCLUSION_MEMORY: Final = 300.0
"""How long a late lease that was found not to count is remembered as such."""
NODES_UNDER_PROTECTION: Final = 30.0
"""While protection is active, Nodes are read again this often."""


@dataclass(frozen=True, slots=True)
class Timings:
    """What follows from the node monitor grace period."""

    grace: float

    @property
    def expiry(self) -> float:
        """The age at which a lease is expired: before kube-controller-manager acts, at g."""
        return 0.75 * self.grace

    @property
    def gap(self) -> float:
        """Two contacts further apart than this are a gap: a kubelet needs up to 17 s to come back after it."""
        return 0.375 * self.grace

    @property
    def contact_every(self) -> float:
        """So far apart are the contacts between probes, so that no absence goes unnoticed."""
        return 0.25 * self.grace

    @property
    def contact_from(self) -> float:
        """A probe further away than this needs a contact before it."""
        return 0.3 * self.grace

    def watched_long_enough(self, duration: float) -> float:
        """One renewal period and a half: a lease that has not moved by then will not."""
        return min(0.375 * duration, self.expiry)


def lease_duration(seconds: int | None) -> float:
    """`leaseDurationSeconds`, or 40 where it is missing or outside 1…120."""
    if seconds is None or not 1 <= seconds <= MAX_LEASE_DURATION:
        return DEFAULT_LEASE_DURATION
    return float(seconds)


def offset_tolerance(duration: float) -> float:
    """Up to this, a learnt offset is the renewal period and its jitter, not a clock that is off."""
    return 0.275 * duration
