"""The parts of a control plane; an outage of etcd runs through it, and its end is left to the kubelets."""

import pytest

from app.core.errors import ServerFault, Unreachable
from app.core.model.names import LabelSelector, Operator, Requirement
from app.simulation.identities import OPERATOR
from app.simulation.scenarios.actions import etcd_outage
from app.simulation.workloads import API_SERVER, ETCD, ETCD_SERVICE
from tests.simulation.worlds import connect, simulated

A = "shoot--demo--a"
B = "shoot--demo--b"
CRASHING = {
    "etcd-main",
    "kube-apiserver",
    "kube-scheduler",
    "cloud-controller-manager",
    "csi-driver-controller",
    "csi-snapshot-controller",
    "gardener-resource-manager",
}
"""All but vpa-recommender, which only becomes not ready."""


def peopled(world):
    for namespace in (A, B):
        world.add_shoot(namespace, nodes=3)
        world.add_control_plane(namespace)
    return world


async def fails(world, call, namespace=A):
    try:
        await getattr(await connect(world, namespace), call)()
    except (ServerFault, Unreachable) as error:
        return type(error)
    return None


def waiting(world, namespace=A):
    return {
        pod.labels["app"]
        for pod in world.pods(namespace)
        if any(each.crash_loops for each in pod.containers)
    }


def one_of(key, *values):
    return Requirement(key, Operator.IN, frozenset(values))


CONTROL_PLANE = one_of("gardener.cloud/role", "controlplane")
SERVERS = LabelSelector((CONTROL_PLANE, one_of("role", "apiserver")))
DEPENDENTS = LabelSelector(
    (CONTROL_PLANE, Requirement("role", Operator.NOT_IN, frozenset({"main", "apiserver"})))
)


def selected(world, selector, namespace=A):
    return {pod.labels["app"] for pod in world.pods(namespace) if selector.matches(pod.labels)}


@simulated()
async def test_gardeners_selectors_select_its_parts(world):
    world.add_control_plane(A, bare=True)
    assert selected(world, SERVERS) == {"kube-apiserver"}
    chain = {"etcd-main", "kube-apiserver"}
    assert selected(world, DEPENDENTS) == CRASHING - chain | {"vpa-recommender", "migration-check"}
    owners = {pod.labels["app"]: pod.owner and pod.owner.kind for pod in world.pods(A)}
    assert owners["etcd-main"] == "StatefulSet"
    assert owners["kube-apiserver"] == "ReplicaSet"
    assert owners["migration-check"] is None


@simulated()
async def test_it_recovers_by_itself_from_below_to_above_and_that_takes_minutes(world, clock):
    world.add_control_plane(A)
    with world.faults.workload_broken(A, ETCD):
        await clock.sleep(600)
    lifted = clock.now()
    await clock.sleep(1800)
    seen = [(world.pod(A, each.pod).labels["app"], each.at) for each in world.became_ready(A)]
    ready = dict(reversed(seen))
    assert world.crash_looping(A) == ()
    order = sorted(ready, key=lambda app: ready[app])
    assert order[:2] == ["etcd-main", "kube-apiserver"]
    assert set(order) == CRASHING | {"vpa-recommender"}
    assert 180 < max(at for _, at in seen) - lifted < 900
    assert world.seed_pods.deletions == []


@simulated()
async def test_etcd_goes_first_then_the_api_server_then_all_that_need_it(world, clock):
    peopled(world)
    assert (await fails(world, "version"), await fails(world, "leases")) == (None, None)
    with etcd_outage(world, A):
        await clock.sleep(3)
        assert world.served(A, ETCD_SERVICE)
        await clock.sleep(5)
        assert not world.served(A, ETCD_SERVICE)
        assert world.served(A, API_SERVER)
        assert await fails(world, "version") is None, "the shoot's own server has lost its storage"
        await clock.sleep(4)
        assert not world.served(A, API_SERVER)
        assert await fails(world, "version") is Unreachable, "it goes with its pods"
        seen = set()
        for _ in range(60):
            await clock.sleep(1)
            seen |= waiting(world)
        assert seen == CRASHING
        assert world.became_ready(A) == ()
        assert waiting(world, B) == set()


@simulated()
async def test_a_shoots_own_server_has_no_storage_without_etcd(world, clock):
    peopled(world)
    with etcd_outage(world, A):
        await clock.sleep(7)
        assert await fails(world, "leases") is Unreachable


@simulated()
async def test_at_the_end_etcd_is_made_anew_the_others_are_left_to_their_kubelets_and_the_server_to_them(
    world, clock
):
    peopled(world)
    with etcd_outage(world, A):
        await clock.sleep(210)
        late = waiting(world) - {ETCD}
        due = {pod: world.starts_again(A, pod) for pod in world.crash_looping(A)}
    assert len(late) >= 3
    await clock.sleep(8)
    assert (world.served(A, ETCD_SERVICE), world.served(A, API_SERVER)) == (True, False)
    assert await fails(world, "version") is Unreachable
    assert [(each.pod.name, each.by) for each in world.seed_pods.deletions] == [
        ("etcd-main-0", OPERATOR)
    ]
    again = {pod: world.starts_again(A, pod) for pod in world.crash_looping(A)}
    same = again.keys() & due.keys()
    assert len(same) >= 3
    assert all(again[pod] == due[pod] for pod in same), "nobody shortened their back-off"
    while not world.served(A, API_SERVER):
        await clock.sleep(1)
    assert await fails(world, "leases") is None
    await clock.sleep(400)
    assert waiting(world) == set()


@simulated()
async def test_an_outage_that_is_over_hears_of_nothing_any_more(world, clock):
    peopled(world)
    before = list(world.store._listeners)
    for _ in range(2):
        with etcd_outage(world, A):
            assert len(world.store._listeners) == len(before) + 1
            await clock.sleep(40)
        await clock.sleep(100)
    assert world.store._listeners == before
    assert await fails(world, "leases") is None


@pytest.mark.parametrize(("restarts", "longest"), [(1, 10), (100, 300)])
@simulated()
async def test_in_its_midst_all_wait_at_once_as_long_as_their_restarts_say(
    world, clock, restarts, longest
):
    peopled(world)
    with etcd_outage(world, A, restarts=restarts):
        assert waiting(world) == CRASHING
        left = [world.starts_again(A, pod) - clock.now() for pod in world.crash_looping(A)]
        assert longest - 25 < min(left) <= max(left) <= longest + 0.01
        assert len({round(each) for each in left}) > 1, "not in step"
        await clock.sleep(1)
        assert not world.served(A, ETCD_SERVICE)
        assert not world.served(A, API_SERVER)
