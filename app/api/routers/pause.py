"""Pauses, of one shoot or of all, and the end of a hold (rules 7)."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from fastapi import Request, Response

from app.api import presenting, schemas
from app.api.auditing import draft_of
from app.api.auth.authorization import Call
from app.api.dependencies import (
    AnyContext,
    AnyProber,
    DryRun,
    OptionalReason,
    allowed,
    api_router,
    caller_of,
    check_here,
    known_shoot,
    leads,
    listed_prober,
    planned,
    refuse_in_dry_run,
    until_listed,
)
from app.api.problems import Problem, ProblemType
from app.api.views import Context, ScalingRunsView
from app.core.config.scalars import is_label, parse_duration
from app.core.errors import ClusterError, FeatureUnavailable, NotKnownYet, Refused, trimmed
from app.core.model import workloads as ann
from app.core.model.overrides import (
    ALL_SHOOTS,
    OVERRIDES,
    Hold,
    OverrideEntry,
    Pause,
    Scope,
    Unreadable,
)
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from app.core.model.workloads import WorkloadView
from app.core.ports import OverrideWrite
from app.prober.rules import protection
from app.prober.status import ShootStatus

# Dependents that a pause of scope `all` would leave at 0: the watchdog scaled them down, and would not bring them back
# before the pause ends. The state does not decide: `Protected` misses half-done runs, and has shoots in which all is
# managed by hand. Pure.


# Most shoots that a refusal names; it counts the others.
_NAMED: Final = 5
_HELP: Final = "use scope scaleDown, or force"


def stranded(status: ShootStatus) -> tuple[str, ...]:
    """Dependents of a shoot that a pause would leave at 0; none if nothing would bring them back without it, either."""
    views = [each for each in status.resources.values() if each is not None]
    if status.state is ShootState.NOT_PROBED or not protection.active(views):
        return ()
    return tuple(str(each.ref) for each in views if _stranded(each))


def _stranded(view: WorkloadView) -> bool:
    if ann.ignore_scaling(view.annotations) is ann.Ignore.YES:
        return False
    # The watch does not show the size of some kinds (rules 3.2): with the meltdown key, it may be 0.
    return view.replicas == 0 or (view.replicas is None and view.protected)


def refuse_to_strand(covered: Iterable[ShootStatus]) -> None:
    """Refuse a pause of scope `all` over these shoots if it would leave dependents at 0.

    Raises:
        Problem: 409, with the number of protected shoots, and what would stay at 0 in the first few.
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
    return f"{len(found)} shoots are protected, and their resources at 0 would stay at 0: {named}; {_HELP}"


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


router = api_router("overrides")

_OF_SHOOT: Final = "/api/v1/shoots/{namespace}/pause"
_OF_ALL: Final = "/api/v1/pause"


@router.put(
    _OF_SHOOT,
    response_model=schemas.Pause | schemas.Changes,
    dependencies=[allowed(Call.PAUSE)],
)
async def pause_shoot(
    request: Request, context: AnyContext, namespace: str, body: schemas.PauseOrder
) -> schemas.Pause | Response:
    """Pause a shoot: it is still probed, but nothing is scaled or weeded until the pause ends.

    It replaces a pause that is in force. Any replica accepts it. With `dryRun` nothing is written, and the answer
    says what would change.
    """
    return await _pause(request, context, namespace, body)


_PLANNED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": schemas.Changes, "description": "What would change; nothing was written."}
}


@router.delete(_OF_SHOOT, status_code=204, dependencies=[allowed(Call.RESUME)], responses=_PLANNED)
async def resume_shoot(
    request: Request,
    context: AnyContext,
    namespace: str,
    *,
    dry_run: DryRun = False,
    reason: OptionalReason = "",
) -> Response:
    """End the pause of a shoot now, if there is one. A pause of all shoots stays in force."""
    return await _resume(request, context, namespace, reason, dry_run=dry_run)


@router.put(
    _OF_ALL,
    response_model=schemas.Pause | schemas.Changes,
    dependencies=[allowed(Call.PAUSE_ALL)],
)
async def pause_all_shoots(
    request: Request, context: AnyContext, body: schemas.PauseOrder
) -> schemas.Pause | Response:
    """Pause all shoots of the seed; it replaces a pause of all shoots that is in force."""
    return await _pause(request, context, None, body)


