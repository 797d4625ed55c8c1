"""Pauses, of one shoot or of all, and the end of a hold (rules 7)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request, Response

from app.api import presenting, schemas
from app.api.auditing import drafted
from app.api.auth.authorization import Call
from app.api.context import Context
from app.api.dependencies import (
    AnyContext,
    AnyProber,
    DryRun,
    OptionalReason,
    PageKey,
    PageQuery,
    allowed,
    api_router,
    authorize,
    caller_of,
    check_here,
    cut,
    known_shoot,
    listed_in_time,
    listed_prober,
    planned,
    refuse_in_dry_run,
    refuse_unknown,
    until_listed,
)
from app.api.problems import Problem, ProblemType
from app.core.errors import FeatureUnavailable, trimmed
from app.core.model import workloads as ann
from app.core.model.durations import parse_duration
from app.core.model.names import is_label, is_subdomain
from app.core.model.overrides import API_PAUSE, Hold, ObjectId, Pause, ScaleRequest, Scope
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from app.core.model.workloads import WorkloadView
from app.core.overrides.cache import PAUSES, REQUESTS
from app.core.overrides.rules import ordered
from app.prober.rules import scaling
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
    if status.state is ShootState.NOT_PROBED or not scaling.protection_active(views):
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
_LISTED: Final = "/api/v1/shoots/{namespace}/pauses"
_LISTED_OF_ALL: Final = "/api/v1/pauses"


# The right to make a pause is not that to replace one.


class Pausing:
    """A dependency: the caller may make the API's Pause, or replace the one that is there.

    Args:
        make: What the caller must be allowed to do where there is none.
        replace: The same where there is one.
    """

    def __init__(self, make: Call, replace: Call) -> None:
        self._make, self._replace = make, replace

    async def __call__(self, request: Request, context: AnyContext) -> "PauseRight":
        """Return the right; raises a `Problem` (403, 429, 503) if the caller has it not."""
        found = PauseRight(self._make, self._replace, request.path_params.get("namespace"))
        await found.check(request, context)
        await refuse_unknown(request)
        return found


@dataclass(slots=True)
class PauseRight:
    """The right of a caller to make or to replace a Pause."""

    _make: Call
    _replace: Call
    namespace: str | None
    """Of the shoot; None: of all shoots."""
    _checked: Call | None = None

    async def check(self, request: Request, context: Context) -> None:
        """Check it, anew if somebody has made or ended the Pause since the last time."""
        while (call := self._needed(context)) is not self._checked:
            await authorize(request, context, call, self.namespace or "")
            self._checked = call

    def _needed(self, context: Context) -> Call:
        return self._make if context.api_pause(self.namespace) is None else self._replace


OfShoot = Annotated[PauseRight, Depends(Pausing(Call.PAUSE, Call.CHANGE_PAUSE))]
OfAll = Annotated[PauseRight, Depends(Pausing(Call.PAUSE_ALL, Call.CHANGE_PAUSE_ALL))]


@router.put(_OF_SHOOT, response_model=schemas.Pause | schemas.Changes)
async def pause_shoot(
    request: Request, context: AnyContext, right: OfShoot, namespace: str, body: schemas.PauseOrder
) -> schemas.Pause | Response:
    """Pause a shoot: it is still probed, but nothing is scaled or weeded until the pause ends.

    It makes the Pause `api` in the control plane's namespace, or replaces what that one says; Pauses of other names
    stay in force. Any replica accepts it. With `dryRun` nothing is written, and the answer says what would change.
    """
    return await _pause(request, context, right, namespace, body)


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
    """End the pause `api` of a shoot now, if there is one. Its other pauses, and those of all shoots, stay in force."""
    return await _resume_api(request, context, namespace, reason, dry_run=dry_run)


@router.put(_OF_ALL, response_model=schemas.Pause | schemas.Changes)
async def pause_all_shoots(
    request: Request, context: AnyContext, right: OfAll, body: schemas.PauseOrder
) -> schemas.Pause | Response:
    """Pause all shoots of the seed: the same as for one, by the Pause `api` in the watchdog's own namespace."""
    return await _pause(request, context, right, None, body)


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
    """End the pause `api` of all shoots now; other pauses of all shoots, and those of single ones, stay in force."""
    return await _resume_api(request, context, None, reason, dry_run=dry_run)


