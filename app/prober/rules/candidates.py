"""Which nodes count: those whose NotReady would make machine-controller-manager act (rules 3, step 4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.core.model.nodes import MachineView, NodeReading, NodeView
from app.core.model.probing import Exclusion, Judgement
from app.core.model.shoots import DEFAULT_NODE_CONDITIONS, WorkerPool
from app.prober.rules.timings import EXCLUSION_MEMORY

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
