"""Counts leases, says whether Nodes must be read, and counts results in a row (rules 3.2, 4.1).

A reading without Nodes counts every lease that is not remembered as excluded. Nodes and Machines cost requests, so
they are read only where the verdict could differ because of them (rules 3.2).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.model.probing import Exclusion, Judgement, LeaseCounts, LeaseState, Tally
from app.core.model.workloads import Direction
from app.prober.rules.candidates import Candidacy, ExclusionMemory
from app.prober.rules.timings import NODES_UNDER_PROTECTION

# Seconds by which Nodes may be read again early: they are dated at the end of one probe, and their age is checked in
# the middle of a later one, so that 30 s would otherwise become 35.
_SHORT_OF: Final = 1.0


def counts(judgements: Iterable[Judgement]) -> LeaseCounts:
    """Counts all, the expired and the unknown among these leases."""
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
    """Counts every lease that is not remembered as excluded."""
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
    """What a scaling run of either direction would write now."""

    up_writes: bool
    """A scale-up would write something."""
    down_writes: bool
    """A scale-down would write something."""
    protected: bool
    exposed: bool = False
    """A dependent is up that a scale-down would take down: it has no ignore-scaling."""
    ignored: bool = False
    """Nothing was taken down, and every dependent that is up has ignore-scaling."""


def nodes_needed(
    tally: Tally, limit: float, pending: PendingWrites, nodes_read_at: float | None, now: float
) -> bool:
    """Whether the verdict could differ because of Nodes, and something would be written on it.

    Without Nodes any part of the counted leases could be those of candidates. Where ignore-scaling alone keeps a
    scale-down from writing, Nodes are read every 30 s all the same: the state of the shoot turns `Unprotected`, and
    leases that do not count must wake nobody (docs/decisions/0037).

    Args:
        tally: the leases, counted without Nodes.
        limit: `nodeLeaseFailureFraction`.
        pending: what a scaling run would write.
        nodes_read_at: when Nodes were last read; None before the first time.
        now: the present instant.
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
    """Whether some subset of at least two of these leases has an expired fraction of at least `limit`."""
    if found.total < 2:  # noqa: PLR2004 - one lease never takes anything down
        return False
    return found.expired >= 2 or (found.expired == 1 and limit <= 1 / 2)  # noqa: PLR2004 - as above


def _scale_up_possible(found: LeaseCounts, limit: float) -> bool:
    """Whether some subset of these leases would ask for a scale-up: one fresh lease alone does."""
    return found.expired + found.unknown < found.total and limit > 0


# Thresholds: how often in a row, and for how long, a direction must be seen before the verdict follows (rules 4.1).


_HOUR: Final = 3600.0
_FIRST_SPAN: Final = 30.0
_LONGEST_SPAN: Final = 300.0
# An instant plus an interval minus the instant is not quite the interval, for floats of this size.
_ROUNDING: Final = 1e-3


@dataclass(frozen=True, slots=True)
class ConsecutiveResults:
    """How many probes in a row have asked for the same direction."""

    direction: Direction | None = None
    count: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    """When the last probe that counted began."""

    def add(
        self, direction: Direction, now: float, apart: float, *, counts: bool = True
    ) -> "ConsecutiveResults":
        """Adds the result of a probe; one in another direction starts the count anew.

        A probe less than `apart` seconds after the last that counted adds nothing, nor does one for which `counts` is
        False. In another direction even such a probe resets the count.
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
    """For how many seconds probes must be good before SCALE UP.

    At the k-th protection within an hour, from begin to begin (k ≥ 2): 30 s × 2^(k-2), at most 5 min.

    Args:
        begins: when this process began protections of this shoot by itself, the active one last.
    """
    k = sum(1 for begin in begins if begins[-1] - begin <= _HOUR)
    if k <= 1:
        return 0.0
    return min(_LONGEST_SPAN, _FIRST_SPAN * float(1 << min(k - 2, 10)))


def began(begins: Sequence[float], now: float) -> tuple[float, ...]:
    """Adds a protection that begins `now` to `begins`, and drops those of more than an hour ago."""
    return (*(begin for begin in begins if now - begin <= _HOUR), now)
