"""The one word that sums a shoot up, and its reason (rules 4.5); nothing is decided on it.

The state follows from the last probe, from overrides, from the scaling run under way and from protection. Two cases
are less simple (docs/decisions/0037):

- A shoot whose nodes are lost loses its candidates too, as their machines are deleted, and with them the leases that
  ask for a scale-down. That is no recovery: what the leases last asked for stands until leases say something else.
- A scale-down that overrides keep back is the worst state, `Unprotected`, as nothing protects the nodes. It is not
  `Unprotected` if something else keeps it back as well.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from app.core.model.probing import (
    Decision,
    Exclusion,
    Failure,
    PathReading,
    ShootState,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.workloads import Direction
from app.prober.rules.verdict import Obstacle

PENDING_REASON: Final = "Pending"
SCALING_FAILED: Final = "ScalingFailed"
_FAILING: Final = frozenset(
    {
        VerdictReason.NAME_UNRESOLVED,
        VerdictReason.CERTIFICATE_UNTRUSTED,
        VerdictReason.CREDENTIALS_INVALID,
        VerdictReason.CREDENTIALS_MISSING,
        VerdictReason.CREDENTIALS_REFUSED,
        VerdictReason.THROTTLED,
        VerdictReason.LEASES_UNREADABLE,
        VerdictReason.NODES_UNREADABLE,
        VerdictReason.TOO_SLOW,
        VerdictReason.TOO_LARGE,
        VerdictReason.BAD_ANSWER,
        VerdictReason.SEED_STALE,
        VerdictReason.INTERNAL_ERROR,
    }
)
_BY_PEOPLE: Final = frozenset({VerdictReason.PAUSED, VerdictReason.HELD, VerdictReason.IGNORED})
# Reasons for HOLD that say nothing bad of the nodes: too few of them count.
_TOO_FEW: Final = frozenset({VerdictReason.NO_CANDIDATES, VerdictReason.FEW_CANDIDATES})
# Exclusions of nodes that counted a while ago.
_TAKEN_AWAY: Final = frozenset({Exclusion.MACHINE_FAILED, Exclusion.MACHINE_TERMINATING})


class LastDirection(NamedTuple):
    """What the leases, or the two paths, last asked for; SCALE UP or SCALE DOWN."""

    verdict: Verdict
    any_expired: bool
    """A candidate lease was expired at that time."""


@dataclass(frozen=True, slots=True)
class StateInputs:
    """What the state follows from."""

    decision: Decision | None = None
    """The decision on the last probe; None before the first."""
    any_expired: bool = False
    """A candidate lease was expired at the last reading."""
    last_direction: LastDirection | None = None
    """None while nothing has been asked for yet."""
    vanished: bool = False
    """At the last probe no lease counted any more (`vanished`)."""
    kept_back: Obstacle | None = None
    """The override that alone keeps back a scale-down which would write something; None if there is none."""
    protected: bool = False
    running: Direction | None = None
    """The direction of the scaling run that is under way."""
    scaling_failed: bool = False
    """The last scaling run failed, and its dependents are not as they should be yet."""


NOTHING_KNOWN: Final = StateInputs()


class StateSummary(NamedTuple):
    """The state, and its reason."""

    state: ShootState
    reason: str
    """The reason of the last decision, unless something else led to the state."""


def summary(facts: StateInputs) -> StateSummary:
    """Sums up the facts: the first state of the table of rules 4.5 that holds, and its reason."""
    found = _state(facts)
    decision = facts.decision
    if found is ShootState.UNPROTECTED and facts.kept_back is not None:
        return StateSummary(found, facts.kept_back[0])
    if decision is None:
        return StateSummary(found, PENDING_REASON)
    if found is ShootState.FAILING and decision.reason not in _FAILING:
        return StateSummary(found, SCALING_FAILED)
    return StateSummary(found, decision.reason)


def _state(facts: StateInputs) -> ShootState:
    if facts.running is not None:
        down = facts.running is Direction.DOWN
        return ShootState.PROTECTING if down else ShootState.RECOVERING
    if facts.kept_back is not None and _scale_down_wanted(facts):
        return ShootState.UNPROTECTED
    if facts.protected:
        return ShootState.PROTECTED
    return ShootState.PENDING if facts.decision is None else _of_probe(facts, facts.decision)


def _scale_down_wanted(facts: StateInputs) -> bool:
    """Whether a scale-down is wanted: overrides keep it back, or it was asked for before the last nodes were lost."""
    decision, last = facts.decision, facts.last_direction
    if decision is None:
        return False
    if facts.vanished or decision.reason is VerdictReason.ONE_CANDIDATE:
        return last is not None and last.verdict is Verdict.SCALE_DOWN
    return decision.reason in _BY_PEOPLE and decision.would_be is Verdict.SCALE_DOWN


def _of_probe(facts: StateInputs, decision: Decision) -> ShootState:
    if decision.reason is VerdictReason.NOT_SYNCED and decision.would_be is Verdict.HOLD:
        return ShootState.PENDING  # nothing of the shoot could be read
    if decision.reason is VerdictReason.UNREACHABLE:
        return ShootState.UNREACHABLE
    if decision.reason in _FAILING or facts.scaling_failed:
        return ShootState.FAILING
    if facts.vanished:  # the shoot stays what it was when some leases counted
        last = facts.last_direction
        well = last is not None and last.verdict is Verdict.SCALE_UP and not last.any_expired
    else:
        well = decision.would_be is Verdict.SCALE_UP or decision.reason in _TOO_FEW
        well = well and not facts.any_expired
    return ShootState.HEALTHY if well else ShootState.SUSPECT


def last_direction(
    before: LastDirection | None, result: Tally | PathReading | Failure, decision: Decision
) -> LastDirection | None:
    """What was last asked for, after a probe that led to `decision`; `before` if that probe asks for nothing."""
    if decision.would_be is Verdict.HOLD or isinstance(result, Failure):
        return before
    if isinstance(result, PathReading):
        return LastDirection(decision.would_be, any_expired=False)
    # Protection also ends when no node is left to protect: that SCALE UP is not asked for by any lease.
    speaks = result.candidates.total or _with_machine(result)
    return (
        LastDirection(decision.would_be, any_expired=result.candidates.expired > 0)
        if speaks
        else before
    )


def vanished(
    before: LastDirection | None, result: Tally | PathReading | Failure, decision: Decision
) -> bool:
    """Whether no lease counts at this probe although some did before, or machines are failing or terminating."""
    if not isinstance(result, Tally) or result.candidates.total:
        return False
    if decision.would_be is not Verdict.HOLD and _with_machine(result):
        # Under protection, the leases of nodes with a machine were enough for a verdict.
        return False
    return before is not None or not _TAKEN_AWAY.isdisjoint(result.excluded)


def _with_machine(tally: Tally) -> int:
    return 0 if tally.with_machine is None else tally.with_machine.total


def severity(word: ShootState) -> int:
    """The rank of a state, 0 for the worst."""
    return _ORDER[word]


_ORDER: Final = {word: place for place, word in enumerate(ShootState)}
