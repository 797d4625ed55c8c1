"""The constants of rules 3.1, for a shoot's grace g and a lease's duration d (seconds)."""

from dataclasses import dataclass
from typing import Final

DEFAULT_LEASE_DURATION: Final = 40.0
MAX_LEASE_DURATION: Final = 120
READING: Final = 5.0
"""The longest time from the request for Leases to the start of the evaluation; later a reading may be untrue."""
SLOW_READINGS: Final = 3
"""After this many thrown-away readings in a row the shoot is `Failing`, reason `TooSlow`."""
EXCLUSION_MEMORY: Final = 300.0
"""How long a late lease that was found not to count is remembered as such."""
NODES_UNDER_PROTECTION: Final = 30.0
"""While protection is active, Nodes are read at least this often."""


@dataclass(frozen=True, slots=True)
class Timings:
    """What follows from the node monitor grace period of a shoot, in seconds."""

    grace: float

    @property
    def expiry(self) -> float:
        """The age at which a lease is expired; kube-controller-manager acts later, at g."""
        return 0.75 * self.grace

    @property
    def gap(self) -> float:
        """Two contacts further apart than this are a gap: after one, a kubelet needs up to 17 s to come back."""
        return 0.375 * self.grace

    @property
    def contact_every(self) -> float:
        """How far apart contacts between probes are, so that no absence of the storage goes unnoticed."""
        return 0.25 * self.grace

    @property
    def contact_from(self) -> float:
        """If the next probe is further away than this, a contact is made before it."""
        return 0.3 * self.grace

    def watched_long_enough(self, duration: float) -> float:
        """How long a lease has to be watched without a move before it counts as not renewed: 1.5 renewal periods."""
        return min(0.375 * duration, self.expiry)


def lease_duration(seconds: int | None) -> float:
    """`leaseDurationSeconds`, or 40 where it is missing or outside 1…120."""
    if seconds is None or not 1 <= seconds <= MAX_LEASE_DURATION:
        return DEFAULT_LEASE_DURATION
    return float(seconds)


def offset_tolerance(duration: float) -> float:
    """Up to this, a learnt offset is explained by the renewal period (0.25 d) and its jitter: the clock is right."""
    return 0.275 * duration
