"""The arithmetic of the bench: quantiles of samples and of histograms, rates in a window; pure."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


def quantile(samples: Iterable[float], share: float) -> float:
    """The sample below or at which `share` (0 to 1) of all lie; NaN where there is none."""
    ordered = sorted(samples)
    if not ordered:
        return math.nan
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def mean(samples: Sequence[float]) -> float:
    """The mean; NaN where there is no sample."""
    return sum(samples) / len(samples) if samples else math.nan


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram as Prometheus has it: for each upper bound, how many lie at or below it."""

    cumulative: Mapping[float, float]

    def since(self, before: "Buckets") -> "Buckets":
        """What was observed after `before`."""
        return Buckets(
            {bound: n - before.cumulative.get(bound, 0.0) for bound, n in self.cumulative.items()}
        )

    @property
    def total(self) -> float:
        """How many were observed."""
        return max(self.cumulative.values(), default=0.0)

    def quantile(self, share: float) -> float:
        """The value below which `share` lie, as if those in a bucket lay evenly; NaN where there is none.

        Infinite where it lies above the last finite bound.
        """
        wanted, low, below = share * self.total, 0.0, 0.0
        if not self.total:
            return math.nan
        for bound, number in sorted(self.cumulative.items()):
            if number >= wanted and number > below:
                part = (wanted - below) / (number - below)
                return low + (bound - low) * part if math.isfinite(bound) else math.inf
            low, below = bound, number
        return math.inf

    def most(self) -> float:
        """The upper bound of the highest bucket that has any; NaN where there is none."""
        reached, below = math.nan, 0.0
        for bound, number in sorted(self.cumulative.items()):
            if number > below:
                reached, below = bound, number
        return reached


def most_within(instants: Iterable[float], seconds: float) -> int:
    """The most instants that lie in any half-open stretch of so many seconds."""
    ordered = sorted(instants)
    return max(
        (bisect_left(ordered, at + seconds) - place for place, at in enumerate(ordered)), default=0
    )
