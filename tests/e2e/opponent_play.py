"""One experiment: 20 nodes, the real kube-controller-manager, and a path that is cut and restored."""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.e2e.api import NODES, Api, all_of
from tests.e2e.objects import KCM
from tests.e2e.opponent import GRACE, Opponent
from tests.e2e.opponent_nodes import NodeStatuses, Observer, pods_on
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage

SIZE, ZONES = 20, 5
ALL, MOST = 1.0, 0.8
"""The share of the nodes that is cut off, whole zones; the manager stops evictions where no zone is left."""
PHASES = 30.0
"""A cut comes within so many seconds after everything is calm: as long as the longest period of anybody here."""
LIMIT = 420
"""Seconds within which an experiment has ended, on a busy machine too."""
_SETTLED = 20  # seconds until each Lease has moved before the watchdog's eyes
_OUTAGE = 65  # seconds; the manager would have marked the last node after 50
_AFTERWARDS = 60  # seconds for which a manager that has come back is watched
_TICK = 0.02
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Load:
    """What was measured."""

    busy: float
    """The part of all processors that was in use, 0 … 1; 0 where the system does not tell."""
    late: float
    """By how many seconds a timer of this process was late at worst."""


@dataclass(frozen=True, slots=True)
class Outage:
    """What happened from the cut until the path was restored; instants in seconds after the outage could be known."""

    nodes: int
    """How many were cut off."""
    phase: float
    known: float
    """When it could be known, seconds after the cut."""
    markable: float
    """When the manager could have marked the first node, had it looked at the best moment for that."""
    first_write: float | None
    at_zero: float | None
    """When the Deployment of the manager was scaled to 0."""
    gone: float | None
    """When the process of the manager had ended."""
    first_mark: float | None
    marked: int
    """Nodes that were ever marked in one way or another, from the calm before the cut on."""
    unknown: int
    """Nodes whose condition Ready was ever not True."""
    tainted: int
    """Nodes that ever had the taint unreachable or not-ready, with whatever effect."""
    evicting: int
    """Nodes that ever had such a taint with the effect NoExecute."""
    evictions: int
    """Pods that were deleted."""
    load: Load


@dataclass(frozen=True, slots=True)
class Recovery:
    """What happened after the path was restored."""

    manager_back: float | None
    """When the manager was healthy again, seconds after the end of the outage; None if it had never left."""
    oldest: float | None
    """The age of the oldest Lease at the start of the manager, seconds."""
    marked: int
    """Nodes that were marked after the end of the outage."""
    all_clean: bool
    """Whether nothing was wrong with any node in the end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one experiment."""

    outage: Outage
    recovery: Recovery

    def figures(self) -> dict[str, str]:
        """All of it by the heads of the table; a dash where something did not happen."""
        outage, recovery = self.outage, self.recovery
        return {
            "cut": f"{outage.nodes} of {SIZE}",
            "phase": seconds(outage.phase),
            "known at": seconds(outage.known),
            "first write": seconds(outage.first_write, 2),
            "KCM at 0": seconds(outage.at_zero, 2),
            "KCM gone": seconds(outage.gone),
            "markable": seconds(outage.markable),
            "first mark": seconds(outage.first_mark),
            "marked": str(outage.marked),
            "NoExecute": str(outage.evicting),
            "evicted": str(outage.evictions),
            "KCM back": seconds(recovery.manager_back),
            "oldest lease": seconds(recovery.oldest),
            "marked after": str(recovery.marked),
            "CPU": f"{outage.load.busy:.0%}",
            "late": f"{1000 * outage.load.late:.0f} ms",
        }


def seconds(value: float | None, digits: int = 1) -> str:
    """A time, or a dash."""
    return "–" if value is None else f"{value:.{digits}f} s"


async def play(
    stage: Stage, binary: Path, *, share: float, protected: bool, phase: float
) -> Outcome:
    """One experiment from beginning to end, with the watchdog or without."""
    async with AsyncExitStack() as stack:
        game = Game(stage, await stack.enter_async_context(Opponent(binary, stage.folder, stage)))
        await game.build(stack)
        if protected:
            await stage.healthy()
        await asyncio.sleep(_SETTLED + phase)
        meter = await stack.enter_async_context(LoadMeter())
        await game.outage(share)
        await (game.protection() if protected else game.harm())
        outage = game.outage_so_far(phase, meter.read())
        recovery = await game.recovery(protected=protected)
        assert game.observer.unbroken, "the watches broke: marks may have gone unseen"
        assert not game.opponent.deaths, f"the manager ended by itself: {game.opponent.deaths}"
        return Outcome(outage, recovery)


