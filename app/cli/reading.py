"""`dwd shoots` and `dwd operations`: what is known."""

from functools import partial

from rich.text import Text

from app.cli import answers
from app.cli.answers import HistoryEntry, Node, Operation, Page, Shoot
from app.cli.client import Call
from app.cli.printing import Shown
from app.cli.session import Session, get, get_all, path, watch
from app.cli.views import flows
from app.cli.views import shoots as view
from app.core.config.clientsettings import OperationsSettings, OutputFormat, ShootsSettings


async def shoots(session: Session, settings: ShootsSettings, words: tuple[str, ...]) -> None:
    """All of them, or one; again and again with `--watch`."""
    look = partial(_shoot, session, settings, words[0]) if words else partial(_shoots, session)
    if settings.watch:
        await watch(session, look, f"{' '.join(words) or 'all shoots'} at {settings.server}")
    else:
        session.printer.show(await look())


async def _shoots(session: Session) -> Shown:
    data = await get_all(session, "shoots")
    found = answers.of(Page[Shoot], data).items
    return Shown(data, view.listed(found, session.clock.now()))


async def _shoot(session: Session, settings: ShootsSettings, name: str) -> Shown:
    if settings.output is not OutputFormat.TABLE:
        return await _one_answer(session, settings, name)
    data = await get(session, "shoots", name)
    lines = view.detailed(answers.of(Shoot, data), session.clock.now())
    if settings.nodes:
        lines += [Text(), *(await _nodes(session, name)).lines]
    if settings.history:
        lines += [Text(), *(await _history(session, name)).lines]
    return Shown(data, lines)


async def _one_answer(session: Session, settings: ShootsSettings, name: str) -> Shown:
    """The one thing that was asked for, for programs."""
    if settings.nodes:
        return await _nodes(session, name)
    if settings.history:
        return await _history(session, name)
    return Shown(await get(session, "shoots", name), ())


async def _nodes(session: Session, name: str) -> Shown:
    data = await get_all(session, "shoots", name, "nodes")
    return Shown(data, view.nodes(answers.of(Page[Node], data).items))


async def _history(session: Session, name: str) -> Shown:
    data = await get_all(session, "shoots", name, "history")
    return Shown(data, view.history(answers.of(Page[HistoryEntry], data).items))


async def operations(
    session: Session, settings: OperationsSettings, words: tuple[str, ...]
) -> None:
    """All flows, or one; cancelled, or again and again until it has ended."""
    if settings.cancel:
        await _cancel(session, words[0])
    elif settings.watch:
        look = partial(operation, session, words[0]) if words else partial(_operations, session)
        title = f"{' '.join(words) or 'all operations'} at {settings.server}"
        await watch(session, look, title, _ended if words else lambda _shown: False)
    else:
        session.printer.show(
            await (operation(session, words[0]) if words else _operations(session))
        )


async def _operations(session: Session) -> Shown:
    data = await get_all(session, "operations")
    found = answers.of(Page[Operation], data).items
    return Shown(data, flows.listed(found, session.clock.now()))


async def operation(session: Session, name: str) -> Shown:
    """One flow."""
    data = await get(session, "operations", name)
    return Shown(data, flows.detailed(answers.of(Operation, data), session.clock.now()))


async def _cancel(session: Session, name: str) -> None:
    body = await session.client.ask(Call("DELETE", path("operations", name)))
    if not body:
        session.printer.show(Shown(None, [Text(f"{name} is being cancelled")]))
        return
    data = answers.read(body)
    lines = flows.detailed(answers.of(Operation, data), session.clock.now())
    session.printer.show(Shown(data, lines))


def _ended(shown: Shown) -> bool:
    return answers.of(Operation, shown.data).phase in flows.ENDED
