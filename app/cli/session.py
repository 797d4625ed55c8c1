"""The session of a command: requests whose answers are read, complete lists, repeated display (`--watch`)."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from app.cli import answers
from app.cli.answers import Schema
from app.cli.client import ApiCall, Client, note_perhaps_done
from app.cli.printing import Answer, Printer
from app.cli.problems import CommandFailed, Exit
from app.core.clock import Clock
from app.core.model.instants import rfc3339

AGAIN: Final = 2.0
"""Seconds between two requests of `--watch`."""
_PAGE: Final = 500
_MOST_PAGES: Final = 2_000


def path(*parts: str) -> str:
    """Join parts into a path below `/api/v1/`; each part is quoted."""
    return "/".join(quote(each, safe="") for each in parts)


def delete(*parts: str, reason: str | None) -> ApiCall:
    """A DELETE, which has no body and takes the reason in its query."""
    return ApiCall("DELETE", path(*parts), {"reason": reason})


@dataclass(frozen=True, slots=True)
class Session:
    """What a running command works with; its requests raise CommandFailed."""

    client: Client
    printer: Printer
    clock: Clock = field(default_factory=Clock.system)
    chance: random.Random = field(default_factory=random.Random)
    """Spreads retries."""

    async def ask(self, kind: type[Schema], call: ApiCall) -> tuple[Any, Schema]:
        """Send a request; returns its answer as JSON, and read into the schema `kind`."""
        body = await self.client.ask(call)
        try:
            data = answers.decode(body) if body else None
            return data, answers.of(kind, data)
        except CommandFailed as error:
            note_perhaps_done(call, error)
            raise

    async def get(self, kind: type[Schema], *parts: str) -> tuple[Any, Schema]:
        """What GET returns for the path of these parts, as JSON and read."""
        return await self.ask(kind, ApiCall("GET", path(*parts)))

    async def get_all(
        self, kind: type[Schema], *parts: str, query: Mapping[str, str | None] | None = None
    ) -> tuple[dict[str, Any], list[Schema]]:
        """Read all pages of a list; returns them in the form of one page, and its items read.

        Args:
            kind: The schema of an item.
            parts: Parts of the path.
            query: Filters of the list; `namespace` is the shoot that it is about.

        Raises:
            CommandFailed: There is no answer, it is not a list, or the list has no end; or there is no such shoot.
        """
        filters = query or {}
        items: list[object] = []
        token: str | None = None
        seen: set[str | None] = set()
        while token not in seen and len(seen) < _MOST_PAGES:
            seen.add(token)
            place = {"limit": str(_PAGE)} | ({} if token is None else {"continue": token})
            call = ApiCall("GET", path(*parts), {**filters, **place})
            data = answers.decode(await self.client.ask(call))
            page = answers.of(answers.Page, data)
            items += page.items
            token = page.metadata.continue_
            if token is None:
                if not items and (shoot := filters.get("namespace")):
                    await self._check_known(shoot)
                return {**data, "items": items}, [answers.of(kind, each) for each in items]
        raise CommandFailed(Exit.FAILED, "the list does not end")

    async def _check_known(self, shoot: str) -> None:
        """Ask for a shoot about which a list is empty: of a name that is mistyped, too, nothing has happened.

        Where it cannot be learnt whether there is such a shoot, the list is all that is known.
        """
        try:
            await self.client.ask(ApiCall("GET", path("shoots", shoot)))
        except CommandFailed as error:
            if error.code is Exit.NOT_FOUND:
                raise

    async def watch(self, fetch: Callable[[], Awaitable[Answer]], title: str) -> None:
        """Show an answer again and again until it has ended; errors that may pass do not end it.

        Args:
            fetch: Requests the answer.
            title: Shown above the answer, with the time.

        Raises:
            CommandFailed: The first request failed, or a later one for a reason that will not pass.
        """
        shown, answered = await fetch(), rfc3339(self.clock.now())
        with self.printer.watching() as screen:
            screen.show(shown, f"{answered}  {title}")
            while not shown.ended:
                await self.clock.sleep(AGAIN)
                try:
                    shown, answered = await fetch(), rfc3339(self.clock.now())
                    screen.show(shown, f"{answered}  {title}")
                except CommandFailed as error:
                    if not error.passing:
                        raise
                    screen.trouble(f"no new answer since {answered}: {error}")
