"""A shoot and its history, from the prober's words to the shapes of the API; pure."""

from app.api import schemas
from app.core.config.durations import format_duration
from app.core.model import annotations as ann
from app.core.model.instants import rfc3339
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.workloads import WorkloadView
from app.core.records.history import Entry
from app.prober.status import Condition, ShootStatus


def time(instant: float | None) -> str | None:
    """RFC 3339, where there is an instant."""
    return None if instant is None else rfc3339(instant)


def shoot(status: ShootStatus, policy: ProberPolicy) -> schemas.Shoot:
    """All that is known of a shoot."""
    return schemas.Shoot(
        namespace=status.namespace,
        state=status.state,
        reason=str(status.reason),
        message=status.message,
        since=rfc3339(status.since),
        conditions=[_condition(each) for each in status.conditions],
        probe=_probe(status),
        leases=_leases(status, policy),
        resources=[_resource(each, status.resources.get(each.ref)) for each in policy.dependents],
    )


def _condition(condition: Condition) -> schemas.Condition:
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
        last_time=time(status.last_look),
        next_time=time(status.next_look),
        duration_seconds=None if status.look_seconds is None else round(status.look_seconds, 6),
        verdict=None if decision is None else decision.verdict,
        would_be=None if decision is None else decision.would_be,
        count=status.looks,
        consecutive_failures=status.failures,
    )


def _leases(status: ShootStatus, policy: ProberPolicy) -> schemas.Leases | None:
    tally = status.tally
    if tally is None:
        return None
    found = tally.candidates
    return schemas.Leases(
        candidates=found.total,
        expired=found.expired,
        unknown=found.unknown,
        candidates_as_of=None if status.candidacy is None else rfc3339(status.candidacy.at),
        fraction=round(found.expired_fraction, 6),
        threshold=policy.limit,
        expiry_after=None if status.expiry is None else format_duration(status.expiry),
        excluded={str(why): number for why, number in sorted(tally.excluded.items())},
    )


def _resource(policy: DependentPolicy, view: WorkloadView | None) -> schemas.Resource:
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


def history_entry(entry: Entry) -> schemas.HistoryEntry:
    """Something that happened; looks that said the same in a row are one entry, the time that of the last."""
    message = entry.message
    if entry.times > 1:
        message += f" ({entry.times} looks since {rfc3339(entry.since)} said so)"
    return schemas.HistoryEntry(
        time=rfc3339(entry.at),
        type=entry.kind,
        verdict=entry.verdict,
        reason=entry.reason,
        message=message,
        resource=None if entry.resource is None else str(entry.resource),
    )
