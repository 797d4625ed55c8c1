"""The notices of probes, verdicts and protections, one function for each thing that happens.

Log, metrics, history and Events are made from them. The notices of scaling runs are in `scaling_messages`. The note of
an Event is for readers of the object that it is on: whoever looks after kube-controller-manager may never have heard of
the watchdog, so notes use no word that Kubernetes does not have.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.core.model.instants import format_duration
from app.core.model.probing import (
    Decision,
    Failure,
    NoticeKind,
    ProbeResult,
    Reading,
    RequestKind,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.scaling_runs import ScaleSpec
from app.core.model.workloads import ResourceRef
from app.core.reporting.notices import Notice, Severity
from app.prober.environment import ProberEnvironment
from app.prober.rules import schedule
from app.prober.shoot_probe import PROBES

NODES_AWAY: Final = "nodes cannot reach their API server"
NODES_BACK: Final = "the nodes reach their API server"
_STOPPED: Final = "the controllers that would replace nodes or move their pods"
# Reasons of a HOLD for want of candidates: as far as can be known, the shoot is healthy.
_UNTROUBLED: Final = frozenset(
    {VerdictReason.NO_CANDIDATES, VerdictReason.ONE_CANDIDATE, VerdictReason.FEW_CANDIDATES}
)


def publish(
    environment: ProberEnvironment,
    kind: NoticeKind,
    namespace: str,
    reason: str,
    message: str,
    severity: Severity = Severity.INFO,
    *,
    at: float | None = None,
    **more: Any,  # noqa: ANN401 - the other fields of a notice
) -> None:
    """Publishes a notice of something that happens now, or happened at `at`."""
    at = environment.clock.now() if at is None else at
    environment.notice_bus.publish(Notice(kind, namespace, at, reason, message, severity, **more))


def probed(
    environment: ProberEnvironment,
    namespace: str,
    reading: Reading,
    decision: Decision,
    numbers: Mapping[str, Any],
) -> None:
    """Reports that a probe has ended; `numbers` are added to those of the reading."""
    leases = None
    if isinstance(reading.result, Tally):
        found = reading.result.candidates
        leases = {
            "fresh": found.total - found.expired - found.unknown,
            "expired": found.expired,
            "unknown": found.unknown,
            "excluded": sum(reading.result.excluded.values()),
        }
    publish(
        environment,
        NoticeKind.LOOK,
        namespace,
        decision.reason,
        decision.message,
        Severity.DEBUG,
        at=reading.ended,
        verdict=decision.verdict,
        numbers={
            **numbers,
            "failed": isinstance(reading.result, Failure),
            "probes": probe_results(reading, decision),
            "seconds": reading.ended - reading.started,
            "durations": dict(reading.probes),
            "leases": leases,
        },
    )


def contact_failed(
    environment: ProberEnvironment, namespace: str, failure: Failure, seconds: float
) -> None:
    """Reports a contact between two probes that failed; it counts as a failed probe."""
    publish(
        environment,
        NoticeKind.LOOK,
        namespace,
        failure.reason,
        f"contact failed: {failure.message}",
        Severity.DEBUG,
        verdict=Verdict.HOLD,
        numbers={
            "failed": True,
            "probes": {RequestKind.LEASE: _failure_word(failure)},
            "durations": {RequestKind.LEASE: seconds},
            "seconds": seconds,
            "lag": 0.0,
            "known_since": None,
            "leases": None,
        },
    )


def probe_results(reading: Reading, decision: Decision) -> dict[RequestKind, ProbeResult]:
    """The result of each kind of request that a probe made, as the metrics count it."""
    results = dict.fromkeys(reading.probes, ProbeResult.SUCCESS)
    if reading.paths:
        return {PROBES[each.route]: each.result for each in reading.paths.values()}
    if isinstance(reading.result, Failure):
        results[reading.result.probe] = _failure_word(reading.result)
    elif RequestKind.LEASE in results and decision.would_be is Verdict.SCALE_DOWN:
        results[RequestKind.LEASE] = ProbeResult.FAILURE
    return results


def _failure_word(failure: Failure) -> ProbeResult:
    if failure.retry_after is not None:
        return ProbeResult.THROTTLED
    unreachable = failure.reason == "Unreachable" and failure.probe is RequestKind.API_SERVER
    return ProbeResult.FAILURE if unreachable else ProbeResult.ERROR


def verdict_changed(
    environment: ProberEnvironment, namespace: str, before: Decision | None, decision: Decision
) -> None:
    """Reports that the verdict or its reason changed.

    Single nodes come and go in a large seed, so a SCALE UP that only has another reason is in the history, not in the
    log.
    """
    well = before is not None and before.verdict is decision.verdict is Verdict.SCALE_UP
    # A warning if somebody may have to act: a scale-down is asked for, or nothing is known of the nodes.
    if decision.would_be is Verdict.HOLD:
        troubling = decision.reason not in _UNTROUBLED
    else:
        troubling = decision.would_be is Verdict.SCALE_DOWN
    severity = Severity.WARNING if troubling else Severity.INFO
    publish(
        environment,
        NoticeKind.VERDICT,
        namespace,
        decision.reason,
        decision.message,
        Severity.DEBUG if well else severity,
        verdict=decision.verdict,
        numbers={"would_be": decision.would_be},
    )


def protection_changed(
    environment: ProberEnvironment,
    namespace: str,
    refs: Iterable[ResourceRef],
    why: str,
    *,
    began: bool,
) -> None:
    """Reports that protection began or ended, with an Event on each of `refs`."""
    reason = "MeltdownProtectionStarted" if began else "MeltdownProtectionEnded"
    message = f"meltdown protection {'began' if began else 'ended'}: {why}"
    note = f"Meltdown protection ended: {_STOPPED} are started again. Reason: {why}."
    if began:
        note = f"Meltdown protection began: until {NODES_BACK} again, {_STOPPED} are stopped. Reason: {why}."
    on_each(environment, namespace, refs, reason, (message, note), Severity.WARNING)


def protection_abandoned(
    environment: ProberEnvironment, namespace: str, refs: Iterable[ResourceRef], why: str
) -> None:
    """Reports that probing ended while protection was active, with an Event on each of `refs`."""
    text = f"probing ended ({why}) while protection was active; these stay as they are"
    note = f"This cluster is no longer watched ({why}): stopped controllers stay stopped."
    on_each(environment, namespace, refs, "ProtectionAbandoned", (text, note), Severity.WARNING)


def on_each(
    environment: ProberEnvironment,
    namespace: str,
    refs: Iterable[ResourceRef],
    reason: str,
    texts: tuple[str, str],
    severity: Severity,
) -> None:
    """Publishes a notice with an Event for each of `refs`; `texts` are its message and the note of the Event."""
    for ref in refs:
        publish(
            environment,
            NoticeKind.LIFECYCLE,
            namespace,
            reason,
            texts[0],
            severity,
            resource=ref,
            event=texts[1],
        )


def released(environment: ProberEnvironment, namespace: str, spec: ScaleSpec) -> None:
    """Reports that a protection has lasted for `maxProtectionDuration`, and is released."""
    refs = [each.ref for each in environment.policy.dependents]
    text = f"{spec.reason}: scaled up, and held for {spec.hold:g} s after that"
    note = (
        "Meltdown protection has reached its maximum duration: everything is started again, and not stopped for "
        f"{format_duration(spec.hold)} after that, whatever the state of the nodes."
    )
    on_each(environment, namespace, refs[:1], "ProtectionReleased", (text, note), Severity.WARNING)


def not_released(environment: ProberEnvironment, namespace: str, why: str) -> None:
    """Reports that a protection has lasted for `maxProtectionDuration`, and could not be released."""
    text = f"maxProtectionDuration is over, but the shoot is not released: {why}"
    override, error = NoticeKind.OVERRIDE, Severity.ERROR
    publish(environment, override, namespace, "ProtectionNotReleased", text, error)


def lifecycle_changed(
    environment: ProberEnvironment, namespace: str, reason: str, message: str
) -> None:
    """Reports that probing began or ended, or that the Shoot cannot be decoded."""
    severity = Severity.WARNING if reason == "Undecodable" else Severity.INFO
    publish(environment, NoticeKind.LIFECYCLE, namespace, reason, message, severity)


def runner_failed(environment: ProberEnvironment, namespace: str, failed: Exception) -> None:
    """Reports that a runner failed unexpectedly, and will be started again."""
    text = f"the runner failed and is started again: {type(failed).__name__}"
    lifecycle, error = NoticeKind.LIFECYCLE, Severity.ERROR
    publish(environment, lifecycle, namespace, "RunnerFailed", text, error)


def probed_less_often(environment: ProberEnvironment, namespace: str) -> None:
    """Reports that a shoot's answers have used up its share of time (rules 4.4)."""
    lifecycle, text = NoticeKind.LIFECYCLE, schedule.PROBED_LESS_OFTEN
    publish(environment, lifecycle, namespace, "ProbedLessOften", text, Severity.WARNING)


def probed_as_usual(environment: ProberEnvironment, namespace: str) -> None:
    """Reports that a shoot's answers have been within its share of time for a while."""
    text = "probed as often as usual again"
    publish(environment, NoticeKind.LIFECYCLE, namespace, "ProbedAsUsual", text)


def forgotten(environment: ProberEnvironment, namespace: str) -> None:
    """Reports that the Cluster is gone, so that nothing of the shoot is kept."""
    lifecycle, text = NoticeKind.LIFECYCLE, "the Cluster is gone; its history goes too"
    publish(environment, lifecycle, namespace, "ShootForgotten", text, Severity.DEBUG)
