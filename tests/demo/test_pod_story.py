"""What becomes of the pods of a control plane: told when it happens, and booked."""

import pytest

from app.simulation.builders import World
from app.simulation.demo.pod_story import (
    AllBack,
    Back,
    Count,
    Deleted,
    Happening,
    PodWitness,
    Restart,
    Saving,
    ServiceBack,
    first_with,
    saved,
    saving,
)
from app.simulation.identities import WEEDER
from app.simulation.scenarios.actions import etcd_outage
from app.simulation.store import ObjectKey
from app.simulation.workloads import API_SERVER, ETCD_SERVICE
from tests.simulation.worlds import about, simulated

A, B = "shoot--demo--a", "shoot--demo--b"
SCHEDULER = "kube-scheduler"


class Seen:
    """A world with its witness, and what that told."""

    def __init__(self, world):
        self.world = World(world.clock, world.tasks, seed=1)
        for namespace in (A, B):
            self.world.add_shoot(namespace, nodes=2)
            self.world.add_control_plane(namespace)
        self.clock = world.clock
        self.witness = PodWitness(self.world, [A, B])
        self.told: list[Happening] = []
        self.witness.subscribe(self.told.append)

    def of(self, kind):
        return [each for each in self.told if isinstance(each, kind)]

    def waiting(self, workload):
        names = self.world.crash_looping(A)
        return [pod.name for pod in self.world.pods(A, workload) if pod.name in names]

    def delete(self, name, by=WEEDER):
        self.world.parts.pods.delete(ObjectKey("Pod", A, name), by)

    async def wait(self, so, within=60):
        for _ in range(within * 10):
            if so():
                return
            await self.clock.sleep(0.1)
        pytest.fail("it has not come")

    async def broken(self, workload=SCHEDULER, seconds=60):
        """A workload crashes for so long; afterwards its next start is a good one."""
        with self.world.faults.workload_broken(A, workload):
            await self.clock.sleep(seconds)
        await self.clock.sleep(0.1)


@simulated()
async def test_pods_that_wait_are_counted_until_they_start(world):
    seen = Seen(world)
    assert seen.witness.all_waiting == 0
    await seen.broken(seconds=40)
    assert (seen.witness.waiting(A), seen.witness.waiting(B)) == (1, 0)
    assert seen.witness.all_waiting == 1
    await seen.clock.sleep(60)
    assert seen.witness.all_waiting == 0


@simulated()
async def test_one_that_is_deleted_waits_no_more(world):
    seen = Seen(world)
    await seen.broken(seconds=40)
    seen.delete(*seen.waiting(SCHEDULER))
    assert seen.witness.waiting(A) == 0


@simulated()
async def test_a_pod_that_the_watchdog_deletes_is_booked_with_what_it_would_have_waited(world):
    seen = Seen(world)
    await seen.broken(seconds=40)
    (name,) = seen.waiting(SCHEDULER)
    due, began = seen.world.starts_again(A, name), seen.clock.now()
    assert due is not None
    seen.delete(name)
    (deleted,) = seen.of(Deleted)
    assert deleted.restart.pod == name
    assert (deleted.restart.at, deleted.restart.due) == (about(began), about(due))
    await seen.wait(lambda: seen.of(Back))
    (back,) = seen.of(Back)
    (booked,) = seen.witness.restarts
    assert back.restart == booked
    assert booked.back - began < 6
    assert (booked.ready, back.of) == (1, 1)


@simulated()
async def test_what_somebody_else_deletes_and_what_does_not_wait_is_not_ours(world):
    seen = Seen(world)
    await seen.broken(seconds=40)
    (name,) = seen.waiting(SCHEDULER)
    seen.delete(name, by="operator")
    running = seen.world.pods(A, "vpa-recommender")[0].name
    seen.delete(running)
    await seen.clock.sleep(30)
    assert seen.told == []
    assert seen.witness.restarts == []


@simulated()
async def test_of_two_pods_of_a_workload_each_has_its_own_place(world):
    seen = Seen(world)
    await seen.broken("gardener-resource-manager", seconds=40)
    for name in seen.waiting("gardener-resource-manager"):
        seen.delete(name)
        await seen.clock.sleep(1)
    await seen.wait(lambda: len(seen.of(Back)) == 2)
    assert [(each.restart.ready, each.of) for each in seen.of(Back)] == [(1, 2), (2, 2)]
    assert {each.pod for each in seen.witness.restarts} == {
        each.restart.pod for each in seen.of(Deleted)
    }


@simulated()
async def test_a_pod_that_has_to_be_restarted_again_counts_once_from_the_first_time_on(world):
    seen = Seen(world)
    with seen.world.faults.workload_broken(A, SCHEDULER):
        await seen.clock.sleep(40)
        seen.delete(*seen.waiting(SCHEDULER))
        first = seen.witness.restarts[0].at
        await seen.wait(lambda: seen.waiting(SCHEDULER))
    seen.delete(*seen.waiting(SCHEDULER))
    await seen.wait(lambda: seen.of(Back))
    assert len(seen.of(Deleted)) == 2
    (booked,) = seen.witness.restarts
    assert booked.at == first
    assert booked.back is not None


