"""Virtual time, and an event loop for each machine on it.

All loops share one time line and one queue, so that a run is the same each time. A machine can be paused, as SIGSTOP
does: its callbacks wait, its timers pass, and everything else goes on. It can be destroyed, as SIGKILL does: nothing
of it runs any more that anybody else could notice.
"""

import asyncio
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from itertools import count
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MOST_AT_ONCE: Final = 200_000
"""So many callbacks at one instant are a loop that turns on the spot."""
_ROUNDS: Final = 1_000
"""So often a destroyed machine's tasks are told to end."""


class TimeStandsStill(Exception):
    """Something runs again and again, and no time passes."""


class _Timer(asyncio.TimerHandle):
    def run(self) -> None:
        """Calls it, unless it was cancelled."""
        if not self.cancelled():
            self._run()

    @property
    def machine(self) -> "Machine":
        """Whose it is."""
        loop: Machine = self._loop  # type: ignore[attr-defined]  # typeshed does not know it
        return loop


class Timeline:
    """The time of a world, and the order in which everything happens."""

    def __init__(self) -> None:
        self.now = 0.0
        self._ready: deque[_Timer] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = count()
        self._dying: list[Machine] = []
        self._at_once = 0

    def machine(self, name: str) -> "Machine":
        """A machine joins."""
        return Machine(self, name)  # type: ignore[abstract]  # no input, no output, no threads

    def run(self, main: Coroutine[Any, Any, T], machine: "Machine") -> T:
        """Runs everything until `main`, on `machine`, has ended; what that returned."""
        task = machine.create_task(main)
        while not task.done():
            if not self._step():
                raise TimeStandsStill("nothing is left that could happen")
        return task.result()

    def _step(self) -> bool:
        if self._ready:
            self._call(self._ready.popleft())
            return True
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            return False
        self._advance(self._timers[0][0])
        return True

    def _advance(self, to: float) -> None:
        if to > self.now:
            self.now, self._at_once = to, 0
        while self._timers and self._timers[0][0] <= self.now:
            self._ready.append(heapq.heappop(self._timers)[2])

    def _call(self, timer: _Timer) -> None:
        self._at_once += 1
        if self._at_once > _MOST_AT_ONCE:
            raise TimeStandsStill(f"{timer!r} and others run again and again")
        timer.machine.call(timer)
        while self._dying:
            self._dying.pop().bury()

    def at_once(self, timer: _Timer) -> None:
        """`timer` runs at this instant, after what is already due."""
        self._ready.append(timer)

    def later(self, timer: _Timer) -> None:
        """`timer` runs when it is due."""
        heapq.heappush(self._timers, (timer.when(), next(self._order), timer))

    def taken_from(self, machine: "Machine") -> list[_Timer]:
        """What is due on `machine`: it is not called here any more."""
        theirs = [timer for timer in self._ready if timer.machine is machine]
        self._ready = deque(timer for timer in self._ready if timer.machine is not machine)
        return theirs

    def doomed(self, machine: "Machine") -> None:
        """`machine` is to be buried when the callback that runs now has returned."""
        self._dying.append(machine)


class Machine(asyncio.AbstractEventLoop):
    """An event loop without input and output: what it knows of the world, it is told."""

    def __init__(self, timeline: Timeline, name: str) -> None:
        self.name = name
        self.alive = True
        self.on_stray: Callable[[str], None] = lambda _: None
        """Hears of errors that nobody has taken."""
        self.at_burial: Callable[[], Awaitable[None]] | None = None
        """Runs when its tasks have ended, so that nothing is left open; nobody else hears of it."""
        self._timeline = timeline
        self._paused = False
        self._held: deque[_Timer] = deque()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._own: deque[_Timer] | None = None
        """Where callbacks go while it is being buried."""

    # What a debugger does to a process.

    @property
    def paused(self) -> bool:
        """Whether it stands still."""
        return self._paused

    def pause(self) -> None:
        """Nothing of it runs until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """It goes on, with everything that has become due, in its order."""
        self._paused = False
        later = self._timeline.taken_from(self)
        while self._held:
            self._timeline.at_once(self._held.popleft())
        for timer in later:
            self._timeline.at_once(timer)

    def destroy(self) -> None:
        """Nothing of it runs any more; what runs now ends at its next wait."""
        if self.alive:
            self.alive = False
            self._timeline.doomed(self)

    def call(self, timer: _Timer) -> None:
        """Runs a callback, or holds it back."""
        if not self.alive:
            return
        if self._paused:
            self._held.append(timer)
            return
        self._run(timer)

    def _run(self, timer: _Timer) -> None:
        _set_running_loop(self)
        try:
            timer.run()
        finally:
            _set_running_loop(None)

    def bury(self) -> None:
        """Ends its tasks where nobody can notice, so that nothing of them is left over."""
        self._own = deque((*self._held, *self._timeline.taken_from(self)))
        for _ in range(_ROUNDS):
            pending = [task for task in self._tasks if not task.done()]
            if not pending:
                break
            for task in pending:
                task.cancel()
            while self._own:
                self._run(self._own.popleft())
        if self.at_burial is not None:
            _ = self.create_task(_done(self.at_burial()))
            self.at_burial = None
            while self._own:
                self._run(self._own.popleft())
        self._tasks.clear()
        self._held.clear()

    def unfinished(self) -> list[str]:
        """What its tasks run, but for the one that asks."""
        asking = asyncio.current_task(self)
        left = [task for task in self._tasks if not task.done() and task is not asking]
        return [getattr(task.get_coro(), "__qualname__", "?") for task in left]

    # What asyncio asks of a loop.

    def time(self) -> float:
        """The time of the world."""
        return self._timeline.now

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> _Timer:
        """Runs it at this instant."""
        timer = _Timer(self._timeline.now, callback, args, self, context)
        if self._own is not None:
            self._own.append(timer)
        else:
            self._timeline.at_once(timer)
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> _Timer:
        """Runs it after `delay` seconds."""
        return self.call_at(self._timeline.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> _Timer:
        """Runs it at an instant."""
        timer = _Timer(when, callback, args, self, context)
        if self._own is None:
            self._timeline.later(timer)
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this machine."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """A task of this machine."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """Whether it runs just now."""
        return asyncio._get_running_loop() is self  # noqa: SLF001  asyncio's own word for loops

    def is_closed(self) -> bool:
        """Whether nothing of it runs any more."""
        return not self.alive

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keeps what nobody has taken, for whoever judges the world."""
        if self.alive:
            error = context.get("exception")
            self.on_stray(f"{context.get('message')}: {error!r}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing: a cancelled timer is dropped when it is due."""


async def _done(what: Awaitable[None]) -> None:
    await what
