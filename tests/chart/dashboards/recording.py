"""A seed with everything that the panels are about, played for a minute and a half and scraped by a real Prometheus.

The watchdog runs as in the chart: two replicas of the prober and one of the weeder, against the API servers of a
simulated seed. Prometheus scrapes each of them twice, the second time as if it were of another seed, of which the
series for each shoot are not kept, as with `--per-shoot-metrics=false`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.core.clock import Clock
from app.core.model import workloads as ann
from app.core.tasks import Tasks
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.identities import GARDENLET
from app.simulation.scenarios.actions import etcd_outage
from app.simulation.server import Loopback, SimulatedServers
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from tests.chart.dashboards.programs import Replica, probers, weeder
from tests.chart.dashboards.server import SEEDS, Prometheus
from tests.core.kube.server import AUTHORITY, Asked, serving
from tests.e2e.processes import eventually

RECOVERS, PROTECTED, LEFT, PAUSED = (
    "shoot--r--recovers",
    "shoot--r--protected",
    "shoot--r--left",
    "shoot--r--paused",
)
PODS, REFUSED, BUSY, HUGE, WELL = (
    "shoot--r--pods",
    "shoot--r--refused",
    "shoot--r--busy",
    "shoot--r--huge",
    "shoot--r--well",
)
ASLEEP = "shoot--r--asleep"
SHOOTS = (RECOVERS, PROTECTED, LEFT, PAUSED, PODS, REFUSED, BUSY, HUGE, WELL, ASLEEP)
_KCM, _MCM, _CA = "kube-controller-manager", "machine-controller-manager", "cluster-autoscaler"
_LACKING = {"events": {"create", "patch"}, "machines": {"get"}}
"""Rights that the program asks about and has no use for here: one machine alone is never read."""
_GRACE = 12
"""Seconds; a lease is expired after three quarters of it."""
_WITHIN = 60.0
_WELL = len(SHOOTS) - len((PROTECTED, LEFT, HUGE, ASLEEP))
_THE_END = " and on () ".join(
    f"({each})"
    for seed in SEEDS
    for each in (
        f'sum(up{{seed="{seed}"}}) == 2',
        f'sum(leader_election_master_status{{seed="{seed}"}}) == 2',
        f'sum(dwd_shoots{{seed="{seed}", state="Healthy"}}) == {_WELL}',
        f'sum(dwd_overrides_active{{seed="{seed}"}}) == 3',
        f'count(dwd_weeder_selector_matches{{seed="{seed}"}}) == 3',
    )
)
"""The second replica of the prober is down, the two other processes answer, and all shoots are well that can be."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What Prometheus has, and of when."""

    prometheus: Prometheus
    begun: float
    ended: float
    """One shoot is protected, one was left behind, and the second replica of the prober is down."""

    @property
    def seconds(self) -> int:
        return int(self.ended - self.begun)


@asynccontextmanager
async def recorded(binary: Path, folder: Path) -> AsyncIterator[Recording]:
    """Plays it; of what is there then only Prometheus goes on."""
    async with AsyncExitStack() as opened:
        async with _Seed(folder).open() as seed:
            targets = [each.target for each in seed.programs]
            prometheus = Prometheus(binary, folder, targets)
            await prometheus.start()
            opened.push_async_callback(prometheus.stop)
            await _has(prometheus, f"sum(up) == {2 * len(targets)}", "everything scraped")
            begun = time.time()
            ended = await seed.play(prometheus)
        yield Recording(prometheus, begun, ended)


