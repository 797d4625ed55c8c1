"""`dwd scale` and `dwd operations`: scaling runs, their plans and their progress."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from shlex import quote
from typing import Any, Final

from rich.text import Text

from app.api.schemas import Operation, Plan
from app.cli.client import ApiCall
from app.cli.overrides import written_by
from app.cli.printing import Answer
from app.cli.problems import CommandFailed, Exit, ServerRefused
from app.cli.session import Session, delete, path
from app.cli.tables import change, clock, fields, said, since, table, until, word
from app.core.config.client_settings import OperationsSettings, ScaleSettings
from app.core.model.instants import format_duration, rfc3339

ENDED: Final = frozenset({"Done", "Failed", "Cancelled", "Refused"})
"""Final phases of a scaling run."""
_DONE: Final = "Done"
# Seconds between two requests of `--wait`.
_AGAIN: Final = 1.0
STYLES: Final = {
    "Pending": "yellow",
    "Running": "cyan",
    "Done": "green",
    "Failed": "bold red",
    "Cancelled": "yellow",
    "Refused": "bold yellow",
    "Write": "bold",
}


async def operations(
    session: Session, settings: OperationsSettings, run: str | None = None
) -> Answer:
    """`dwd operations`: all scaling runs, or one; or cancel it."""
    if run is None:
        data, found = await session.get_all(Operation, "operations")
        lines = listed(found, session.clock.now(), wide=session.printer.wide)
        return Answer(data, lines, [each.id for each in found])
    if settings.cancel:
        call = delete("operations", run, reason=settings.reason)
    else:
        call = ApiCall("GET", path("operations", run))
    return _shown(session, *await session.ask(Operation, call))


def _shown(session: Session, data: object, found: Operation, *more: Text) -> Answer:
    lines = [*detailed(found, session.clock.now()), *more]
    return Answer(data, lines, [found.id], ended=found.phase in ENDED)


async def scale(
    session: Session, settings: ScaleSettings, direction: str, namespace: str
) -> Answer:
    """`dwd scale`: scale by hand, or show the plan."""
    body = {
        "direction": direction,
        "reason": settings.reason,
        "hold": format_duration(settings.hold),
        "dryRun": settings.dry_run,
        "force": settings.force,
    }
    headers = {"If-Match": settings.if_match}
    call = ApiCall("POST", path("shoots", namespace, "scale"), body=body, headers=headers)
    if settings.dry_run:
        data, plan = await session.ask(Plan, call)
        return Answer(data, planned(plan))
    data, begun = await session.ask(Operation, call)
    if settings.wait:
        return await _wait(session, begun)
    more = f"It continues by itself: dwd operations {said(begun.id)} --watch"
    return _shown(session, data, begun, Text(), Text(more))


async def _wait(session: Session, begun: Operation) -> Answer:
    """Show the steps of a scaling run as they progress; returns the whole run when it has ended.

    Raises:
        CommandFailed: The run failed or was cancelled (NOT_DONE), or its end cannot be learnt.
    """
    try:
        data, ended = await _to_its_end(session, begun)
    except asyncio.CancelledError:
        hint = f"The scaling run continues: dwd operations {said(begun.id)} [--cancel]"
        session.printer.tell(hint)
        raise
    shown = _shown(session, data, ended)
    if ended.phase != _DONE:
        session.printer.show(shown)
        why = f": {ended.message}" if ended.message else ""
        message = f"the scaling run {ended.id} ended as {ended.phase}{why}"
        raise CommandFailed(Exit.NOT_DONE, message)
    return shown


async def _to_its_end(session: Session, begun: Operation) -> tuple[Any, Operation]:
    phases: dict[str, str] = {}
    _tell_progress(session, begun, phases)
    trouble = ""
    while True:
        await session.clock.sleep(_AGAIN)
        try:
            data, now = await session.get(Operation, "operations", begun.id)
        except CommandFailed as error:
            # A new leader carries the run on under the same id (rules 7). What is not there any more was cancelled:
            # its ScaleRequest was deleted.
            gone = {HTTPStatus.GONE, HTTPStatus.NOT_FOUND}
            if isinstance(error, ServerRefused) and error.status in gone:
                raise CommandFailed(Exit.NOT_DONE, str(error), error.notes) from error
            if not error.passing:
                raise
            if str(error) != trouble:
                session.printer.tell(f"no answer at the moment: {error}")
            trouble = str(error)
            continue
        trouble = ""
        _tell_progress(session, now, phases)
        if now.phase in ENDED:
            return data, now


def _tell_progress(session: Session, now: Operation, phases: dict[str, str]) -> None:
    """Print the run and the steps whose phase is not the one in `phases`, and note it there; nothing for programs.

    A run begins before its steps and ends after them.
    """
    if not session.printer.for_people:
        return
    at = rfc3339(session.clock.now())[11:19]

    def tell(subject: str, what: str, phase: str, message: str) -> None:
        if phases.get(subject) != phase:
            phases[subject] = phase
            words = said(f"{subject} {what} {message}")
            session.printer.lines([Text(f"{at}  {said(phase):<9}  {words}")])

    run = (f"scaling run {now.id}", "", now.phase, now.message)
    if now.phase not in ENDED:
        tell(*run)
    for step in now.steps:
        if step.phase != "Waiting":
            known = step.before is not None or step.after is not None
            replicas = change(step.before, step.after) if known else ""
            tell(step.resource, replicas, step.phase, step.message)
    if now.phase in ENDED:
        tell(*run)


# Scaling runs and plans as lines.


def _by(operation: Operation) -> str:
    return written_by(operation) if operation.author else operation.trigger


def listed(operations: Sequence[Operation], now: float, *, wide: bool = False) -> list[Text]:
    """A table of scaling runs, in the given order."""
    heads = ["ID", "NAMESPACE", "DIRECTION", "BY", "PHASE", "AGE", "REASON"]
    heads += ["BEGUN", "ENDED", "HELD UNTIL", "MESSAGE"] if wide else []
    rows = [
        (
            *(each.id, each.namespace, each.direction, _by(each), word(each.phase, STYLES)),
            *(since(each.created, now), each.reason),
            *((each.created, each.ended, each.hold_until, each.message) if wide else ()),
        )
        for each in operations
    ]
    return table(heads, rows, "no operations")


def detailed(operation: Operation, now: float) -> list[Text]:
    """One scaling run with its steps."""
    head = Text.assemble((said(operation.id), "bold"), "  ")
    head.append(said(operation.phase), STYLES.get(operation.phase, ""))
    head.append(f"  scale {said(operation.direction)} of {said(operation.namespace)}")
    facts = [
        ("by", _by(operation)),
        ("reason", operation.reason),
        ("begun", f"{said(operation.created)}, {since(operation.created, now)} ago"),
        ("ended", operation.ended or None),
        ("held until", until(operation.hold_until, now) if operation.hold_until else None),
        ("message", operation.message or None),
    ]
    heads = ("LEVEL", "RESOURCE", "PHASE", "REPLICAS", "BEGUN", "ENDED", "MESSAGE")
    steps = [
        (
            *(each.level, each.resource, word(each.phase, STYLES)),
            *(change(each.before, each.after), clock(each.started), clock(each.ended)),
            each.message,
        )
        for each in operation.steps
    ]
    return [head, *fields(facts), Text(), *table(heads, steps, "no steps")]


def planned(plan: Plan) -> list[Text]:
    """The plan of a scaling run, level by level, with the `--if-match` that carries it out."""
    rows = [
        (
            *(level.level, step.resource, word(step.action, STYLES)),
            *(change(step.before, step.after), step.initial_delay, step.reason),
        )
        for level in plan.levels
        for step in level.steps
    ]
    heads = ("LEVEL", "RESOURCE", "WOULD", "REPLICAS", "DELAY", "WHY")
    lines = table(heads, rows, "nothing would be done")
    if plan.replaces:
        lines.append(Text(f"The automatic scaling run {said(plan.replaces)} would end."))
    if plan.etag:
        repeat = f"--if-match {quote(said(plan.etag))}"
        lines.append(Text(f"Nothing was written. To do exactly this: {repeat}"))
    return lines
