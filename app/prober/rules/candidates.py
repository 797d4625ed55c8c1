"""Which nodes count, how many of their leases are expired, and when Nodes must be read (rules 3, step 4; 3.2).

A node counts whose NotReady would make machine-controller-manager act. A reading without Nodes counts every lease that
is not remembered as excluded. Nodes and Machines cost requests, so they are read only where the verdict could differ
because of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.core.model.probing import Exclusion, Judgement, LeaseCounts, LeaseState, Tally
from app.core.model.shoots import (
    DEFAULT_NODE_CONDITIONS,
    MachineView,
    NodeReading,
    NodeView,
    WorkerPool,
)
from app.core.model.workloads import Direction
from app.prober.rules.scaling import PendingWrites

QUORUM: Final = 2
"""Nothing is scaled down on fewer candidate leases than this."""
EXCLUSION_MEMORY: Final = 300.0
"""Seconds for which a late lease that was found not to count is remembered as such."""
NODES_UNDER_PROTECTION: Final = 30.0
"""While protection is active, Nodes are read at least once in so many seconds."""
# Seconds by which Nodes may be read again early: they are dated at the end of one probe, and their age is checked in
# the middle of a later one, so that 30 s would otherwise become 35.
_SHORT_OF: Final = 1.0
_IN_PLACE_REASONS: Final = frozenset({"ReadyForUpdate", "UpdateFailed"})

PoolConditions = Mapping[str, frozenset[str]]
"""By pool: the condition types whose status True makes a node unhealthy."""


def pool_conditions(workers: Iterable[WorkerPool]) -> dict[str, frozenset[str]]:
    """The conditions of each worker pool of a Shoot."""
    return {worker.name: worker.node_conditions for worker in workers}


def candidacy(
    node: NodeView, machines: Iterable[MachineView], conditions: PoolConditions
) -> Exclusion | None:
    """Why `node`, to which these machines belong, does not count; None for a candidate."""
    if node.not_managed:
        return Exclusion.NOT_MANAGED
    unhealthy = conditions.get(node.pool or "", DEFAULT_NODE_CONDITIONS)
    if not unhealthy.isdisjoint(node.conditions):
        return Exclusion.UNHEALTHY_CONDITION
    if (missing := _without_machine(machines)) is not None:
        return missing
    if node.in_place_update in _IN_PLACE_REASONS:
        return Exclusion.IN_PLACE_UPDATE
    return None


def _without_machine(machines: Iterable[MachineView]) -> Exclusion | None:
    phases = {machine.phase: machine.alive for machine in machines}
    if any(phases.values()):
        return None
    if not phases:
        return Exclusion.NO_MACHINE
    return Exclusion.MACHINE_FAILED if "Failed" in phases else Exclusion.MACHINE_TERMINATING


def machines_by_node(machines: Iterable[MachineView]) -> dict[str, list[MachineView]]:
    """Groups machines by the name of their node (their label `node`); those without one are left out."""
    found: dict[str, list[MachineView]] = {}
    for machine in machines:
        if machine.node is not None:
            found.setdefault(machine.node, []).append(machine)
    return found


@dataclass(frozen=True, slots=True)
class Candidacy:
    """Which nodes count, as of one reading that had Nodes and Machines."""

    at: float
    exclusions: Mapping[str, Exclusion | None]
    """By node name; None for a candidate."""
    with_machine: frozenset[str]
    """Nodes that have a Machine which is neither Failed nor Terminating."""
    nodes: tuple[NodeView, ...] = ()

    def of(self, name: str) -> Exclusion | None:
        """Why the lease of this name does not count; None if its node is a candidate."""
        return self.exclusions.get(name, Exclusion.NO_NODE)


def judge_nodes(reading: NodeReading, conditions: PoolConditions) -> Candidacy:
    """Decides for every node that was read whether it counts."""
    machines = machines_by_node(reading.machines)
    return Candidacy(
        reading.at,
        {
            node.name: candidacy(node, machines.get(node.name, ()), conditions)
            for node in reading.nodes
        },
        frozenset(
            node.name for node in reading.nodes if any(m.alive for m in machines.get(node.name, ()))
        ),
        reading.nodes,
    )


def joined(parts: Iterable[Candidacy], reading: NodeReading) -> Candidacy:
    """Joins the candidacy of parts of `reading`, which were judged one after the other."""
    exclusions: dict[str, Exclusion | None] = {}
    with_machine: set[str] = set()
    for part in parts:
        exclusions |= part.exclusions
        with_machine |= part.with_machine
    return Candidacy(reading.at, exclusions, frozenset(with_machine), reading.nodes)


class Remembered(NamedTuple):
    """A late lease that was found not to count, and why."""

    renew_time: float | None
    at: float
    exclusion: Exclusion


@dataclass(frozen=True, slots=True)
class ExclusionMemory:
    """Late leases that were found not to count; each until it moves, the conditions change, or 5 min have passed.

    Without this memory a few late leases of nodes that do not count would make every probe read Nodes.
    """

    conditions: PoolConditions = field(default_factory=dict)
    found: Mapping[str, Remembered] = field(default_factory=dict)

    def excluded(self, judgement: Judgement, now: float) -> Exclusion | None:
        """Why this lease is remembered not to count; None if it is not."""
        known = self.found.get(judgement.name)
        if known is None or known.renew_time != judgement.renew_time:
            return None
        return known.exclusion if now - known.at < EXCLUSION_MEMORY else None

    def under(self, conditions: PoolConditions) -> "ExclusionMemory":
        """The memory under these conditions: unchanged if they are the same, empty if they are not."""
        return self if self.conditions == conditions else ExclusionMemory(conditions)

    def with_reading(
        self, judgements: Iterable[Judgement], candidacy: Candidacy, now: float
    ) -> "ExclusionMemory":
        """The memory after a reading that had Nodes; what was remembered before is replaced."""
        return ExclusionMemory(
            self.conditions,
            {
                each.name: Remembered(each.renew_time, now, exclusion)
                for each in judgements
                if each.late and (exclusion := candidacy.of(each.name)) is not None
            },
        )


# The counted leases, and whether they say enough without Nodes.


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
    return Tally(
        counts(chosen),
        counts(standing),
        nodes_read=True,
        judgements=tuple(chosen),
        excluded=dict(excluded),
    )


def tally_without_nodes(
    judgements: tuple[Judgement, ...], memory: ExclusionMemory, now: float
) -> Tally:
    """Counts every lease that is not remembered as excluded."""
    if not memory.found:
        return Tally(counts(judgements), None, nodes_read=False, judgements=judgements)
    chosen, excluded = [], Counter[Exclusion]()
    for each in judgements:
        if (why_not := memory.excluded(each, now)) is None:
            chosen.append(each)
        else:
            excluded[why_not] += 1
    return Tally(
        counts(chosen),
        None,
        nodes_read=False,
        judgements=tuple(chosen),
        excluded=dict(excluded),
    )


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
    if pending.writes(Direction.DOWN) and possible:
        return True
    due = nodes_read_at is None or now - nodes_read_at >= NODES_UNDER_PROTECTION - _SHORT_OF
    if not pending.protected:
        to_be_told = pending.ignored and possible and due
        # Some subset of these leases would ask for a scale-up as soon as one is fresh.
        found = tally.candidates
        up_possible = found.expired + found.unknown < found.total and limit > 0
        return to_be_told or (up_possible and pending.writes(Direction.UP))
    # Under protection: before a verdict that leases alone would change, and every 30 s.
    return due or tally.candidates.doubtful_fraction < limit


def scale_down_possible(found: LeaseCounts, limit: float) -> bool:
    """Whether some `QUORUM` or more of these leases have an expired fraction of at least `limit`."""
    if found.total < QUORUM:
        return False
    return found.expired >= QUORUM or (found.expired == 1 and limit <= 1 / QUORUM)
