"""The one word that sums a shoot up (api.md), and the words for why it is so."""

from dataclasses import dataclass
from typing import Final

from app.core.model.probing import Decision, Reason, ShootState, Verdict
from app.core.model.workloads import Direction

_UNREACHABLE: Final = frozenset({Reason.UNREACHABLE})
_FAILING: Final = frozenset(
    {
        Reason.NAME_UNRESOLVED,
        Reason.CERTIFICATE_UNTRUSTED,
        Reason.CREDENTIALS_INVALID,
        Reason.CREDENTIALS_MISSING,
        Reason.CREDENTIALS_REFUSED,
        Reason.THROTTLED,
        Reason.LEASES_UNREADABLE,
        Reason.NODES_UNREADABLE,
        Reason.TOO_SLOW,
        Reason.TOO_LARGE,
        Reason.BAD_ANSWER,
        Reason.SEED_STALE,
        Reason.INTERNAL_ERROR,
    }
)
_HEALTHY_HOLDS: Final = frozenset({Reason.NO_CANDIDATES, Reason.FEW_CANDIDATES})


@dataclass(frozen=True, slots=True)
class Standing:
    """What the state is taken from."""

    decision: Decision | None
    """Of the last look; None before the first."""
    late: bool = False
    """Some candidate lease is expired."""
    protected: bool = False
    flow: Direction | None = None
    """The direction of the flow that is running."""
    scaling_failed: bool = False
    """The last flow failed, and nothing has succeeded since."""


def state(standing: Standing) -> ShootState:
    """The state, from worst to best."""
    if standing.flow is not None:
        down = standing.flow is Direction.DOWN
        return ShootState.PROTECTING if down else ShootState.RECOVERING
    if standing.protected:
        return ShootState.PROTECTED
    return _of_look(standing)


def _of_look(standing: Standing) -> ShootState:
    decision = standing.decision
    if decision is None:
        return ShootState.PENDING
    if decision.reason is Reason.NOT_SYNCED and decision.would_be is Verdict.HOLD:
        return ShootState.PENDING  # nothing of the shoot could be looked at
    if decision.reason in _UNREACHABLE:
        return ShootState.UNREACHABLE
    if decision.reason in _FAILING or standing.scaling_failed:
        return ShootState.FAILING
    return _of_reading(decision, late=standing.late)


def _of_reading(decision: Decision, *, late: bool) -> ShootState:
    if late or decision.would_be is Verdict.SCALE_DOWN:
        return ShootState.SUSPECT
    if decision.would_be is Verdict.SCALE_UP or decision.reason in _HEALTHY_HOLDS:
        return ShootState.HEALTHY
    return ShootState.SUSPECT


def severity(word: ShootState) -> int:
    """0 for the worst."""
    return _ORDER[word]


_ORDER: Final = {word: place for place, word in enumerate(ShootState)}
