"""Makes schemas of records where a schema is more than the record's own attributes; pure."""

from itertools import groupby
from typing import Final, NamedTuple

from app.api import schemas
from app.core.model import workloads
from app.core.model.endpoints import CachedResult
from app.core.model.instants import rfc3339
from app.core.model.overrides import EffectiveOverrides, Pause
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.probing import Judgement
from app.core.model.scaling_runs import OperationPhase, ScalingPlan, ScalingRunStatus, StepPhase
from app.core.model.shoots import NodeView
from app.core.model.weeding import ServiceStatus
from app.core.model.workloads import WorkloadView
from app.core.reporting.audit import AuditRecord
from app.core.reporting.history import HistoryRecord
from app.prober.endpoints.gates import GateView
from app.prober.endpoints.worker import EndpointResultView
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
        probe=status,
        leases=_leases(status, policy),
        resources=[resource(each, status.resources.get(each.ref)) for each in policy.dependents],
        pause=None if covering is None else pause(covering, status.namespace),
        pauses=len(effective.pauses),
        hold=effective.hold,
        endpoint_probes=probes(endpoints),
        endpoint_probes_total=len(endpoints.probes),
        gates=sorted(endpoints.gates, key=lambda gate: gate.name),
    )


def _leases(status: ShootStatus, policy: ProberPolicy) -> schemas.Leases | None:
    """None before the first reading, and in endpoint mode, which reads no Leases."""
    tally = status.tally
    if tally is None or policy.endpoint_mode:
        return None
    return schemas.Leases.of(
        status,
        fraction=round(tally.candidates.expired_fraction, 6),
        threshold=policy.limit,
        excluded={str(why): number for why, number in sorted(tally.excluded.items())},
    )


def probes(found: Endpoints) -> list[EndpointResultView]:
    """The results by name and target; only the worst `MOST`, if there are more: closed gates first, then failures."""

    def place(view: EndpointResultView) -> tuple[str, str]:
        return view.name, str(view.target)

    def rank(view: EndpointResultView) -> tuple[bool, int, tuple[str, str]]:
        return not view.closed, _WORST[view.result], place(view)

    return sorted(sorted(found.probes, key=rank)[:MOST], key=place)


def pause(found: Pause, namespace: str | None) -> schemas.Pause:
    """A pause of a shoot, or of all shoots, which is in another namespace (None: in whatever namespace it is)."""
    of_shoot = found.id.namespace == namespace
    covers = schemas.Covers.SHOOT if of_shoot else schemas.Covers.ALL
    return schemas.Pause.of(found, covers=covers)


def resource(policy: DependentPolicy, view: WorkloadView | None) -> schemas.Resource:
    """A dependent as the watch last showed it; `view` is None if it does not exist."""
    annotations = {} if view is None else view.annotations
    ignored = workloads.ignore_scaling(annotations) is workloads.Ignore.YES
    return schemas.Resource(
        **policy.ref._asdict(),
        optional=policy.optional,
        scale_up_level=policy.scale_up.level,
        scale_down_level=policy.scale_down.level,
        replicas=schemas.Replicas(
            spec=None if view is None else view.replicas,
            ready=None if view is None else view.ready,
            saved=workloads.saved_count(annotations),
        ),
        ignore_scaling=None if view is None else ignored,
        protection_active=None if view is None else view.protected,
    )


def live_resource(policy: DependentPolicy, view: WorkloadView | None) -> schemas.LiveResource:
    """A dependent from a live read, with annotations and ETag; `view` is None if it does not exist."""
    return schemas.LiveResource.of(
        resource(policy, view),
        annotations=None if view is None else dict(view.annotations),
        etag=None if view is None else workloads.resource_etag(view),
    )


def history_entry(entry: HistoryRecord) -> schemas.HistoryEntry:
    """An entry of the history; consecutive probes with the same result are one entry with the time of the last."""
    message = entry.message
    if entry.times > 1:
        message += f" (result of {entry.times} probes since {rfc3339(entry.since)})"
    return schemas.HistoryEntry.of(entry, message=message)


def audit_entry(record: AuditRecord) -> schemas.AuditEntry:
    """An attempt to change something."""
    return schemas.AuditEntry.of(
        record.attempt, time=record.at, first_time=record.first, times=record.times
    )


# Nodes: whether each is a candidate or why not, and how its lease was judged (rules 3, 3.1).


NOT_READ: Final = "NotRead"
NO_LEASE: Final = "NoLease"
MISSING: Final = "Missing"


class NodeRow(NamedTuple):
    """A node, or a lease whose Node was not read yet, as `schemas.Node` reads it."""

    name: str
    node: NodeView | None
    judgement: Judgement | None
    lease: str
    candidate: bool | None
    reason: str | None


def rows(status: ShootStatus) -> list[NodeRow]:
    """All nodes as of the last reading that had Nodes, each with its lease as of the last reading."""
    leases, candidacy = {each.name: each for each in status.judgements}, status.candidacy
    found = []
    if candidacy is not None:
        for node in candidacy.nodes:
            lease, exclusion = leases.pop(node.name, None), candidacy.of(node.name)
            reason = None if exclusion is None else str(exclusion)
            if reason is None and lease is None:
                reason = NO_LEASE
            state = MISSING if lease is None else lease.state
            found.append(NodeRow(node.name, node, lease, state, reason is None, reason))
    for lease in leases.values():
        # A node that joined after Nodes were read. A lease not renewed since then belongs to a node that was gone.
        renewed = None if lease.renew_time is None else lease.renew_time + lease.offset
        if candidacy is None or renewed is None or renewed > candidacy.at:
            found.append(NodeRow(lease.name, None, lease, lease.state, None, NOT_READ))
    return found


# Scaling runs.


def plan(found: ScalingPlan) -> schemas.Plan:
    """The plan of a scaling run, its levels in ascending order."""
    ordered = sorted(found.steps, key=lambda each: each.level)
    levels = [
        {"level": level, "steps": list(steps)}
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


def pods(status: ServiceStatus) -> int:
    """Number of pods in the recoveries of a service, which determines the cost of rendering it."""
    return sum(len(each.deletions) + len(each.spared) for each in status.recoveries)


def weeder_change(status: ServiceStatus) -> schemas.WeederChange:
    """A service with its newest recovery, of which the pods are only counted."""
    recovery = None
    if status.recoveries:
        newest = status.recoveries[0]
        counts = {"deletions": len(newest.deletions), "spared": len(newest.spared)}
        recovery = schemas.NewestRecovery.of(newest, **counts)
    return schemas.WeederChange.of(status, recovery=recovery)
