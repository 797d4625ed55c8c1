"""Pauses, of one shoot or of all, and the end of a hold (rules 7)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request, Response

from app.api import dependencies as deps
from app.api import presenting, schemas
from app.api.auditing import WriteOptions, drafted
from app.api.auth.authorization import Call
from app.api.context import Context
from app.api.problems import Problem, ProblemType
from app.api.request_bodies import PauseOrder
from app.core.errors import trimmed
from app.core.model import workloads as ann
from app.core.model.instants import parse_duration
from app.core.model.names import is_label, is_subdomain
from app.core.model.overrides import API_PAUSE, Hold, ObjectId, Pause, ScaleRequest, Scope, ordered
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from app.core.overrides.cache import PAUSES, REQUESTS
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
    scaled = (each for each in views if ann.ignore_scaling(each.annotations) is not ann.Ignore.YES)
    return tuple(
        str(each.ref)
        for each in scaled
        # The watch does not show the size of some kinds (rules 3.2): with the meltdown key, it may be 0.
        if each.replicas == 0 or (each.replicas is None and each.protected)
    )


def refuse_to_strand(covered: Iterable[ShootStatus] | None) -> None:
    """Refuse a pause of scope `all` over these shoots if it would leave dependents at 0; None: they are not known here.

    Raises:
        Problem: 409, with the number of protected shoots, and what would stay at 0 in the first few.
    """
    if covered is None:
        why = "this process runs the weeder alone and cannot tell which shoots are protected"
        raise Problem(ProblemType.CONFLICT, f"{why}: what is at 0 there would stay at 0; {_HELP}")
    found = {each.namespace: names for each in covered if (names := stranded(each))}
    if not found:
        return
    first = sorted(found)[:_NAMED]
    if len(found) == 1:
        detail = f"{first[0]} is protected: {_listed(found[first[0]])} would stay at 0; {_HELP}"
    else:
        others = [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
        named = _listed([*first, *others])
        what = f"{len(found)} shoots are protected, and their resources at 0 would stay at 0"
        detail = f"{what}: {named}; {_HELP}"
    extra = {
        "protectedShoots": len(found),
        "staysAtZero": {namespace: list(found[namespace]) for namespace in first},
    }
    raise Problem(ProblemType.CONFLICT, detail, extra=extra)


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# The pauses that one request is about.


class PausesOf:
    """The pauses of one shoot, or of all (`namespace` None), for one request: refuses, writes, and fills the audit."""

    def __init__(self, request: Request, context: Context, namespace: str | None) -> None:
        self._request, self._context, self.namespace = request, context, namespace
        self._checked: Call | None = None
        """The right that the caller has shown to have."""

    async def check_right(self) -> None:
        """Require the right to make the API's Pause, or to replace the one that is there: these are two rights.

        It is checked anew if somebody has made or ended the Pause since the last time.
        """
        make, change = Call.PAUSE, Call.CHANGE_PAUSE
        if self.namespace is None:
            make, change = Call.PAUSE_ALL, Call.CHANGE_PAUSE_ALL
        while True:
            call = make if self._context.pause(self.namespace) is None else change
            if call is self._checked:
                return
            await deps.authorize(self._request, self._context, call, self.namespace or "")
            self._checked = call

    async def set(self, body: PauseOrder) -> schemas.Pause | Response:
        """Make the API's Pause or replace it, or say what that would change."""
        request, context, namespace = self._request, self._context, self.namespace
        draft = drafted(request, "pause", namespace, body)
        _ = await deps.listed_in_time(context, lambda: context.overrides.synced)
        there = context.pause(namespace)
        before = draft.before = self._audited(there)
        covered = await self._covered()
        deps.refuse_in_dry_run(context, body)
        if body.scope is Scope.ALL and not body.force:
            refuse_to_strand(covered)
        now = context.process.now()
        wanted = Pause(
            body.scope,
            body.reason,
            deps.caller_of(request).name,
            now if there is None else there.created_at,
            now + parse_duration(body.duration),
            ObjectId(context.home if namespace is None else namespace, API_PAUSE),
            verified=True,
        )
        await self.check_right()
        if body.dry_run:
            deps.refuse_if_off(context, PAUSES)
            _ = await context.override_service.replaceable(namespace)
            return deps.planned(_object(wanted), before, self._shown(wanted))
        change = await context.override_service.set_pause(namespace, wanted)
        draft.before, draft.after = self._audited(change.before), self._shown(change.after)
        return presenting.pause(change.after, namespace)

    async def end(self, options: WriteOptions, name: str | None = None) -> Response:
        """End the pause of this name, or say what that would change; without a name the API's own, if there is one.

        Raises:
            Problem: 404: there is no pause of this name.
        """
        request, context, namespace = self._request, self._context, self.namespace
        target = None if name is None else f"Pause/{trimmed(name, 100)}"
        drafted(request, "", target=target)
        if name is not None and not is_subdomain(name):
            # The caller chose this text: it may be of any length and content, and must not reach the seed.
            raise self._unknown(name)
        wanted = name or API_PAUSE
        draft = drafted(request, "resume", namespace, options, target=target)
        _ = await deps.listed_in_time(context, lambda: context.overrides.synced)
        ended = context.pause(namespace, wanted)
        draft.before = self._audited(ended)
        _ = await self._covered()
        deps.refuse_in_dry_run(context, options)
        if options.dry_run:
            deps.refuse_if_off(context, PAUSES)
        else:
            by = deps.caller_of(request).name
            ended = await context.override_service.end_pause(namespace, wanted, by=by)
            draft.before = self._audited(ended)
        if ended is None and name is not None:
            raise self._unknown(name)
        if options.dry_run:
            return deps.planned("no pause" if ended is None else _object(ended), draft.before, None)
        return Response(status_code=204)

    def _unknown(self, name: str) -> Problem:
        whose = "of all shoots" if self.namespace is None else f"of {trimmed(self.namespace, 100)}"
        detail = f"there is no pause {trimmed(name, 100)} {whose}"
        return Problem(ProblemType.NOT_FOUND, detail)

    async def page(self, query: deps.PageQuery) -> schemas.PauseList:
        """Those in force, the one that acts first; of a shoot those of all shoots, too."""
        context, namespace, now = self._context, self.namespace, self._context.process.now
        if namespace is not None:
            _ = await self._covered()
        await deps.until_listed(context, "Pauses", lambda: context.overrides.synced)
        if namespace is None:
            found = ordered(context.overrides.pauses(None), now())
        else:
            found = context.overrides.effective(namespace).pauses

        def key(pause: Pause) -> deps.PageKey:
            rank = (0.0 if pause.scope is Scope.ALL else _LATEST) - pause.until
            return deps.PageKey(rank, f"{pause.id.name} {pause.id.namespace}")

        page = deps.cut(found, key, "pauses", query)
        return schemas.PauseList(
            items=[presenting.pause(each, namespace) for each in page.items], metadata=page.metadata
        )

    def _audited(self, found: Pause | None) -> object:
        """State for the audit: the pause as the API shows it; None if it is not in force."""
        if found is None or not found.in_force(self._context.process.now()):
            return None
        return self._shown(found)

    def _shown(self, found: Pause) -> object:
        return presenting.pause(found, self.namespace).public()

    async def _covered(self) -> Sequence[ShootStatus] | None:
        """The shoots that a pause would cover; None in a process that runs the weeder alone, and knows no shoots.

        Raises:
            Problem: 404: there is no such shoot; 503: the prober's process (`--peer-url`) has to be asked.
        """
        context, namespace = self._context, self.namespace
        if namespace == context.home:
            # Whoever may pause this shoot need not be allowed to pause all of them.
            detail = f"{namespace} is the watchdog's own namespace: Pauses there are of all shoots"
            raise Problem(ProblemType.NOT_FOUND, f"{detail}; use /api/v1/pause and /api/v1/pauses")
        if Loop.PROBER in context.process.leaders:
            shoots = await deps.listed_prober(context)
            return (
                shoots.shoots.statuses()
                if namespace is None
                else [deps.known_shoot(shoots, namespace)]
            )
        if context.process.peer_url is not None:
            deps.check_here(context, Loop.PROBER)
        if namespace is not None:
            await _check_served(context, namespace)
        return None


