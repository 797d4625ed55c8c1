"""Pods crash, wait, start again, end, and are made anew as in a real seed."""

import pytest

from app.core.errors import NotFound
from app.core.model.instants import parse_rfc3339
from app.core.model.weeding import CRASH_LOOP
from app.simulation.store import ObjectKey
from app.simulation.workloads import Owner, PodTimes, Workload
from tests.simulation.worlds import about, simulated

A = "shoot--local--a"
EXACT = PodTimes(crash_after=2, ready_after=3, lost_after=5, jitter=0)

in_a_world = simulated()


def server(**more):
    return Workload(A, "server", service="server", times=EXACT, **more)


def client(**more):
    return Workload(A, "client", needs="server", times=EXACT, **more)


def the_pod(world, workload="client"):
    (pod,) = world.pods(A, workload)
    return pod


def raw(world, name):
    return world.store.get(ObjectKey("Pod", A, name))


def the_container(pod, *, init=False):
    (container,) = [each for each in pod.containers if each.init is init]
    return container


@in_a_world
async def test_a_workload_joins_having_run_well_for_an_hour(world, clock):
    world.add_workload(server(replicas=2))
    pods = world.pods(A)
    assert len(pods) == 2
    assert all(pod.ready_since == int(clock.now() - 3600) for pod in pods)
    assert all(the_container(pod) == ("server", None, 0, None, False, None) for pod in pods)
    assert world.became_ready(A) == ()
    before = world.store.version
    await clock.sleep(3600)
    assert world.store.version == before


@in_a_world
async def test_a_waiting_container_tells_why_since_when_and_how_often(world, clock):
    world.add_workload(client())
    world.faults.workload_broken(A, "client")
    await clock.sleep(5 + 2 + 1)
    (status,) = raw(world, the_pod(world).name)["status"]["containerStatuses"]
    assert status["state"]["waiting"]["reason"] == CRASH_LOOP
    assert status["state"]["waiting"]["message"].startswith(
        "back-off 10s restarting failed container=client pod="
    )
    assert (status["restartCount"], status["ready"], status["started"]) == (1, False, False)
    assert the_container(the_pod(world)).backoff == 10
    exited = status["lastState"]["terminated"]
    assert parse_rfc3339(exited["finishedAt"]) == int(clock.now() - 1)
    assert exited["exitCode"] == 1


@in_a_world
async def test_a_container_that_crashes_is_restarted_at_once_and_then_with_the_exact_back_off(
    world, clock
):
    world.add_workload(server())
    world.add_workload(client())
    world.faults.workload_broken(A, "client")
    waiting = []
    begun = clock.now()
    name = the_pod(world).name

    def heard(event):
        if event.key == ObjectKey("Pod", A, name):
            status = event.object["status"]["containerStatuses"][0]
            waiting.append(("waiting" in status["state"], clock.now() - begun))

    world.store.subscribe(heard)
    await clock.sleep(1700)
    crashed = [at for waits, at in waiting if waits]
    started = [at for waits, at in waiting if not waits]
    assert started[0] == about(5)  # the first restart: no back-off, so it is never seen to wait
    waits = [again - exit_ for exit_, again in zip(crashed, started[1:], strict=False)]
    assert waits == [about(s) for s in (10, 20, 40, 80, 160, 300, 300, 300, 300)]
    ran = [exit_ - start for start, exit_ in zip(started, crashed, strict=False)]
    assert ran == [about(2)] * len(ran)


@in_a_world
async def test_the_back_off_is_reset_after_ten_good_minutes_but_the_restarts_stay_counted(
    world, clock
):
    world.add_workload(client())
    world.add_workload(server())
    with world.faults.workload_broken(A, "client"):
        await clock.sleep(100)
    await clock.sleep(900)
    restarts = world.restarts(A, "client")
    assert restarts == 5
    world.faults.workload_broken(A, "client")
    await clock.sleep(5.5)
    assert the_container(the_pod(world)).waiting is None
    assert world.restarts(A, "client") == restarts + 1
    await clock.sleep(2)
    due = world.starts_again(A, the_pod(world).name)
    assert due is not None
    assert due - clock.now() == about(9.5)  # 10 s, not 160
    assert the_container(the_pod(world)).backoff == 10


@in_a_world
async def test_a_container_becomes_ready_a_while_after_a_good_start(world, clock):
    world.add_workload(client())
    world.add_workload(server())
    world.crash_looped(A, "client", 3)
    begun = clock.now()
    await clock.sleep(60)
    (seen,) = world.became_ready(A)
    assert seen.at - begun == about(40 + 3)
    assert the_pod(world).ready_since == int(seen.at)
    assert the_container(the_pod(world))[1:4] == (None, 4, int(begun))


@in_a_world
async def test_a_container_whose_need_comes_back_before_it_crashes_goes_on(world, clock):
    world.add_workload(server())
    world.add_workload(client())
    with world.faults.service_unready(A, "server"):
        world.crash_looped(A, "client", 1)
        await clock.sleep(11)
    begun = clock.now()
    await clock.sleep(10)
    (seen,) = [each for each in world.became_ready(A) if "client" in each.pod]
    assert seen.at - begun == about(2)  # 3 s from its start
    assert world.restarts(A, "client") == 2


@in_a_world
async def test_a_running_container_whose_need_is_lost_crashes_a_while_later(world, clock):
    world.add_workload(server())
    world.add_workload(client())
    world.faults.service_unready(A, "server")
    await clock.sleep(5)
    assert world.restarts(A, "client") == 0
    await clock.sleep(0.3)
    assert world.restarts(A, "client") == 1
    assert the_pod(world).ready_since is None


