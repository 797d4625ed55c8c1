"""SCALE UP, SCALE DOWN or HOLD (rules 4.1).  When unsure: HOLD, with the reason.

`assess` says what the leases alone ask for; `decide` holds that back where something else does not allow it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.core.model.instants import rfc3339
from app.core.model.overrides import NOTHING, EffectiveOverrides, Hold, Pause
from app.core.model.probing import (
    Decision,
    Failure,
    Judgement,
    LeaseCounts,
    LeaseState,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.workloads import Direction
from app.prober.rules.consecutive import NO_RESULTS, ConsecutiveResults, flapping_span

QUORUM: Final = 2
"""Fewer candidate leases than this never take anything down."""
_NAMES: Final = 5
_MINUTE: Final = 60


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the leases alone ask for."""

    verdict: Verdict
    reason: VerdictReason
    message: str = ""


def assess(tally: Tally, limit: float, *, protected: bool) -> Assessment:
    """What the leases ask for, by the table of rules 4.1."""
    found = tally.candidates
    if found.total < QUORUM:
        return _assess_few(tally, limit) if protected else _assess_unprotected_few(found)
    if found.expired_fraction >= limit:
        return Assessment(Verdict.SCALE_DOWN, VerdictReason.LEASES_EXPIRED)
    if found.doubtful_fraction >= limit:
        return Assessment(Verdict.HOLD, VerdictReason.UNKNOWN_LEASES)
    if protected and _most_are_excluded(tally) and not _machines_agree(tally, limit):
        return Assessment(Verdict.HOLD, VerdictReason.FEW_CANDIDATES)
    return _renewed(found)


def _renewed(found: LeaseCounts) -> Assessment:
    some = VerdictReason.SOME_LEASES_EXPIRED if found.expired else VerdictReason.LEASES_RENEWED
    return Assessment(Verdict.SCALE_UP, some)


def _assess_unprotected_few(found: LeaseCounts) -> Assessment:
    if found.total == 0:
        return Assessment(Verdict.HOLD, VerdictReason.NO_CANDIDATES)
    if found.expired + found.unknown:
        return Assessment(Verdict.HOLD, VerdictReason.ONE_CANDIDATE)
    return Assessment(Verdict.SCALE_UP, VerdictReason.LEASES_RENEWED)


def _assess_few(tally: Tally, limit: float) -> Assessment:
    """At most one candidate under protection: the nodes with a machine decide, or that there are none."""
    effective = tally.with_machine
    if effective is not None and effective.total == 0 and tally.nodes_read:
        return Assessment(Verdict.SCALE_UP, VerdictReason.NO_NODES)
    if effective is not None and effective.total and effective.doubtful_fraction < limit:
        return _renewed(effective)
    none = tally.candidates.total == 0
    return Assessment(
        Verdict.HOLD, VerdictReason.NO_CANDIDATES if none else VerdictReason.ONE_CANDIDATE
    )


def _most_are_excluded(tally: Tally) -> bool:
    return tally.with_machine is None or tally.candidates.total < tally.with_machine.total / 2


def _machines_agree(tally: Tally, limit: float) -> bool:
    return tally.with_machine is not None and tally.with_machine.doubtful_fraction < limit


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What else must be so before anything is scaled."""

    synced: bool = True
    effective: EffectiveOverrides = NOTHING
    """What people decided about this shoot."""
    initial_delay_over: bool = True
    leading: bool = True
    closed_by: str | None = None
    """Why endpoint probes keep a scale-down from starting (rules 5); None where they do not."""
    ignored: bool = False
    """All that a scale-down would take down has ignore-scaling."""


@dataclass(frozen=True, slots=True)
class VerdictThresholds:
    """How much has to be seen; of the policy and the shoot's recent past."""

    failure: int
    success: int
    apart: float
    """Looks that count are at least this many seconds apart."""
    protected: bool
    begins: Sequence[float] = ()
    """When this process began protections of this shoot."""
    unprotected: int = 1
    """As `success`, while no protection is active."""