# More than any instant of RFC 3339.
_LATEST: Final = 1e12


async def _check_served(context: Context, namespace: str) -> None:
    """Raise a `Problem` (404) unless the weeder knows the control plane, or it has a pause, which may be ended."""
    if not is_label(namespace):
        detail = f"{trimmed(namespace, 100)} cannot be a namespace"
        raise Problem(ProblemType.NOT_FOUND, detail)
    if context.overrides.effective(namespace).pause is not None:
        return
    weeders = context.weeders
    assert weeders is not None  # noqa: S101 - a process without the prober runs the weeder
    await deps.until_listed(context, "EndpointSlices", lambda: weeders.namespaces() is not None)
    if namespace not in (weeders.namespaces() or ()):
        detail = f"no service of {namespace} is known to the weeder, which runs here alone"
        raise Problem(ProblemType.NOT_FOUND, detail)


def _object(found: Pause | ScaleRequest) -> str:
    """The object that a write would change."""
    return f"{type(found).__name__} {found.id.namespace}/{found.id.name}"


async def of_shoot(request: Request, context: deps.AnyContext, namespace: str) -> PausesOf:
    """The pauses of the shoot in the path; a dependency."""
    return PausesOf(request, context, namespace)


async def of_all(request: Request, context: deps.AnyContext) -> PausesOf:
    """The pauses of all shoots; a dependency."""
    return PausesOf(request, context, None)


