"""Worlds for tests.

Virtual time begins with the test itself, fixtures still live in real time; so a world is made inside the test.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.simulation.builders import World

Test = Callable[..., Awaitable[None]]
Provider = Callable[[World], Any]


def about(instant: float) -> Any:
    """An instant or a duration, but for what a float of seconds since the epoch cannot hold."""
    return pytest.approx(instant, abs=1e-4)


def simulated(**providers: Provider) -> Callable[[Test], Test]:
    """A decorator: gives a test what it names of `clock`, `tasks`, `world` and `providers`; ends all tasks after it."""
    given: dict[str, Provider] = {
        "world": lambda world: world,
        "clock": lambda world: world.clock,
        "tasks": lambda world: world._tasks,
        **providers,
    }

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        own = [name for name in signature.parameters if name in given]

        @wraps(test)
        async def run(**others: Any) -> None:
            clock = Clock.of_loop()
            tasks = Tasks(clock)
            world = World(clock, tasks, seed=1)
            try:
                await test(**{name: given[name](world) for name in own}, **others)
            finally:
                await tasks.stop()

        left = [p for p in signature.parameters.values() if p.name not in given]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # what pytest reads
        return run

    return decorate
