"""From a reading to a decision: pure functions of the reading and of what is known of the shoot besides.

`decide` makes the decision. If it would write something, it has to stand three tests, in this order, as each may take
seconds: what it needs of stale watches is read live (`checked`), a scale-down is confirmed by a second reading
(`confirmed`), and the preconditions are asked once more (`verdict.still`). Whatever fails on the way makes it HOLD,
with the reason. Whether anything would be written says `protection.PendingWrites`, the plan of a run in either
direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.model.policy import ProberPolicy
from app.core.model.probing import (
    Failure,
    PathReading,
    Reading,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.workloads import Direction
from app.prober.rules import schedule, verdict
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.protection import PendingWrites
from app.prober.rules.verdict import (
    Assessment,
    ConsecutiveResults,
    Preconditions,
    VerdictOutcome,
    VerdictThresholds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInputs:
    """What is known of a shoot besides the reading."""

    policy: ProberPolicy
    shoot: ProbedShoot
    protected: bool
    """Protection is active. For the first reading of a probe: it was when that began, as what is read depends on it."""
    begins: Sequence[float]
    """When this process began protections of this shoot by itself, within the last hour."""
    consecutive: ConsecutiveResults
    """The counts after the probe before."""
    preconditions: Preconditions
    counts: bool = True
    """The probe may count towards a threshold."""


def decide(reading: Reading, inputs: DecisionInputs) -> VerdictOutcome:
    """Decides on the reading of a probe, or on its failure."""
    if isinstance(reading.result, Failure):
        return verdict.decide_failure(reading.result, inputs.consecutive)
    policy = inputs.policy
    thresholds = VerdictThresholds(
        policy.failure_threshold,
        policy.success_threshold,
        policy.suspect_interval,
        inputs.protected,
        inputs.begins,
        # In lease mode one good reading is enough while nothing is scaled down (rules 4.1); in endpoint mode a path
        # is healthy only after `successThreshold` of them (rules 4.2).
        unprotected=policy.success_threshold if policy.endpoint_mode else 1,
    )
    return verdict.decide(
        _assess(reading.result, inputs),
        inputs.preconditions,
        thresholds,
        inputs.consecutive,
        # The distance of probes is that of their begins, as for the schedule: a slow probe must not lose a count.
        reading.started,
        counts=inputs.counts,
    )


def _assess(result: Tally | PathReading, inputs: DecisionInputs) -> Assessment:
    if isinstance(result, PathReading):
        return verdict.assess_paths(result)
    limit = inputs.policy.limit
    assessed = verdict.assess(result, limit, protected=inputs.protected)
    text = verdict.explain(result, limit, inputs.shoot.timings.expiry)
    return replace(assessed, message=text)


def checked(
    outcome: VerdictOutcome, judged: ProbedShoot, found: ProbedShoot | Failure
) -> VerdictOutcome:
    """The outcome after a live read of what is stale; HOLD if that failed, or the shoot is another than was judged.

    A scale-down is assessed with the new facts when it is confirmed.
    """
    if isinstance(found, ProbedShoot):
        if found == judged or outcome.decision.verdict is Verdict.SCALE_DOWN:
            return outcome
        found = Failure(VerdictReason.SEED_STALE, "the Shoot has changed; it is judged anew")
    held = verdict.decide_failure(found, outcome.consecutive)
    return replace(held, decision=replace(held.decision, would_be=outcome.decision.verdict))


def to_confirm(outcome: VerdictOutcome, reading: Reading, pending: PendingWrites) -> bool:
    """Whether a second reading has to agree: to a scale-down that would write, in endpoint mode to any."""
    if outcome.decision.verdict is not Verdict.SCALE_DOWN:
        return False
    return isinstance(reading.result, PathReading) or pending.writes(Direction.DOWN)


def confirmed(outcome: VerdictOutcome, second: Reading, inputs: DecisionInputs) -> VerdictOutcome:
    """The outcome after the second reading; it stays SCALE DOWN only if that asks for it as well."""
    if isinstance(second.result, Failure):
        return verdict.decide_failure(second.result, outcome.consecutive)
    again = _assess(second.result, inputs)
    if again.verdict is not Verdict.SCALE_DOWN:
        return verdict.unconfirmed(again, outcome.decision)
    return replace(outcome, decision=replace(outcome.decision, message=again.message))


def known_since(
    reading: Reading, policy: ProberPolicy, consecutive: ConsecutiveResults
) -> float | None:
    """The first instant at which the outage that `reading` shows could be detected; None if it shows none."""
    if isinstance(reading.result, Tally):
        return schedule.known_since(reading.result, policy.limit)
    down = consecutive.direction is Direction.DOWN
    if isinstance(reading.result, Failure) or not down:
        return None
    if consecutive.count < policy.failure_threshold:
        return None
    return consecutive.first_at + (policy.failure_threshold - 1) * policy.suspect_interval
