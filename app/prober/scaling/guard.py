"""Guards a scaling run: before each write it says go on, wait or end (rules 4.3, what ends a run).

Verdicts go on arriving while a run is under way. One of the same direction confirms the run, one of the other
direction ends it. HOLD makes the next write wait for a while (`patience`); if the verdict is not confirmed by then,
the run ends. When a run is ended, all its waits end at once, but a request that was sent is finished first.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from app.core.clock import Clock
from app.core.model.probing import Verdict
from app.core.model.workloads import Direction

T = TypeVar("T")


class RunAborted(Exception):
    """The scaling run was ended; `reason` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class RunGuard:
    """Guards an automatic scaling run by the verdicts of the probes."""

    def __init__(self, direction: Direction, clock: Clock, patience: float) -> None:
        self._direction = direction
        self._clock = clock
        self._patience = patience
        """Seconds that a write waits for a HOLD to pass, and after which a verdict is too old to write on."""
        self._confirmed = True
        self._verdict_at = clock.now()
        self._ended: str | None = None
        self._changed = asyncio.Event()

    @property
    def ended(self) -> str | None:
        """Why the run must end; None while it may go on."""
        return self._ended

    def tell(self, verdict: Verdict) -> None:
        """Takes a verdict: the same direction confirms the run, the other ends it, HOLD makes the next write wait."""
        self._verdict_at = self._clock.now()
        if verdict.direction is None:
            self._confirmed = False
        elif verdict.direction is self._direction:
            self._confirmed = True
        else:
            self.end(f"the verdict is {verdict}")
        self._changed.set()

    def recheck(self) -> None:
        """Wakes the waits of the run, as a dependent has changed."""
        self._changed.set()

    def end(self, reason: str) -> None:
        """Ends the run and all its waits; if called again, the first reason stays."""
        self._ended = self._ended or reason
        self._changed.set()

    async def wait_until_allowed(self) -> None:
        """Waits until a write may start.

        Raises:
            RunAborted: the run has ended, or a HOLD did not pass in time.
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
        """Raises RunAborted if the run has been ended."""
        if self._ended is not None:
            raise RunAborted(self._ended)

    @property
    def held(self) -> bool:
        """Whether writes have to wait: for a HOLD to pass, or for a verdict that is recent.

        A process that was frozen wakes up with the verdict from before, which says nothing about now.
        """
        return not self._confirmed or self._clock.now() - self._verdict_at > self._patience

    async def pause(self, seconds: float) -> None:
        """Waits for so many seconds.

        Raises:
            RunAborted: the run was ended before or meanwhile.
        """
        until = self._clock.now() + seconds
        self.check()
        while (left := until - self._clock.now()) > 0:
            await self.change(left)
            self.check()

    async def unless_ended(
        self, work: Coroutine[Any, Any, T], may_leave: Callable[[], bool] = lambda: True
    ) -> T:
        """Awaits `work`, and cancels it as soon as the run is ended.

        Args:
            work: what to await.
            may_leave: returns whether `work` may be cancelled now; a request that was sent must not be.

        Raises:
            RunAborted: the run was ended, and `work` was cancelled.
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
                    task.exception()  # retrieved, so that asyncio does not report it as never retrieved

    async def change(self, seconds: float) -> None:
        """Returns at the next verdict, `recheck` or `end`, or after so many seconds."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return


class ManualRunGuard(RunGuard):
    """Guards a manual scaling run: it goes on until it is done or ended, whatever the verdicts say."""

    def __init__(self, direction: Direction, clock: Clock) -> None:
        super().__init__(direction, clock, patience=0.0)

    def tell(self, verdict: Verdict) -> None:
        """Ignores the verdict."""

    @property
    def held(self) -> bool:
        return False
