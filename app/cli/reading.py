"""Commands that read: `dwd shoots`, `operations`, `weeders`, `status`, `audit` and `config`.

`operations --cancel` and `config --log-level` change something, but belong to their commands.
"""

from functools import partial
from typing import Any

from rich.text import Text

from app.cli import answers
from app.cli.answers import (
    Audit,
    HistoryEntry,
    LogLevelAnswer,
    Node,
    Operation,
    Page,
    Pause,
    Shoot,
    Status,
    Weeder,
)
from app.cli.client import ApiCall
from app.cli.printing import Answer, as_yaml
from app.cli.session import Session, get, get_all, path, reason_query, watch
from app.cli.views import events, scaling
from app.cli.views import shoots as view
from app.cli.views import weeders as services
from app.cli.views.layout import said
from app.core.config.client_settings import (
    AuditSettings,
    ConfigSettings,
    OperationsSettings,
    ShootsSettings,
    StatusSettings,
    WeedersSettings,
)


async def shoots(session: Session, settings: ShootsSettings, words: tuple[str, ...]) -> None:
    """`dwd shoots`: all shoots, or one; repeatedly with `--watch`."""
    fetch = partial(_shoot, session, settings, words[0]) if words else partial(_shoots, session)
    if settings.watch:
        await watch(session, fetch, f"{' '.join(words) or 'all shoots'} at {settings.server}")
    else:
        session.printer.show(await fetch())


async def similar(session: Session, name: str) -> list[str]:
    """Namespaces of shoots that `name` may stand for, such as `shoot--project--NAME`; none if that very one exists."""
    data = await get_all(session, "shoots", query={"q": name})
    found = [each.namespace for each in answers.of(Page[Shoot], data).items]
    return [] if name in found else [each for each in found if each.endswith(f"--{name}")] or found


async def _shoots(session: Session) -> Answer:
    data = await get_all(session, "shoots")
    found = answers.of(Page[Shoot], data).items
    lines = view.listed(found, session.clock.now(), wide=session.printer.wide)
    return Answer(data, lines, [each.namespace for each in found])


async def _shoot(session: Session, settings: ShootsSettings, name: str) -> Answer:
    if not session.printer.for_people:
        return await _one_answer(session, settings, name)
    data = await get(session, "shoots", name)
    shown = answers.of(Shoot, data)
    lines = view.detailed(shown, session.clock.now())
    if shown.pauses > 1:
        lines += [Text(), *await _pauses(session, name)]
    if settings.nodes:
        lines += [Text(), *(await _nodes(session, name)).lines]
    if settings.history:
        lines += [Text(), *(await _history(session, name)).lines]
    return Answer(data, lines)


async def _pauses(session: Session, name: str) -> list[Text]:
    found = answers.of(Page[Pause], await get_all(session, "shoots", name, "pauses"))
    return view.pauses(found.items, session.clock.now())


async def _one_answer(session: Session, settings: ShootsSettings, name: str) -> Answer:
    """The answer for programs, which is a single one: nodes, history or the shoot."""
    if settings.nodes:
        return await _nodes(session, name)
    if settings.history:
        return await _history(session, name)
    data = await get(session, "shoots", name)
    return Answer(data, (), [answers.of(Shoot, data).namespace])


async def _nodes(session: Session, name: str) -> Answer:
    data = await get_all(session, "shoots", name, "nodes")
    return Answer(data, view.nodes(answers.of(Page[Node], data).items))


async def _history(session: Session, name: str) -> Answer:
    data = await get_all(session, "shoots", name, "history")
    return Answer(data, view.history(answers.of(Page[HistoryEntry], data).items))


async def operations(
    session: Session, settings: OperationsSettings, words: tuple[str, ...]
) -> None:
    """`dwd operations`: all scaling runs, or one; cancel it, or show it repeatedly until it has ended."""
    if settings.cancel:
        await _cancel(session, words[0], settings.reason)
    elif settings.watch:
        fetch = partial(operation, session, words[0]) if words else partial(_operations, session)
        title = f"{' '.join(words) or 'all operations'} at {settings.server}"
        await watch(session, fetch, title, _ended if words else lambda _shown: False)
    else:
        session.printer.show(
            await (operation(session, words[0]) if words else _operations(session))
        )


async def _operations(session: Session) -> Answer:
    data = await get_all(session, "operations")
    found = answers.of(Page[Operation], data).items
    lines = scaling.listed(found, session.clock.now(), wide=session.printer.wide)
    return Answer(data, lines, [each.id for each in found])


async def operation(session: Session, name: str) -> Answer:
    """Request one scaling run."""
    data = await get(session, "operations", name)
    found = answers.of(Operation, data)
    return Answer(data, scaling.detailed(found, session.clock.now()), [found.id])


async def _cancel(session: Session, name: str, reason: str | None) -> None:
    call = ApiCall("DELETE", path("operations", name), query=reason_query(reason))
    body = await session.client.ask(call)
    if not body:
        session.printer.show(Answer(None, [Text(f"{name} is being cancelled")], [name]))
        return
    data = answers.read(body)
    found = answers.of(Operation, data)
    lines = scaling.detailed(found, session.clock.now())
    session.printer.show(Answer(data, lines, [found.id]))


def _ended(shown: Answer) -> bool:
    return answers.of(Operation, shown.data).phase in scaling.ENDED


async def weeders(session: Session, settings: WeedersSettings, words: tuple[str, ...]) -> None:
    """`dwd weeders`: services with recoveries, or one with each pod that was deleted or spared."""
    now = session.clock.now()
    if words[1:]:
        data = await get(session, "weeders", *words)
        one = answers.of(Weeder, data)
        names = [f"{one.namespace}/{one.service}"]
        session.printer.show(Answer(data, services.detailed(one, now), names))
        return
    query = {"namespace": words[0]} if words else {}
    query |= {"running": "true"} if settings.running else {}
    data = await get_all(session, "weeders", query=query)
    found = answers.of(Page[Weeder], data).items
    lines = services.listed(found, now, wide=session.printer.wide)
    session.printer.show(
        Answer(data, lines, [f"{each.namespace}/{each.service}" for each in found])
    )


async def status(session: Session, settings: StatusSettings, words: tuple[str, ...]) -> None:
    """`dwd status`: the process that answers."""
    del settings, words
    data = await get(session, "status")
    lines = events.status(answers.of(Status, data), session.clock.now())
    session.printer.show(Answer(data, lines))


async def audit(session: Session, settings: AuditSettings, words: tuple[str, ...]) -> None:
    """`dwd audit`: attempts to change something."""
    query = {"namespace": words[0]} if words else {}
    query |= {} if settings.caller is None else {"caller": settings.caller}
    data = await get_all(session, "audit", query=query)
    session.printer.show(Answer(data, events.audit(answers.of(Audit, data))))


async def config(session: Session, settings: ConfigSettings, words: tuple[str, ...]) -> None:
    """`dwd config`: the configuration of the process that answers; or a change of its log level."""
    del words
    if settings.log_level is not None:
        call = ApiCall("PUT", path("config", "log-level"), body={"level": str(settings.log_level)})
        data = answers.read(await session.client.ask(call))
        line = f"logs at level {said(answers.of(LogLevelAnswer, data).level)} until its next start"
        session.printer.show(Answer(data, [Text(line)]))
        return
    data = answers.of(dict[str, Any], await get(session, "config"))
    session.printer.show(Answer(data, [Text(line) for line in as_yaml(data).splitlines()]))