class Game:
    """The parts of one experiment, in the order in which they are played."""

    def __init__(self, stage: Stage, opponent: Opponent) -> None:
        self.stage, self.shoot, self.opponent = stage, stage.shoot, opponent
        self.observer = Observer(stage.plane.api)

    async def build(self, stack: AsyncExitStack) -> None:
        """Nodes that are ready, a pod on each, and a manager that knows them; `stack` ends what keeps them alive."""
        await self.shoot.build(nodes=SIZE, grace=GRACE)
        api, path = self.stage.plane.api, self.shoot.kubelets.path
        await all_of(put_into_zone(api, name, zone) for name, zone in self._zones())
        chance = random.Random(self.shoot.namespace)
        await stack.enter_async_context(self.observer)
        statuses = NodeStatuses(api, self.shoot.nodes, self.observer, path, chance)
        await stack.enter_async_context(statuses)
        await self._until(lambda: self.observer.clean(SIZE), "all nodes are ready", within=40)
        await stack.enter_async_context(pods_on(api, self.shoot.nodes))
        self.calm = time.time()

    async def outage(self, share: float) -> None:
        """Cuts so many zones off; which node is in which has nothing to do with when it renews its Lease."""
        gone = round(share * ZONES)
        self.cut_nodes = [name for name, zone in self._zones() if zone < gone]
        self.cut = self.shoot.kubelets.path.cut(self.cut_nodes)

    async def protection(self) -> None:
        """The watchdog acts; the outage lasts until all nodes would have been marked without it."""
        await self.stage.until_down(KCM, within=50)
        await self._until(lambda: not self.opponent.running, "the manager is gone", within=35)
        await asyncio.sleep(max(self.cut + _OUTAGE - time.time(), 0))

    async def harm(self) -> None:
        """Nobody acts: the manager marks all that are cut off, and what it evicts is gone."""
        seen = self.observer

        def all_marked() -> bool:
            return seen.marked(self.cut, "Ready=Unknown") >= set(self.cut_nodes)

        await self._until(all_marked, "every node that was cut off is marked", within=75)
        await asyncio.sleep(max(self.cut + _OUTAGE - time.time(), 0))

    def outage_so_far(self, phase: float, load: Load) -> Outage:
        """What has happened since the nodes were calm."""
        renewed, seen = self.shoot.kubelets.renewed, self.observer
        known = self.shoot.known_at()
        writes = self.stage.writes(self.calm)
        of_manager = [each.at for each in writes if each.name == KCM]
        life = self.opponent.lives[0]

        def after(at: float | None) -> float | None:
            return None if at is None else at - known

        return Outage(
            nodes=len(self.cut_nodes),
            phase=phase,
            known=known - self.cut,
            markable=min(renewed[each] for each in self.cut_nodes) + GRACE - known,
            first_write=after(writes[0].at if writes else None),
            at_zero=after(of_manager[0] if of_manager else None),
            gone=after(life.gone),
            first_mark=after(seen.first(self.calm)),
            marked=len(seen.marked(self.calm)),
            unknown=len(seen.marked(self.calm, "Ready=")),
            tainted=len(seen.marked(self.calm, "node.kubernetes.io/")),
            evicting=len(seen.marked(self.calm, "NoExecute")),
            evictions=len(seen.evicted),
            load=load,
        )

    async def recovery(self, *, protected: bool) -> Recovery:
        """The path is back: the manager returns, and is watched for a minute."""
        restored = self.shoot.kubelets.path.restore()
        if not protected:
            await self._until(lambda: self.observer.clean(SIZE), "all are ready again", within=60)
            return Recovery(None, None, len(self.observer.marked(restored)), all_clean=True)
        lives = self.opponent.lives
        await self._until(lambda: len(lives) > 1, "the manager starts again", within=90)
        oldest = lives[1].started - min(self.shoot.kubelets.renewed.values())
        await self.stage.until_up()
        back = lives[1].ready or 0.0
        await asyncio.sleep(max(back + _AFTERWARDS - time.time(), 0))
        assert len(lives) == 2, f"the manager lived {len(lives)} times"
        marked = len(self.observer.marked(restored))
        return Recovery(back - restored, oldest, marked, self.observer.clean(SIZE))

    def _zones(self) -> list[tuple[str, int]]:
        return [(name, number % ZONES) for number, name in enumerate(self.shoot.nodes)]

    @staticmethod
    async def _until(holds: Callable[[], bool], what: str, *, within: float) -> None:
        async def question() -> bool:
            return holds()

        await eventually(question, what, within=within)


async def put_into_zone(api: Api, node: str, zone: int) -> None:
    """Labels a node with its zone."""
    labels = {"topology.kubernetes.io/zone": f"zone-{zone}"}
    await api.patch(f"{NODES}/{node}", {"metadata": {"labels": labels}})


# How busy the machine was: what came late because of it is not the program's fault, and the other way round.


class LoadMeter:
    """Measures from its beginning to its end; a context manager."""

    def __init__(self) -> None:
        self._late = 0.0
        self._began = _jiffies()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def read(self) -> Load:
        """The load from the beginning until now."""
        busy, total = (now - then for now, then in zip(_jiffies(), self._began, strict=True))
        return Load(busy / total if total else 0.0, self._late)

    async def _tick(self) -> None:
        while True:
            due = time.monotonic() + _TICK
            await asyncio.sleep(_TICK)
            self._late = max(self._late, time.monotonic() - due)


def _jiffies() -> tuple[float, float]:
    """Busy time and all time of all processors since the machine started."""
    if not _STAT.exists():
        return 0.0, 0.0
    times = [float(each) for each in _STAT.read_text().splitlines()[0].split()[1:9]]
    idle = times[3] + times[4]  # idle, and waiting for a disk
    return sum(times) - idle, sum(times)
