"""Warnings about valid configurations that would not protect in time, or that have no effect (rules 1); pure."""

from collections.abc import Iterator
from typing import Final

from app.core.errors import trimmed
from app.core.model.durations import format_duration
from app.core.model.endpoints import EndpointProbeSpec
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.selectors import LabelSelector, Operator, Requirement

EXPIRY: Final = 0.75
"""The share of the grace period after which a lease counts as expired (rules 3.1)."""
_SHOWN: Final = 200
LONGEST_ATTEMPT: Final = 5.0
"""The longest duration of a probe in endpoint mode, in seconds (rules 4.2)."""
LONGEST_BACKOFF: Final = 300.0
"""The kubelet's longest back-off before it restarts a container, in seconds (rules 6)."""


def late_scale_down(policy: ProberPolicy) -> str | None:
    """Explains why protection would come after nodes were marked NotReady; returns None if it comes in time.

    Only the grace period of the file is considered; a Shoot may set its own.
    """
    known = known_after(policy)
    late = [
        f"{each.ref} after {format_duration(wait)}"
        for each, wait in _first_writes(policy.dependents)
        if known + wait >= policy.grace
    ]
    if not late:
        return None
    marked = f"nodes are marked NotReady after {format_duration(policy.grace)}"
    if known >= policy.grace:
        return f"{_how_known(policy)}, but {marked}: protection would come too late"
    return (
        f"{_how_known(policy)} and {marked}, but the scaleDown delays let these wait too long: "
        + ", ".join(late)
    )


def known_after(policy: ProberPolicy) -> float:
    """Returns the minimum number of seconds from an outage to its verdict (in endpoint mode: the maximum)."""
    if not policy.endpoint_mode:
        return EXPIRY * policy.grace
    attempts = policy.failure_threshold
    return attempts * _attempt(policy) + (attempts - 1) * policy.suspect_interval


def _how_known(policy: ProberPolicy) -> str:
    after = format_duration(known_after(policy))
    if not policy.endpoint_mode:
        return f"leases expire after {after}"
    attempt, pause = format_duration(_attempt(policy)), format_duration(policy.suspect_interval)
    pauses = f", {pause} apart" if policy.failure_threshold > 1 else ""
    return f"failureThreshold is reached after {after} ({policy.failure_threshold} × {attempt}{pauses})"


def _attempt(policy: ProberPolicy) -> float:
    # A path that drops packets costs the full timeout.
    return min(LONGEST_ATTEMPT, policy.probe_timeout)


def _first_writes(
    dependents: tuple[DependentPolicy, ...],
) -> Iterator[tuple[DependentPolicy, float]]:
    """Yields each dependent with the seconds from the verdict to its write, if every write succeeds at once."""
    start = 0.0
    for level in sorted({each.scale_down.level for each in dependents}):
        members = [each for each in dependents if each.scale_down.level == level]
        yield from ((each, start + each.scale_down.initial_delay) for each in members)
        start += max(each.scale_down.initial_delay for each in members)


def slow_gate(probe: EndpointProbeSpec, policy: ProberPolicy) -> str | None:
    """Explains why a gate may close only after a scale-down began; returns None if it is in time, or is no gate.

    In endpoint mode the time is often shorter than half the grace period: where connections are refused, each probe
    fails at once, and the verdict comes as soon as `failureThreshold` probes have been sent.
    """
    closed = probe.failure_threshold * probe.period + probe.timeout
    if not probe.gates:
        return None
    text = (
        f"the gate may close only after {format_duration(closed)} (failureThreshold × periodSeconds + "
        "timeoutSeconds), which is "
    )
    if closed >= policy.grace / 2:
        grace = format_duration(policy.grace)
        return f"{text}not within half the grace of {grace}: a scale-down may come first"
    verdict = (policy.failure_threshold - 1) * policy.suspect_interval
    if policy.endpoint_mode and closed > verdict:
        after = format_duration(verdict)
        when = f"later than the verdict may come, {after} after the first probe that failed"
        return f"{text}{when}: a scale-down may come first"
    return None


def useless_selector(selector: LabelSelector) -> str | None:
    """Explains why a selector cannot be intended: it matches every pod, or none; returns None if it is plausible."""
    if not selector.requirements:
        return "has no requirements, so that it matches every pod of the namespace"
    by_key: dict[str, list[Requirement]] = {}
    for each in selector.requirements:
        by_key.setdefault(each.key, []).append(each)
    for own in by_key.values():
        if _contradicts_itself(own):
            return f"can match no pod, as its requirements contradict each other: {_shown(own)}"
    return None


def _contradicts_itself(requirements: list[Requirement]) -> bool:
    """Returns whether neither any value of a label nor its absence fulfils all the requirements on it."""
    allowed = [set(each.values) for each in requirements if each.operator is Operator.IN]
    operators = {each.operator for each in requirements}
    if Operator.DOES_NOT_EXIST in operators:
        return not operators.isdisjoint({Operator.IN, Operator.EXISTS})
    denied = [each.values for each in requirements if each.operator is Operator.NOT_IN]
    return bool(allowed) and not set.intersection(*allowed).difference(*denied)


def _shown(requirements: list[Requirement]) -> str:
    return trimmed("; ".join(str(each) for each in requirements), _SHOWN)


def long_minimum(min_backoff_remaining: float) -> str | None:
    """Explains why no pod with a known back-off would ever be deleted; returns None if some would.

    Args:
        min_backoff_remaining: `minBackoffRemaining`, in seconds.
    """
    if min_backoff_remaining < LONGEST_BACKOFF:
        return None
    longest, given = format_duration(LONGEST_BACKOFF), format_duration(min_backoff_remaining)
    return f"no back-off is longer than {longest}: no known one exceeds {given}"
