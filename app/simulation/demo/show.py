"""The show: polls the program once a second, plays the scenario, and tells what happens, on a screen or in lines.

What each shoot has lost, and the pods that wait, are always told of both worlds: with the watchdog and without it.
"""

import asyncio
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from app.api.schemas import Shoot, ShootList
from app.cli import answers
from app.cli.client import ApiCall, Client
from app.cli.problems import CommandFailed
from app.core.clock import Clock
from app.core.errors import NotFound, trimmed
from app.core.model.instants import format_duration
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.tasks import wait_until_set
from app.simulation.demo.screens import (
    CONTROLLERS,
    Compared,
    LiveScreen,
    Picture,
    PlainScreen,
    Row,
    in_words,
    number_of_shoots,
    stamp,
)
from app.simulation.demo.seed import Seed
from app.simulation.demo.witness import What, Witness
from app.simulation.scenarios.player import Performance
from app.simulation.scenarios.scenario import Part, short

LOOK: Final = 1.0
"""Seconds between requests to the program."""
# Seconds after which the scenario begins even if the program has not probed every shoot.
_PATIENCE: Final = 20.0
# Seconds that shoots have to recover after the scenario; a scale-up takes up to a minute and a half.
_SETTLING: Final = 180.0
# The number of event lines that are kept.
_LATEST: Final = 20
# The maximum number of shoots that a line names; the others are only counted.
_NAMED: Final = 3
# The losses that are told even where there are none.
_LOSSES: Final = (What.NODE, What.MACHINE)
# States in which a shoot is well; those that are no news when it is first seen.
_SETTLED: Final = frozenset({ShootState.HEALTHY, ShootState.NOT_PROBED})
_EASY: Final = frozenset({ShootState.PENDING, ShootState.HEALTHY})
# Shoots in one answer, at most.
_PAGE: Final = 500
_SCALED: Final = frozenset({ShootState.PROTECTING, ShootState.PROTECTED, ShootState.RECOVERING})

ShootStates = Callable[[], Awaitable[Mapping[str, Shoot]]]
"""Returns all shoots by namespace; raises CommandFailed."""


