"""PUT and DELETE of a pause, of one shoot or of all: keep your hands off for a while."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Request

from app.api import presenting, schemas
from app.api.auditing import draft_of
from app.api.calls import Call
from app.api.dependencies import AnyContext, check_here, known_shoot, listed_prober, until_listed
from app.api.permission import allowed, caller_of
from app.api.problems import Problem, ProblemType
from app.api.stranding import refuse_to_strand
from app.api.views import Context
from app.api.writing import refuse_in_dry_run
from app.core.config.durations import parse_duration
from app.core.config.names import is_label
from app.core.errors import trimmed
from app.core.model.loops import Loop
from app.core.model.overrides import ALL_SHOOTS, OverrideEntry, Pause, Scope, Unreadable
from app.core.overrides_ports import OverrideChange
from app.prober.status import ShootStatus

router = APIRouter(tags=["overrides"])

_OF_SHOOT: Final = "/api/v1/shoots/{namespace}/pause"
_OF_ALL: Final = "/api/v1/pause"


@router.put(_OF_SHOOT, dependencies=[allowed(Call.PAUSE)])
async def pause_shoot(
    request: Request, context: AnyContext, namespace: str, body: schemas.PauseOrder
) -> schemas.Pause:
    """Pause a shoot: it goes on being looked at, and nothing is scaled or weeded until the pause ends.

    It replaces a pause that is there.  Any replica takes it.
    """
    return await _pause(request, context, namespace, body)


@router.delete(_OF_SHOOT, status_code=204, dependencies=[allowed(Call.RESUME)])
async def resume_shoot(request: Request, context: AnyContext, namespace: str) -> None:
    """End the pause of a shoot now; nothing is done where there is none.  A pause of all shoots goes on."""
    await _resume(request, context, namespace)


@router.put(_OF_ALL, dependencies=[allowed(Call.PAUSE_ALL)])
async def pause_all_shoots(
    request: Request, context: AnyContext, body: schemas.PauseOrder
) -> schemas.Pause:
    """Pause all shoots of the seed; it replaces a pause of all that is there."""
    return await _pause(request, context, None, body)


@router.delete(_OF_ALL, status_code=204, dependencies=[allowed(Call.RESUME_ALL)])
async def resume_all_shoots(request: Request, context: AnyContext) -> None:
    """End the pause of all shoots now; pauses of single ones go on."""
    await _resume(request, context, None)


async def _pause(
    request: Request, context: Context, namespace: str | None, body: schemas.PauseOrder
) -> schemas.Pause:
    draft = draft_of(request)
    draft.action, draft.namespace, draft.reason = "pause", namespace, body.reason
    draft.before = _known_before(context, namespace)
    covered = await _covered(context, namespace)
    refuse_in_dry_run(context)
    if body.scope is Scope.ALL and not body.force:
        _refuse_to_strand(covered)
    change = await context.desk.set_pause(_key(namespace), _wish(request, context, body))
    draft.before = _before(change, namespace)
    written = None if change.after is None else change.after.pause
    assert written is not None  # noqa: S101 - the desk says what it has just written
    found = presenting.given_pause(written, _covers(namespace))
    draft.after = _audited(found)
    return found


async def _resume(request: Request, context: Context, namespace: str | None) -> None:
    draft = draft_of(request)
    draft.action, draft.namespace = "resume", namespace
    draft.before = _known_before(context, namespace)
    _ = await _covered(context, namespace)
    refuse_in_dry_run(context)
    change = await context.desk.end_pause(_key(namespace), by=caller_of(request).name)
    draft.before = _before(change, namespace)


# Whom it is for.


async def _covered(context: Context, namespace: str | None) -> Sequence[ShootStatus] | None:
    """The shoots that a pause would cover; None where this process does not know them: it runs the weeder alone.

    Raises:
        Problem: there is no such shoot, or the prober's process is to be asked.
    """
    if Loop.PROBER in context.process.leaders:
        return await _known(context, namespace)
    if context.process.peer_url is not None:
        check_here(context, Loop.PROBER)
    if namespace is not None:
        await _check_served(context, namespace)
    return None


async def _check_served(context: Context, namespace: str) -> None:
    """Returns where the weeder knows the control plane, or it is paused now: that can be ended."""
    if not is_label(namespace):
        detail = f"{trimmed(namespace, 100)} cannot be a namespace"
        raise Problem(ProblemType.NOT_FOUND, detail)
    if context.overrides.standing(namespace).pause is not None:
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
    """Returns where a pause of scope `all` leaves nothing at 0, as far as this process can know."""
    if covered is None:
        detail = "this process runs the weeder alone and cannot tell which shoots are protected: what is at 0 there "
        raise Problem(
            ProblemType.CONFLICT, detail + "would stay at 0; use scope scaleDown, or force"
        )
    refuse_to_strand(covered)


# What is written, and shown of it.


def _key(namespace: str | None) -> str:
    return ALL_SHOOTS if namespace is None else namespace


def _wish(request: Request, context: Context, body: schemas.PauseOrder) -> Pause:
    now = context.process.now()
    until = now + parse_duration(body.duration)
    return Pause(body.scope, body.reason, caller_of(request).name, now, until)


def _covers(namespace: str | None) -> schemas.Covers:
    return schemas.Covers.ALL if namespace is None else schemas.Covers.SHOOT


def _known_before(context: Context, namespace: str | None) -> object:
    """For the audit of an attempt that may be refused: the pause that is in force, as far as it is known here."""
    known = context.overrides
    found = known.global_pause() if namespace is None else known.standing(namespace).pause
    return None if found is None else _audited(presenting.given_pause(found, _covers(namespace)))


def _before(change: OverrideChange, namespace: str | None) -> object:
    """For the audit: the pause that was there, or what could not be read."""
    match change.before:
        case Unreadable(problem=problem):
            return {"unreadable": problem}
        case OverrideEntry(pause=Pause() as pause):
            return _audited(presenting.given_pause(pause, _covers(namespace)))
        case _:
            return None


def _audited(pause: schemas.Pause) -> object:
    return pause.model_dump(mode="json", by_alias=True)
