"""From a reading to SCALE UP, SCALE DOWN or HOLD (rules 4.1). When unsure: HOLD, with the reason.

`decide` makes the decision of a reading, and of what is known of the shoot besides, in two steps. `assess` says what
the leases alone ask for, whatever else speaks against it. `decide_assessment` turns that into HOLD where a precondition
is not met (overrides, leadership, `initialDelay`, gates), or where it has not been seen often enough in a row; the
decision still shows what the verdict would have been (`would_be`). A failed probe is always HOLD (`decide_failure`).

With the decision goes the plan of what would be written on it. If that is anything, the decision has to stand three
tests, in this order, as each may take seconds: what it needs of stale watches is read live (`after_live_read`), a
scale-down is confirmed by a second reading (`after_second_reading`), and the preconditions are asked once more
(`recheck_preconditions`). Whatever fails on the way makes it HOLD, with the reason.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.core.model.instants import rfc3339
from app.core.model.overrides import NOTHING, EffectiveOverrides, Hold, Pause
from app.core.model.policy import ProberPolicy
from app.core.model.probing import (
    Decision,
    Failure,
    Judgement,
    LeaseCounts,
    LeaseState,
    PathReading,
    Reading,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.workloads import Direction
from app.prober.rules.candidates import QUORUM
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.scaling import PendingWrites, Plan, writes

_NAMES: Final = 5
_MINUTE: Final = 60


def _asks(verdict: Verdict, reason: VerdictReason, message: str = "") -> Decision:
    return Decision(verdict, reason, message, would_be=verdict)


def assess(tally: Tally, limit: float, *, protected: bool) -> Decision:
    """Says what the leases ask for, by the table of rules 4.1.

    Args:
        tally: the counted leases of a reading.
        limit: `nodeLeaseFailureFraction`, 0.6 unless configured.
        protected: protection is active.
    """
    found, machines = tally.candidates, tally.with_machine
    if found.total < QUORUM:
        return _assess_few(tally, limit, protected=protected)
    if found.expired_fraction >= limit:
        return _asks(Verdict.SCALE_DOWN, VerdictReason.LEASES_EXPIRED)
    if found.doubtful_fraction >= limit:
        return _asks(Verdict.HOLD, VerdictReason.UNKNOWN_LEASES)
    most_are_excluded = machines is None or found.total < machines.total / 2
    machines_agree = machines is not None and machines.doubtful_fraction < limit
    if protected and most_are_excluded and not machines_agree:
        return _asks(Verdict.HOLD, VerdictReason.FEW_CANDIDATES)
    return _renewed(found)


def _renewed(found: LeaseCounts) -> Decision:
    some = VerdictReason.SOME_LEASES_EXPIRED if found.expired else VerdictReason.LEASES_RENEWED
    return _asks(Verdict.SCALE_UP, some)


def _assess_few(tally: Tally, limit: float, *, protected: bool) -> Decision:
    """At most one candidate: a fresh one is up; under protection the leases of nodes with a machine decide instead."""
    found, machines = tally.candidates, tally.with_machine
    if not protected and found.total and not found.expired + found.unknown:
        return _asks(Verdict.SCALE_UP, VerdictReason.LEASES_RENEWED)
    if protected and machines is not None:
        if machines.total == 0 and tally.nodes_read:
            return _asks(Verdict.SCALE_UP, VerdictReason.NO_NODES)
        if machines.total and machines.doubtful_fraction < limit:
            return _renewed(machines)
    few = VerdictReason.ONE_CANDIDATE if found.total else VerdictReason.NO_CANDIDATES
    return _asks(Verdict.HOLD, few)


def assess_paths(reading: PathReading) -> Decision:
    """What the two paths alone ask for."""
    if reading.counting is not None:
        return _asks(Verdict.HOLD, VerdictReason.COUNTING, reading.counting)
    if reading.external is None:
        text = "the API server answers through the internal and the external path"
        return _asks(Verdict.SCALE_UP, VerdictReason.EXTERNAL_REACHABLE, text)
    why = reading.external.message
    text = f"the API server answers through the internal path, not through the external one ({why})"
    return _asks(Verdict.SCALE_DOWN, VerdictReason.EXTERNAL_UNREACHABLE, text)


# Thresholds: how often in a row, and for how long, a direction must be seen before the verdict follows (rules 4.1).


_HOUR: Final = 3600.0
_FIRST_SPAN: Final = 30.0
_LONGEST_SPAN: Final = 300.0
# An instant plus an interval minus the instant is not quite the interval, for floats of this size.
_ROUNDING: Final = 1e-3


@dataclass(frozen=True, slots=True)
class ConsecutiveResults:
    """How many probes in a row have asked for the same direction."""

    direction: Direction | None = None
    count: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    """When the last probe that counted began."""

    def add(
        self, direction: Direction, now: float, apart: float, *, counts: bool = True
    ) -> "ConsecutiveResults":
        """Adds the result of a probe; one in another direction starts the count anew.

        A probe less than `apart` seconds after the last that counted adds nothing, nor does one for which `counts` is
        False. In another direction even such a probe resets the count.
        """
        if direction is not self.direction:
            return (
                ConsecutiveResults(direction, 1, now, now)
                if counts
                else ConsecutiveResults(direction, 0, now, -math.inf)
            )
        if not counts or now - self.last_at < apart - _ROUNDING:
            return self
        return ConsecutiveResults(direction, self.count + 1, self.first_at, now)

    def reached(self, threshold: int, span: float, now: float) -> bool:
        """Whether there were `threshold` probes, the first of them at least `span` seconds ago."""
        return self.count >= threshold and now - self.first_at >= span - _ROUNDING


NO_RESULTS: Final = ConsecutiveResults()


def flapping_span(begins: Sequence[float]) -> float:
    """For how many seconds probes must be good before SCALE UP.

    At the k-th protection within an hour, from begin to begin (k ≥ 2): 30 s × 2^(k-2), at most 5 min.

    Args:
        begins: when this process began protections of this shoot by itself, the active one last.
    """
    k = sum(1 for begin in begins if begins[-1] - begin <= _HOUR)
    if k <= 1:
        return 0.0
    return min(_LONGEST_SPAN, _FIRST_SPAN * float(1 << min(k - 2, 10)))


def began(begins: Sequence[float], now: float) -> tuple[float, ...]:
    """Adds a protection that begins `now` to `begins`, and drops those of more than an hour ago."""
    return (*(begin for begin in begins if now - begin <= _HOUR), now)


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must hold, besides what the leases ask for, before anything is scaled."""

    synced: bool = True
    effective: EffectiveOverrides = NOTHING
    """Pauses and holds in force for this shoot."""
    initial_delay_over: bool = True
    leading: bool = True
    closed_by: str | None = None
    """Why a closed gate keeps a scale-down from starting (rules 5); None while every gate is open."""
    ignored: bool = False
    """Every dependent that a scale-down would take down has ignore-scaling."""


