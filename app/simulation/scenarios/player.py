"""Plays a scenario on one world, or on several in step, so that the same happens to each."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.core.clock import Clock
from app.simulation.builders import World
from app.simulation.faults import Fault
from app.simulation.scenarios.scenario import ALL, Part, Scenario, Scene


@dataclass(frozen=True, slots=True)
class Performance:
    """A scene that is being played or has been played."""

    number: int
    """The number of the scene, from 1."""
    scene: Scene
    shoots: tuple[str, ...]
    """The short names of the shoots; empty for a scene that affects the seed."""
    began: float
    ended: float | None = None

    @property
    def ends(self) -> float:
        """The instant at which it is due to end."""
        return self.began + self.scene.duration


Audience = Callable[[Performance], None]
"""Called when a scene begins and when it has ended; once for a scene without duration."""


class Player:
    """Plays one scenario, once."""

    def __init__(
        self,
        clock: Clock,
        worlds: Sequence[World],
        scenario: Scenario,
        parts: Sequence[Part],
        *,
        speed: float = 1.0,
    ) -> None:
        """Prepares it.

        Args:
            clock: the time line.
            worlds: where it happens, to each the same; they have all the shoots.
            scenario: what happens.
            parts: the shoots.
            speed: the pauses between scenes are so many times shorter; time itself runs as it is.
        """
        self._clock = clock
        self._worlds = tuple(worlds)
        self._scenario = scenario
        self._speed = speed
        self._namespaces = {part.name: part.namespace for part in parts}
        own = {part.name for part in scenario.shoots}
        self._turn = [part.name for part in parts if part.name not in own]
        self._performances: dict[int, Performance] = {}
        self._audience: list[Audience] = []
        self._changed = asyncio.Condition()
        self.over = False
        """Whether the whole scenario has been played."""

    @property
    def performances(self) -> tuple[Performance, ...]:
        """All scenes that have begun, in order."""
        return tuple(self._performances.values())

    @property
    def running(self) -> tuple[Performance, ...]:
        """The scenes that have not ended."""
        return tuple(each for each in self._performances.values() if each.ended is None)

    def subscribe(self, audience: Audience) -> None:
        """Calls `audience` at the begin and the end of each scene."""
        self._audience.append(audience)

    async def play(self) -> None:
        """Plays the scenario until its last scene has ended; cancelling it ends the scenes in progress."""
        async with asyncio.TaskGroup() as scenes:
            began = self._clock.now()
            for number, scene in enumerate(self._scenario.scenes, start=1):
                await self._pause(scene, began)
                shoots = await self._free(scene)
                began = self._clock.now()
                performance = Performance(number, scene, shoots, began)
                self._performances[number] = performance  # booked before anything else can be
                _ = scenes.create_task(self._perform(performance), name=f"scene {number}")
        self.over = True

    async def _pause(self, scene: Scene, began: float) -> None:
        """Waits until a scene is due; `began` is when the previous one began."""
        pause = scene.pause / self._speed
        if scene.after is None:
            await self._until(lambda: not self.running)
            await self._clock.sleep(pause)
        else:
            await self._clock.sleep_until(began + pause)

    # Who is in it.

    async def _free(self, scene: Scene) -> tuple[str, ...]:
        """Returns the shoots of a scene, as soon as they are available."""
        if scene.action.of_seed:
            return ()
        if isinstance(scene.shoots, int):
            return await self._next(scene.shoots)
        chosen = tuple(self._namespaces) if scene.shoots == (ALL,) else scene.shoots

        def possible() -> bool:
            """Whether no running scene affects the same part of any of these shoots."""
            touches = scene.action.touches
            return touches is None or not any(
                each.scene.action.touches is touches and set(chosen).intersection(each.shoots)
                for each in self.running
            )

        await self._until(possible)
        return chosen

    async def _next(self, count: int) -> tuple[str, ...]:
        await self._until(lambda: bool(self._idle()))
        names = self._idle()[:count]
        self._turn = [name for name in self._turn if name not in names] + names
        return tuple(names)

    def _idle(self) -> list[str]:
        busy = {name for each in self.running for name in each.shoots}
        return [name for name in self._turn if name not in busy]

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    # What happens in it.

    async def _perform(self, performance: Performance) -> None:
        scene = performance.scene
        if not scene.lasting:
            _ = self._begin(performance)
            await self._end(performance)
            return
        self._tell(performance)
        for turn in range(scene.times):
            began = performance.began + scene.turn(turn)
            await self._clock.sleep_until(began)
            faults = self._begin(performance)
            try:
                await self._clock.sleep_until(began + scene.lasting)
            finally:
                for fault in faults:
                    fault.lift()
        await self._end(performance)

    def _begin(self, performance: Performance) -> list[Fault]:
        scene = performance.scene
        targets = [self._namespaces[name] for name in performance.shoots] or [""]
        begun = [
            scene.action.begin(world, target, scene.options)
            for world in self._worlds
            for target in targets
        ]
        return [fault for fault in begun if fault is not None]

    async def _end(self, performance: Performance) -> None:
        ended = replace(performance, ended=self._clock.now())
        async with self._changed:
            self._performances[performance.number] = ended
            self._changed.notify_all()
        self._tell(ended)

    def _tell(self, performance: Performance) -> None:
        for audience in self._audience:
            audience(performance)
