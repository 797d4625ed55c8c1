"""What becomes of the shoots of one world: losses are counted, and what happens to pods is told, too."""

import pytest

from app.core.config.policy_files import parse_prober
from app.simulation.builders import EXPIRY, LIMIT, World
from app.simulation.demo.witness import What, Witness
from app.simulation.identities import WEEDER
from app.simulation.scenarios.actions import etcd_outage
from app.simulation.store import ObjectKey
from tests.docs.pages import ROOT
from tests.simulation.worlds import simulated

A, B = "shoot--demo--a", "shoot--demo--b"
SCHEDULER = "kube-scheduler"
DEAD = {What.NODE: 10, What.MACHINE: 10}


class Watched:
    """A world with its witness, and what that told."""

    def __init__(self, world, *, watched=True):
        self.world = World(world.clock, world.tasks, seed=1)
        for namespace in (A, B):
            self.world.add_shoot(namespace, nodes=10, health_timeout=30.0)
            self.world.add_control_plane(namespace)
        self.clock, self.faults = world.clock, self.world.faults
        self.witness = Witness(self.world, [A, B], watched=watched)
        self.told: list[str] = []
        self.witness.subscribe(self.told.append)

    @property
    def waiting(self):
        return self.world.crash_looping(A)

    def delete(self, name, by=WEEDER):
        self.world.seed_pods.delete(ObjectKey("Pod", A, name), by)

    async def broken(self):
        """The scheduler's pod waits in CrashLoopBackOff; its next start is a good one."""
        with self.faults.workload_broken(A, SCHEDULER):
            await self.clock.sleep(40)
        await self.clock.sleep(0.1)
        (name,) = self.waiting
        return name


@simulated()
async def test_marked_nodes_and_machines_that_are_given_up_are_counted_each_once(world):
    seen = Watched(world)
    with seen.faults.path_cut(A):
        await world.clock.sleep(55)
        assert seen.witness.total == {What.NODE: 10}
        await world.clock.sleep(60)
        assert seen.witness.total == DEAD
        # What is lost already is not lost again by another change.
        seen.world.patch_node(A, "node-0", {"metadata": {"labels": {"other": "label"}}})
        seen.world.machine_phase(A, "machine-0", "Terminating")
    await world.clock.sleep(120)  # drained, deleted, replaced
    assert seen.witness.total == DEAD
    assert {each.shoot for each in seen.witness.log} == {"a"}


@simulated()
async def test_a_node_that_is_marked_again_counts_again(world):
    seen = Watched(world)
    for _ in range(2):
        with seen.faults.path_cut(A):
            await world.clock.sleep(60)
        await world.clock.sleep(30)
    assert seen.witness.total[What.NODE] == 20


@pytest.mark.parametrize(
    ("nodes", "total"),
    [(5, {What.BELOW: 10}), (6, {What.NODE: 6, What.MACHINE: 6})],
    ids=["below the limit", "at the limit"],
)
@simulated()
async def test_what_is_lost_where_fewer_nodes_are_cut_off_than_the_limit_is_told_apart(
    world, nodes, total
):
    seen = Watched(world)
    with seen.faults.path_cut(A, nodes=[f"node-{number}" for number in range(nodes)]):
        await world.clock.sleep(120)
    assert seen.witness.total == total


@simulated()
async def test_nodes_that_are_marked_when_the_path_is_back_belong_to_its_outage(world):
    seen = Watched(world)
    with seen.faults.path_cut(A):
        await world.clock.sleep(38.5)
        assert seen.witness.total == {What.NODE: 5}
    await world.clock.sleep(30)
    assert seen.witness.total == {What.NODE: 8}, "three were marked as most had come back"


def test_the_limit_is_that_of_the_file_that_comes_with_the_program():
    text = (ROOT / "config/prober.yaml").read_text()
    policy = parse_prober(text, "prober.yaml", strict=True).policy
    assert (policy.limit, 0.75 * policy.grace) == (LIMIT, EXPIRY)


# Pods.


@simulated()
async def test_a_pod_that_the_watchdog_deletes_is_told_with_what_it_would_have_waited(world):
    seen = Watched(world)
    name = await seen.broken()
    left = round(seen.world.starts_again(A, name) - seen.clock.now())
    seen.delete(name)
    assert seen.told == [f"a: {name} is deleted, {left}s before its start"]
    assert seen.witness.total == {What.RESTART: 1}
    assert seen.witness.waiting(A) == 0, "it waits no more"


@simulated()
async def test_what_a_person_deletes_and_what_does_not_wait_is_not_ours(world):
    seen = Watched(world)
    seen.delete(await seen.broken(), by="operator")
    seen.delete("etcd-main-0")
    assert (seen.told, seen.witness.log) == ([], [])


@pytest.mark.parametrize("watched", [True, False])
@simulated()
async def test_services_that_come_back_and_the_last_pod_are_told_with_the_time_since(
    world, watched
):
    seen = Watched(world, watched=watched)
    with etcd_outage(seen.world, A):
        await seen.clock.sleep(210)
        assert seen.told == [], "nothing is back"
        waiting = seen.witness.waiting(A)
    await seen.clock.sleep(400)
    ready = seen.world.became_ready(A)
    etcd_ready = next(each.at for each in ready if each.pod == "etcd-main-0")
    whole = max(each.at for each in ready) - etcd_ready
    ((_, shoot, what, seconds),) = seen.witness.log
    assert (shoot, what) == ("a", What.RECOVERY)
    assert abs(seconds - whole) <= 1
    assert seconds > 100, "kubelets take their time"
    if not watched:
        (end,) = seen.told
        assert end.startswith("without the watchdog, a: all 10 pods are ready, ")
        assert end.endswith("s after etcd-main-client there")
        return
    etcd, server, end = seen.told
    others = f"{waiting - 1} in CrashLoopBackOff"  # all that waited but etcd itself
    assert etcd == f"a: etcd-main-client is ready again; {others}"
    assert server.startswith("a: kube-apiserver is ready again; ")
    assert end.startswith("a: all 10 pods are ready, ")
    assert end.endswith("s after etcd-main-client")


@simulated()
async def test_a_service_that_is_lost_again_begins_anew(world):
    seen = Watched(world)
    for _ in range(2):
        with etcd_outage(seen.world, A):
            await seen.clock.sleep(40)
        await seen.clock.sleep(20)
        assert seen.witness.log == [], "etcd is ready again, and not all of the pods"
    await seen.clock.sleep(400)
    (end,) = seen.witness.log
    etcd_ready = max(each.at for each in seen.world.became_ready(A) if each.pod == "etcd-main-0")
    assert end.what is What.RECOVERY
    assert abs(end.amount - (end.at - etcd_ready)) <= 1
