"""Translates records of the prober into schemas of the API: shoots, endpoint probes, history, audit, nodes; pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.api import schemas
from app.core.errors import trimmed
from app.core.model import workloads
from app.core.model import workloads as ann
from app.core.model.durations import format_duration
from app.core.model.endpoints import CachedResult
from app.core.model.instants import rfc3339
from app.core.model.nodes import NodeView
from app.core.model.overrides import EffectiveOverrides, Hold, Pause
from app.core.model.policy import ConfigWarning, DependentPolicy, ProberPolicy
from app.core.model.probing import Judgement
from app.core.model.workloads import WorkloadView
from app.core.reporting.audit import AuditRecord
from app.core.reporting.history import HistoryRecord
from app.prober.endpoints.results import EndpointResultView, GateView, ProbeTarget
from app.prober.rules.candidates import Candidacy
from app.prober.status import ShootCondition, ShootStatus

# Endpoint probes.


MOST: Final = 50
"""Most results of endpoint probes in one shoot, as a page has up to 500 shoots."""
_MESSAGE: Final = 300
_WORST: Final = {CachedResult.FAILURE: 0, CachedResult.UNKNOWN: 1, CachedResult.SUCCESS: 2}


class Endpoints(NamedTuple):
    """The results of endpoint probes of one shoot."""

    probes: tuple[EndpointResultView, ...] = ()
    """One for each probe and target."""
    gates: tuple[GateView, ...] = ()
    """One for each probe that is a gate."""


NOTHING: Final = Endpoints()


def probes(found: Endpoints) -> list[schemas.EndpointProbe]:
    """The results by name and target; only the worst `MOST`, if there are more."""
    worst = sorted(found.probes, key=lambda each: (_rank(each), _place(each)))[:MOST]
    return [_endpoint_probe(each) for each in sorted(worst, key=_place)]


def _rank(view: EndpointResultView) -> tuple[bool, int]:
    """Sort key for `probes`: closed gates first, then failures."""
    return not view.closed, _WORST[view.result]


def _place(view: EndpointResultView) -> tuple[str, str]:
    return view.name, str(view.target)


def _endpoint_probe(view: EndpointResultView) -> schemas.EndpointProbe:
    return schemas.EndpointProbe(
        name=view.name,
        type=view.type,
        effect=view.effect,
        target=_target(view.target),
        result=view.result,
        counted=view.counted,
        since=time(view.since),
        last_time=time(view.last_run),
        last_result=view.last_outcome,
        message=trimmed(view.message, _MESSAGE),
        waiting=view.waiting,
        gate=None if view.closed is None else _state(closed=view.closed),
    )


def _target(target: ProbeTarget) -> schemas.EndpointTarget:
    return schemas.EndpointTarget(
        host=target.host or None, pod=target.pod or None, container=target.container or None
    )


def _state(*, closed: bool) -> schemas.GateState:
    return schemas.GateState.CLOSED if closed else schemas.GateState.OPEN


def gates(found: Endpoints) -> list[schemas.Gate]:
    """The gates by name: whether each is closed, and why."""
    return [
        schemas.Gate(
            name=each.name,
            state=_state(closed=each.closed),
            reason=each.reason,
            message=trimmed(each.message, _MESSAGE),
            since=rfc3339(each.since),
        )
        for each in sorted(found.gates, key=lambda gate: gate.name)
    ]


# Shoots.


def time(instant: float | None) -> str | None:
    """An instant in RFC 3339; None for None."""
    return None if instant is None else rfc3339(instant)


def shoot(
    status: ShootStatus,
    policy: ProberPolicy,
    effective: EffectiveOverrides,
    endpoints: Endpoints = NOTHING,
) -> schemas.Shoot:
    """A shoot with its conditions, overrides and results of endpoint probes."""
    return schemas.Shoot(
        namespace=status.namespace,
        state=status.state,
        reason=str(status.reason),
        message=status.message,
        since=rfc3339(status.since),
        conditions=[_condition(each) for each in status.conditions],
        probe=_probe(status),
        leases=_leases(status, policy),
        resources=[resource(each, status.resources.get(each.ref)) for each in policy.dependents],
        pause=_covering(status.namespace, effective),
        pauses=len(effective.pauses),
        hold=None if effective.hold is None else hold(effective.hold),
        endpoint_probes=probes(endpoints),
        endpoint_probes_total=len(endpoints.probes),
        gates=gates(endpoints),
    )


def _covering(namespace: str, effective: EffectiveOverrides) -> schemas.Pause | None:
    covering = effective.covering
    return None if covering is None else pause(covering, namespace)


def pause(found: Pause, namespace: str | None) -> schemas.Pause:
    """A pause of a shoot, or of all shoots, which is in another namespace (None: in whatever namespace it is)."""
    of_shoot = found.id.namespace == namespace
    return schemas.Pause(
        name=found.id.name,
        covers=schemas.Covers.SHOOT if of_shoot else schemas.Covers.ALL,
        scope=found.scope,
        reason=found.reason,
        author=found.author,
        verified=found.verified,
        created_at=rfc3339(found.created_at),
        until=rounded_up(found.until),
    )


def rounded_up(instant: float) -> str:
    """An end in RFC 3339: a part of a second counts as a whole one, as nothing ends before the time that is shown."""
    return rfc3339(math.ceil(instant))


def hold(found: Hold) -> schemas.Hold:
    """A hold."""
    return schemas.Hold(
        direction=found.direction,
        operation=found.operation,
        force=found.force,
        done=found.done,
        reason=found.reason,
        author=found.author,
        verified=found.verified,
        created_at=rfc3339(found.created_at),
        until=rounded_up(found.until),
    )


def _condition(condition: ShootCondition) -> schemas.Condition:
    return schemas.Condition(
        type=condition.type,
        status=condition.status,
        reason=str(condition.reason),
        message=condition.message,
        last_transition_time=rfc3339(condition.since),
    )


def _probe(status: ShootStatus) -> schemas.ProbeInfo:
    decision = status.decision
    return schemas.ProbeInfo(
        last_time=time(status.last_probe),
        next_time=time(status.next_probe),
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
    return schemas.Leases(
        as_of=time(status.read_at),
        candidates=found.total,
        expired=found.expired,
        unknown=found.unknown,
        candidates_as_of=None if status.candidacy is None else rfc3339(status.candidacy.at),
        fraction=round(found.expired_fraction, 6),
        threshold=policy.limit,
        expiry_after=None if status.expiry is None else format_duration(status.expiry),
        excluded={str(why): number for why, number in sorted(tally.excluded.items())},
    )


def resource(policy: DependentPolicy, view: WorkloadView | None) -> schemas.Resource:
    """A dependent as the watch last showed it; `view` is None if it does not exist."""
    annotations = {} if view is None else view.annotations
    ignored = ann.ignore_scaling(annotations) is ann.Ignore.YES
    return schemas.Resource(
        api_version=policy.ref.api_version,
        kind=policy.ref.kind,
        name=policy.ref.name,
        optional=policy.optional,
        scale_up_level=policy.scale_up.level,
        scale_down_level=policy.scale_down.level,
        replicas=schemas.Replicas(
            spec=None if view is None else view.replicas,
            ready=None if view is None else view.ready,
            saved=ann.saved_count(annotations),
        ),
        ignore_scaling=None if view is None else ignored,
        protection_active=None if view is None else view.protected,
    )


def live_resource(policy: DependentPolicy, view: WorkloadView | None) -> schemas.LiveResource:
    """A dependent from a live read, with annotations and ETag; `view` is None if it does not exist."""
    return schemas.LiveResource(
        **dict(resource(policy, view)),
        annotations=None if view is None else dict(view.annotations),
        etag=None if view is None else workloads.resource_etag(view),
    )


def history_entry(entry: HistoryRecord) -> schemas.HistoryEntry:
    """An entry of the history; consecutive probes with the same result are one entry with the time of the last."""
    message = entry.message
    if entry.times > 1:
        message += f" (result of {entry.times} probes since {rfc3339(entry.since)})"
    return schemas.HistoryEntry(
        time=rfc3339(entry.at),
        type=entry.kind,
        verdict=entry.verdict,
        reason=entry.reason,
        message=message,
        resource=None if entry.resource is None else str(entry.resource),
    )


def finding(warning: ConfigWarning) -> schemas.ConfigFinding:
    """A warning about flags or files."""
    return schemas.ConfigFinding(path=warning.path, line=warning.line, message=warning.message)


def audit_entry(record: AuditRecord) -> schemas.AuditEntry:
    """An attempt to change something."""
    said = record.attempt
    return schemas.AuditEntry(
        time=rfc3339(record.at),
        first_time=rfc3339(record.first),
        times=record.times,
        request=said.request,
        method=said.method,
        path=said.path,
        peer=said.peer,
        caller=said.caller,
        claimed=said.claimed,
        action=said.action or None,
        namespace=said.namespace,
        target=said.target,
        reason=said.reason,
        status=said.status,
        problem=said.problem,
        before=said.before,
        after=said.after,
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
        return schemas.Node(
            name=self.name,
            pool=None if node is None else node.pool,
            zone=None if node is None else node.zone,
            candidate=self.candidate,
            reason=self.reason,
            lease=MISSING if lease is None else lease.state,
            renew_time=None if lease is None else time(lease.renew_time),
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
