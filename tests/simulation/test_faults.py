"""What the faults of a shoot and of the seed do to a process that looks at them, and what they leave alone."""

import pytest

from app.core.errors import (
    Forbidden,
    Throttled,
    Unreachable,
)
from app.core.model.shoots import ShootView, Undecodable
from app.core.model.workloads import Patch
from app.simulation.actors import KCM
from app.simulation.builders import reference
from app.simulation.identities import WATCHDOG
from app.simulation.traffic import Storage, Trouble
from tests.simulation.worlds import about, adapters, connect, simulated

A = "shoot--local--a"
REF = reference(KCM)


def inhabited(world):
    world.add_shoot(A, nodes=4)
    return world


in_a_world = simulated(world=inhabited)


@in_a_world
async def test_each_request_takes_its_latency_and_that_of_each_fault(world, clock):
    shoot = await connect(world, A)
    await shoot.version()
    first, second = world.faults.latency(A, 1), world.faults.latency(A, 1)
    for expected in (2.02, 1.02, 0.02):
        before = clock.now()
        await shoot.version()
        assert clock.now() - before == about(expected)
        (first if expected > 2 else second).lift()
    second.lift()


@in_a_world
async def test_a_read_that_hangs_is_answered_when_the_storage_is_back_in_time(world, clock, tasks):
    fault, shoot = world.faults.storage_away(A), await connect(world, A)

    async def later() -> None:
        await clock.sleep(2)
        fault.lift()

    lifting = tasks.once(later, "lift")
    reading = await shoot.leases()
    await lifting
    assert reading.received - reading.sent == pytest.approx(2.01, abs=0.02)


@in_a_world
async def test_leases_do_not_move_while_the_storage_is_away_or_the_path_is_cut(world, clock):
    for begin in (
        lambda: world.faults.storage_away(A, Storage.FAILS),
        lambda: world.faults.path_cut(A),
    ):
        with begin():
            began = clock.now()
            await clock.sleep(100)
            assert all(lease.renew_time <= began for lease in world.shoot(A).leases())
        await clock.sleep(12)
        assert all(lease.renew_time > began + 90 for lease in world.shoot(A).leases())


@in_a_world
async def test_429_says_how_long_to_wait_where_the_server_does(world):
    shoot = await connect(world, A)
    for pause in (None, 30):
        with world.faults.throttled(A, pause), pytest.raises(Throttled) as caught:
            await shoot.version()
        assert caught.value.retry_after == pause


@in_a_world
async def test_trouble_of_some_requests_is_not_that_of_others_or_of_kubelets(world, clock):
    shoot = await connect(world, A)
    with world.faults.trouble(A, Trouble(refused=True, what=frozenset({"nodes"}))):
        with pytest.raises(Unreachable):
            await shoot.nodes()
        await clock.sleep(300)
        assert (await shoot.leases()).leases
        assert world.journal.of(KCM) == ()
    with world.faults.forbidden(A, "list", "nodes"):
        with pytest.raises(Forbidden):
            await shoot.nodes()
        assert (await shoot.leases()).leases


# The seed.


@in_a_world
async def test_a_forbidden_patch_is_forbidden_and_reads_go_on(world):
    seed = adapters(world).seed
    with world.faults.patch_forbidden("deployments"):
        with pytest.raises(Forbidden, match="patch deployments"):
            await seed.patch_dependent(A, REF, Patch("1", 0))
        assert await seed.read_dependent(A, REF)
    assert world.replicas(A, KCM) == 1


@in_a_world
async def test_a_write_that_the_server_never_saw_did_not_happen_and_one_answered_late_did(
    world, clock
):
    seed = adapters(world).seed
    view = await seed.read_dependent(A, REF)
    for trouble, count in ((Trouble(silent=True), 1), (Trouble(latency=6), 0)):
        with world.faults.seed_trouble(trouble), pytest.raises(Unreachable):
            await seed.patch_dependent(A, REF, Patch(view.resource_version, 0), urgent=True)
        await clock.sleep(60)
        assert world.replicas(A, KCM) == count
    (write,) = world.journal.of(WATCHDOG, A, KCM)
    assert write.patch["spec"] == {"replicas": 0}


@in_a_world
async def test_the_life_of_a_shoot_is_told_by_its_cluster(world):
    async def cluster():
        return await adapters(world).seed.read_cluster(A)

    async def shoot():
        return (await cluster()).shoot

    with world.faults.deleted(A):
        assert (await cluster()).deleting
    assert not (await cluster()).deleting
    with world.faults.undecodable(A):
        assert isinstance(await shoot(), Undecodable)
    assert isinstance(await shoot(), ShootView)
    with world.faults.cluster_gone(A):
        assert await cluster() is None
    assert await cluster()