class _Seed:
    """The simulated seed, and the program beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        clock = Clock.system()
        self._tasks = Tasks(clock)
        place = Loopback()
        self._world = World(clock, self._tasks, seed=1, latency=0.002, place=place)
        self._servers = SimulatedServers(self._world, place)
        for what, verbs in _LACKING.items():
            lacking = Trouble(forbidden=True, verbs=frozenset(verbs), what=frozenset({what}))
            self._world.faults.seed_trouble(lacking)
        for name in SHOOTS:
            self._world.add_shoot(name, nodes=5, grace=f"{_GRACE}s", lease_duration=_GRACE)
        self._world.add_control_plane(PODS)
        self._world.patch(
            PROTECTED, _CA, {"metadata": {"annotations": {ann.IGNORE_SCALING: "true"}}}
        )
        self._hibernate(ASLEEP)
        self.programs: list[Replica] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator["_Seed"]:
        """Its servers listen, and the programs are ready."""
        async with AsyncExitStack() as opened:
            opened.push_async_callback(self._tasks.stop)
            await self._servers.start()
            opened.push_async_callback(self._servers.stop)
            huge = await opened.enter_async_context(serving(_too_much))
            self._kubeconfig(HUGE, huge.origin)
            self.programs = [
                *probers(self._folder, self._servers),
                weeder(self._folder, self._servers),
            ]
            for each in self.programs:
                opened.push_async_callback(each.child.kill)
            await asyncio.gather(*(each.start() for each in self.programs))
            yield self

    def _hibernate(self, shoot: str) -> None:
        """As gardenlet leaves it: its controllers at 0, its API server gone."""
        _ = self._world.faults.hibernated(shoot), self._world.faults.api_down(shoot)
        for name in (_KCM, _MCM, _CA):
            self._world.patch(shoot, name, {"spec": {"replicas": 0}})

    def _kubeconfig(self, shoot: str, origin: str) -> None:
        """Its kubeconfig names a server of our own."""
        content = manifests.kubeconfig(shoot, origin, AUTHORITY.pem.decode(), {"token": "t"})
        key = ObjectKey("Secret", shoot, manifests.SECRET_NAME)
        self._world.write(key, manifests.secret(content), GARDENLET)

    async def play(self, prometheus: Prometheus) -> float:
        """All that happens; returns an instant at which Prometheus knows how it ended."""
        leader = await self._leader()
        await asyncio.gather(
            self._outage_and_recovery(),
            self._weeding(prometheus),
            self._people(leader),
            self._refused(),
            self._busy(),
        )
        await self._seed_away()
        leader = await self._hand_over(leader)
        await self._protected_and_left(prometheus, leader)
        standby = next(each for each in self.programs[:2] if each is not leader)
        await standby.child.kill()
        return await _when(prometheus, _THE_END, "how it ended")

    async def _outage_and_recovery(self) -> None:
        with self._world.faults.path_cut(RECOVERS):
            await self._until(lambda: not self._up(RECOVERS), "protection")
        await self._until(lambda: self._up(RECOVERS) == 3, "recovery")

    async def _weeding(self, prometheus: Prometheus) -> None:
        outage = etcd_outage(self._world, PODS, restarts=5)
        await asyncio.sleep(5)
        outage.lift()
        await _has(
            prometheus,
            'sum(dwd_weeder_pod_deletions_total{result="deleted", seed="one"}) > 3',
            "pods that were deleted",
        )

    async def _people(self, leader: Replica) -> None:
        """A pause, and a page that asks every second; two who may not."""
        await self._pause(leader, PAUSED)
        path, order = f"/api/v1/shoots/{WELL}/pause", {"reason": "may not"}
        for _ in range(5):
            assert await leader.calls("/api/v1/shoots", "viewer") == 200
            assert await leader.calls(path, "viewer", order) == 403
            assert await leader.calls("/api/v1/shoots") == 401
            await asyncio.sleep(1)

    async def _pause(self, leader: Replica, shoot: str) -> None:
        """For an hour; again where the leader tidies the ConfigMap at that moment."""

        async def done() -> bool:
            order = {"reason": "a test", "duration": "1h", "scope": "scaleDown"}
            return await leader.calls(f"/api/v1/shoots/{shoot}/pause", "admin", order) == 200

        await eventually(done, f"the pause of {shoot}", within=_WITHIN)

    async def _refused(self) -> None:
        for _ in range(2):
            with self._world.faults.kubeconfig_refused(REFUSED):
                await asyncio.sleep(4)
            await asyncio.sleep(3)

    async def _busy(self) -> None:
        with self._world.faults.throttled(BUSY, retry_after=1.0):
            await asyncio.sleep(8)

    async def _seed_away(self) -> None:
        """Every connection to the seed breaks, twice."""
        for _ in range(2):
            self._servers.cut()
            await asyncio.sleep(3)

    async def _hand_over(self, leader: Replica) -> Replica:
        """The leader is killed, the other one takes over, and it comes back: sooner it could win again."""
        await leader.child.kill()
        leads = await self._leader(but=leader)
        await leader.start()
        return leads

    async def _protected_and_left(self, prometheus: Prometheus, leader: Replica) -> None:
        faults = self._world.faults
        _ = faults.path_cut(PROTECTED), faults.path_cut(LEFT)
        await self._until(lambda: self._up(PROTECTED) == 1 and not self._up(LEFT), "protections")
        _ = faults.migrating(LEFT)
        await self._pause(leader, PROTECTED)
        await _has(
            prometheus,
            'sum(dwd_dependents_abandoned_total{seed="one"}) == 3',
            "controllers left behind",
        )

    async def _leader(self, *, but: Replica | None = None) -> Replica:
        """The replica of the prober that leads: a standby refuses what only the leader knows."""
        candidates = [each for each in self.programs[:2] if each is not but]

        async def found() -> Replica | None:
            for each in candidates:
                if await each.calls(f"/api/v1/shoots/{WELL}", "viewer") == 200:
                    return each
            return None

        leads = await eventually(found, "a leader", within=_WITHIN)
        assert leads is not None
        return leads

    def _up(self, shoot: str) -> int:
        """How many controllers of a shoot are not at 0."""
        return sum(bool(self._world.replicas(shoot, name)) for name in (_KCM, _MCM, _CA))

    async def _until(self, so: Callable[[], bool], what: str) -> None:
        async def question() -> bool:
            return so()

        await eventually(question, what, within=_WITHIN)


async def _has(prometheus: Prometheus, expression: str, what: str) -> None:
    """Waits until Prometheus has it, and for one scrape more."""
    await _when(prometheus, expression, what)
    await asyncio.sleep(1.5)


async def _when(prometheus: Prometheus, expression: str, what: str) -> float:
    """The first instant from now on at which Prometheus has it."""

    async def question() -> float | None:
        now = time.time()
        return now if await prometheus.at(expression, now) else None

    found = await eventually(question, what, within=_WITHIN)
    assert found is not None
    return found


async def _too_much(asked: Asked) -> None:
    """Answers everything with more than is taken."""
    await asked.answer(b" " * (2 << 20))
