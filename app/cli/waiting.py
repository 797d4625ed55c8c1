"""`dwd scale --wait`: a flow from its beginning to its end, step by step."""

import asyncio
from http import HTTPStatus
from typing import Final

from rich.text import Text

from app.cli import answers
from app.cli.answers import Operation
from app.cli.exits import CommandFailed, Exit
from app.cli.printing import Shown
from app.cli.problems import ServerRefused
from app.cli.session import Session, get
from app.cli.views import scaling
from app.cli.views.layout import change, said
from app.core.model.instants import rfc3339

_AGAIN: Final = 1.0


async def wait(session: Session, begun: Operation) -> None:
    """Shows each step of a flow as it goes on, and the whole when it has ended.

    Raises:
        CommandFailed: it was not done; or what becomes of it cannot be said any more.
    """
    try:
        data = await _to_its_end(session, begun)
    except asyncio.CancelledError:
        session.printer.tell(f"The flow goes on: dwd operations {said(begun.id)} [--cancel]")
        raise
    ended = answers.of(Operation, data)
    session.printer.show(Shown(data, scaling.detailed(ended, session.clock.now())))
    if ended.phase != scaling.DONE:
        said_last = f": {ended.message}" if ended.message else ""
        message = f"the flow {ended.id} ended as {ended.phase}{said_last}"
        raise CommandFailed(Exit.NOT_DONE, message)


async def _to_its_end(session: Session, begun: Operation) -> object:
    told = _Told(session)
    told.tell(begun)
    trouble = ""
    while True:
        await session.clock.sleep(_AGAIN)
        try:
            data = await get(session, "operations", begun.id)
        except CommandFailed as error:
            _check_passing(error)
            if str(error) != trouble:
                session.printer.tell(f"no answer for the moment: {error}")
            trouble = str(error)
            continue
        trouble, now = "", answers.of(Operation, data)
        told.tell(now)
        if now.phase in scaling.ENDED:
            return data


def _check_passing(error: CommandFailed) -> None:
    """Returns where the next request may be answered: another leader carries the flow on under the same id."""
    if isinstance(error, ServerRefused) and error.status == HTTPStatus.GONE:
        raise CommandFailed(Exit.NOT_DONE, str(error), error.notes) from error
    if not error.passing:
        raise error


class _Told:
    """What has been said of a flow."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._phases: dict[str, str] = {}

    def tell(self, now: Operation) -> None:
        """Says which steps have come further."""
        if not self._session.printer.for_people:
            return
        subjects: dict[str, tuple[str, str]] = {}
        for step in now.steps:
            what = f"{step.resource} {change(step.before, step.after)}"
            if step.phase != "Waiting":
                subjects[step.resource] = (step.phase, f"{what}  {step.message}".strip())
        flow = f"flow {now.id}"
        subjects[flow] = (now.phase, f"{flow}  {now.message}".strip())
        for subject, (phase, words) in subjects.items():
            if self._phases.get(subject) != phase:
                self._phases[subject] = phase
                self._line(phase, words)

    def _line(self, phase: str, words: str) -> None:
        at = rfc3339(self._session.clock.now())[11:19]
        self._session.printer.lines([Text(f"{at}  {said(phase):<9}  {said(words)}")])
