"""A shoot and its history, from the prober's words to the shapes of the API; pure."""

from app.api import endpointview, schemas
from app.api.endpointview import NOTHING, Endpoints
from app.api.times import time
from app.core.config.durations import format_duration
from app.core.model import annotations as ann
from app.core.model import etags
from app.core.model.instants import rfc3339
from app.core.model.overrides import Hold, Pause, Standing
from app.core.model.policy import ConfigWarning, DependentPolicy, ProberPolicy
from app.core.model.workloads import WorkloadView
from app.core.reporting.audit import AuditRecord
from app.core.reporting.history import Entry
from app.prober.status import Condition, ShootStatus


def shoot(
    status: ShootStatus, policy: ProberPolicy, standing: Standing, endpoints: Endpoints = NOTHING
) -> schemas.Shoot:
    """All that is known of a shoot, what people decided about it, and what its endpoint probes found out."""
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
        pause=_covering(standing),
        hold=None if standing.hold is None else hold(standing.hold),
        endpoint_probes=endpointview.probes(endpoints),
        endpoint_probes_total=len(endpoints.probes),
        gates=endpointview.gates(endpoints),
    )


def _covering(standing: Standing) -> schemas.Pause | None:
    covering = standing.covering
    of_all = covering is not None and covering is standing.global_pause
    return pause(covering, schemas.Covers.ALL if of_all else schemas.Covers.SHOOT)


def pause(found: Pause | None, covers: schemas.Covers) -> schemas.Pause | None:
    """A pause, where there is one."""
    return None if found is None else given_pause(found, covers)


def given_pause(found: Pause, covers: schemas.Covers) -> schemas.Pause:
    """A pause."""
    return schemas.Pause(
        covers=covers,
        scope=found.scope,
        reason=found.reason,
        author=found.author,
        created_at=rfc3339(found.created_at),
        until=rfc3339(found.until),
    )


def hold(found: Hold) -> schemas.Hold:
    """A hold."""
    return schemas.Hold(
        direction=found.direction,
        operation=found.operation,
        force=found.force,
        done=found.done,
        reason=found.reason,
        author=found.author,
        created_at=rfc3339(found.created_at),
        until=rfc3339(found.until),
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
    """None in endpoint mode, too, which reads none."""
    tally = status.tally
    if tally is None or policy.endpoint_mode is not None:
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
    """A dependent, as the watch shows it."""
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
    """A dependent as it is now."""
    return schemas.LiveResource(
        **dict(resource(policy, view)),
        annotations=None if view is None else dict(view.annotations),
        etag=None if view is None else etags.resource_etag(view),
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


def finding(warning: ConfigWarning) -> schemas.ConfigFinding:
    """Something in flags or file that deserves a look."""
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
        action=said.action or None,
        namespace=said.namespace,
        target=said.target,
        reason=said.reason,
        status=said.status,
        problem=said.problem,
        before=said.before,
        after=said.after,
    )
