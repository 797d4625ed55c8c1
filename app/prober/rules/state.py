"""The one word that sums a shoot up, and its reason (rules 4.5).

A probe says what is so now; what people decided, a scaling run and a protection stand beside it.  Two things are not as
simple:

- A shoot whose nodes are lost loses its candidates, as their machines are taken away, and with them the leases that ask
  for a scale-down.  That is no recovery: what the leases asked for last stands until leases say something else.
- A scale-down that people keep back is worse than any other state, as nothing protects the nodes.  Where something else
  keeps it back as well, it is not theirs.
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

NOT_LOOKED_AT: Final = "Pending"
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
_TOO_FEW: Final = frozenset({VerdictReason.NO_CANDIDATES, VerdictReason.FEW_CANDIDATES})
"""Nothing of them is known to be wrong."""
_TAKEN_AWAY: Final = frozenset({Exclusion.MACHINE_FAILED, Exclusion.MACHINE_TERMINATING})
"""Why nodes do not count that did a while ago."""


class LastDirection(NamedTuple):
    """What the leases, or the two paths, asked for when they could last ask for anything."""

    verdict: Verdict
    late: bool
    """Some candidate lease was expired then."""


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What the state is taken from."""

    decision: Decision | None = None
    """Of the last probe; None before the first."""
    late: bool = False
    """Some candidate lease was expired at the last reading."""
    asked: LastDirection | None = None
    """None where nothing could be asked for yet."""
    vanished: bool = False
    """At the last probe no lease counts any more (`vanished`)."""
    kept_back: VerdictReason | None = None
    """What people decided that now keeps a scale-down back, one that would write something, if nothing else does."""
    protected: bool = False
    running: Direction | None = None
    """The direction of the scaling run that is running."""
    scaling_failed: bool = False
    """The last scaling run failed, and nothing has succeeded since."""


NOTHING_KNOWN: Final = StateFacts()


class StateSummary(NamedTuple):
    """The word, and why."""

    state: ShootState
    reason: str
    """That of the last probe, where nothing else made the state what it is."""


def summary(facts: StateFacts) -> StateSummary:
    """The state, from worst to best, and its reason."""
    found = _state(facts)
    decision = facts.decision
    if found is ShootState.UNPROTECTED and facts.kept_back is not None:
        return StateSummary(found, facts.kept_back)
    if decision is None:
        return StateSummary(found, NOT_LOOKED_AT)
    if found is ShootState.FAILING and decision.reason not in _FAILING:
        return StateSummary(found, SCALING_FAILED)
    return StateSummary(found, decision.reason)


def _state(facts: StateFacts) -> ShootState:
    if facts.running is not None:
        down = facts.running is Direction.DOWN
        return ShootState.PROTECTING if down else ShootState.RECOVERING
    if facts.kept_back is not None and _scale_down_wanted(facts):
        return ShootState.UNPROTECTED
    if facts.protected:
        return ShootState.PROTECTED
    return ShootState.PENDING if facts.decision is None else _of_probe(facts, facts.decision)


def _scale_down_wanted(facts: StateFacts) -> bool:
    """Whether people are in its way, or nothing but that its last nodes are lost as well."""
    decision, asked = facts.decision, facts.asked
    if decision is None:
        return False
    if facts.vanished or decision.reason is VerdictReason.ONE_CANDIDATE:
        return asked is not None and asked.verdict is Verdict.SCALE_DOWN
    return decision.reason in _BY_PEOPLE and decision.would_be is Verdict.SCALE_DOWN


def _of_probe(facts: StateFacts, decision: Decision) -> ShootState:
    if decision.reason is VerdictReason.NOT_SYNCED and decision.would_be is Verdict.HOLD:
        return ShootState.PENDING  # nothing of the shoot could be looked at
    if decision.reason is VerdictReason.UNREACHABLE:
        return ShootState.UNREACHABLE
    if decision.reason in _FAILING or facts.scaling_failed:
        return ShootState.FAILING
    if facts.vanished:  # what it was when there were some
        asked = facts.asked
        well = asked is not None and asked.verdict is Verdict.SCALE_UP and not asked.late
    else:
        well = decision.would_be is Verdict.SCALE_UP or decision.reason in _TOO_FEW
        well = well and not facts.late
    return ShootState.HEALTHY if well else ShootState.SUSPECT


def asked(
    before: LastDirection | None, result: Tally | PathReading | Failure, decision: Decision
) -> LastDirection | None:
    """What was asked for last, after a probe that led to `decision`: of a probe that asks for nothing, `before`."""
    if decision.would_be is Verdict.HOLD or isinstance(result, Failure):
        return before
    if isinstance(result, PathReading):
        return LastDirection(decision.would_be, late=False)
    # A protection ends where there is nothing left to protect, too: no lease asks for that.
    speaks = result.candidates.total or _with_machine(result)
    return (
        LastDirection(decision.would_be, late=result.candidates.expired > 0) if speaks else before
    )


def vanished(
    before: LastDirection | None, result: Tally | PathReading | Failure, decision: Decision
) -> bool:
    """Whether no lease counts at this probe, though some did before, or machines are being taken away."""
    if not isinstance(result, Tally) or result.candidates.total:
        return False
    if decision.would_be is not Verdict.HOLD and _with_machine(result):
        return False  # under protection those of nodes that have a machine say enough
    return before is not None or not _TAKEN_AWAY.isdisjoint(result.excluded)


def _with_machine(tally: Tally) -> int:
    return 0 if tally.with_machine is None else tally.with_machine.total


def severity(word: ShootState) -> int:
    """0 for the worst."""
    return _ORDER[word]


_ORDER: Final = {word: place for place, word in enumerate(ShootState)}
