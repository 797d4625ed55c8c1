"""The show: polls the program once a second, plays the scenario, and keeps a screen up to date."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from app.core.clock import Clock
from app.core.tasks import happens
from app.simulation.demo import wording
from app.simulation.demo.losses import (
    Comparison,
    GateOutcome,
    Met,
    by_scene,
    fates_by_scene,
    met,
    sorted_out,
)
from app.simulation.demo.pod_story import AllBack, Happening, saving
from app.simulation.demo.program_api import NoDemoAnswer, ShootReport
from app.simulation.demo.screens import LiveScreen, PlainScreen
from app.simulation.demo.seed import Seed
from app.simulation.demo.wording import EventLine, Picture
from app.simulation.scenarios.player import Performance
from app.simulation.scenarios.scenario import Part

LOOK: Final = 1.0
"""Seconds between requests to the program."""
# Seconds after which the scenario begins even if the program has not probed every shoot.
_PATIENCE: Final = 20.0
# Seconds that shoots have to recover after the scenario; a scale-up takes up to a minute and a half.
_SETTLING: Final = 180.0
# The number of event lines that are kept.
_LATEST: Final = 20


ShootStates = Callable[[], Awaitable[Mapping[str, ShootReport]]]
"""Returns all shoots by namespace; raises NoDemoAnswer."""


class Show:
    """Updates the screen and plays the scenario."""

    def __init__(
        self,
        clock: Clock,
        scenario: str,
        parts: Sequence[Part],
        seed: Seed,
        screen: LiveScreen | PlainScreen,
        hints: Sequence[str],
    ) -> None:
        self._clock, self._began = clock, clock.now()
        self._scenario, self._parts, self._hints = scenario, tuple(parts), tuple(hints)
        self._seed, self._screen = seed, screen
        self._said: Mapping[str, ShootReport] = {}
        self._met: list[Met] = []
        self._trouble = "The program is starting."
        self._latest: deque[EventLine] = deque(maxlen=_LATEST)
        self._ready, self._settled = asyncio.Event(), asyncio.Event()
        seed.player.subscribe(self._scene)
        seed.pods.subscribe(lambda happening: self._tell(wording.pods_changed(happening)))
        seed.twin_pods.subscribe(self._twin)

    async def watch(self, source: ShootStates) -> None:
        """Polls the program and updates the screen, until cancelled."""
        while True:
            due = self._clock.now() + LOOK
            await self._look(source)
            picture = self.picture()
            if picture.over and not picture.unsettled:
                self._settled.set()
            self._screen.show(picture)
            await self._clock.sleep_until(due)

    async def play(self) -> None:
        """Plays the scenario once the program has probed every shoot.

        Returns when it is over and the shoots are as before, or that takes too long; with a screen that stays, never.
        """
        if not await happens(self._ready, _PATIENCE):
            self._tell("the program has not probed every shoot yet; the scenario begins")
        await self._seed.player.play()
        if self._screen.stays:
            self._tell("the scenario is over; the watchdog goes on until Ctrl-C")
            await asyncio.Event().wait()
        self._tell("the scenario is over; this ends when every shoot is back to normal")
        if not await happens(self._settled, _SETTLING):
            self._tell(f"{wording.shoots(self.picture().unsettled)} not back to normal; the end")

    def picture(self) -> Picture:
        """Returns the current picture."""
        now, player = self._clock.now(), self._seed.player
        return Picture(
            elapsed=now - self._began,
            now=now,
            scenario=self._scenario,
            running=player.running,
            rows=tuple(wording.worst_first(self._rows())),
            lost=self._seed.lost,
            latest=tuple(self._latest),
            hints=self._hints,
            pods=self._seed.all_pods,
            trouble=self._trouble,
            over=player.over,
        )

    def summary(self) -> list[str]:
        """Returns the losses, what was saved for pods, and what a gate has held back, by scene."""
        seed, whole = self._seed, len(self._parts)
        performances, restarts = seed.player.performances, seed.pods.restarts
        lost = wording.summary(performances, self._by_scene(), seed.lost, whole)
        gated: list[str] = []
        if any(each.fate is GateOutcome.HELD_BACK for each in self._met):
            fates = fates_by_scene(performances, self._met)
            gated = ["", *wording.summary_of_gate(performances, fates, whole)]
        if not restarts:
            return [*lost, *gated]
        scenes = sorted_out(performances, restarts)
        saved = {number: saving(each, seed.twin_of) for number, each in scenes.items()}
        together = saving(restarts, seed.twin_of)
        pods = wording.summary_of_pods(performances, saved, together, whole)
        return [*lost, "", *pods, *gated]

    # Looking.

    async def _look(self, source: ShootStates) -> None:
        try:
            said = await source()
        except NoDemoAnswer as error:
            self._trouble = f"No news from the program: {error}" if self._said else self._trouble
            return
        self._trouble = ""
        for line in wording.changes(self._said, said, len(self._parts)):
            self._tell(line)
        self._met += met(self._said, said, self._clock.now())
        self._said = said
        reports = [said.get(part.namespace) for part in self._parts]
        if all(each is not None and each.has_probed for each in reports):
            self._ready.set()

    def _rows(self) -> list[wording.Row]:
        acting: defaultdict[str, list[str]] = defaultdict(list)
        for performance in self._seed.player.running:
            for shoot in performance.shoots:
                acting[shoot].append(performance.scene.action)
        return [
            wording.row(
                part.name,
                self._said.get(part.namespace),
                self._seed.replicas(part.namespace),
                acting,
                self._seed.pods.waiting(part.namespace),
            )
            for part in self._parts
        ]

    # Telling.

    def _scene(self, performance: Performance) -> None:
        whole = len(self._parts)
        if performance.ended is None or not performance.scene.timing.lasting:
            self._tell(wording.scene_begins(performance, whole))
        else:
            lost = self._by_scene()[performance.number]
            self._tell(wording.scene_ends(performance, whole, lost))

    def _twin(self, happening: Happening) -> None:
        # Of the twin only the end of a recovery is reported, for comparison with the world that has a watchdog.
        if isinstance(happening, AllBack):
            self._tell(wording.without_us(happening))

    def _by_scene(self) -> Mapping[int, Comparison]:
        seed = self._seed
        return by_scene(seed.player.performances, seed.mine.losses, seed.theirs.losses)

    def _tell(self, text: str) -> None:
        told = EventLine(self._clock.now() - self._began, text)
        self._latest.append(told)
        self._screen.tell(told)