@router.delete(
    _OF_ALL, status_code=204, dependencies=[allowed(Call.RESUME_ALL)], responses=_PLANNED
)
async def resume_all_shoots(
    request: Request,
    context: AnyContext,
    *,
    dry_run: DryRun = False,
    reason: OptionalReason = "",
) -> Response:
    """End the pause of all shoots now; pauses of single ones stay in force."""
    return await _resume(request, context, None, reason, dry_run=dry_run)


async def _pause(
    request: Request, context: Context, namespace: str | None, body: schemas.PauseOrder
) -> schemas.Pause | Response:
    draft = draft_of(request)
    draft.action = "plan" if body.dry_run else "pause"
    draft.namespace, draft.reason = namespace, body.reason
    before = draft.before = _known_before(context, namespace)
    covered = await _covered(context, namespace)
    if not body.dry_run:
        refuse_in_dry_run(context)
    if body.scope is Scope.ALL and not body.force:
        _refuse_to_strand(covered)
    wish = _wish(request, context, body)
    if body.dry_run:
        _refuse_without_overrides(context)
        wished = presenting.given_pause(wish, _covers(namespace))
        return planned(_entry(namespace), before, _audited(wished))
    change = await context.override_service.set_pause(_key(namespace), wish)
    draft.before = _before(change, namespace)
    written = None if change.after is None else change.after.pause
    assert written is not None  # noqa: S101 - the desk says what it has just written
    found = presenting.given_pause(written, _covers(namespace))
    draft.after = _audited(found)
    return found


async def _resume(
    request: Request, context: Context, namespace: str | None, reason: str, *, dry_run: bool
) -> Response:
    draft = draft_of(request)
    draft.action = "plan" if dry_run else "resume"
    draft.namespace, draft.reason = namespace, reason or None
    before = draft.before = _known_before(context, namespace)
    _ = await _covered(context, namespace)
    if dry_run:
        _refuse_without_overrides(context)
        return planned(_entry(namespace), before, None)
    refuse_in_dry_run(context)
    change = await context.override_service.end_pause(_key(namespace), by=caller_of(request).name)
    draft.before = _before(change, namespace)
    return Response(status_code=204)


# The shoots that a pause covers.


async def _covered(context: Context, namespace: str | None) -> Sequence[ShootStatus] | None:
    """The shoots that a pause would cover; None in a process that runs the weeder alone, and knows no shoots.

    Raises:
        Problem: 404: there is no such shoot; 503: the prober's process (`--peer-url`) has to be asked.
    """
    if Loop.PROBER in context.process.leaders:
        return await _known(context, namespace)
    if context.process.peer_url is not None:
        check_here(context, Loop.PROBER)
    if namespace is not None:
        await _check_served(context, namespace)
    return None


async def _check_served(context: Context, namespace: str) -> None:
    """Raise a `Problem` (404) unless the weeder knows the control plane, or it has a pause, which may be ended."""
    if not is_label(namespace):
        detail = f"{trimmed(namespace, 100)} cannot be a namespace"
        raise Problem(ProblemType.NOT_FOUND, detail)
    if context.overrides.effective(namespace).pause is not None:
        return
    weeders = context.weeders
    assert weeders is not None  # noqa: S101 - a process without the prober runs the weeder
    await until_listed(context, "EndpointSlices", lambda: weeders.namespaces() is not None)
    if namespace not in (weeders.namespaces() or ()):
        detail = f"no service of {namespace} is known to the weeder, which runs here alone"
        raise Problem(ProblemType.NOT_FOUND, detail)


async def _known(context: Context, namespace: str | None) -> Sequence[ShootStatus]:
    prober = await listed_prober(context)
    if namespace is None:
        return prober.shoots.statuses()
    return [known_shoot(prober, namespace)]


