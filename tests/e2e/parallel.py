"""Scenarios run at the same time, one on each shoot; each test waits for the end of its own.

A scenario is mostly waiting: one after the other they would take an hour. So the first test that is asked for its
scenario starts all that were selected; they share out the shoots among themselves, and the tests collect the results.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.actors import WorkloadController
from tests.e2e.controlplane import ControlPlane, Planes
from tests.e2e.stage import Stage

Play = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A test that runs beside others."""

    play: Play
    own_storage: bool
    """Whether it stops the storage, and so needs a shoot that does not share it."""
    limit: float
    """Seconds that it may take."""


def scenario(
    *, own_storage: bool = False, limit: float = 240
) -> Callable[[Play], Callable[..., Awaitable[None]]]:
    """Makes `async def test_…(stage)` a test that runs beside the others."""

    def decorate(play: Play) -> Callable[..., Awaitable[None]]:
        async def test(scenarios: "Scenarios") -> None:
            await scenarios.result(play)

        test.__name__ = play.__name__
        test.__doc__ = play.__doc__
        test.__module__ = play.__module__
        test.scenario = Scenario(play, own_storage, limit)  # type: ignore[attr-defined]
        # the limit of pytest is only for what goes wrong in here: a test also waits for the scenarios before it
        marked = pytest.mark.timeout(1200)(test)
        marked = pytest.mark.looptime(False)(pytest.mark.real(marked))  # real processes, real time
        decorated: Callable[..., Awaitable[None]] = pytest.mark.asyncio(loop_scope="session")(
            marked
        )
        return decorated

    return decorate


def selected(items: Sequence[pytest.Item]) -> list[Scenario]:
    """The scenarios among some tests."""
    found = (getattr(getattr(item, "function", None), "scenario", None) for item in items)
    return [each for each in found if isinstance(each, Scenario)]


class Shoots:
    """The API servers that are free for a scenario."""

    def __init__(self, planes: Planes) -> None:
        self._seed = planes.seed
        self._free = list(planes.shoots)
        self._change = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def one(self, *, own_storage: bool) -> AsyncIterator[ControlPlane]:
        """An API server for one scenario; those with a storage of their own are taken last, if that is not needed."""
        async with self._change:
            await self._change.wait_for(lambda: self._pick(own_storage=own_storage) is not None)
            plane = self._pick(own_storage=own_storage)
            assert plane is not None
            self._free.remove(plane)
        try:
            yield plane
        finally:
            async with self._change:
                self._free.append(plane)
                self._change.notify_all()

    def _pick(self, *, own_storage: bool) -> ControlPlane | None:
        def alone(plane: ControlPlane) -> bool:
            return plane.storage is not self._seed.storage

        fitting = [plane for plane in self._free if alone(plane) or not own_storage]
        return min(fitting, key=alone, default=None)


class Scenarios:
    """All selected scenarios, running."""

    def __init__(
        self,
        chosen: Sequence[Scenario],
        planes: Planes,
        controller: WorkloadController,
        folder: Path,
        figures: list[str],
    ) -> None:
        self._planes = planes
        self._shoots = Shoots(planes)
        self._controller = controller
        self._folder = folder
        self._figures = figures
        # those that can run on few shoots only come first; the others fill what is left
        ordered = sorted(chosen, key=lambda each: not each.own_storage)
        self._tasks = {
            each.play: asyncio.create_task(self._run(number, each), name=each.play.__name__)
            for number, each in enumerate(ordered)
        }

    async def result(self, play: Play) -> None:
        """Waits for a scenario; raises what it raised."""
        await asyncio.shield(self._tasks[play])

    async def close(self) -> None:
        """Ends those that nobody waits for any more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, number: int, what: Scenario) -> None:
        async with self._shoots.one(own_storage=what.own_storage) as plane:
            place = (self._folder, self._planes.seed, plane, self._controller, self._figures)
            stage = Stage(number, *place)
            try:
                async with asyncio.timeout(what.limit):
                    await what.play(stage)
            except BaseException as error:
                error.add_note(stage.report())
                raise
            finally:
                await stage.clear()
