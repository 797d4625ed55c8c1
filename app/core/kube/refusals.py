"""Whether a watch may be had at all: a right that is missing turns a feature off, and is no fault of the server."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from app.core.errors import Forbidden
from app.core.kube.client import Decode, Request
from app.core.kube.reflector import Requests

R = TypeVar("R")

_REFUSED_IN_PASSING: Final = 2
"""So many refusals in a row are not believed: an API server that has just started refuses for a moment what it is
about to allow."""


class Refusals:
    """The requests of the watch (`reflector.Requests`); says whether they are refused, and not in passing."""

    def __init__(self, api: Requests, changed: Callable[[], None]) -> None:
        self.forbidden: str | None = None
        self._api, self._changed = api, changed
        self._in_a_row = 0

    async def call(self, request: Request, decode: Decode[R]) -> R:
        """Asks, and decodes the answer."""
        try:
            found = await self._api.call(request, decode)
        except Forbidden as refusal:
            self._refused(refusal)
            raise
        return found

    @asynccontextmanager
    async def watch(
        self, request: Request, *, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a watch; gives its lines as they come.  Only this proves that all rights are there."""
        try:
            async with self._api.watch(request, silence=silence) as lines:
                self._allowed()
                yield lines
        except Forbidden as refusal:
            self._refused(refusal)
            raise

    def _refused(self, refusal: Forbidden) -> None:
        self._in_a_row += 1
        if self._in_a_row > _REFUSED_IN_PASSING and self.forbidden is None:
            self.forbidden = str(refusal)
            self._changed()

    def _allowed(self) -> None:
        self._in_a_row = 0
        if self.forbidden is not None:
            self.forbidden = None
            self._changed()
