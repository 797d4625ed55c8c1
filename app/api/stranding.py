"""What a pause of scope `all` would leave at 0: dependents that we scaled down and would bring back; pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from app.api.problems import Problem, ProblemType
from app.core.model import annotations as ann
from app.core.model.probing import ShootState
from app.core.model.workloads import WorkloadView
from app.prober.rules import protection
from app.prober.status import ShootStatus

_NAMED: Final = 5
"""Shoots that are named; the others are counted."""
_HELP: Final = "use scope scaleDown, or force"


def stranded(status: ShootStatus) -> tuple[str, ...]:
    """The dependents of a shoot that would stay at 0; none where nothing would bring them back anyway."""
    views = [each for each in status.resources.values() if each is not None]
    if status.state is ShootState.NOT_PROBED or not protection.active(views):
        return ()
    return tuple(str(each.ref) for each in views if _stranded(each))


def _stranded(view: WorkloadView) -> bool:
    if ann.ignore_scaling(view.annotations) is ann.Ignore.YES:
        return False
    # Of some kinds the watch does not show the size: with the meltdown key on it, it may be 0.
    return view.replicas == 0 or (view.replicas is None and view.protected)


def refuse_to_strand(covered: Iterable[ShootStatus]) -> None:
    """Returns where a pause of scope `all` that covers these shoots leaves nothing at 0.

    Raises:
        Problem: it would; the problem says how many shoots are protected, and what would stay at 0 in the first few.
    """
    found = {each.namespace: names for each in covered if (names := stranded(each))}
    if not found:
        return
    first = sorted(found)[:_NAMED]
    extra = {
        "protectedShoots": len(found),
        "staysAtZero": {namespace: list(found[namespace]) for namespace in first},
    }
    raise Problem(ProblemType.CONFLICT, _detail(found, first), extra=extra)


def _detail(found: dict[str, tuple[str, ...]], first: Sequence[str]) -> str:
    if len(found) == 1:
        (names,) = found.values()
        return f"{first[0]} is protected: {_listed(names)} would stay at 0; {_HELP}"
    more = len(found) - len(first)
    named = _listed([*first, f"{more} more"] if more else first)
    return f"{len(found)} shoots are protected, and what is at 0 there would stay at 0: {named}; {_HELP}"


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
