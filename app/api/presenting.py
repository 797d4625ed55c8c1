"""Makes schemas of records where a schema is more than the record's own attributes; pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

from app.api import schemas
from app.core.model import workloads
from app.core.model.endpoints import CachedResult
from app.core.model.instants import rfc3339
from app.core.model.nodes import NodeView
from app.core.model.overrides import EffectiveOverrides, Pause
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.probing import Judgement
from app.core.model.scaling_runs import OperationPhase, ScalingPlan, ScalingRunStatus, StepPhase
from app.core.model.weeding import RecoveryStatus, ServiceStatus
from app.core.model.workloads import WorkloadView
from app.core.reporting.audit import AuditRecord
from app.core.reporting.history import HistoryRecord
from app.prober.endpoints.gates import GateView
from app.prober.endpoints.worker import EndpointResultView
from app.prober.rules.candidates import Candidacy
from app.prober.status import ShootStatus

# Shoots.


MOST: Final = 50
"""Most results of endpoint probes in one shoot, as a page has up to 500 shoots."""
_WORST: Final = {CachedResult.FAILURE: 0, CachedResult.UNKNOWN: 1, CachedResult.SUCCESS: 2}


class Endpoints(NamedTuple):
    """The results of endpoint probes of one shoot."""

    probes: tuple[EndpointResultView, ...] = ()
    """One for each probe and target."""
    gates: tuple[GateView, ...] = ()
    """One for each probe that is a gate."""


NOTHING: Final = Endpoints()


def shoot(
    status: ShootStatus,
    policy: ProberPolicy,
    effective: EffectiveOverrides,
    endpoints: Endpoints = NOTHING,
) -> schemas.Shoot:
    """A shoot with its conditions, overrides and results of endpoint probes."""
    covering = effective.covering
    return schemas.Shoot.of(
        status,
        conditions=[
            schemas.Condition.of(each, last_transition_time=each.since)
            for each in status.conditions
        ],
        probe=_probe(status),
        leases=_leases(status, policy),
        resources=[resource(each, status.resources.get(each.ref)) for each in policy.dependents],
        pause=None if covering is None else pause(covering, status.namespace),
        pauses=len(effective.pauses),
        hold=effective.hold,
        endpoint_probes=probes(endpoints),
        endpoint_probes_total=len(endpoints.probes),
        gates=[
            schemas.Gate.of(each, state=_state(closed=each.closed))
            for each in sorted(endpoints.gates, key=lambda gate: gate.name)
        ],
    )


def _probe(status: ShootStatus) -> schemas.ProbeInfo:
    decision = status.decision
    return schemas.ProbeInfo.of(
        status,
        last_time=status.last_probe,
        next_time=status.next_probe,
        duration_seconds=None if status.probe_seconds is None else round(status.probe_seconds, 6),
        verdict=None if decision is None else decision.verdict,
        would_be=None if decision is None else decision.would_be,
        count=status.probes,
        consecutive_failures=status.failures,
    )


def _leases(status: ShootStatus, policy: ProberPolicy) -> schemas.Leases | None:
    """None before the first reading, and in endpoint mode, which reads no Leases."""
    tally = status.tally
    if tally is None or policy.endpoint_mode:
        return None
    found = tally.candidates
    return schemas.Leases.of(
        found,
        as_of=status.read_at,
        candidates=found.total,
        candidates_as_of=None if status.candidacy is None else status.candidacy.at,
        fraction=round(found.expired_fraction, 6),
        threshold=policy.limit,
        expiry_after=status.expiry,
        excluded={str(why): number for why, number in sorted(tally.excluded.items())},
    )


def probes(found: Endpoints) -> list[schemas.EndpointProbe]:
    """The results by name and target; only the worst `MOST`, if there are more: closed gates first, then failures."""

    def place(view: EndpointResultView) -> tuple[str, str]:
        return view.name, str(view.target)

    def rank(view: EndpointResultView) -> tuple[bool, int, tuple[str, str]]:
        return not view.closed, _WORST[view.result], place(view)

    return [
        schemas.EndpointProbe.of(
            each,
            last_time=each.last_run,
            last_result=each.last_outcome,
            gate=None if each.closed is None else _state(closed=each.closed),
        )
        for each in sorted(sorted(found.probes, key=rank)[:MOST], key=place)
    ]


def _state(*, closed: bool) -> schemas.GateState:
    return schemas.GateState.CLOSED if closed else schemas.GateState.OPEN


def pause(found: Pause, namespace: str | None) -> schemas.Pause:
    """A pause of a shoot, or of all shoots, which is in another namespace (None: in whatever namespace it is)."""
    of_shoot = found.id.namespace == namespace
    covers = schemas.Covers.SHOOT if of_shoot else schemas.Covers.ALL
    return schemas.Pause.of(found, name=found.id.name, covers=covers)


def resource(policy: DependentPolicy, view: WorkloadView | None) -> schemas.Resource:
    """A dependent as the watch last showed it; `view` is None if it does not exist."""
    return schemas.Resource(**_resource(policy, view))


def live_resource(policy: DependentPolicy, view: WorkloadView | None) -> schemas.LiveResource:
    """A dependent from a live read, with annotations and ETag; `view` is None if it does not exist."""
    return schemas.LiveResource(
        **_resource(policy, view),
        annotations=None if view is None else dict(view.annotations),
        etag=None if view is None else workloads.resource_etag(view),
    )


def _resource(policy: DependentPolicy, view: WorkloadView | None) -> dict[str, Any]:
    annotations = {} if view is None else view.annotations
    ignored = workloads.ignore_scaling(annotations) is workloads.Ignore.YES
    return {
        **policy.ref._asdict(),
        "optional": policy.optional,
        "scale_up_level": policy.scale_up.level,
        "scale_down_level": policy.scale_down.level,
        "replicas": schemas.Replicas(
            spec=None if view is None else view.replicas,
            ready=None if view is None else view.ready,
            saved=workloads.saved_count(annotations),
        ),
        "ignore_scaling": None if view is None else ignored,
        "protection_active": None if view is None else view.protected,
    }


def history_entry(entry: HistoryRecord) -> schemas.HistoryEntry:
    """An entry of the history; consecutive probes with the same result are one entry with the time of the last."""
    message = entry.message
    if entry.times > 1:
        message += f" (result of {entry.times} probes since {rfc3339(entry.since)})"
    return schemas.HistoryEntry.of(entry, time=entry.at, type=entry.kind, message=message)


def audit_entry(record: AuditRecord) -> schemas.AuditEntry:
    """An attempt to change something."""
    return schemas.AuditEntry.of(
        record.attempt, time=record.at, first_time=record.first, times=record.times
    )


# Nodes: whether each is a candidate or why not, and how its lease was judged (rules 3, 3.1).


NOT_READ: Final = "NotRead"
NO_LEASE: Final = "NoLease"
MISSING: Final = "Missing"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node, or a lease whose Node was not read yet."""

    name: str
    node: NodeView | None
    judgement: Judgement | None
    candidate: bool | None
    reason: str | None

    def shown(self) -> schemas.Node:
        """The schema of the API."""
        node, lease = self.node, self.judgement
        age = None if lease is None else lease.age
        return schemas.Node.of(
            self,
            pool=None if node is None else node.pool,
            zone=None if node is None else node.zone,
            lease=MISSING if lease is None else lease.state,
            renew_time=None if lease is None else lease.renew_time,
            age_seconds=None if age is None else round(age, 3),
            clock_offset_seconds=None if lease is None else round(lease.offset, 3),
        )


