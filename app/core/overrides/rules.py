"""Which pauses and holds are in force at an instant; pure."""

from collections.abc import Iterable

from app.core.model.overrides import NOTHING, EffectiveOverrides, Hold, Pause, ScaleRequest, Scope
from app.core.model.scaling_runs import OperationPhase
from app.core.model.workloads import Direction


def effective(
    own: Iterable[Pause], everywhere: Iterable[Pause], requests: Iterable[ScaleRequest], now: float
) -> EffectiveOverrides:
    """Returns what is in force for a shoot.

    Args:
        own: the Pauses in its namespace.
        everywhere: the Pauses of all shoots.
        requests: the shoot's ScaleRequests.
        now: the instant.
    """
    own, everywhere = ordered(own, now), ordered(everywhere, now)
    hold = acting_hold(requests, now)
    if not own and not everywhere and hold is None:
        return NOTHING
    return EffectiveOverrides(
        next(iter(own), None),
        next(iter(everywhere), None),
        hold,
        ordered((*own, *everywhere), now),
    )


def ordered(pauses: Iterable[Pause], now: float) -> tuple[Pause, ...]:
    """Returns the pauses in force, the one that acts first: the stricter one, then the one that ends last."""
    found = [each for each in pauses if each.in_force(now)]
    if len(found) > 1:
        found.sort(key=lambda each: (each.scope is not Scope.ALL, -each.until, each.id.name))
    return tuple(found)


def acting_hold(requests: Iterable[ScaleRequest], now: float) -> Hold | None:
    """Returns the hold that acts: one whose scaling run is under way, else the one that ends last."""
    found = [hold for each in requests if (hold := hold_of(each, now)) is not None]
    return max(found, key=lambda each: (not each.done, each.until), default=None)


def hold_of(request: ScaleRequest, now: float) -> Hold | None:
    """Returns the hold of a ScaleRequest that is in force: until the end of its scaling run, and then for `spec.hold`.

    None if it has none any more: its time is over, or it was refused, or it is a scale-up that failed, after which
    verdicts have to act again.
    """
    until = hold_end(request)
    if until is None or request.deleting or not (request.open or now < until):
        return None
    return Hold(
        request.spec.reason,
        request.spec.author,
        request.created_at,
        until,
        request.spec.direction,
        request.id.uid,
        request.spec.force,
        done=not request.open,
        verified=request.verified,
    )


def hold_end(request: ScaleRequest) -> float | None:
    """Returns when the hold of a ScaleRequest ends; of one that is open, when it would if that ended at once."""
    if request.problem is not None or request.phase is OperationPhase.REFUSED:
        return None
    if request.hold_until is not None:
        return request.hold_until
    if request.phase is OperationPhase.FAILED and request.spec.direction is Direction.UP:
        return None
    ended = request.created_at if request.ended is None else request.ended
    return ended + request.spec.hold
