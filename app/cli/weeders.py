"""`dwd weeders` and `dwd weed`: services of the weeder and their recoveries."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from app.api.schemas import Recovery, Weeder
from app.cli import answers
from app.cli.client import ApiCall
from app.cli.printing import Answer
from app.cli.session import Session, path
from app.cli.tables import LOUD, Cell, Content, fields, said, since, table, until
from app.core.config.client_settings import WeedersSettings, WeedSettings

_READY: Final = {True: Cell("yes", "green"), False: Cell("no", LOUD), None: Cell("")}


async def weeders(
    session: Session, settings: WeedersSettings, shoot: str | None = None, service: str = ""
) -> Answer:
    """`dwd weeders`: services with recoveries, or one with each pod that was deleted or spared."""
    now = session.clock.now()
    if shoot and service:
        data, one = await session.get(Weeder, "weeders", shoot, service)
        found, lines = [one], detailed(one, now)
    else:
        query = {"namespace": shoot, "running": "true" if settings.running else None}
        data, found = await session.get_all(Weeder, "weeders", query=query)
        lines = listed(found, now, wide=session.printer.wide)
    return Answer(data, lines, [f"{each.namespace}/{each.service}" for each in found])


async def weed(session: Session, settings: WeedSettings, shoot: str, service: str) -> Answer:
    """`dwd weed`: begin a recovery."""
    body: dict[str, object] = {"force": settings.force}
    if settings.reason is not None:
        body["reason"] = settings.reason
    call = ApiCall("POST", path("weeders", shoot, service), body=body)
    data, found = await session.ask(Recovery, call)
    return Answer(data, begun(f"{shoot}/{service}", found, session.clock.now()))


def listed(found: Sequence[Weeder], now: float, *, wide: bool = False) -> list[Text]:
    """A table of services with their newest recovery, in the given order."""
    heads = ["NAMESPACE", "SERVICE", "READY", "RECOVERY", "CAUSE", "AGE"]
    heads += ["DELETED", "QUEUED", "SPARED"]
    heads += ["READY SINCE", "BEGAN", "UNTIL", "ASKED BY", "TROUBLE"] if wide else []
    rows: list[Sequence[Content]] = []
    for each in found:
        newest = each.recoveries[0] if each.recoveries else answers.of(Recovery, {})
        row: list[Content] = [each.namespace, each.service, _READY[each.ready]]
        row += [newest.end or newest.phase, newest.cause, since(newest.began, now)]
        row += [len(newest.deletions), newest.queued, len(newest.spared)]
        if wide:
            row += [each.since, newest.began, newest.until]
            row += [None if newest.asked is None else newest.asked.author]
            row += [Cell(each.failing or newest.trouble or "", LOUD)]
        rows.append(row)
    return table(heads, rows, "no recoveries")


def detailed(weeder: Weeder, now: float) -> list[Text]:
    """One service: each recovery with the pods that it deleted, and why it spared others."""
    state = {True: "ready", False: "not ready", None: "not known to be ready"}[weeder.ready]
    head = Text.assemble((said(f"{weeder.namespace}/{weeder.service}"), "bold"), f"  {state}")
    if weeder.since:
        head.append(f" since {said(weeder.since)}, {since(weeder.since, now)} ago")
    failing = Cell(weeder.failing, LOUD) if weeder.failing else None
    lines = [head, *fields([("failing", failing)])]
    for each in weeder.recoveries:
        lines += [Text(), *_recovery(each, now)]
    return lines if weeder.recoveries else [*lines, Text("no recoveries")]


def _recovery(recovery: Recovery, now: float) -> list[Text]:
    ended = recovery.ended is not None
    how = f"{recovery.end} at {recovery.ended}" if ended else recovery.phase
    asked, trouble = recovery.asked, recovery.trouble
    facts = [
        ("state", how),
        ("cause", recovery.cause),
        ("asked by", None if asked is None else f"{asked.author}: {asked.reason or 'no reason'}"),
        ("began", f"{said(recovery.began)}, {since(recovery.began, now)} ago"),
        ("until", None if ended else until(recovery.until, now)),
        ("left" if ended else "queued", recovery.queued or None),
        ("trouble", Cell(trouble, LOUD) if trouble else None),
    ]
    lines = [Text(f"recovery {said(str(recovery.id))}", "bold"), *fields(facts)]
    if recovery.deletions:
        deleted = [
            (each.pod, each.time, each.result, each.container, each.spared_backoff)
            for each in recovery.deletions
        ]
        lines += table(
            ("DELETED", "TIME", "RESULT", "CONTAINER", "SPARED BACK-OFF"), deleted, indent="  "
        )
    if recovery.spared:
        spared = [(each.pod, each.reason, each.message) for each in recovery.spared]
        lines += table(("NOT DELETED", "REASON", "MESSAGE"), spared, indent="  ")
    return lines


def begun(service: str, found: Recovery, now: float) -> list[Text]:
    """A recovery that was just begun by hand."""
    lines = [
        Text(f"recovery of {said(service)}: {said(found.phase)}, until {until(found.until, now)}")
    ]
    if found.deletions:
        lines += table(("POD", "RESULT"), [(each.pod, each.result) for each in found.deletions])
    return lines