@dataclass(frozen=True, slots=True)
class VerdictOutcome:
    """A decision with its plan, and the counts that the next probe continues."""

    decision: Decision
    consecutive: ConsecutiveResults
    plan: Plan = ()
    """What a scaling run would do on the decision, as far as the watch shows the dependents; nothing on HOLD."""

    @property
    def writes(self) -> bool:
        """Whether anything would be written on the decision."""
        return writes(self.plan)


_KEEPS_COUNTS: Final = frozenset(
    {
        VerdictReason.THROTTLED,
        VerdictReason.INITIAL_DELAY,
        VerdictReason.PAUSED,
        VerdictReason.HELD,
        VerdictReason.IGNORED,
        VerdictReason.GATED,
        VerdictReason.NOT_LEADER,
    }
)
Obstacle = tuple[VerdictReason, str]
"""What holds a verdict back: the reason, and its text for people."""


def decide_failure(failure: Failure, consecutive: ConsecutiveResults) -> VerdictOutcome:
    """Decides on a failed probe: always HOLD, as it says nothing about the nodes."""
    kept = consecutive if failure.reason in _KEEPS_COUNTS else NO_RESULTS
    decision = Decision(Verdict.HOLD, failure.reason, failure.message, would_be=Verdict.HOLD)
    return VerdictOutcome(decision, kept)


