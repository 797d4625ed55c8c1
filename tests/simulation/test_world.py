"""A world is the same each time, fast, and knows when an outage can be known."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from weakref import ref

import pytest

from app.core.clock import Clock
from app.core.errors import NameUnresolved
from app.core.tasks import Tasks
from app.simulation.actors import KCM
from app.simulation.builders import World, known_at
from app.simulation.memory import MemoryPlace
from app.simulation.shoot import Kubelet, NodeClock, RenewalGap
from app.simulation.traffic import Write
from tests.simulation.worlds import about, adapters, connect, disconnect, simulated

A = "shoot--local--a"


async def live(seed: int, story: Callable[[World], Awaitable[None]]) -> tuple[Write, ...]:
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    world = World(clock, tasks, seed=seed, place=MemoryPlace())
    await story(world)
    await tasks.stop()
    await disconnect()
    return world.journal.writes


async def outage(world: World) -> None:
    world.add_shoot(A, nodes=5)
    start = world.clock.now()
    with world.faults.path_cut(A, fraction=0.6), world.faults.errors(A, 0.2):
        await world.clock.sleep_until(start + 90)
        world.patch(A, KCM, {"spec": {"replicas": 0}})
        await world.clock.sleep_until(start + 800)
    await world.clock.sleep_until(start + 1000)


async def test_the_same_seed_tells_the_same_story_and_another_seed_another_one():
    first, again, other = [await live(seed, outage) for seed in (3, 3, 4)]
    assert len(first) > 10
    assert [what(write) for write in first] == [what(write) for write in again]
    assert [write.at for write in first] == [about(write.at) for write in again]
    assert [write.at for write in first] != [about(write.at) for write in other]


def what(write: Write) -> tuple[object, ...]:
    return write.namespace, write.ref, write.verb, write.by


@simulated()
async def test_an_outage_can_be_known_when_60_percent_have_not_renewed_for_30_seconds(world, clock):
    shoot = world.add_shoot(A, nodes=10)
    await clock.sleep(100)
    with world.faults.path_cut(A):
        last = sorted(kubelet.last for kubelet in shoot.fleet.kubelets)
        await clock.sleep(15)
        assert world.known_at(A) is None
        await clock.sleep(60)
        known = last[5] + 30
        assert world.known_at(A) == about(known)
    await clock.sleep(600)
    assert world.known_at(A) == about(known)
    assert world.known_at(A, since=known + 300) is None


@simulated()
async def test_an_outage_of_too_few_nodes_is_never_known(world, clock):
    world.add_shoot(A, nodes=10)
    world.faults.path_cut(A, fraction=0.5)
    await clock.sleep(300)
    assert world.known_at(A) is None
    assert world.known_at(A, limit=0.5) is not None


@simulated()
async def test_nodes_that_are_no_candidates_do_not_count(world, clock):
    world.add_shoot(A, nodes=5, unmanaged=1)
    world.machine_phase(A, "machine-1", "Failed")
    conditions = [{"type": "KernelDeadlock", "status": "True"}]
    world.patch_node(A, "node-2", {"status": {"conditions": conditions}})
    world.faults.path_cut(A, nodes={"node-0", "node-1", "node-2"})
    await clock.sleep(120)
    assert world.known_at(A, limit=0.1) is None


def test_the_instant_is_that_at_which_enough_are_old_at_the_same_time():
    def kubelet(last: float, *gaps: RenewalGap) -> Kubelet:
        return Kubelet("n", "z", NodeClock(), last, gaps=list(gaps))

    apart = [kubelet(300, RenewalGap(0, 50)), kubelet(300, RenewalGap(100, 150))]
    together = [kubelet(300, RenewalGap(0, 50)), kubelet(300, RenewalGap(15, 60))]
    brief = [
        kubelet(300, RenewalGap(5, 25)),
        kubelet(300, RenewalGap(0, 50)),
        kubelet(300, RenewalGap(0, 50)),
    ]
    ask = {"limit": 1.0, "now": 200.0}
    assert known_at(apart, since=0, **ask) is None
    assert known_at(brief, since=0, **ask) is None
    assert known_at(brief, since=0, **{**ask, "limit": 0.6}) == 30
    assert known_at(together, since=0, **ask) == 45
    assert known_at(together, since=47, **ask) == 47
    assert known_at(together, since=51, **ask) is None


@simulated()
async def test_a_drifting_clock_shows_in_the_leases_and_goes_right_from_where_it_is(world, clock):
    world.add_shoot(A, nodes=1)

    async def ahead() -> float:
        (lease,) = world.shoot(A).leases()
        return float(lease.renew_time - world.shoot(A).fleet.of("node-0").last)

    with world.faults.clock_drift(A, "node-0", 0.01):
        await clock.sleep(1000)
        assert 9.8 < await ahead() <= 10
    await clock.sleep(1000)
    assert await ahead() == pytest.approx(10, abs=0.01)


@simulated()
async def test_a_clock_that_was_off_is_right_again_at_the_end(world, clock):
    world.add_shoot(A, nodes=1)
    fault = world.faults.clock_off(A, "node-0", 300)
    await clock.sleep(20)
    (lease,) = world.shoot(A).leases()
    assert 280 < lease.renew_time - clock.now() <= 300
    fault.lift()
    fault.lift()
    await clock.sleep(20)
    (lease,) = world.shoot(A).leases()
    assert -11 < lease.renew_time - clock.now() <= 0


@simulated()
async def test_a_kubelet_that_comes_back_after_its_node_was_given_up_changes_nothing(world, clock):
    world.add_shoot(A, nodes=2)
    fault, other = (world.faults.kubelet_dead(A, f"node-{n}") for n in (0, 1))
    await clock.sleep(60)
    other.lift()
    await clock.sleep(1000)
    fault.lift()
    assert world.machines_deleted(A) == ("machine-0",)
    assert "node-1" in {node.name for node in world.shoot(A).nodes()}
    assert "node-0" not in {node.name for node in world.shoot(A).nodes()}


@simulated()
async def test_of_a_shoot_that_is_removed_nothing_is_left(world, clock):
    world.add_shoot(A, nodes=2)
    world.add_control_plane(A)
    shoot = await connect(world, A)
    await shoot.version()
    gone, tasks = ref(world.shoot(A)), len(asyncio.all_tasks())
    world.remove_shoot(A)
    with pytest.raises(NameUnresolved):
        await shoot.version()
    await clock.sleep(600)
    adapters(world).connector.forget(A)
    del shoot
    assert not any(world.store.list(kind, A) for kind in world.store.kinds())
    assert A not in [each["metadata"]["name"] for each in world.store.list("Cluster")]
    assert A not in world.shoots
    assert len(asyncio.all_tasks()) < tasks
    gc.collect()
    assert gone() is None


@simulated()
async def test_a_shoot_can_come_back_under_its_name(world, clock):
    other = "shoot--local--other"
    world.add_shoot(A, nodes=2)
    world.remove_shoot(A)
    for name in (other, A):
        world.add_shoot(name, nodes=2)
        world.add_control_plane(name)
    await clock.sleep(60)
    assert len(world.shoot(A).leases()) == 2
    for name in (other, A):
        await (await connect(world, name)).version()
