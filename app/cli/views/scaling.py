"""Scaling runs, plans and recoveries as lines; pure."""

from collections.abc import Sequence
from shlex import quote
from typing import Final

from rich.text import Text

from app.cli.answers import Operation, Plan, Recovery, Step
from app.cli.views.layout import Cell, change, clock, fields, said, since, table, until, written_by

_STYLES: Final = {
    "Pending": "yellow",
    "Running": "cyan",
    "Done": "green",
    "Failed": "bold red",
    "Cancelled": "yellow",
    "Refused": "bold yellow",
    "Write": "bold",
}
ENDED: Final = frozenset({"Done", "Failed", "Cancelled", "Refused"})
"""Final phases of a scaling run."""
DONE: Final = "Done"


def _word(text: str) -> Cell:
    return Cell(text, _STYLES.get(text, ""))


def listed(operations: Sequence[Operation], now: float, *, wide: bool = False) -> list[Text]:
    """A table of scaling runs, in the given order."""
    if not operations:
        return [Text("no operations")]
    heads = ["ID", "NAMESPACE", "DIRECTION", "BY", "PHASE", "AGE", "REASON"]
    rows = [_row(each, now) for each in operations]
    if wide:
        heads += ["BEGUN", "ENDED", "HELD UNTIL", "MESSAGE"]
        more = [(each.created, each.ended, each.hold_until, each.message) for each in operations]
        rows = [
            [*row, *(said(each) for each in cells)] for row, cells in zip(rows, more, strict=True)
        ]
    return table(heads, rows)


def _row(operation: Operation, now: float) -> list[Cell | str]:
    return [
        *(operation.id, operation.namespace, operation.direction),
        _by(operation),
        _word(operation.phase),
        since(operation.created, now),
        operation.reason,
    ]


def _by(operation: Operation) -> str:
    if not operation.author:
        return operation.trigger
    return written_by(operation.author, verified=operation.verified)


def detailed(operation: Operation, now: float) -> list[Text]:
    """One scaling run with its steps."""
    head = Text.assemble((said(operation.id), "bold"), "  ")
    head.append(said(operation.phase), _STYLES.get(operation.phase, ""))
    head.append(f"  scale {said(operation.direction)} of {said(operation.namespace)}")
    facts: list[tuple[str, Cell | str]] = [
        ("by", _by(operation)),
        ("reason", operation.reason),
        ("begun", f"{said(operation.created)}, {since(operation.created, now)} ago"),
    ]
    if operation.ended:
        facts.append(("ended", operation.ended))
    if operation.hold_until:
        facts.append(("held until", until(operation.hold_until, now)))
    if operation.message:
        facts.append(("message", operation.message))
    return [head, *fields(facts), Text(), *_steps(operation.steps)]


def _steps(steps: Sequence[Step]) -> list[Text]:
    if not steps:
        return [Text("no steps")]
    heads = ("LEVEL", "RESOURCE", "PHASE", "REPLICAS", "BEGUN", "ENDED", "MESSAGE")
    return table(
        heads,
        [
            (
                *(str(each.level), each.resource, _word(each.phase)),
                change(each.before, each.after),
                *(clock(each.started), clock(each.ended), each.message),
            )
            for each in steps
        ],
    )


def planned(plan: Plan) -> list[Text]:
    """The plan of a scaling run, level by level, with the `--if-match` that carries it out."""
    rows = [
        (
            *(str(level.level), step.resource, _word(step.action)),
            *(change(step.before, step.after), step.initial_delay, step.reason),
        )
        for level in plan.levels
        for step in level.steps
    ]
    heads = ("LEVEL", "RESOURCE", "WOULD", "REPLICAS", "DELAY", "WHY")
    lines = table(heads, rows) if rows else [Text("nothing would be done")]
    if plan.replaces:
        lines.append(Text(f"The automatic scaling run {said(plan.replaces)} would end."))
    if plan.etag:
        lines.append(
            Text(f"Nothing was written. To do exactly this: --if-match {quote(said(plan.etag))}")
        )
    return lines


def recovery(service: str, found: Recovery, now: float) -> list[Text]:
    """A recovery that was just begun by hand."""
    lines = [
        Text(f"recovery of {said(service)}: {said(found.phase)}, until {until(found.until, now)}")
    ]
    if found.deletions:
        lines += table(("POD", "RESULT"), [(each.pod, each.result) for each in found.deletions])
    return lines