def decide_assessment(
    assessed: Decision,
    policy: ProberPolicy,
    preconditions: Preconditions,
    consecutive: ConsecutiveResults,
    now: float,
    *,
    protected: bool,
    begins: Sequence[float] = (),
    counts: bool = True,
) -> VerdictOutcome:
    """Decides on a probe that ended in a reading.

    Args:
        assessed: what the reading asks for.
        policy: how many results in a row it takes, and how far apart.
        preconditions: what else must hold.
        consecutive: the counts after the probe before.
        now: when the probe began.
        protected: protection is active.
        begins: when this process began protections of this shoot by itself, within the last hour.
        counts: False where the probe may not count towards a threshold.
    """
    wanted = assessed.verdict.direction
    if wanted is None:
        # Endpoint mode counts the internal path first (`rules.paths`): that says nothing against the external counts.
        return VerdictOutcome(
            assessed, consecutive if assessed.reason is VerdictReason.COUNTING else NO_RESULTS
        )
    if (closed := _scaling_obstacle(preconditions, wanted)) is not None:
        return VerdictOutcome(
            _held(assessed, *closed), _remaining_counts(consecutive, wanted, closed[0])
        )
    counted = consecutive.add(wanted, now, policy.suspect_interval, counts=counts)
    span = 0.0
    if wanted is Direction.DOWN:
        threshold = policy.failure_threshold
    elif protected:
        threshold, span = policy.success_threshold, flapping_span(begins)
    else:
        # In lease mode one good reading is enough while nothing is scaled down (rules 4.1); in endpoint mode a path
        # is healthy only after `successThreshold` of them (rules 4.2).
        threshold = policy.success_threshold if policy.endpoint_mode else 1
    if not counted.reached(threshold, span, now):
        missing = f"{counted.count} of {threshold} probes in a row"
        if counted.count >= threshold:
            lasted = now - counted.first_at
            missing = (
                f"good for {lasted:.0f} s of {span:.0f} s, "
                "as this protection is not the first within an hour"
            )
        return VerdictOutcome(_held(assessed, VerdictReason.COUNTING, missing), counted)
    if (kept := _start_obstacle(preconditions, wanted)) is not None:
        return VerdictOutcome(_held(assessed, *kept), counted)
    return VerdictOutcome(assessed, counted)


def _remaining_counts(
    consecutive: ConsecutiveResults, wanted: Direction, reason: VerdictReason
) -> ConsecutiveResults:
    """The counts after a probe that was held back; one that asked for the other direction still resets them."""
    return (
        consecutive if reason in _KEEPS_COUNTS and consecutive.direction is wanted else NO_RESULTS
    )


def recheck_preconditions(outcome: VerdictOutcome, preconditions: Preconditions) -> VerdictOutcome:
    """Checks the preconditions once more, as `outcome` may be seconds old; HOLD if one is no longer met."""
    wanted = outcome.decision.verdict.direction
    obstacle = None if wanted is None else _obstacle(preconditions, wanted)
    if wanted is None or obstacle is None:
        return outcome
    counts = _remaining_counts(outcome.consecutive, wanted, obstacle[0])
    return VerdictOutcome(_held(outcome.decision, *obstacle), counts)


