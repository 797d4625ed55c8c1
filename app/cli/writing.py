"""Commands that change something: each sends one request and shows its result."""

import asyncio
from http import HTTPStatus
from typing import Final

from rich.text import Text

from app.cli import answers
from app.cli.answers import Operation, Page, Pause, Plan, ProbeRequest, Recovery, Resource
from app.cli.client import ApiCall
from app.cli.printing import Answer
from app.cli.problems import CommandFailed, Exit, ServerRefused
from app.cli.session import Session, get, get_all, path, reason_query
from app.cli.views import scaling
from app.cli.views.layout import change, said, until
from app.core.config.client_settings import (
    IgnoreSettings,
    PauseSettings,
    ProbeSettings,
    ResumeSettings,
    ScaleSettings,
    UnignoreSettings,
    WeedSettings,
)
from app.core.model.durations import format_duration
from app.core.model.instants import rfc3339

# `dwd scale --wait`: follows a scaling run to its end, step by step.


_AGAIN: Final = 1.0


async def wait(session: Session, begun: Operation) -> None:
    """Show the steps of a scaling run as they progress, and the whole run when it has ended.

    Raises:
        CommandFailed: The run failed or was cancelled (NOT_DONE), or its end cannot be learnt.
    """
    try:
        data = await _to_its_end(session, begun)
    except asyncio.CancelledError:
        session.printer.tell(
            f"The scaling run continues: dwd operations {said(begun.id)} [--cancel]"
        )
        raise
    ended = answers.of(Operation, data)
    lines = scaling.detailed(ended, session.clock.now())
    session.printer.show(Answer(data, lines, [ended.id]))
    if ended.phase != scaling.DONE:
        said_last = f": {ended.message}" if ended.message else ""
        message = f"the scaling run {ended.id} ended as {ended.phase}{said_last}"
        raise CommandFailed(Exit.NOT_DONE, message)


async def _to_its_end(session: Session, begun: Operation) -> object:
    told = _StepProgress(session)
    told.tell(begun)
    trouble = ""
    while True:
        await session.clock.sleep(_AGAIN)
        try:
            data = await get(session, "operations", begun.id)
        except CommandFailed as error:
            _check_passing(error)
            if str(error) != trouble:
                session.printer.tell(f"no answer at the moment: {error}")
            trouble = str(error)
            continue
        trouble, now = "", answers.of(Operation, data)
        told.tell(now)
        if now.phase in scaling.ENDED:
            return data


def _check_passing(error: CommandFailed) -> None:
    """Raise the error unless it may pass: a new leader carries the run on under the same id (rules 7).

    What is not there any more was cancelled: its ScaleRequest was deleted.
    """
    gone = {HTTPStatus.GONE, HTTPStatus.NOT_FOUND}
    if isinstance(error, ServerRefused) and error.status in gone:
        raise CommandFailed(Exit.NOT_DONE, str(error), error.notes) from error
    if not error.passing:
        raise error


class _StepProgress:
    """Prints the progress of a scaling run, each phase of each step once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._phases: dict[str, str] = {}

    def tell(self, now: Operation) -> None:
        """Print the steps whose phase has changed; nothing if the output is for programs."""
        if not self._session.printer.for_people:
            return
        subjects: dict[str, tuple[str, str]] = {}
        for step in now.steps:
            what = f"{step.resource} {change(step.before, step.after)}"
            if step.phase != "Waiting":
                subjects[step.resource] = (step.phase, f"{what}  {step.message}".strip())
        name = f"scaling run {now.id}"
        subjects[name] = (now.phase, f"{name}  {now.message}".strip())
        for subject, (phase, words) in subjects.items():
            if self._phases.get(subject) != phase:
                self._phases[subject] = phase
                self._line(phase, words)

    def _line(self, phase: str, words: str) -> None:
        at = rfc3339(self._session.clock.now())[11:19]
        self._session.printer.lines([Text(f"{at}  {said(phase):<9}  {said(words)}")])


async def pause(session: Session, settings: PauseSettings, words: tuple[str, ...]) -> None:
    """`dwd pause`: pause one shoot, or all."""
    body = {
        "reason": settings.reason,
        "duration": format_duration(settings.duration),
        "scope": str(settings.scope),
        "force": settings.force,
    }
    data = await _asked(session, ApiCall("PUT", _pause_path(words), body=body))
    found = answers.of(Pause, data)
    end = until(found.until, session.clock.now())
    line = f"{_whom(words)} paused ({said(found.scope)}) until {end}: {said(found.reason)}"
    session.printer.show(Answer(data, [Text(line)]))


async def resume(session: Session, settings: ResumeSettings, words: tuple[str, ...]) -> None:
    """`dwd resume`: end the pause of one shoot or of all, one by its name, or a hold."""
    # What else is in force is not asked for, as that would be a request of its own.
    if settings.hold:
        where, line = (
            path("shoots", words[0], "hold"),
            f"{words[0]}: that hold is over; an earlier one, if there is one, acts now",
        )
    elif settings.name is not None:
        of = ("shoots", words[0]) if words else ()
        where = path(*of, "pauses", settings.name)
        line = f"{_whom(words)} no pause {settings.name} any more; others, if there are any, stay in force"
    else:
        where = _pause_path(words)
        too = "of all shoots" if words else "of single shoots"
        line = f"{_whom(words)} no pause of this API any more; those made with kubectl, and {too}, stay in force"
    await _done(session, ApiCall("DELETE", where, query=reason_query(settings.reason)), line)


def _pause_path(words: tuple[str, ...]) -> str:
    return path("shoots", words[0], "pause") if words else "pause"


def _whom(words: tuple[str, ...]) -> str:
    return f"{words[0]}:" if words else "all shoots:"


async def ignore(session: Session, settings: IgnoreSettings, words: tuple[str, ...]) -> None:
    """`dwd ignore`: set ignore-scaling on a resource."""
    where = await _annotation(session, *words)
    body = {"reason": settings.reason, "force": settings.force}
    data = await _asked(session, ApiCall("PUT", where, body=body))
    _show_resource(session, data, "is excluded from scaling until dwd unignore")


async def unignore(session: Session, settings: UnignoreSettings, words: tuple[str, ...]) -> None:
    """`dwd unignore`: remove ignore-scaling from a resource."""
    where = await _annotation(session, *words)
    call = ApiCall("DELETE", where, query=reason_query(settings.reason))
    data = await _asked(session, call)
    _show_resource(session, data, "is included in scaling again")


def _show_resource(session: Session, data: object, what: str) -> None:
    found = answers.of(Resource, data or {})
    name = said(f"{found.kind}/{found.name}") if found.name else "the resource"
    session.printer.show(Answer(data, [Text(f"{name} {what}")]))


async def _annotation(session: Session, namespace: str, resource: str) -> str:
    """The API's path for ignore-scaling of `KIND/NAME`; a kind that is missing or in lower case is looked up."""
    kind, _, name = resource.rpartition("/")
    if not kind[:1].isupper():
        kind = await _kind(session, namespace, kind, name)
    return path("shoots", namespace, "resources", kind, name, "ignore-scaling")