async def read_shoots(program: Client) -> Mapping[str, Shoot]:
    """Returns all shoots by namespace, as the program itself reports them; their states are plain words.

    Raises:
        CommandFailed: there is no usable answer.
    """
    found: dict[str, Shoot] = {}
    token: str | None = ""
    while token is not None:
        query = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
        body = await program.ask(ApiCall("GET", "shoots", query))
        page = answers.of(ShootList, answers.decode(body))
        found.update((shoot.namespace, shoot) for shoot in page.items)
        token = page.metadata.continue_
    return found


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
        self._worlds = (seed.mine, seed.theirs)
        self._said: Mapping[str, Shoot] = {}
        self._trouble = "The program is starting."
        self._latest: deque[tuple[str, str]] = deque(maxlen=_LATEST)
        self._ready, self._settled = asyncio.Event(), asyncio.Event()
        seed.player.subscribe(self._scene)
        for witness in self._worlds:
            witness.subscribe(self._tell)

    async def watch(self, source: ShootStates) -> None:
        """Polls the program and updates the screen, until cancelled."""
        while True:
            due = self._clock.now() + LOOK
            await self._look(source)
            picture = self.picture()
            if self._seed.player.over and not picture.unsettled:
                self._settled.set()
            self._screen.show(picture)
            await self._clock.sleep_until(due)

    async def play(self) -> None:
        """Plays the scenario once the program has probed every shoot.

        Returns when it is over and the shoots are as before, or that takes too long; with a screen that stays, never.
        """
        if not await wait_until_set(self._ready, _PATIENCE):
            self._tell("the program has not probed every shoot yet; the scenario begins")
        await self._seed.player.play()
        if self._screen.stays:
            self._tell("the scenario is over; the watchdog goes on until Ctrl-C")
            await asyncio.Event().wait()
        self._tell("the scenario is over; this ends when every shoot is back to normal")
        if not await wait_until_set(self._settled, _SETTLING):
            unsettled = number_of_shoots(self.picture().unsettled)
            self._tell(f"{unsettled} not back to normal; the end")

    def picture(self) -> Picture:
        """Returns the current picture, its shoots worst first, and of equals those to which something happens."""
        ranks = {state: rank for rank, state in enumerate((*ShootState, None))}
        rows = sorted(self._rows(), key=lambda row: (ranks[row.state], not row.happens))
        states = Counter(row.word for row in rows)
        waits, waits_there = (each.all_waiting for each in self._worlds)
        counts = tuple(each for each in self._totals() if each[0] in {*_LOSSES, What.BELOW})
        return Picture(
            elapsed=self._clock.now() - self._began,
            title=f"scenario {self._scenario}, {number_of_shoots(len(rows))}",
            state=self._trouble or ", ".join(f"{number} {word}" for word, number in states.items()),
            scenes=tuple(
                (each.ends - self._clock.now(), self._who(each), each.scene.text)
                for each in self._seed.player.running
            ),
            rows=tuple(rows),
            unsettled=sum(row.state not in _SETTLED or bool(row.happens) for row in rows),
            counts=(*counts, ("pods waiting", waits, waits_there))
            if waits or waits_there
            else counts,
            latest=tuple(self._latest),
            hints=self._hints,
            over=self._seed.player.over,
        )

    def summary(self) -> list[str]:
        """Returns a table of what was lost and saved in each scene, with the watchdog and without it."""
        mine, theirs = (self._by_scene(each) for each in self._worlds)
        scenes = [
            (f"{each.number:>2} {each.scene.do}: {self._who(each)}", each.number)
            for each in self._seed.player.performances
        ]
        lines = _table("scene", (("", "with", "without"),))
        for title, number in scenes:
            found = compared(mine[number], theirs[number])
            lines += _table(title, found or (("nothing lost", 0, 0),))
        return lines + _table("all together", self._totals())

    # Looking.

    async def _look(self, source: ShootStates) -> None:
        try:
            said = await source()
        except CommandFailed as error:
            self._trouble = f"No news from the program: {error}" if self._said else self._trouble
            return
        self._trouble = ""
        before, self._said = self._said, said
        self._tell_changes(before)
        for namespace, report in said.items():
            was = before.get(namespace)
            if report.state in _SCALED and (was is None or was.state not in _SCALED):
                self._seed.mine.note(namespace, What.SCALED)
            if is_gated(report) and not (was and is_gated(was)):
                self._seed.mine.note(namespace, What.HELD_BACK)
        reports = [said.get(part.namespace) for part in self._parts]
        if all(each is not None and has_probed(each) for each in reports):
            self._ready.set()

    def _rows(self) -> Iterable[Row]:
        acting: defaultdict[str, list[str]] = defaultdict(list)
        for performance in self._seed.player.running:
            for shoot in performance.shoots:
                acting[shoot].append(performance.scene.do)
        for part in self._parts:
            said, waiting = self._said.get(part.namespace), self._seed.mine.waiting(part.namespace)
            leases = None if said is None else _fresh(said)
            yield Row(
                part.name,
                None if said is None else said.state,
                "" if said is None else said.reason,
                leases or "-",
                tuple(self._replicas(part.namespace, name) for name in CONTROLLERS.values()),
                ", ".join([*acting[part.name], *([f"{waiting} waiting"] if waiting else [])]),
            )

    def _replicas(self, namespace: str, name: str) -> str:
        """The true replicas of a controller, ready and wanted."""
        try:
            found = self._seed.world.dependent(namespace, name)
        except NotFound:
            return "–"
        return f"{found.ready or 0}/{found.replicas or 0}"

    def _totals(self) -> tuple[Compared, ...]:
        return compared(self._seed.mine.total, self._seed.theirs.total, _LOSSES)

    def _by_scene(self, witness: Witness) -> Mapping[int, Counter[What]]:
        """Adds up what was seen in each scene, by its number.

        It belongs to the last scene that had begun with its shoot: machines are deleted when the path may be back.
        """
        found: defaultdict[int, Counter[What]] = defaultdict(Counter)
        for seen in witness.log:
            begun = [
                each
                for each in self._seed.player.performances
                if each.began <= seen.at and seen.shoot in (each.shoots or {seen.shoot})
            ]
            if begun:
                scene = max(begun, key=lambda each: each.began)
                found[scene.number][seen.what] += seen.amount
        return found

    # Telling.

    def _scene(self, performance: Performance) -> None:
        scene = performance.scene
        who, number = self._who(performance), performance.number
        if performance.ended is not None and scene.lasting:
            mine, theirs = (self._by_scene(each)[number] for each in self._worlds)
            lost = in_words(compared(mine, theirs, _LOSSES))
            self._tell(f"scene {number} is over: {who}; {lost}")
            return
        several = f"{scene.times} times " if scene.times > 1 else ""
        how_long = f" ({several}for {format_duration(scene.lasting)})" if scene.lasting else ""
        self._tell(f"scene {number} begins: {who}: {scene.text}{how_long}")

    def _tell_changes(self, before: Mapping[str, Shoot]) -> None:
        """Tells of shoots whose state has changed, with one line for all that changed in the same way."""
        alike: defaultdict[tuple[str, ShootState, str], list[str]] = defaultdict(list)
        for namespace in sorted(self._said, key=lambda name: (len(name), name)):  # s9 before s10
            said, was = self._said[namespace], before.get(namespace)
            if _is_news(was, said):
                came_from = "" if was is None or was.state == said.state else f"{was.state} → "
                alike[came_from, said.state, said.reason].append(namespace)
        for (came_from, state, reason), found in alike.items():
            who = self._names([short(each) for each in found])
            message = self._said[found[0]].message
            self._tell(trimmed(f"{who}: {came_from}{state} ({reason}): {message}"))

    def _who(self, performance: Performance) -> str:
        return self._names(performance.shoots) if performance.shoots else "the seed"

    def _names(self, shoots: Sequence[str]) -> str:
        if len(shoots) <= _NAMED:
            return ", ".join(shoots)
        if len(shoots) == len(self._parts):
            return f"all {len(shoots)} shoots"
        return f"{', '.join(shoots[:_NAMED])} and {len(shoots) - _NAMED} more"

    def _tell(self, text: str) -> None:
        at = stamp(self._clock.now() - self._began)
        self._latest.append((at, text))
        self._screen.tell(at, text)