def blocking_override(preconditions: Preconditions) -> Obstacle | None:
    """Names the override that holds back a scale-down; None if there is none, or something else does so as well."""
    without = replace(preconditions, effective=NOTHING, ignored=False)
    if _obstacle(without, Direction.DOWN) is not None:
        return None
    return _obstacle(preconditions, Direction.DOWN)


def unconfirmed(again: Decision, first: Decision) -> VerdictOutcome:
    """Decides on a scale-down that the second reading did not confirm: HOLD, and the counts start anew."""
    message = f"a second reading did not confirm the first ({first.message}): {again.message}"
    decision = Decision(Verdict.HOLD, VerdictReason.NOT_CONFIRMED, message, first.verdict)
    return VerdictOutcome(decision, NO_RESULTS)


def _held(made: Decision, reason: VerdictReason, why: str) -> Decision:
    return replace(made, verdict=Verdict.HOLD, reason=reason, message=f"{made.message}; {why}")


def _obstacle(preconditions: Preconditions, direction: Direction) -> Obstacle | None:
    return _scaling_obstacle(preconditions, direction) or _start_obstacle(preconditions, direction)


def _scaling_obstacle(preconditions: Preconditions, direction: Direction) -> Obstacle | None:
    """The first obstacle to scaling in this direction, in the order of the table of rules 4.1."""
    if not preconditions.synced:
        return VerdictReason.NOT_SYNCED, "not scaled: the seed has not been listed completely yet"
    if (hold := preconditions.effective.hold) is not None:
        running = "" if hold.done else "while a scaling run of people is under way, at least "
        return VerdictReason.HELD, f"not scaled: held {running}until {_named(hold)}"
    if (pause := preconditions.effective.pause_against(direction)) is not None:
        return VerdictReason.PAUSED, f"not scaled: paused until {_named(pause)}"
    if not preconditions.initial_delay_over:
        return VerdictReason.INITIAL_DELAY, "not scaled: initialDelay is not over"
    if not preconditions.leading:
        return VerdictReason.NOT_LEADER, "not scaled: another instance leads"
    return None


def _start_obstacle(preconditions: Preconditions, direction: Direction) -> Obstacle | None:
    """What keeps a scale-down, and no scale-up, from starting although probes count: a closed gate, ignore-scaling."""
    if direction is not Direction.DOWN:
        return None
    if preconditions.closed_by is not None:
        return VerdictReason.GATED, f"not scaled: {preconditions.closed_by}"
    if preconditions.ignored:
        return VerdictReason.IGNORED, "not scaled: every dependent that is up has ignore-scaling"
    return None


def _named(override: Pause | Hold) -> str:
    return f"{rfc3339(override.until)} by {override.author} ({override.reason})"


def explain(tally: Tally, limit: float, expiry: float) -> str:
    """Puts the numbers behind a verdict into words, with what they hint at: the path, or single nodes (rules 4.1)."""
    found = tally.candidates
    if not found.total:
        return "there is no node lease that counts" + _excluded(tally)
    what = "lease is" if found.total == 1 else "leases are"
    text = f"{found.expired} of {found.total} node {what} older than {_span(expiry)} (limit {limit:.0%})"
    if found.unknown:
        text += f", {found.unknown} not known yet"
    if found.expired or found.unknown:
        text += _excluded(tally) + _spread(tally.judgements)
        fresh = [each.name for each in tally.judgements if each.state is LeaseState.FRESH]
        if not fresh or len(fresh) == len(tally.judgements):
            return text
        more = f" and {len(fresh) - _NAMES} more" if len(fresh) > _NAMES else ""
        return f"{text}; still fresh: {', '.join(fresh[:_NAMES])}{more}"
    return text + _excluded(tally)


def _excluded(tally: Tally) -> str:
    if not tally.excluded:
        return ""
    each = ", ".join(f"{number} {why}" for why, number in sorted(tally.excluded.items()))
    return f" ({sum(tally.excluded.values())} more do not count: {each})"


