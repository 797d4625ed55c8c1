"""Supervised tasks: none is lost, and each has a defined consequence if it ends (rules 4.4).

A *shared* loop serves all shoots: if it ends, for whatever reason, the process ends with a non-zero code. A *kept* loop
serves one shoot: if it fails unexpectedly it is logged with its traceback, counted, and restarted.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from app.core.clock import Clock
from app.core.limits import Backoff

log = structlog.get_logger(__name__)

Job = Callable[[], Coroutine[Any, Any, None]]


class SharedLoopDied(Exception):
    """A loop that serves all shoots has ended, so the process must end."""


class Tasks:
    """All tasks of one process, or of one test."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: set[asyncio.Task[None]] = set()
        self._death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopping = False

    def once(self, job: Job, name: str) -> asyncio.Task[None]:
        """Runs `job` in the background; a failure is logged and has no other consequence."""

        async def guarded() -> None:
            try:
                await job()
            except Exception as error:
                log.exception("task failed", task=name, error=repr(error), exc_info=error)

        return self._start(guarded, name)

    def shared(self, job: Job, name: str) -> asyncio.Task[None]:
        """Runs a loop that serves all shoots; when it ends, `died` raises."""

        async def watched() -> None:
            cause: Exception | None = None
            try:
                await job()
            except Exception as error:  # noqa: BLE001 - whatever it was, it is logged below, and the process ends
                cause = error
            if self._stopping:
                return
            if not self._death.done():
                death = SharedLoopDied(f"the {name} loop ended")
                death.__cause__ = cause
                self._death.set_exception(death)
            # Last, so that a failing log cannot keep the process alive.
            log.critical("shared loop died", loop=name, error=repr(cause), exc_info=cause)

        return self._start(watched, name)

    def kept(
        self,
        job: Job,
        name: str,
        failed: Callable[[Exception], None],
        backoff: Backoff | None = None,
    ) -> asyncio.Task[None]:
        """Runs a loop of one shoot until it returns; after an unexpected error it calls `failed` and starts again."""

        async def kept_running() -> None:
            failures, pace = 0, backoff or Backoff()
            while True:
                started = self._clock.now()
                try:
                    return await job()
                except Exception as error:
                    failures = 1 if self._clock.now() - started > 2 * pace.most else failures + 1
                    failed(error)
                    log.exception("runner failed", loop=name, error=repr(error), exc_info=error)
                await self._clock.sleep(pace.delay(failures))

        return self._start(kept_running, name)

    def _start(self, job: Job, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(job(), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def died(self) -> None:
        """Waits, forever if all goes well.

        Raises:
            SharedLoopDied: a loop that serves all shoots has ended.
        """
        await asyncio.shield(self._death)

    def stopping(self) -> None:
        """Announces the shutdown: from now on shared loops may end."""
        self._stopping = True

    async def stop(self) -> None:
        """Cancels all tasks and waits until all have ended."""
        self._stopping = True
        if not self._death.done():
            self._death.cancel()
        elif not self._death.cancelled():
            self._death.exception()
        current = asyncio.current_task()
        while pending := [task for task in self._running if task is not current]:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancels `task` and waits until it has ended; its own errors are reported elsewhere."""
    task.cancel()
    await asyncio.wait([task])
