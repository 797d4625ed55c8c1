"""Services of the weeder and their recoveries as lines; pure."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from app.cli.answers import Recovery, Weeder
from app.cli.views.layout import Cell, fields, said, since, table, until

_LOUD: Final = "yellow"


def listed(found: Sequence[Weeder], now: float, *, wide: bool = False) -> list[Text]:
    """A table of services with their newest recovery, in the given order."""
    if not found:
        return [Text("no recoveries")]
    heads = [
        "NAMESPACE",
        "SERVICE",
        "READY",
        "RECOVERY",
        "CAUSE",
        "AGE",
        "DELETED",
        "QUEUED",
        "SPARED",
    ]
    rows = [_row(each, now) for each in found]
    if wide:
        heads += ["READY SINCE", "BEGAN", "UNTIL", "ASKED BY", "TROUBLE"]
        rows = [[*row, *_more(each)] for row, each in zip(rows, found, strict=True)]
    return table(heads, rows)


def _more(weeder: Weeder) -> list[Cell | str]:
    """The columns of a wide table."""
    newest = next(iter(weeder.recoveries), Recovery())
    return [
        *(weeder.since or "", newest.began or "", newest.until or ""),
        "" if newest.asked is None else newest.asked.author,
        Cell(weeder.failing or newest.trouble or "", _LOUD),
    ]


def _row(weeder: Weeder, now: float) -> list[Cell | str]:
    newest = next(iter(weeder.recoveries), Recovery())
    return [
        *(weeder.namespace, weeder.service, _ready(weeder)),
        newest.end or newest.phase,
        newest.cause,
        since(newest.began, now),
        *(str(len(newest.deletions)), str(newest.queued), str(len(newest.spared))),
    ]


def _ready(weeder: Weeder) -> Cell:
    words = {True: Cell("yes", "green"), False: Cell("no", _LOUD), None: Cell("")}
    return words[weeder.ready]


def detailed(weeder: Weeder, now: float) -> list[Text]:
    """One service: each recovery with the pods that it deleted, and why it spared others."""
    state = {True: "ready", False: "not ready", None: "not known to be ready"}[weeder.ready]
    head = Text.assemble((said(f"{weeder.namespace}/{weeder.service}"), "bold"), f"  {state}")
    if weeder.since:
        head.append(f" since {said(weeder.since)}, {since(weeder.since, now)} ago")
    lines = [head]
    if weeder.failing:
        lines += fields([("failing", Cell(weeder.failing, _LOUD))])
    for each in weeder.recoveries:
        lines += [Text(), *_recovery(each, now)]
    return lines if weeder.recoveries else [*lines, Text("no recoveries")]


def _recovery(recovery: Recovery, now: float) -> list[Text]:
    ended = recovery.ended is not None
    how = f"{recovery.end} at {recovery.ended}" if ended else recovery.phase
    facts: list[tuple[str, Cell | str]] = [("state", how), ("cause", recovery.cause)]
    if recovery.asked is not None:
        facts.append(
            ("asked by", f"{recovery.asked.author}: {recovery.asked.reason or 'no reason'}")
        )
    facts.append(("began", f"{said(recovery.began)}, {since(recovery.began, now)} ago"))
    if not ended:
        facts.append(("until", until(recovery.until, now)))
    if recovery.queued:
        facts.append(("left" if ended else "queued", str(recovery.queued)))
    if recovery.trouble:
        facts.append(("trouble", Cell(recovery.trouble, _LOUD)))
    lines = [Text(f"recovery {said(str(recovery.id))}", "bold"), *fields(facts)]
    if recovery.deletions:
        deleted = [
            (each.pod, each.time or "", each.result, each.container, each.spared_backoff or "")
            for each in recovery.deletions
        ]
        lines += table(("DELETED", "TIME", "RESULT", "CONTAINER", "SPARED BACK-OFF"), deleted, "  ")
    if recovery.spared:
        spared = [(each.pod, each.reason, each.message) for each in recovery.spared]
        lines += table(("NOT DELETED", "REASON", "MESSAGE"), spared, "  ")
    return lines
