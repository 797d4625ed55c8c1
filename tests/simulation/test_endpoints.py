"""EndpointSlices follow the pods behind a service."""

import pytest

from app.core.model.weeding import ServiceKey
from app.simulation.store import ObjectKey
from app.simulation.workloads import PodTimes, Workload
from tests.simulation.worlds import simulated

A = "shoot--local--a"
KEY = ServiceKey(A, "server")

in_a_world = simulated()


def add(world, replicas=2, **more):
    times = PodTimes(jitter=0)
    world.add_workload(Workload(A, "server", replicas, service="server", times=times, **more))


def raw(world):
    return world.store.list("EndpointSlice", A)


def ready(world):
    endpoints = [each for view in world.slices(A, "server") for each in view.endpoints]
    return {each.pod: each.ready for each in endpoints}


@in_a_world
async def test_it_is_written_soon_after_a_pod_is_no_longer_ready_and_is_again(world, clock):
    add(world)
    with world.faults.service_unready(A, "server"):
        assert all(ready(world).values())
        await clock.sleep(0.04)
        assert all(ready(world).values())
        await clock.sleep(0.17)
        assert not any(ready(world).values())
        assert not world.served(A, "server")
    await clock.sleep(0.21)
    assert all(ready(world).values())
    assert world.served(A, "server")


@in_a_world
async def test_a_pod_that_ends_is_no_longer_ready_and_its_successor_is_when_it_is_ready(
    world, clock
):
    add(world, 1)
    (before,) = world.pods(A)
    world.delete_pod(A, before.name)
    await clock.sleep(0.21)
    assert ready(world) == {before.name: False}
    await clock.sleep(2)
    (after,) = world.pods(A)
    assert ready(world) == {after.name: False}
    await clock.sleep(3)
    assert ready(world) == {after.name: True}


@in_a_world
async def test_a_service_is_ready_while_one_of_its_pods_is(world, clock):
    add(world)
    world.delete_pod(A, world.pods(A)[0].name)
    await clock.sleep(0.5)
    assert max(ready(world).values()) is True
    assert world.served(A, "server")


@in_a_world
async def test_many_endpoints_have_several_slices(world):
    add(world, 150)
    slices = world.slices(A, "server")
    assert [len(view.endpoints) for view in slices] == [75, 75]


@in_a_world
async def test_a_service_can_be_given_two_slices_and_one_again(world, clock):
    add(world)
    world.split_service(A, "server", 2)
    assert [len(view.endpoints) for view in world.slices(A, "server")] == [1, 1]
    await clock.sleep(10)
    world.split_service(A, "server", 1)
    assert [len(view.endpoints) for view in world.slices(A, "server")] == [2]


@in_a_world
async def test_a_slice_that_somebody_deletes_is_written_anew(world, clock):
    add(world)
    (before,) = world.slices(A, "server")
    world.delete_slice(A, before.name)
    assert not world.served(A, "server")
    await clock.sleep(0.21)
    assert world.served(A, "server")


@in_a_world
async def test_the_slices_of_a_service_that_is_deleted_go(world, clock):
    add(world)
    world.store.delete(ObjectKey("Service", A, "server"))
    world.seed_pods.endpoints.sync(KEY)
    assert raw(world) == ()


@pytest.mark.parametrize("every", [1.0, 5.0])
@in_a_world
async def test_a_service_flaps_until_that_is_lifted(world, clock, every):
    add(world)
    seen = []
    flaps = world.faults.service_flaps(A, "server", every=every)
    for _ in range(6):
        await clock.sleep(every - 0.5)
        seen.append(world.served(A, "server"))
        await clock.sleep(0.5)
    assert seen == [False, True, False, True, False, True]
    flaps.lift()
    await clock.sleep(0.3)
    for _ in range(6):
        assert world.served(A, "server")
        await clock.sleep(every)
    assert all(pod.ready_since for pod in world.pods(A))
