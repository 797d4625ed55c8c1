"""Guards a scaling run: whether it may still write, and what ends it (rules 4.3, what ends a scaling run)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from app.core.clock import Clock
from app.core.model.probing import Verdict
from app.core.model.workloads import Direction

T = TypeVar("T")


class RunAborted(Exception):
    """The scaling run may not go on."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class RunGuard:
    """The verdict's word for one scaling run: go on, wait, or end.

    It is asked before each write, and it ends the scaling run's waits at once; a request that was sent is finished
    first.
    """

    def __init__(self, direction: Direction, clock: Clock, patience: float) -> None:
        self._direction = direction
        self._clock = clock
        self._patience = patience
        """How long a write waits for a HOLD to pass, in seconds."""
        self._confirmed = True
        self._told_at = clock.now()
        self._ended: str | None = None
        self._changed = asyncio.Event()

    @property
    def ended(self) -> str | None:
        """Why the scaling run must end; None while it may go on."""
        return self._ended

    def tell(self, verdict: Verdict) -> None:
        """A probe's verdict: the same direction confirms, the other ends, HOLD makes the next write wait."""
        self._told_at = self._clock.now()
        if verdict.direction is None:
            self._confirmed = False
        elif verdict.direction is self._direction:
            self._confirmed = True
        else:
            self.end(f"the verdict is {verdict}")
        self._changed.set()

    def poke(self) -> None:
        """Something that a wait may be waiting for has changed."""
        self._changed.set()

    def end(self, reason: str) -> None:
        """Ends the scaling run, and all its waits, for this reason; the first one counts."""
        self._ended = self._ended or reason
        self._changed.set()

    async def needed(self) -> None:
        """Returns when a write may start.

        Raises:
            RunEnded: it may not, or a HOLD did not pass in time.
        """
        deadline = self._clock.now() + self._patience
        while not self._may_write():
            left = deadline - self._clock.now()
            if left <= 0:
                self.end("the verdict was not confirmed again in time")
            else:
                await self.change(left)

    def _may_write(self) -> bool:
        self.check()
        return not self.held

    def check(self) -> None:
        """Raises RunEnded when the scaling run must end."""
        if self._ended is not None:
            raise RunAborted(self._ended)

    @property
    def held(self) -> bool:
        """Whether writes wait now: for a HOLD to pass, or for a verdict that is not an old one.

        A process that was frozen wakes with the verdict of before: it says nothing about now.
        """
        return not self._confirmed or self._clock.now() - self._told_at > self._patience

    async def pause(self, seconds: float) -> None:
        """Waits so long.

        Raises:
            RunEnded: the scaling run ended meanwhile.
        """
        until = self._clock.now() + seconds
        self.check()
        while (left := until - self._clock.now()) > 0:
            await self.change(left)
            self.check()

    async def unless_ended(
        self, work: Coroutine[Any, Any, T], may_leave: Callable[[], bool] = lambda: True
    ) -> T:
        """What `work` comes to; it is left as soon as the scaling run ends, where it `may_leave` then.

        Raises:
            RunEnded: the scaling run ended, and `work` was left.
        """
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if self._ended is not None and may_leave():
                    raise RunAborted(self._ended)
                self._changed.clear()
                word = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait((task, word), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    word.cancel()
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
                if not task.cancelled():
                    task.exception()  # taken: nobody waits for it any more

    async def change(self, seconds: float) -> None:
        """Returns after the next word, or after so many seconds."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return


class ManualRunGuard(RunGuard):
    """A person's word for one scaling run: it goes on until it is done or ended, whatever the verdicts say."""

    def __init__(self, direction: Direction, clock: Clock) -> None:
        super().__init__(direction, clock, patience=0.0)

    def tell(self, verdict: Verdict) -> None:
        """A probe's verdict: it does not matter."""

    @property
    def held(self) -> bool:
        """Never."""
        return False
