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
from contextvars import Context, copy_context
from itertools import count
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MOST_AT_ONCE: Final = 200_000
"""So many callbacks at one instant are a loop that turns on the spot."""
_FEW_TASKS: Final = 100
_ROUNDS: Final = 1_000
"""So often a destroyed machine's tasks are told to end."""


class TimeStandsStill(Exception):
    """Something runs again and again, and no time passes."""


class _Timer(asyncio.TimerHandle):
    """A callback; asyncio's own handle knows more, and a world makes a hundred thousand of them."""

    __slots__ = ("args", "callback", "context", "due", "machine")

    def __init__(
        self,
        due: float,
        callback: Callable[..., object],
        args: tuple[object, ...],
        machine: "Machine",
        context: Context | None,
    ) -> None:
        self.due, self.args, self.machine = due, args, machine
        self.callback: Callable[..., object] | None = callback
        self.context = copy_context() if context is None else context

    def run(self) -> None:
        """Calls it, unless it was cancelled."""
        if self.callback is None:
            return
        try:
            self.context.run(self.callback, *self.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  as asyncio: whoever judges the world hears of it
            self.machine.call_exception_handler(
                {"message": f"Exception in callback {self.callback!r}", "exception": error}
            )

    def cancel(self) -> None:
        """It will not be called."""
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Whether it will not be called."""
        return self.callback is None

    def when(self) -> float:
        """The instant at which it is due."""
        return self.due


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
        try:
            while not task.done():
                if self._ready:
                    self._call(self._ready.popleft())
                else:
                    self._advance()
        finally:
            _set_running_loop(None)
        return task.result()

    def _advance(self) -> None:
        """Time passes until the next timer is due.

        Raises:
            TimeStandsStill: there is none.
        """
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        if not timers:
            raise TimeStandsStill("nothing is left that could happen")
        if timers[0][0] > self.now:
            self.now, self._at_once = timers[0][0], 0
        while timers and timers[0][0] <= self.now:
            self._ready.append(heapq.heappop(timers)[2])

    def _call(self, timer: _Timer) -> None:
        self._at_once += 1
        if self._at_once > _MOST_AT_ONCE:
            raise TimeStandsStill(f"{timer.callback!r} and others run again and again")
        timer.machine.call(timer)
        while self._dying:
            self._dying.pop().bury()

    @property
    def at_once(self) -> Callable[[_Timer], None]:
        """Lets a timer run at this instant, after what is already due."""
        return self._ready.append

    def later(self, timer: _Timer) -> None:
        """`timer` runs when it is due."""
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))

    def taken_from(self, machine: "Machine") -> list[_Timer]:
        """What is due on `machine`: it is not called here any more."""
        theirs = [timer for timer in self._ready if timer.machine is machine]
        others = [timer for timer in self._ready if timer.machine is not machine]
        self._ready.clear()
        self._ready.extend(others)
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
        self._tasks: list[asyncio.Task[Any]] = []
        self._most_tasks = _FEW_TASKS
        self._buried = False
        self._soon = timeline.at_once
        """Where callbacks go."""

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
        _set_running_loop(self)
        timer.run()

    def _run(self, timer: _Timer) -> None:
        _set_running_loop(self)
        try:
            timer.run()
        finally:
            _set_running_loop(None)

    def bury(self) -> None:
        """Ends its tasks where nobody can notice, so that nothing of them is left over."""
        own = deque((*self._held, *self._timeline.taken_from(self)))
        self._soon, self._buried = own.append, True
        for _ in range(_ROUNDS):
            pending = [task for task in self._tasks if not task.done()]
            if not pending:
                break
            for task in pending:
                task.cancel()
            while own:
                self._run(own.popleft())
        if self.at_burial is not None:
            _ = self.create_task(_done(self.at_burial()))
            self.at_burial = None
            while own:
                self._run(own.popleft())
        self._tasks.clear()
        self._held.clear()

    def unfinished(self) -> list[str]:
        """What its tasks run, but for the one that asks."""
        asking = asyncio.current_task(self)
        self.forget_ended()
        left = (task for task in self._tasks if task is not asking)
        return [getattr(task.get_coro(), "__qualname__", "?") for task in left]

    def forget_ended(self) -> None:
        """Lets go of the tasks that have ended, with what they returned; up to then some of them are kept."""
        self._tasks = [task for task in self._tasks if not task.done()]

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
        self._soon(timer)
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
        if not self._buried:
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
        self._tasks.append(task)
        if len(self._tasks) > self._most_tasks:  # cheaper than to hear of the end of each
            self.forget_ended()
            self._most_tasks = 2 * len(self._tasks) + _FEW_TASKS
        return task

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