@dataclass(frozen=True, slots=True)
class VerdictOutcome:
    """A decision, and the counts that the next probe goes on from."""

    decision: Decision
    consecutive: ConsecutiveResults


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
"""What holds a verdict back: the reason, and the same in words."""


def decide_failure(failure: Failure, consecutive: ConsecutiveResults) -> VerdictOutcome:
    """HOLD: a probe that failed says nothing about the nodes."""
    kept = consecutive if failure.reason in _KEEPS_COUNTS else NO_RESULTS
    decision = Decision(Verdict.HOLD, failure.reason, failure.message, would_be=Verdict.HOLD)
    return VerdictOutcome(decision, kept)


def decide(
    assessed: Assessment,
    preconditions: Preconditions,
    thresholds: VerdictThresholds,
    consecutive: ConsecutiveResults,
    now: float,
    *,
    counts: bool = True,
) -> VerdictOutcome:
    """The verdict of a probe that ended in a reading; one that does not count adds to no threshold."""
    wanted = assessed.verdict.direction
    if wanted is None:
        decision = Decision(Verdict.HOLD, assessed.reason, assessed.message, Verdict.HOLD)
        # what is counted elsewhere first says nothing against what was counted here
        return VerdictOutcome(
            decision, consecutive if assessed.reason is VerdictReason.COUNTING else NO_RESULTS
        )
    if (closed := _closed(preconditions, wanted)) is not None:
        return VerdictOutcome(_held(assessed, *closed), _kept(consecutive, wanted, closed[0]))
    counted = consecutive.add(wanted, now, thresholds.apart, counts=counts)
    if (missing := _still_counting(counted, thresholds, now)) is not None:
        return VerdictOutcome(_held(assessed, VerdictReason.COUNTING, missing), counted)
    if (kept := _gated(preconditions, wanted) or _ignored(preconditions, wanted)) is not None:
        return VerdictOutcome(_held(assessed, *kept), counted)
    decision = Decision(assessed.verdict, assessed.reason, assessed.message, assessed.verdict)
    return VerdictOutcome(decision, counted)


def _kept(
    consecutive: ConsecutiveResults, wanted: Direction, reason: VerdictReason
) -> ConsecutiveResults:
    """The counts after a probe that was held back: one of the other direction sets them to 0 all the same."""
    return (
        consecutive if reason in _KEEPS_COUNTS and consecutive.direction is wanted else NO_RESULTS
    )


def still(outcome: VerdictOutcome, preconditions: Preconditions) -> VerdictOutcome:
    """`outcome`, where nothing has come in between that holds it back: what it was judged by may be seconds old."""
    decision = outcome.decision
    wanted = decision.verdict.direction
    if wanted is None:
        return outcome
    obstacle = _obstacle(preconditions, wanted)
    if obstacle is None:
        return outcome
    reason, why = obstacle
    held = Decision(Verdict.HOLD, reason, f"{decision.message}; {why}", decision.verdict)
    return VerdictOutcome(held, _kept(outcome.consecutive, wanted, reason))


def kept_back(preconditions: Preconditions) -> Obstacle | None:
    """What of people's decisions holds a scale-down back, if nothing else does; None where it is not they alone."""
    without = replace(preconditions, effective=NOTHING, ignored=False)
    if _obstacle(without, Direction.DOWN) is not None:
        return None
    return _obstacle(preconditions, Direction.DOWN)


def unconfirmed(again: Assessment, first: Decision) -> VerdictOutcome:
    """HOLD: the confirming reading does not say what the first one said."""
    message = f"a second reading did not confirm the first ({first.message}): {again.message}"
    decision = Decision(Verdict.HOLD, VerdictReason.NOT_CONFIRMED, message, first.verdict)
    return VerdictOutcome(decision, NO_RESULTS)


def _held(assessed: Assessment, reason: VerdictReason, why: str) -> Decision:
    return Decision(Verdict.HOLD, reason, f"{assessed.message}; {why}", assessed.verdict)


