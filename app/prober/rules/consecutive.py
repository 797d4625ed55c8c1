"""A reading, counted; and whether the count can be trusted without Nodes (rules 3.2, 4.1)."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.model.probing import Exclusion, Judgement, LeaseCounts, LeaseState, Tally
from app.core.model.workloads import Direction
from app.prober.rules.candidates import Candidacy, ExclusionMemory
from app.prober.rules.timings import NODES_UNDER_PROTECTION

_SHORT_OF: Final = 1.0
"""Nodes are read at the end of one probe and asked about in the midst of another: 30 s must not become 35."""


def counts(judgements: Iterable[Judgement]) -> LeaseCounts:
    """How many of these leases count as what."""
    states = [each.state for each in judgements]
    return LeaseCounts(
        len(states), states.count(LeaseState.EXPIRED), states.count(LeaseState.UNKNOWN)
    )


def tally_with_nodes(judgements: tuple[Judgement, ...], candidacy: Candidacy) -> Tally:
    """Counts the leases of candidate nodes, and those of nodes that have a living machine."""
    chosen, excluded = [], Counter[Exclusion]()
    for each in judgements:
        if (why_not := candidacy.of(each.name)) is None:
            chosen.append(each)
        else:
            excluded[why_not] += 1
    standing = (each for each in judgements if each.name in candidacy.with_machine)
    return Tally(counts(chosen), counts(standing), True, tuple(chosen), dict(excluded))  # noqa: FBT003 - a field


def tally_without_nodes(
    judgements: tuple[Judgement, ...], memory: ExclusionMemory, now: float
) -> Tally:
    """Counts every lease that is not remembered as one that does not count."""
    if not memory.found:
        return Tally(counts(judgements), None, False, judgements)  # noqa: FBT003 - a field
    chosen, excluded = [], Counter[Exclusion]()
    for each in judgements:
        if (why_not := memory.excluded(each, now)) is None:
            chosen.append(each)
        else:
            excluded[why_not] += 1
    return Tally(counts(chosen), None, False, tuple(chosen), dict(excluded))  # noqa: FBT003 - a field


@dataclass(frozen=True, slots=True)
class PendingWrites:
    """What a verdict would lead to."""

    up_writes: bool
    """A scale-up would write something."""
    down_writes: bool
    """A scale-down would write something."""
    protected: bool
    exposed: bool = False
    """A dependent is up that a scale-down would take down."""
    ignored: bool = False
    """Nothing was taken down, and all that is up has ignore-scaling."""


def nodes_needed(
    tally: Tally, limit: float, pending: PendingWrites, nodes_read_at: float | None, now: float
) -> bool:
    """Whether the verdict could differ because of Nodes, and something would be written on it.

    Which of the leases counted without Nodes are candidates is unknown: any part of them could be.  Where
    ignore-scaling alone keeps a scale-down from being written, it matters all the same: people are told that nothing
    protects the shoot.
    """
    possible = scale_down_possible(tally.candidates, limit)
    if pending.down_writes and possible:
        return True
    due = nodes_read_at is None or now - nodes_read_at >= NODES_UNDER_PROTECTION - _SHORT_OF
    if not pending.protected:
        to_be_told = pending.ignored and possible and due
        return to_be_told or (pending.up_writes and _scale_up_possible(tally.candidates, limit))
    # Under protection: before a verdict that leases alone would change, and every 30 s.
    return due or tally.candidates.doubtful_fraction < limit


def scale_down_possible(found: LeaseCounts, limit: float) -> bool:
    """Whether some two or more of these leases are expired in a fraction of at least `limit`."""
    if found.total < 2:  # noqa: PLR2004 - one lease never takes anything down
        return False
    return found.expired >= 2 or (found.expired == 1 and limit <= 1 / 2)  # noqa: PLR2004 - as above


def _scale_up_possible(found: LeaseCounts, limit: float) -> bool:
    """Whether some of these leases would ask for a scale-up: one fresh lease alone does."""
    return found.expired + found.unknown < found.total and limit > 0


# How often in a row, and for how long, a direction must be seen before it counts (rules 4.1).


_HOUR: Final = 3600.0
_FIRST_SPAN: Final = 30.0
_LONGEST_SPAN: Final = 300.0
_ROUNDING: Final = 1e-3
"""An instant plus an interval minus the instant is not quite the interval, for floats of this size."""


@dataclass(frozen=True, slots=True)
class ConsecutiveResults:
    """Looks in a row that asked for the same direction."""

    direction: Direction | None = None
    count: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    """Of the last probe that counted."""

    def add(
        self, direction: Direction, now: float, apart: float, *, counts: bool = True
    ) -> "ConsecutiveResults":
        """The streak after a probe in `direction`; one that is not `apart` seconds from the last adds nothing.

        Nor does one that does not count; in another direction it ends the streak all the same.
        """
        if direction is not self.direction:
            return (
                ConsecutiveResults(direction, 1, now, now)
                if counts
                else ConsecutiveResults(direction, 0, now, -math.inf)
            )
        if not counts or now - self.last_at < apart - _ROUNDING:
            return self
        return ConsecutiveResults(direction, self.count + 1, self.first_at, now)

    def reached(self, threshold: int, span: float, now: float) -> bool:
        """Whether there were `threshold` probes, the first of them at least `span` seconds ago."""
        return self.count >= threshold and now - self.first_at >= span - _ROUNDING


NO_RESULTS: Final = ConsecutiveResults()


def flapping_span(begins: Sequence[float]) -> float:
    """For how long probes must be good before SCALE UP, in seconds.

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