@in_a_world
async def test_an_init_container_can_be_the_one_that_waits(world, clock):
    world.add_workload(server())
    world.add_workload(client(init=True))
    down = world.faults.service_unready(A, "server")
    world.delete_pod(A, the_pod(world).name)
    await clock.sleep(10)
    found = the_pod(world)
    assert the_container(found, init=True).waiting == CRASH_LOOP
    assert the_container(found).waiting == "PodInitializing"
    assert world.crash_looping(A) == (found.name,)
    down.lift()
    await clock.sleep(30)
    found = the_pod(world)
    assert found.ready_since is not None
    assert the_container(found, init=True).waiting is None
    assert the_container(found).restarts == 0


# Deletions.


@in_a_world
async def test_a_deleted_pod_is_terminating_for_its_grace_and_then_gone(world, clock):
    world.add_workload(client())
    before = the_pod(world)
    world.delete_pod(A, before.name)
    ending = world.pod(A, before.name)
    assert ending.terminating
    assert ending.resource_version != before.resource_version
    await clock.sleep(0.9)
    assert world.pod(A, before.name).terminating
    await clock.sleep(0.2)
    with pytest.raises(NotFound):
        world.pod(A, before.name)


@in_a_world
async def test_nobody_makes_a_bare_pod_anew(world, clock):
    world.add_workload(client(owner=Owner.NOBODY))
    assert the_pod(world).owner is None
    world.delete_pod(A, "client")
    await clock.sleep(60)
    assert world.pods(A) == ()


@in_a_world
async def test_owners_follow_their_size(world, clock):
    world.add_workload(server(replicas=3))
    world.add_workload(client(owner=Owner.STATEFUL_SET))
    (owner,) = {pod.owner.name for pod in world.pods(A, "server") if pod.owner}
    world.store.patch(ObjectKey("ReplicaSet", A, owner), {"spec": {"replicas": 1}})
    world.store.patch(ObjectKey("StatefulSet", A, "client"), {"spec": {"replicas": 3}})
    await clock.sleep(10)
    assert len(world.pods(A, "server")) == 1
    assert [pod.name for pod in world.pods(A, "client")] == ["client-0", "client-1", "client-2"]


@in_a_world
async def test_a_new_pod_waits_for_its_node_then_for_its_container_and_crashes_from_anew(
    world, clock
):
    world.add_workload(client())
    world.crash_looped(A, "client", 6)
    world.delete_pod(A, the_pod(world).name)
    await clock.sleep(0.21)
    (made,) = [pod for pod in world.pods(A) if not pod.terminating]
    assert (made.containers, "nodeName" in raw(world, made.name)["spec"]) == ((), False)
    await clock.sleep(0.1)
    assert the_container(world.pod(A, made.name))[1:3] == ("ContainerCreating", 0)
    await clock.sleep(0.5 + 2 + 2 + 0.1)
    assert the_container(world.pod(A, made.name))[1:3] == (CRASH_LOOP, 1)
    assert world.starts_again(A, made.name) == pytest.approx(clock.now() + 10, abs=0.2)


@in_a_world
async def test_a_terminating_pod_still_waits_but_is_never_started_again(world, clock):
    world.add_workload(Workload(A, "client", needs="server", times=PodTimes(grace=60)))
    world.crash_looped(A, "client", 1)
    name = the_pod(world).name
    world.delete_pod(A, name)
    await clock.sleep(30)
    assert the_container(world.pod(A, name))[1:3] == (CRASH_LOOP, 1)
    assert name not in world.crash_looping(A)


@in_a_world
async def test_a_terminating_pod_ends_in_its_time_whatever_becomes_of_what_it_needs(world, clock):
    world.add_workload(server())
    world.add_workload(Workload(A, "client", needs="server", times=PodTimes(grace=20)))
    name = the_pod(world).name
    world.delete_pod(A, name)
    world.faults.service_flaps(A, "server", every=3)
    world.faults.workload_broken(A, "client")
    await clock.sleep(19.9)
    assert the_container(world.pod(A, name)).restarts == 0
    await clock.sleep(0.2)
    assert name not in {pod.name for pod in world.pods(A)}


@in_a_world
async def test_each_deletion_is_kept_with_what_it_spared(world, clock):
    world.add_workload(client(replicas=2))
    first, second = world.pods(A)
    world.delete_pod(A, first.name, by="somebody")
    world.crash_looped(A, "client", 4, exited=clock.now() - 30)
    assert world.crash_looping(A) == (second.name,)
    await clock.sleep(3)
    world.delete_pod(A, second.name)
    healthy, waiting = world.seed_pods.deletions
    assert (healthy.pod.uid, healthy.waiting, healthy.due, healthy.by) == (
        first.uid,
        False,
        None,
        "somebody",
    )
    assert (waiting.pod.uid, waiting.waiting, waiting.pod.owner) == (second.uid, True, second.owner)
    assert waiting.due == about(waiting.at + 80 - 33)


@in_a_world
async def test_pods_that_nobody_simulates_are_left_as_they_are(world, clock):
    body = {"apiVersion": "v1", "spec": {"nodeName": "a", "containers": []}, "status": {}}
    world.store.create(ObjectKey("Pod", A, "foreign"), body)
    version = world.store.version
    await clock.sleep(60)
    assert world.store.version == version
