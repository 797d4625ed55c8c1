"""The chain etcd → kube-apiserver → dependents breaks and recovers by itself, slowly."""

import pytest

from app.core.model.names import LabelSelector, Operator, Requirement
from tests.simulation.worlds import simulated

A = "shoot--local--a"
B = "shoot--local--b"

APPS = {
    "etcd-main",
    "kube-apiserver",
    "kube-scheduler",
    "cloud-controller-manager",
    "csi-driver-controller",
    "csi-snapshot-controller",
    "gardener-resource-manager",
    "vpa-recommender",
}

in_a_world = simulated()


def one_of(key, *values):
    return Requirement(key, Operator.IN, frozenset(values))


CONTROL_PLANE = one_of("gardener.cloud/role", "controlplane")
API_SERVER = LabelSelector((CONTROL_PLANE, one_of("role", "apiserver")))
DEPENDENTS = LabelSelector(
    (CONTROL_PLANE, Requirement("role", Operator.NOT_IN, frozenset({"main", "apiserver"})))
)


def selected(world, selector, namespace=A):
    return {pod.labels["app"] for pod in world.pods(namespace) if selector.matches(pod.labels)}


@in_a_world
async def test_gardeners_selectors_select_its_parts(world):
    world.add_control_plane(A, bare=True)
    assert selected(world, API_SERVER) == {"kube-apiserver"}
    chain = {"etcd-main", "kube-apiserver"}
    assert selected(world, DEPENDENTS) == APPS - chain | {"migration-check"}
    owners = {pod.labels["app"]: pod.owner and pod.owner.kind for pod in world.pods(A)}
    assert owners["etcd-main"] == "StatefulSet"
    assert owners["kube-apiserver"] == "ReplicaSet"
    assert owners["migration-check"] is None


@in_a_world
async def test_when_etcd_crashes_everything_that_needs_it_crash_loops(world, clock):
    world.add_control_plane(A)
    world.add_control_plane(B)
    world.faults.workload_broken(A, "etcd-main")
    waited = set()
    for _ in range(60):
        await clock.sleep(5)
        waited |= {world.pod(A, name).labels["app"] for name in world.crash_looping(A)}
    assert waited == APPS - {"vpa-recommender"}
    assert not world.served(A, "etcd-main-client")
    assert not world.served(A, "kube-apiserver")
    assert all(pod.ready_since is None for pod in world.pods(A))
    assert world.restarts(A, "vpa-recommender") == 0
    assert world.crash_looping(B) == ()
    assert world.became_ready(B) == ()


@pytest.mark.parametrize("minutes", [10, 20])
@in_a_world
async def test_it_recovers_by_itself_from_below_to_above_and_that_takes_minutes(
    world, clock, minutes
):
    world.add_control_plane(A)
    with world.faults.workload_broken(A, "etcd-main"):
        await clock.sleep(minutes * 60)
    lifted = clock.now()
    await clock.sleep(1800)
    seen = [(world.pod(A, each.pod).labels["app"], each.at) for each in world.became_ready(A)]
    took = [(app, round(at - lifted)) for app, at in seen]
    print(f"\nready again after an outage of {minutes} min, seconds: {took}")  # noqa: T201  the baseline
    ready = dict(reversed(seen))
    assert world.crash_looping(A) == ()
    order = sorted(ready, key=lambda app: ready[app])
    assert order[:2] == ["etcd-main", "kube-apiserver"]
    assert set(order) == APPS
    assert 180 < max(seconds for _, seconds in took) < 900
    assert world.pod_deletions == ()


@in_a_world
async def test_a_pod_that_is_deleted_when_its_need_is_ready_does_not_wait_out_its_back_off(
    world, clock
):
    world.add_control_plane(A)
    with world.faults.workload_broken(A, "etcd-main"):
        await clock.sleep(600)
    while not world.served(A, "kube-apiserver"):
        await clock.sleep(1)
    waiting = [world.pod(A, name) for name in world.crash_looping(A)]
    dependents = [pod for pod in waiting if DEPENDENTS.matches(pod.labels)]
    at = clock.now()
    for pod in dependents:
        world.delete_pod(A, pod.name, by="test")
    await clock.sleep(10)
    assert len(dependents) >= 4
    saved = [deletion.due - at for deletion in world.pod_deletions]
    assert max(saved) > 200
    assert all(deletion.waiting for deletion in world.pod_deletions)
    assert not [n for n in world.crash_looping(A) if DEPENDENTS.matches(world.pod(A, n).labels)]
    assert all(p.ready_since for p in world.pods(A) if DEPENDENTS.matches(p.labels))