async def _kind(session: Session, namespace: str, kind: str, name: str) -> str:
    """The kind in its proper spelling; for an empty one, the only kind that has a resource of this name."""
    listed = answers.of(Page[Resource], await get_all(session, "shoots", namespace, "resources"))
    meant = [each for each in listed.items if each.name == name]
    found = {each.kind for each in meant if kind.lower() in {"", each.kind.lower()}}
    if len(found) == 1:
        return found.pop()
    known = ", ".join(f"{each.kind}/{each.name}" for each in listed.items) or "none"
    what = f"{kind}/{name}" if kind else name
    if found:
        raise CommandFailed(Exit.USAGE, f"{what} is ambiguous; the resources are {known}")
    raise CommandFailed(
        Exit.NOT_FOUND, f"{namespace} has no resource {what}; the resources are {known}"
    )


async def scale(session: Session, settings: ScaleSettings, words: tuple[str, ...]) -> None:
    """`dwd scale`: scale by hand, or show the plan."""
    direction, namespace = words
    body = {
        "direction": direction,
        "reason": settings.reason,
        "hold": format_duration(settings.hold),
        "dryRun": settings.dry_run,
        "force": settings.force,
    }
    headers = {} if settings.if_match is None else {"If-Match": settings.if_match}
    call = ApiCall("POST", path("shoots", namespace, "scale"), body=body, headers=headers)
    data = await _asked(session, call)
    if settings.dry_run:
        session.printer.show(Answer(data, scaling.planned(answers.of(Plan, data))))
    elif settings.wait:
        await wait(session, answers.of(Operation, data))
    else:
        _show_begun(session, data)


def _show_begun(session: Session, data: object) -> None:
    found = answers.of(Operation, data)
    lines = scaling.detailed(found, session.clock.now())
    lines += [Text(), Text(f"It continues by itself: dwd operations {said(found.id)} --watch")]
    session.printer.show(Answer(data, lines, [found.id]))


async def probe(session: Session, settings: ProbeSettings, words: tuple[str, ...]) -> None:
    """`dwd probe`: request a probe."""
    where = path("shoots", words[0], "probe")
    data = await _asked(session, ApiCall("POST", where, query=reason_query(settings.reason)))
    at = said(answers.of(ProbeRequest, data).at)
    session.printer.show(
        Answer(
            data, [Text(f"{words[0]}: the next probe is at {at}; then see dwd shoots {words[0]}")]
        )
    )


async def weed(session: Session, settings: WeedSettings, words: tuple[str, ...]) -> None:
    """`dwd weed`: begin a recovery."""
    body: dict[str, object] = {"force": settings.force}
    if settings.reason is not None:
        body["reason"] = settings.reason
    data = await _asked(session, ApiCall("POST", path("weeders", *words), body=body))
    lines = scaling.recovery("/".join(words), answers.of(Recovery, data), session.clock.now())
    session.printer.show(Answer(data, lines))


async def _asked(session: Session, call: ApiCall) -> object:
    body = await session.client.ask(call)
    return answers.read(body) if body else None


async def _done(session: Session, call: ApiCall, line: str) -> None:
    """Send a request whose answer has no body, and print `line` for people."""
    await session.client.ask(call)
    if session.printer.for_people:
        session.printer.lines([Text(line)])