def _spread(judgements: Sequence[Judgement]) -> str:
    """How far apart the last renewals lie: close together hints at the path, scattered at single nodes."""
    ends = [
        each.renew_time + each.offset
        for each in judgements
        if each.state is LeaseState.EXPIRED and each.renew_time is not None
    ]
    if len(ends) < QUORUM:
        return ""
    spread = max(ends) - min(ends)
    return (
        f"; their last renewals lie {'all within' if spread < _MINUTE else 'over'} {_span(spread)}"
    )


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.0f} min"


# One probe: its reading, the live read of what is stale, the second reading.


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
    pending: PendingWrites
    """What a scaling run would write now."""
    counts: bool = True
    """The probe may count towards a threshold."""


def decide(reading: Reading, inputs: DecisionInputs) -> VerdictOutcome:
    """Decides on the reading of a probe, or on its failure."""
    if isinstance(reading.result, Failure):
        return decide_failure(reading.result, inputs.consecutive)
    outcome = decide_assessment(
        _assess(reading.result, inputs),
        inputs.policy,
        inputs.preconditions,
        inputs.consecutive,
        # The distance of probes is that of their begins, as for the schedule: a slow probe must not lose a count.
        reading.started,
        protected=inputs.protected,
        begins=inputs.begins,
        counts=inputs.counts,
    )
    return _planned(outcome, inputs.pending)


def _planned(outcome: VerdictOutcome, pending: PendingWrites) -> VerdictOutcome:
    """The outcome with its plan, as of now."""
    direction = outcome.decision.verdict.direction
    if direction is None:
        return outcome
    return replace(outcome, plan=pending.plans[direction])


def _assess(result: Tally | PathReading, inputs: DecisionInputs) -> Decision:
    if isinstance(result, PathReading):
        return assess_paths(result)
    limit = inputs.policy.limit
    assessed = assess(result, limit, protected=inputs.protected)
    text = explain(result, limit, inputs.shoot.timings.expiry)
    return replace(assessed, message=text)


def after_live_read(
    outcome: VerdictOutcome,
    judged: ProbedShoot,
    found: ProbedShoot | Failure,
    pending: PendingWrites,
) -> VerdictOutcome:
    """The outcome after a live read of what is stale; HOLD if that failed, or the shoot is another than was judged.

    A scale-down is assessed with the new facts when it is confirmed.
    """
    if isinstance(found, ProbedShoot):
        if found == judged or outcome.decision.verdict is Verdict.SCALE_DOWN:
            return _planned(outcome, pending)
        found = Failure(VerdictReason.SEED_STALE, "the Shoot has changed; it is judged anew")
    held = decide_failure(found, outcome.consecutive)
    return replace(held, decision=replace(held.decision, would_be=outcome.decision.verdict))


def needs_confirmation(outcome: VerdictOutcome, reading: Reading) -> bool:
    """Whether a second reading has to agree: to a scale-down that would write, in endpoint mode to any scale-down.

    There it is one request, and the seed's own network may be what is down (docs/decisions/0034).
    """
    if outcome.decision.verdict is not Verdict.SCALE_DOWN:
        return False
    return isinstance(reading.result, PathReading) or outcome.writes


def after_second_reading(
    outcome: VerdictOutcome, second: Reading, inputs: DecisionInputs
) -> VerdictOutcome:
    """The outcome after the second reading; it stays SCALE DOWN only if that asks for it as well."""
    if isinstance(second.result, Failure):
        return decide_failure(second.result, outcome.consecutive)
    again = _assess(second.result, inputs)
    if again.verdict is not Verdict.SCALE_DOWN:
        return unconfirmed(again, outcome.decision)
    agreed = replace(outcome, decision=replace(outcome.decision, message=again.message))
    # Where nothing was to be written, nothing was read live for it: what has come up since is for the next probe.
    return _planned(agreed, inputs.pending) if outcome.writes else agreed
