"""Supervised tasks: none is lost, and each has a defined consequence if it ends (rules 4.4).

A *shared* loop serves all shoots: if it ends, for whatever reason, the process ends with a non-zero code. A *kept* loop
serves one shoot: if it fails unexpectedly it is logged with its traceback, counted, and restarted.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

import structlog

from app.core.clock import Clock
from app.core.limits import Backoff

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
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
                await _uncancelled(job)
            except Exception as error:
                log.exception("task failed", task=name, error=repr(error), exc_info=error)

        return self._start(guarded, name)

    def shared(self, job: Job, name: str) -> asyncio.Task[None]:
        """Runs a loop that serves all shoots; when it ends, `died` raises."""

        async def watched() -> None:
            cause: Exception | None = None
            try:
                await _uncancelled(job)
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

    def kept(self, job: Job, name: str, failed: Callable[[Exception], None]) -> asyncio.Task[None]:
        """Runs a loop of one shoot until it returns; after an unexpected error it calls `failed` and starts again."""

        async def kept_running() -> None:
            failures, pace = 0, Backoff()
            while True:
                started = self._clock.now()
                try:
                    return await _uncancelled(job)
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


async def _uncancelled(job: Job) -> None:
    """Awaits a job; raises RuntimeError where it ends because what it awaited was cancelled, and not it itself.

    Else a loop would end as if it had been told to, and nobody would hear of it.
    """
    try:
        await job()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("something that it awaited was cancelled") from error


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks and waits until all have ended; their own errors are reported elsewhere."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def in_daemon_thread(call: Callable[[], T]) -> T:
    """Returns what `call` returns, from a thread of its own: if it hangs, the process can end all the same."""
    found: Future[T] = Future()

    def run() -> None:
        if not found.set_running_or_notify_cancel():
            return
        try:
            found.set_result(call())
        except Exception as error:  # noqa: BLE001 - raised to the caller
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(found)


async def wait_until_set(event: asyncio.Event, within: float | None) -> bool:
    """Waits until `event` is set, for at most so many seconds, or for ever if None; returns whether it is."""
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return False
    return True


def tell(
    listeners: Iterable[Callable[P, object]],
    log_fields: Mapping[str, object],
    *args: P.args,
    **kwargs: P.kwargs,
) -> None:
    """Calls all listeners; one that fails is logged, with these fields, and does not keep the others from hearing."""
    for listener in listeners:
        try:
            listener(*args, **kwargs)
        except Exception as error:
            log.exception("a listener failed", **log_fields, exc_info=error)