async def _pause(
    request: Request,
    context: Context,
    right: PauseRight,
    namespace: str | None,
    body: schemas.PauseOrder,
) -> schemas.Pause | Response:
    draft = drafted(request, "pause", namespace, reason=body.reason, dry_run=body.dry_run)
    _ = await listed_in_time(context, lambda: context.overrides.synced)
    there = context.api_pause(namespace)
    before = draft.before = _audited(there, context, namespace)
    covered = await _covered(context, namespace)
    if not body.dry_run:
        refuse_in_dry_run(context)
    if body.scope is Scope.ALL and not body.force:
        _refuse_to_strand(covered)
    wish = _wish(request, context, namespace, body, there)
    await right.check(request, context)
    if body.dry_run:
        _refuse_if_off(context, PAUSES)
        return planned(_object(wish), before, _shown(wish, namespace))
    change = await context.override_service.set_pause(namespace, wish)
    draft.before = _audited(change.before, context, namespace)
    draft.after = _shown(change.after, namespace)
    return presenting.pause(change.after, namespace)


async def _resume_api(
    request: Request, context: Context, namespace: str | None, reason: str, *, dry_run: bool
) -> Response:
    ended = await _end(request, context, namespace, API_PAUSE, reason, dry_run=dry_run)
    if ended is None:
        return planned("no pause", None, None) if dry_run else Response(status_code=204)
    return ended


async def _end(
    request: Request,
    context: Context,
    namespace: str | None,
    name: str,
    reason: str,
    *,
    target: str | None = None,
    dry_run: bool,
) -> Response | None:
    """End a pause, or say what that would change; None if there is none."""
    draft = drafted(request, "resume", namespace, target=target, reason=reason, dry_run=dry_run)
    _ = await listed_in_time(context, lambda: context.overrides.synced)
    pauses = context.overrides.pauses(namespace)
    there = next((each for each in pauses if each.id.name == name), None)
    draft.before = _audited(there, context, namespace)
    _ = await _covered(context, namespace)
    if dry_run:
        _refuse_if_off(context, PAUSES)
        return None if there is None else planned(_object(there), draft.before, None)
    refuse_in_dry_run(context)
    by = caller_of(request).name
    ended = await context.override_service.end_pause(namespace, name, by=by)
    draft.before = _audited(ended, context, namespace)
    return None if ended is None else Response(status_code=204)


# All pauses in force, those of kubectl included, by their names.


@router.get(_LISTED, dependencies=[allowed(Call.READ_SHOOT)])
async def list_pauses(
    context: AnyContext, namespace: str, query: Annotated[PageQuery, Query()]
) -> schemas.PauseList:
    """The pauses in force for a shoot, those of all shoots included, the one that acts first."""
    _ = await _covered(context, namespace)
    await _until_known(context)
    return _listed_pauses(context.overrides.effective(namespace).pauses, namespace, query)


@router.get(_LISTED_OF_ALL, dependencies=[allowed(Call.LIST)])
async def list_pauses_of_all(
    context: AnyContext, query: Annotated[PageQuery, Query()]
) -> schemas.PauseList:
    """The pauses of all shoots that are in force, the one that acts first."""
    await _until_known(context)
    found = ordered(context.overrides.pauses(None), context.process.now())
    return _listed_pauses(found, None, query)


async def _until_known(context: Context) -> None:
    await until_listed(context, "Pauses", lambda: context.overrides.synced)


# More than any instant of RFC 3339.
_LATEST: Final = 1e12


def _listed_pauses(
    found: Sequence[Pause], namespace: str | None, query: PageQuery
) -> schemas.PauseList:
    def key(pause: Pause) -> PageKey:
        rank = (0.0 if pause.scope is Scope.ALL else _LATEST) - pause.until
        return PageKey(rank, f"{pause.id.name} {pause.id.namespace}")

    page = cut(found, key, "pauses", query)
    return schemas.PauseList(
        items=[presenting.pause(each, namespace) for each in page.items], metadata=page.metadata
    )


PauseName = Annotated[str, Path(description="The name of the Pause, as in the list.")]


@router.delete(
    _LISTED + "/{name}",
    status_code=204,
    dependencies=[allowed(Call.RESUME)],
    responses=_PLANNED,
)
async def end_pause(
    request: Request,
    context: AnyContext,
    namespace: str,
    name: PauseName,
    *,
    dry_run: DryRun = False,
    reason: OptionalReason = "",
) -> Response:
    """End a pause of a shoot by its name, whoever has made it, by deleting the Pause."""
    return await _end_by_name(request, context, namespace, name, reason, dry_run=dry_run)