@simulated()
async def test_the_place_is_taken_by_whoever_comes_whoever_ended_the_one_before(world):
    seen = Seen(world)
    with seen.world.faults.workload_broken(A, SCHEDULER):
        await seen.clock.sleep(40)
        seen.delete(*seen.waiting(SCHEDULER))
        await seen.wait(lambda: seen.waiting(SCHEDULER))
    (name,) = seen.waiting(SCHEDULER)
    seen.delete(name, by="operator")
    await seen.wait(lambda: seen.of(Back))
    assert len(seen.of(Deleted)) == 1
    assert seen.witness.restarts[0].back is not None


@simulated()
async def test_services_that_come_back_and_the_last_pod_are_told_with_the_time_since(world):
    seen = Seen(world)
    with etcd_outage(seen.world, A):
        await seen.clock.sleep(210)
        assert seen.told == [], "nothing is back"
        waiting = seen.witness.waiting(A)
    await seen.clock.sleep(400)
    etcd, server = seen.of(ServiceBack)
    assert (etcd.shoot, etcd.service, server.service) == ("a", ETCD_SERVICE, API_SERVER)
    assert etcd.waiting == waiting - 1, "all that waited but etcd itself"
    (over,) = seen.of(AllBack)
    assert (over.shoot, over.pods, over.service) == ("a", 10, ETCD_SERVICE)
    ready = seen.world.became_ready(A)
    etcd_ready = next(each.at for each in ready if each.pod == "etcd-main-0")
    whole = max(each.at for each in ready) - etcd_ready
    assert 100 < whole - 0.2 <= over.after <= whole, "a slice is written soon after its pods"


@simulated()
async def test_a_service_that_is_lost_again_begins_anew(world):
    seen = Seen(world)
    for _ in range(2):
        with etcd_outage(seen.world, A):
            await seen.clock.sleep(12)
        await seen.clock.sleep(7)
    await seen.clock.sleep(120)
    assert [each.service for each in seen.of(ServiceBack)].count(ETCD_SERVICE) == 2
    assert seen.of(AllBack)[-1].after < 120


@simulated()
async def test_how_many_were_ready_is_kept_with_its_instants(world):
    seen = Seen(world)
    began = seen.clock.now()
    assert [count.ready for count in seen.witness.history(A, SCHEDULER)] == [1]
    await seen.broken(seconds=40)
    await seen.clock.sleep(60)
    history = seen.witness.history(A, SCHEDULER)
    assert [count.ready for count in history] == [1, 0, 1]
    assert began < history[1].at < history[2].at


# What the restarts have saved, pod by pod.

TWO = [Count(0.0, 2), Count(100.0, 1), Count(110.0, 0), Count(300.0, 1), Count(330.0, 2)]


def restart(at=200.0, *, due=280.0, back=None, ready=1):
    return Restart("a", "server-x", "server", at, 195.0, due, back, ready)


@pytest.mark.parametrize(
    ("ready", "since", "at"),
    [
        (1, 200.0, 300.0),
        (2, 200.0, 330.0),
        (2, 50.0, 50.0),  # it had them then
        (1, 105.0, 105.0),
        (1, 110.0, 300.0),  # it lost the last one at that instant
        (2, 400.0, 400.0),
        (3, 0.0, None),
    ],
)
def test_the_first_instant_with_so_many_pods_counts_from_the_deletion_on(ready, since, at):
    assert first_with(TWO, ready, since) == at


@pytest.mark.parametrize(
    ("one", "twin", "seconds"),
    [
        # Against the twin, when it has as many ready; until then against the kubelet's own start.
        (restart(back=205.0, ready=1), TWO, 95.0),
        (restart(back=206.0, ready=2), TWO, 124.0),
        (restart(back=205.0), TWO[:3], 75.0),
        (restart(due=None, back=205.0), TWO[:3], None),
        (restart(due=None, back=205.0), [], None),
        (restart(), TWO, None),  # it is not back yet
        (restart(back=206.0), [Count(0.0, 1)], -6.0),  # it cost time
    ],
)
def test_a_pod_has_saved_what_it_was_ready_earlier_than_its_twin(one, twin, seconds):
    assert saved(one, twin) == seconds


def test_what_was_saved_is_added_up_and_all_restarts_count():
    restarts = [restart(back=205.0), restart(back=206.0, ready=2), restart()]
    assert saving(restarts, lambda _: TWO) == Saving(restarts=3, seconds=219.0, most=124.0)


def test_nothing_restarted_is_nothing_saved():
    assert saving([], lambda _: TWO) == Saving()
    assert not Saving()
    assert Saving(1)
