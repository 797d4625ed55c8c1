"""The session of a command, and what several commands need: complete lists and repeated display (`--watch`)."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from app.cli import answers
from app.cli.client import ApiCall, Client
from app.cli.printing import Answer, Printer
from app.cli.problems import CommandFailed, Exit
from app.core.clock import Clock
from app.core.model.instants import rfc3339

AGAIN: Final = 2.0
"""Seconds between two requests of `--watch`."""
_PAGE: Final = 500
_MOST_PAGES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Session:
    """What a running command works with."""

    client: Client
    printer: Printer
    clock: Clock
    chance: random.Random


def path(*parts: str) -> str:
    """Join parts into a path below `/api/v1/`; each part is quoted."""
    return "/".join(quote(each, safe="") for each in parts)


def reason_query(reason: str | None) -> dict[str, str]:
    """The query of a call without a body, which takes the reason there; empty if there is no reason."""
    return {} if reason is None else {"reason": reason}


async def get(session: Session, *parts: str) -> Any:  # noqa: ANN401 - JSON, whatever it is
    """The JSON that GET returns for the path of these parts; raises CommandFailed."""
    return answers.read(await session.client.ask(ApiCall("GET", path(*parts))))


async def get_all(
    session: Session, *parts: str, query: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Read all pages of a list, and return them in the form of one page.

    Args:
        session: The session.
        parts: Parts of the path.
        query: Filters of the list.

    Raises:
        CommandFailed: There is no answer, it is not a list, or the list has no end.
    """
    items: list[object] = []
    token: str | None = None
    seen: set[str | None] = set()
    while token not in seen and len(seen) < _MOST_PAGES:
        seen.add(token)
        place = {"limit": str(_PAGE)} | ({} if token is None else {"continue": token})
        call = ApiCall("GET", path(*parts), {**(query or {}), **place})
        data = answers.read(await session.client.ask(call))
        page = answers.of(answers.Page[object], data)
        items += page.items
        token = page.metadata.next
        if token is None:
            first: dict[str, Any] = answers.of(dict[str, Any], data)
            return {**first, "items": items}
    raise CommandFailed(Exit.FAILED, "the list does not end")


async def watch(
    session: Session,
    fetch: Callable[[], Awaitable[Answer]],
    title: str,
    ended: Callable[[Answer], bool] = lambda _shown: False,
) -> None:
    """Show an answer again and again until it has ended; errors that may pass do not end it.

    Args:
        session: The session.
        fetch: Requests the answer.
        title: Shown above the answer, with the time.
        ended: Whether an answer is the last one.

    Raises:
        CommandFailed: The first request failed, or a later one for a reason that will not pass.
    """
    shown = await fetch()
    with session.printer.watching() as screen:
        while True:
            screen.show(shown, f"{rfc3339(session.clock.now())}  {title}")
            if ended(shown):
                return
            shown = await _next(session, fetch, screen.trouble) or shown


async def _next(
    session: Session, fetch: Callable[[], Awaitable[Answer]], trouble: Callable[[str], None]
) -> Answer | None:
    """The next answer; None if there is none at the moment."""
    await session.clock.sleep(AGAIN)
    try:
        return await fetch()
    except CommandFailed as error:
        if not error.passing:
            raise
        trouble(f"no new answer since {rfc3339(session.clock.now())}: {error}")
        return None
