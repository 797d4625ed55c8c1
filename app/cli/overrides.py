"""`dwd pause`, `resume`, `ignore` and `unignore`: what people decide, and how it is shown."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from app.api.schemas import Hold, LiveResource, Operation, Pause
from app.cli.client import ApiCall
from app.cli.printing import Answer
from app.cli.problems import CommandFailed, Exit
from app.cli.session import Session, delete, path
from app.cli.tables import said, span, table, until
from app.core.config.client_settings import (
    IgnoreSettings,
    PauseSettings,
    ResumeSettings,
    UnignoreSettings,
)
from app.core.model.instants import format_duration, parse_rfc3339

_OF_THE_API: Final = "api"


async def pause(session: Session, settings: PauseSettings, shoot: str | None = None) -> Answer:
    """`dwd pause`: pause one shoot, or all."""
    body = {
        "reason": settings.reason,
        "duration": format_duration(settings.duration),
        "scope": str(settings.scope),
        "force": settings.force,
    }
    data, found = await session.ask(Pause, ApiCall("PUT", path(*_of(shoot), "pause"), body=body))
    end, whom = until(found.until, session.clock.now()), shoot or "all shoots"
    line = f"{whom}: paused ({said(found.scope)}) until {end}: {said(found.reason)}"
    return Answer(data, [Text(line)])


async def resume(session: Session, settings: ResumeSettings, shoot: str | None = None) -> None:
    """`dwd resume`: end the pause of one shoot or of all, one by its name, or a hold."""
    # What else is in force is not asked for, as that would be a request of its own.
    if settings.hold:
        what = ["hold"]
        told = "that hold is over; an earlier one, if there is one, acts now"
    elif settings.name is not None:
        what = ["pauses", settings.name]
        told = f"no pause {settings.name} any more; others, if there are any, stay in force"
    else:
        what, too = ["pause"], "of all shoots" if shoot else "of single shoots"
        told = f"no pause of this API any more; those made with kubectl, and {too}, stay in force"
    await session.client.ask(delete(*_of(shoot), *what, reason=settings.reason))
    if session.printer.for_people:
        session.printer.lines([Text(f"{shoot or 'all shoots'}: {told}")])


def _of(shoot: str | None) -> tuple[str, ...]:
    """How the paths of a shoot's pauses and hold begin; those of all shoots have nothing before them."""
    return ("shoots", shoot) if shoot else ()


async def ignore(
    session: Session, settings: IgnoreSettings, namespace: str, resource: str
) -> Answer:
    """`dwd ignore`: set ignore-scaling on a resource."""
    body = {"reason": settings.reason, "force": settings.force}
    call = ApiCall("PUT", path(*await _annotation(session, namespace, resource)), body=body)
    return await _annotate(session, call, "is excluded from scaling until dwd unignore")


async def unignore(
    session: Session, settings: UnignoreSettings, namespace: str, resource: str
) -> Answer:
    """`dwd unignore`: remove ignore-scaling from a resource."""
    call = delete(*await _annotation(session, namespace, resource), reason=settings.reason)
    return await _annotate(session, call, "is included in scaling again")


async def _annotate(session: Session, call: ApiCall, what: str) -> Answer:
    data, found = await session.ask(LiveResource, call)
    return Answer(data, [Text(f"{said(f'{found.kind}/{found.name}')} {what}")])


async def _annotation(session: Session, namespace: str, resource: str) -> tuple[str, ...]:
    """The path for ignore-scaling of `KIND/NAME`; a kind that is missing or in lower case is looked up."""
    kind, _, name = resource.rpartition("/")
    if not kind[:1].isupper():
        kind = await _kind(session, namespace, kind, name)
    return ("shoots", namespace, "resources", kind, name, "ignore-scaling")


async def _kind(session: Session, namespace: str, kind: str, name: str) -> str:
    """The kind in its proper spelling; for an empty one, the only kind that has a resource of this name."""
    _, listed = await session.get_all(LiveResource, "shoots", namespace, "resources")
    kinds = {each.kind for each in listed if each.name == name}
    found = {each for each in kinds if kind.lower() in {"", each.lower()}}
    if len(found) == 1:
        return found.pop()
    known = ", ".join(f"{each.kind}/{each.name}" for each in listed) or "none"
    what = f"{kind}/{name}" if kind else name
    if found:
        raise CommandFailed(Exit.USAGE, f"{what} is ambiguous; the resources are {known}")
    message = f"{namespace} has no resource {what}; the resources are {known}"
    raise CommandFailed(Exit.NOT_FOUND, message)


# What is in force, in words.


def paused(pause: Pause, now: float) -> str:
    """A pause with the time left, author and reason, and its name unless it is the API's own."""
    whose = " (all shoots)" if pause.covers == "all" else ""
    left = _left(pause.until, now)
    return f"paused {pause.scope}{whose}, {left}, {written_by(pause)}: {pause.reason}{named(pause)}"


def named(pause: Pause) -> str:
    """The name by which a pause is ended that was made with kubectl; empty for one of the API."""
    return "" if pause.name in {"", _OF_THE_API} else f" (Pause {pause.name})"


def pauses(found: Sequence[Pause], now: float) -> list[Text]:
    """A table of pauses, the one that acts first."""
    heads = ("PAUSE", "COVERS", "SCOPE", "LEFT", "AUTHOR", "REASON")
    rows = [
        (
            *(each.name, "all shoots" if each.covers == "all" else "this shoot", each.scope),
            _left(each.until, now),
            written_by(each),
            each.reason,
        )
        for each in found
    ]
    return table(heads, rows)


def held(hold: Hold, now: float) -> str:
    """A hold with the time left, the scaling run that goes on, author and reason."""
    direction = f" {hold.direction}" if hold.direction else ""
    run = "" if hold.done or not hold.operation else f", scaling run {hold.operation} continues"
    return f"held{direction}, {_left(hold.until, now)}{run}, {written_by(hold)}: {hold.reason}"


def _left(time: str, now: float) -> str:
    instant = parse_rfc3339(time)
    if instant is None or instant <= now:
        return f"until {said(time)}"
    return f"{span(instant - now)} left"


def written_by(decision: Pause | Hold | Operation) -> str:
    """The author, and whether that is only what somebody has written."""
    known = decision.verified or decision.author == "unknown"
    return f"{decision.author}{'' if known else ' (unverified)'}"