OfShoot = Annotated[PausesOf, Depends(of_shoot)]
OfAll = Annotated[PausesOf, Depends(of_all)]


def settable(pauses_of: Callable[..., Any]) -> Any:  # noqa: ANN401 - a marker of FastAPI's, without a public type
    """A dependency that requires the right to make the API's Pause, or to replace the one that is there."""

    async def check(pauses: Annotated[PausesOf, Depends(pauses_of)], request: Request) -> None:
        await pauses.check_right()
        await deps.refuse_unknown(request)

    return Depends(check)


# The calls.

router = deps.api_router("overrides")

_OF_SHOOT: Final = "/api/v1/shoots/{namespace}/pause"
_OF_ALL: Final = "/api/v1/pause"
_LISTED: Final = "/api/v1/shoots/{namespace}/pauses"
_LISTED_OF_ALL: Final = "/api/v1/pauses"


# A dependency, so that the namespace stands before it in the OpenAPI document, as in the path.
async def _named(
    name: Annotated[str, Path(description="The name of the Pause, as in the list.")],
) -> str:
    return name


PauseName = Annotated[str, Depends(_named)]


@router.put(
    _OF_SHOOT, response_model=schemas.Pause | schemas.Changes, dependencies=[settable(of_shoot)]
)
async def pause_shoot(pauses: OfShoot, body: PauseOrder) -> schemas.Pause | Response:
    """Pause a shoot: it is still probed, but nothing is scaled or weeded until the pause ends.

    It makes the Pause `api` in the control plane's namespace, or replaces what that one says; Pauses of other names
    stay in force. Any replica accepts it. With `dryRun` nothing is written, and the answer says what would change.
    """
    return await pauses.set(body)


@router.delete(
    _OF_SHOOT, status_code=204, dependencies=[deps.allowed(Call.RESUME)], responses=deps.PLANNED
)
async def resume_shoot(pauses: OfShoot, options: deps.WriteQuery) -> Response:
    """End the pause `api` of a shoot now, if there is one. Its other pauses, and those of all shoots, stay in force."""
    return await pauses.end(options)


