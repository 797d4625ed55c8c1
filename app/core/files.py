"""What is made of files, and made anew as they change; while they are wrong, what was good last stays."""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import structlog

from app.core.errors import ConfigurationError
from app.core.clock import Clock

log = structlog.get_logger(__name__)

C = TypeVar("C")
V = TypeVar("V")

EVERY: Final = 5.0
"""Seconds between two looks."""


class Reread(Generic[C, V]):
    """The value of some files.

    Their content is read and compared, not their times: a volume of Kubernetes swaps a link far above them, and two
    writes may have the same time.

    Args:
        what: how log and answers call them.
        read: their content; blocks, and raises ConfigurationError.
        make: the value of a content; may block, and raises ConfigurationError.
    """

    def __init__(
        self, what: str, read: Callable[[], C], make: Callable[[C], V], clock: Clock
    ) -> None:
        self.what = what
        self._read, self._make, self._clock = read, make, clock
        self._content = read()
        self.value = make(self._content)
        """Of the last content that was good."""
        self.trouble: str | None = None
        """Why what is there now cannot be used; None while it can."""

    @classmethod
    async def load(
        cls, what: str, read: Callable[[], C], make: Callable[[C], V], clock: Clock
    ) -> "Reread[C, V]":
        """Reads them for the first time.

        Raises:
            ConfigurationError: they cannot be used.
        """
        return await asyncio.to_thread(cls, what, read, make, clock)

    async def run(self) -> None:
        """Looks for ever whether they have changed."""
        while True:
            await self._clock.sleep(EVERY)
            await self.look()

    async def look(self) -> None:
        """Takes over what is there now, if it differs and is good."""
        try:
            content = await asyncio.to_thread(self._read)
            if content != self._content:
                self.value = await asyncio.to_thread(self._make, content)
                self._content = content
                log.info("files were read again, as they have changed", what=self.what)
        except ConfigurationError as error:
            self._complain(str(error))
        else:
            self.trouble = None

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error(
                "changed files cannot be used; what was good stays",
                what=self.what,
                error=trouble,
            )
        self.trouble = trouble