def _refuse_to_strand(covered: Sequence[ShootStatus] | None) -> None:
    """`refuse_to_strand`; refuses always if this process does not know the shoots."""
    if covered is None:
        detail = "this process runs the weeder alone and cannot tell which shoots are protected: what is at 0 there "
        raise Problem(
            ProblemType.CONFLICT, detail + "would stay at 0; use scope scaleDown, or force"
        )
    refuse_to_strand(covered)


def _refuse_without_overrides(context: Context) -> None:
    """Refuse a dry run where the write would be refused, too, as this process has no overrides."""
    if context.overrides.off is not None:
        raise FeatureUnavailable("overrides", context.overrides.off)


def _entry(namespace: str | None) -> str:
    """The key of the ConfigMap that a write would change."""
    return f"ConfigMap/{OVERRIDES}, key {_key(namespace)}"


# The pause that is written, and its form in answer and audit.


def _key(namespace: str | None) -> str:
    return ALL_SHOOTS if namespace is None else namespace


def _wish(request: Request, context: Context, body: schemas.PauseOrder) -> Pause:
    now = context.process.now()
    until = now + parse_duration(body.duration)
    return Pause(body.scope, body.reason, caller_of(request).name, now, until)


def _covers(namespace: str | None) -> schemas.Covers:
    return schemas.Covers.ALL if namespace is None else schemas.Covers.SHOOT


def _known_before(context: Context, namespace: str | None) -> object:
    """State for the audit of an attempt that may yet be refused: the pause in force, as this process knows it."""
    known = context.overrides
    found = known.global_pause() if namespace is None else known.effective(namespace).pause
    return None if found is None else _audited(presenting.given_pause(found, _covers(namespace)))


def _before(change: OverrideWrite, namespace: str | None) -> object:
    """State for the audit: the pause that was replaced or ended, or why it could not be read."""
    match change.before:
        case Unreadable(problem=problem):
            return {"unreadable": problem}
        case OverrideEntry(pause=Pause() as pause):
            return _audited(presenting.given_pause(pause, _covers(namespace)))
        case _:
            return None


def _audited(pause: schemas.Pause) -> object:
    return pause.model_dump(mode="json", by_alias=True)


# DELETE /api/v1/shoots/{namespace}/hold ends a hold, so that the automatic verdicts of the shoot act again.


@router.delete(
    "/api/v1/shoots/{namespace}/hold",
    status_code=204,
    dependencies=[allowed(Call.CANCEL)],
    responses=_PLANNED,
)
async def end_hold(
    request: Request,
    context: AnyContext,
    prober: AnyProber,
    namespace: str,
    *,
    dry_run: DryRun = False,
    reason: OptionalReason = "",
) -> Response:
    """End the hold of a shoot now, if there is one, and cancel its scaling run if that is still under way.

    Any replica accepts it; the leader, which performs the scaling run, sees it within a second.
    """
    draft = draft_of(request)
    draft.action = "plan" if dry_run else "end-hold"
    draft.namespace, draft.reason = namespace, reason or None
    before = draft.before = _audited_hold(context.overrides.holds().get(namespace))
    known_shoot(prober, namespace)
    if dry_run:
        _refuse_without_overrides(context)
        return planned(_entry(namespace), before, None)
    refuse_in_dry_run(context)
    change = await context.override_service.end_hold(namespace, by=caller_of(request).name)
    match change.before:
        case Unreadable(problem=problem):
            draft.before = {"unreadable": problem}
        case OverrideEntry(hold=Hold() as hold):
            draft.before, draft.target = _audited_hold(hold), hold.operation
            if leads(context, Loop.PROBER):
                await _cancel(prober.scaling_runs, hold, caller_of(request).name)
        case _:
            draft.before = None
    return Response(status_code=204)


def _audited_hold(hold: Hold | None) -> object:
    return None if hold is None else presenting.hold(hold).model_dump(mode="json", by_alias=True)


async def _cancel(scaling_runs: ScalingRunsView, hold: Hold, by: str) -> None:
    """Cancel the scaling run of a hold that was just ended.

    Errors do not fail the call: the hold is gone, and a manual scaling run without its hold ends by itself.
    """
    if hold.operation is None or hold.done:
        return
    with suppress(Refused, ClusterError, NotKnownYet):
        await scaling_runs.cancel(hold.operation, by=by)