def rows(status: ShootStatus) -> list[NodeRow]:
    """All nodes as of the last reading that had Nodes, each with its lease as of the last reading."""
    leases = {each.name: each for each in status.judgements}
    candidacy = status.candidacy
    if candidacy is None:
        return [_not_read(each) for each in status.judgements]
    known = [_read(node, leases.get(node.name), candidacy) for node in candidacy.nodes]
    return known + [_not_read(each) for each in _newer(status, candidacy)]


def _read(node: NodeView, lease: Judgement | None, candidacy: Candidacy) -> NodeRow:
    exclusion = candidacy.of(node.name)
    if exclusion is not None:
        return NodeRow(node.name, node, lease, candidate=False, reason=str(exclusion))
    if lease is None:
        return NodeRow(node.name, node, None, candidate=False, reason=NO_LEASE)
    return NodeRow(node.name, node, lease, candidate=True, reason=None)


def _not_read(lease: Judgement) -> NodeRow:
    return NodeRow(lease.name, None, lease, candidate=None, reason=NOT_READ)


def _newer(status: ShootStatus, candidacy: Candidacy) -> Iterator[Judgement]:
    """Leases of nodes that joined after Nodes were read; one not renewed since then belongs to a node that was gone."""
    known = candidacy.exclusions
    for each in status.judgements:
        if each.name in known:
            continue
        if each.renew_time is None or each.renew_time + each.offset > candidacy.at:
            yield each