@router.delete(
    _LISTED_OF_ALL + "/{name}",
    status_code=204,
    dependencies=[allowed(Call.RESUME_ALL)],
    responses=_PLANNED,
)
async def end_pause_of_all(
    request: Request,
    context: AnyContext,
    name: PauseName,
    *,
    dry_run: DryRun = False,
    reason: OptionalReason = "",
) -> Response:
    """End a pause of all shoots by its name, whoever has made it, by deleting the Pause."""
    return await _end_by_name(request, context, None, name, reason, dry_run=dry_run)


async def _end_by_name(
    request: Request,
    context: Context,
    namespace: str | None,
    name: str,
    reason: str,
    *,
    dry_run: bool,
) -> Response:
    target = f"Pause/{trimmed(name, 100)}"
    drafted(request, "", target=target)
    # The caller chose this text: it may be of any length and content, and must not reach the seed.
    if is_subdomain(name):
        ended = await _end(
            request, context, namespace, name, reason, target=target, dry_run=dry_run
        )
        if ended is not None:
            return ended
    whose = "of all shoots" if namespace is None else f"of {trimmed(namespace, 100)}"
    raise Problem(ProblemType.NOT_FOUND, f"there is no pause {trimmed(name, 100)} {whose}")


# The shoots that a pause covers.


async def _covered(context: Context, namespace: str | None) -> Sequence[ShootStatus] | None:
    """The shoots that a pause would cover; None in a process that runs the weeder alone, and knows no shoots.

    Raises:
        Problem: 404: there is no such shoot; 503: the prober's process (`--peer-url`) has to be asked.
    """
    if (
        namespace == context.home
    ):  # whoever may pause this shoot need not be allowed to pause all of them
        detail = f"{namespace} is the watchdog's own namespace: Pauses there are of all shoots"
        raise Problem(ProblemType.NOT_FOUND, f"{detail}; use /api/v1/pause and /api/v1/pauses")
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


def _refuse_if_off(context: Context, feature: str) -> None:
    """Refuse a dry run where the write would be refused, too, as the feature is off in this process."""
    if (off := context.process.features_off().get(feature)) is not None:
        raise FeatureUnavailable(feature, off)


def _object(found: Pause | ScaleRequest) -> str:
    """The object that a write would change."""
    return f"{type(found).__name__} {found.id.namespace}/{found.id.name}"


# The pause that is written, and its form in answer and audit.


def _wish(
    request: Request,
    context: Context,
    namespace: str | None,
    body: schemas.PauseOrder,
    there: Pause | None,
) -> Pause:
    now = context.process.now()
    return Pause(
        body.scope,
        body.reason,
        caller_of(request).name,
        now if there is None else there.created_at,
        now + parse_duration(body.duration),
        ObjectId(context.home if namespace is None else namespace, API_PAUSE),
        verified=True,
    )


def _audited(found: Pause | None, context: Context, namespace: str | None) -> object:
    """State for the audit: the pause as the API shows it; None if it is not in force."""
    if found is None or not found.in_force(context.process.now()):
        return None
    return _shown(found, namespace)


def _shown(found: Pause, namespace: str | None) -> object:
    return presenting.pause(found, namespace).public()


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

    That deletes the ScaleRequest of the hold that acts; an earlier one may hold verdicts back, too, and acts then. Any
    replica accepts it; the leader, which performs the scaling run, sees it within a second.
    """
    draft = drafted(request, "end-hold", namespace, reason=reason, dry_run=dry_run)
    draft.before = _audited_hold(context.overrides.effective(namespace).hold)
    known_shoot(prober, namespace)
    if not dry_run:
        refuse_in_dry_run(context)
    await until_listed(context, "ScaleRequests", lambda: context.overrides.synced)
    hold = context.overrides.effective(namespace).hold
    draft.before = _audited_hold(hold)
    requests = context.overrides.requests(namespace)
    uid = None if hold is None else hold.operation
    held = next((each for each in requests if each.id.uid == uid), None)
    if dry_run:
        _refuse_if_off(context, REQUESTS)
        return planned("no hold" if held is None else _object(held), draft.before, None)
    context.override_service.check(REQUESTS)
    if held is None:
        return Response(status_code=204)
    draft.target = uid
    if not await context.override_service.delete_request(held, by=caller_of(request).name):
        draft.before = None
    return Response(status_code=204)


def _audited_hold(hold: Hold | None) -> object:
    return None if hold is None else schemas.Hold.of(hold).public()