def _obstacle(preconditions: Preconditions, direction: Direction) -> Obstacle | None:
    return (
        _closed(preconditions, direction)
        or _gated(preconditions, direction)
        or _ignored(preconditions, direction)
    )


def _closed(preconditions: Preconditions, direction: Direction) -> Obstacle | None:
    """The first thing that forbids to scale this way, in the order of the table of rules 4.1."""
    if not preconditions.synced:
        return VerdictReason.NOT_SYNCED, "not scaled: the seed has not been listed completely yet"
    if (hold := preconditions.effective.hold) is not None:
        return VerdictReason.HELD, f"not scaled: held until {_named(hold)}"
    if (pause := preconditions.effective.pause_against(direction)) is not None:
        return VerdictReason.PAUSED, f"not scaled: paused until {_named(pause)}"
    if not preconditions.initial_delay_over:
        return VerdictReason.INITIAL_DELAY, "not scaled: initialDelay is not over"
    if not preconditions.leading:
        return VerdictReason.NOT_LEADER, "not scaled: another instance leads"
    return None


def _gated(preconditions: Preconditions, direction: Direction) -> Obstacle | None:
    """What endpoint probes say against it: against a scale-down only, and only one that everything else asks for."""
    if direction is not Direction.DOWN or preconditions.closed_by is None:
        return None
    return VerdictReason.GATED, f"not scaled: {preconditions.closed_by}"


def _ignored(preconditions: Preconditions, direction: Direction) -> Obstacle | None:
    if direction is not Direction.DOWN or not preconditions.ignored:
        return None
    return VerdictReason.IGNORED, "not scaled: every dependent that is up has ignore-scaling"


def _named(override: Pause | Hold) -> str:
    return f"{rfc3339(override.until)} by {override.author} ({override.reason})"


def _still_counting(
    consecutive: ConsecutiveResults, thresholds: VerdictThresholds, now: float
) -> str | None:
    """What is missing to the threshold of the streak's direction; None where it is reached."""
    if consecutive.direction is Direction.DOWN:
        threshold, span = thresholds.failure, 0.0
    else:
        threshold = thresholds.success if thresholds.protected else thresholds.unprotected
        span = flapping_span(thresholds.begins) if thresholds.protected else 0.0
    if consecutive.reached(threshold, span, now):
        return None
    if consecutive.count < threshold:
        return f"{consecutive.count} of {threshold} probes in a row"
    lasted = now - consecutive.first_at
    return f"good for {lasted:.0f} s of {span:.0f} s, as this protection is not the first within an hour"


def explain(tally: Tally, limit: float, expiry: float) -> str:
    """The numbers behind a verdict, and what they hint at: the path, or single nodes."""
    found = tally.candidates
    if not found.total:
        return "there is no node lease that counts" + _excluded(tally)
    what = "lease is" if found.total == 1 else "leases are"
    text = f"{found.expired} of {found.total} node {what} older than {_span(expiry)} (limit {limit:.0%})"
    if found.unknown:
        text += f", {found.unknown} not known yet"
    if found.expired or found.unknown:
        return text + _excluded(tally) + _spread(tally.judgements) + _fresh(tally.judgements)
    return text + _excluded(tally)


def _excluded(tally: Tally) -> str:
    if not tally.excluded:
        return ""
    each = ", ".join(f"{number} {why}" for why, number in sorted(tally.excluded.items()))
    return f" ({sum(tally.excluded.values())} more do not count: {each})"


def _spread(judgements: Sequence[Judgement]) -> str:
    """Renewals that all ended at once speak for the path, scattered ones for the nodes."""
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


def _fresh(judgements: Sequence[Judgement]) -> str:
    fresh = [each.name for each in judgements if each.state is LeaseState.FRESH]
    if not fresh or len(fresh) == len(judgements):
        return ""
    more = f" and {len(fresh) - _NAMES} more" if len(fresh) > _NAMES else ""
    return f"; still fresh: {', '.join(fresh[:_NAMES])}{more}"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.0f} min"