# Scaling runs.


def plan(found: ScalingPlan) -> schemas.Plan:
    """The plan of a scaling run, its levels in ascending order."""
    ordered = sorted(found.steps, key=lambda each: each.level)
    levels = [
        schemas.PlannedLevel(level=level, steps=[schemas.PlannedStep.of(each) for each in steps])
        for level, steps in groupby(ordered, key=lambda each: each.level)
    ]
    return schemas.Plan.of(found, levels=levels)


def cancelled(found: ScalingRunStatus) -> list[schemas.PlannedChange]:
    """What its cancellation would change: the run, and each resource whose write has not been sent."""
    run = schemas.PlannedChange(
        object=f"operation {found.id}, scaling {found.direction}",
        before=str(found.phase),
        after=str(OperationPhase.CANCELLED),
    )
    left = [each for each in found.steps if each.ended is None and each.written is None]
    return [run] + [
        schemas.PlannedChange(
            object=f"{each.resource}, level {each.level} of that run",
            before=str(each.phase),
            after=str(StepPhase.CANCELLED),
        )
        for each in left
    ]


# Services of the weeder and their recoveries.


# Decimals of a back-off in seconds; more would be noise, as its start is known in whole seconds only.
_DECIMALS = 3


def weeder(status: ServiceStatus) -> schemas.Weeder:
    """A service with its recoveries."""
    return schemas.Weeder.of(
        status,
        namespace=status.key.namespace,
        service=status.key.service,
        recoveries=[recovery(each) for each in status.recoveries],
    )


def pods(status: ServiceStatus) -> int:
    """Number of pods in the recoveries of a service, which determines the cost of rendering it."""
    return sum(len(each.deletions) + len(each.spared) for each in status.recoveries)


def recovery(status: RecoveryStatus) -> schemas.Recovery:
    """A recovery with the pods that it deleted and those that it spared."""
    return schemas.Recovery.of(
        status,
        deletions=[
            schemas.WeededPod.of(
                each,
                time=each.at,
                spared_backoff=None if each.remaining is None else round(each.remaining, _DECIMALS),
            )
            for each in status.deletions
        ],
        spared=[schemas.SparedPod.of(each, time=each.at) for each in status.spared],
    )


def weeder_change(status: ServiceStatus) -> schemas.WeederChange:
    """A service with its newest recovery, of which the pods are only counted."""
    newest = next(iter(status.recoveries), None)
    return schemas.WeederChange.of(
        status,
        namespace=status.key.namespace,
        service=status.key.service,
        recovery=None
        if newest is None
        else schemas.NewestRecovery.of(
            newest,
            author=None if newest.asked is None else newest.asked.author,
            deletions=len(newest.deletions),
            spared=len(newest.spared),
        ),
    )