def compared(
    mine: Counter[What], theirs: Counter[What], always: Sequence[What] = ()
) -> tuple[Compared, ...]:
    """Returns the numbers of both worlds of all that was seen in either, and of what is `always` told."""
    return tuple(
        (what, mine[what], theirs[what])
        for what in What
        if what in always or mine[what] or theirs[what]
    )


def _table(title: str, rows: Iterable[tuple[str, object, object]]) -> list[str]:
    heads = itertools.chain((title,), itertools.repeat(""))
    return [
        f"{head[:43]:<44}{what:<34}{mine:>6}{theirs:>9}"
        for head, (what, mine, theirs) in zip(heads, rows, strict=False)
    ]


def has_probed(said: Shoot) -> bool:
    """Returns whether the last probe of a shoot has said anything."""
    return said.leases is not None or said.probe.would_be not in {None, Verdict.HOLD}


def _fresh(said: Shoot) -> str | None:
    """Returns how many leases are fresh; None if the last probe has read none, as in endpoint mode."""
    leases = said.leases
    if leases is None or leases.as_of not in {None, said.probe.last_time}:
        return None
    return f"{leases.candidates - leases.expired - leases.unknown} of {leases.candidates}"


def is_gated(said: Shoot) -> bool:
    """Returns whether only a closed gate keeps a shoot from being scaled down."""
    return said.reason == VerdictReason.GATED and said.probe.would_be == Verdict.SCALE_DOWN


def _is_news(was: Shoot | None, said: Shoot) -> bool:
    if was is None:
        return said.state not in _EASY
    if is_gated(said) and not is_gated(was):
        return True
    return was.state != said.state and not {was.state, said.state} <= _EASY
