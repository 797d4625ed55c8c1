"""What the running weeder was attacked with, and what was mended for it."""

import asyncio
import json
from dataclasses import replace

import pytest

from app.core.errors import LimitExceeded, ServerFault
from app.core.kube.decoding import pod_objects
from app.core.kube.weeder_view import ONE_POD
from app.core.model.weeding import SliceEndpoint, SliceView
from app.simulation.workloads import API_SERVER, Workload
from app.weeder.rules import Ledger
from tests.core.kube.test_weeder_view import World, delete, seed_of
from tests.core.kube.weeding import NS, a_slice, endpoint
from tests.support.weeding import API, NAMESPACE, WeederLab
from tests.weeder.rules.facts import NOW, pod

SCHEDULER = "kube-scheduler"
real = pytest.mark.looptime(False)


# Who writes slices says which pods are behind a service, and no API server looks at these names.


@pytest.mark.parametrize(
    "name",
    [
        "../secrets/x",
        "..",
        ".",
        "x?watch=true",
        "x#y",
        "x/exec?command=id",
        "a%2fb",
        "A",
        "é",
        "\n",
    ],
)
def test_a_target_whose_name_no_pod_can_have_is_none(name):
    raw = json.dumps(a_slice("s", 1, endpoint(name))).encode()
    assert pod_objects.endpoint_slice(raw).endpoints == (SliceEndpoint(ready=True, pod=None),)


@pytest.mark.parametrize("name", ["etcd-main-0", "a", "1.2-3.b", ".".join(["a" * 50] * 4)])
def test_a_target_whose_name_a_pod_can_have_is_one(name):
    raw = json.dumps(a_slice("s", 1, endpoint(name))).encode()
    assert pod_objects.endpoint_slice(raw).endpoints == (SliceEndpoint(ready=True, pod=name),)


# He can also name thousands of pods that need not exist.


@pytest.fixture
async def lab(tasks, clock):
    made = WeederLab(tasks, clock)
    yield made
    await made.close()


async def beside(lab, hostile, **policy):
    """A weeder that starts when a service has just come back, beside hostile ones that are asked for first."""
    world = lab.world()
    names = [f"shoot--evil--{number}" for number in range(hostile)]
    for name in names:
        world.add_workload(Workload(name, API_SERVER, service=API_SERVER))
    world.add_control_plane(NAMESPACE)
    with world.faults.service_unready(*API):
        await lab.clock.sleep(3)
    await lab.clock.sleep(20)
    world.crash_looped(NAMESPACE, SCHEDULER, 7)
    return lab.weeder(world, **policy), names


def many_pods(harness, names, number):
    """The services of these namespaces have so many ready endpoints, of pods that do not exist."""
    original = harness.seed.slices

    def slices(key):
        if key.namespace not in names:
            return original(key)
        endpoints = tuple(SliceEndpoint(True, f"none-{each}") for each in range(number))
        return (SliceView(key.namespace, "s", key.service, "7", endpoints),)

    harness.seed.slices = slices


async def test_services_with_thousands_of_pods_keep_no_other_waiting_at_the_start(lab):
    harness, names = await beside(lab, 20)
    many_pods(harness, names, 5_000)
    await harness.run(3)
    assert len(harness.names()) == 1


async def test_nobody_is_asked_any_more_when_no_answer_could_matter(lab):
    harness, names = await beside(lab, 1, watch_duration=60.0)
    many_pods(harness, names, 10_000)
    await harness.run(61)
    reads = len(harness.seed.reads)
    await harness.run(60)
    assert 2_000 < reads == len(harness.seed.reads) < 4_000


async def test_a_server_that_asks_for_a_pause_of_years_keeps_no_other_service_waiting(lab):
    harness, names = await beside(lab, 8)
    original = harness.seed.read_pod

    async def read_pod(namespace, name):
        if namespace in names:
            raise ServerFault("not now", status=503, retry_after=999_999_999.0)
        return await original(namespace, name)

    harness.seed.read_pod = read_pod
    await harness.run(70)
    assert len(harness.names()) == 1


# Who writes pods writes their owner references.


def test_an_owner_of_the_same_uid_in_another_namespace_is_another_one():
    made = Ledger(300.0, 5)
    elsewhere = [replace(pod(f"e-{n}"), namespace="shoot--evil--one") for n in range(9)]
    made.opened(NOW, elsewhere)
    for each in elsewhere[:5]:
        made.enter(each, NOW)
    ours, theirs = made.deleted_before(pod("ours"), NOW), made.deleted_before(elsewhere[8], NOW)
    assert (ours.used, ours.allowed) == (0, 5)
    assert (theirs.used, theirs.allowed) == (5, 9)


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "uid"])
def test_of_an_owner_no_more_is_kept_than_a_name_may_have(field):
    named = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": True}
    reference = named | {field: "\x1b[31mred\n" + "x" * (1 << 20)}
    meta = {"name": "a", "namespace": NS, "uid": "u", "ownerReferences": [reference]}
    owner = pod_objects.pod(json.dumps({"metadata": meta}).encode()).owner
    assert owner is not None
    assert max(len(each) for each in owner) == 253
    assert all(each.isprintable() for each in owner)


def test_of_a_container_no_more_is_kept_than_a_name_may_have():
    state = {"waiting": {"reason": "CrashLoopBackOff" + " " * (1 << 20)}}
    status = {"containerStatuses": [{"name": "x" * (1 << 20), "state": state}]}
    meta = {"name": "a", "namespace": NS, "uid": "u"}
    view = pod_objects.pod(json.dumps({"metadata": meta, "status": status}).encode())
    (container,) = view.containers
    assert len(container.name) == 253
    assert len(container.waiting or "") == 253
    assert not container.crash_loops, "what is cut off does not make it another reason"


# What a deletion is answered with.


@real
async def test_of_what_a_deletion_is_answered_with_no_more_is_read_than_a_pod_can_have():
    world = World()

    async def endless(asked):
        await asked.begin_stream()
        for _ in range(2 * ONE_POD // 65_536):
            await asked.chunk(b" " * 65_536)
        await asyncio.Event().wait()  # what was sent is too much already

    world.deleting = endless
    async with seed_of(world) as seed:
        with pytest.raises(LimitExceeded) as refusal:
            await delete(seed)
    assert refusal.value.limit == "size"


@real
async def test_a_pod_that_is_longer_than_a_pod_can_be_is_not_read():
    world = World()
    path, meta = f"/api/v1/namespaces/{NS}/pods/a", {"name": "a", "namespace": NS, "uid": "u"}
    async with seed_of(world) as seed:
        world.objects[path] = {"metadata": meta}
        assert await seed.read_pod(NS, "a") is not None
        world.objects[path] = {"metadata": meta | {"annotations": {"a": "x" * ONE_POD}}}
        with pytest.raises(LimitExceeded):
            await seed.read_pod(NS, "a")