@router.put(
    _OF_ALL, response_model=schemas.Pause | schemas.Changes, dependencies=[settable(of_all)]
)
async def pause_all_shoots(pauses: OfAll, body: PauseOrder) -> schemas.Pause | Response:
    """Pause all shoots of the seed: the same as for one, by the Pause `api` in the watchdog's own namespace."""
    return await pauses.set(body)


@router.delete(
    _OF_ALL, status_code=204, dependencies=[deps.allowed(Call.RESUME_ALL)], responses=deps.PLANNED
)
async def resume_all_shoots(pauses: OfAll, options: deps.WriteQuery) -> Response:
    """End the pause `api` of all shoots now; other pauses of all shoots, and those of single ones, stay in force."""
    return await pauses.end(options)


@router.get(_LISTED, dependencies=[deps.allowed(Call.READ_SHOOT)])
async def list_pauses(
    pauses: OfShoot, query: Annotated[deps.PageQuery, Query()]
) -> schemas.PauseList:
    """The pauses in force for a shoot, those of all shoots included, the one that acts first."""
    return await pauses.page(query)


@router.get(_LISTED_OF_ALL, dependencies=[deps.allowed(Call.LIST)])
async def list_pauses_of_all(
    pauses: OfAll, query: Annotated[deps.PageQuery, Query()]
) -> schemas.PauseList:
    """The pauses of all shoots that are in force, the one that acts first."""
    return await pauses.page(query)


@router.delete(
    _LISTED + "/{name}",
    status_code=204,
    dependencies=[deps.allowed(Call.RESUME)],
    responses=deps.PLANNED,
)
async def end_pause(pauses: OfShoot, name: PauseName, options: deps.WriteQuery) -> Response:
    """End a pause of a shoot by its name, whoever has made it, by deleting the Pause."""
    return await pauses.end(options, name)


@router.delete(
    _LISTED_OF_ALL + "/{name}",
    status_code=204,
    dependencies=[deps.allowed(Call.RESUME_ALL)],
    responses=deps.PLANNED,
)
async def end_pause_of_all(pauses: OfAll, name: PauseName, options: deps.WriteQuery) -> Response:
    """End a pause of all shoots by its name, whoever has made it, by deleting the Pause."""
    return await pauses.end(options, name)


# DELETE /api/v1/shoots/{namespace}/hold ends a hold, so that the automatic verdicts of the shoot act again.


@router.delete(
    "/api/v1/shoots/{namespace}/hold",
    status_code=204,
    dependencies=[deps.allowed(Call.CANCEL)],
    responses=deps.PLANNED,
)
async def end_hold(
    request: Request,
    context: deps.AnyContext,
    prober: deps.AnyProber,
    namespace: str,
    options: deps.WriteQuery,
) -> Response:
    """End the hold of a shoot now, if there is one, and cancel its scaling run if that is still under way.

    That deletes the ScaleRequest of the hold that acts; an earlier one may hold verdicts back, too, and acts then. Any
    replica accepts it; the leader, which performs the scaling run, sees it within a second.
    """
    draft = drafted(request, "end-hold", namespace, options)
    draft.before = _audited_hold(context.overrides.effective(namespace).hold)
    deps.known_shoot(prober, namespace)
    deps.refuse_in_dry_run(context, options)
    await deps.until_listed(context, "ScaleRequests", lambda: context.overrides.synced)
    hold = context.overrides.effective(namespace).hold
    draft.before = _audited_hold(hold)
    held = None if hold is None else context.overrides.request(hold.operation, namespace)
    if options.dry_run:
        deps.refuse_if_off(context, REQUESTS)
        return deps.planned("no hold" if held is None else _object(held), draft.before, None)
    context.override_service.check(REQUESTS)
    if held is None:
        return Response(status_code=204)
    draft.target = held.id.uid
    if not await context.override_service.delete_request(held, by=deps.caller_of(request).name):
        draft.before = None
    return Response(status_code=204)


def _audited_hold(hold: Hold | None) -> object:
    return None if hold is None else schemas.Hold.of(hold).public()
