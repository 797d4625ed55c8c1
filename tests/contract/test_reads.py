"""What is read of the seed, live and from the watches."""

import pytest

from app.core.errors import NotFound
from app.core.kube.resources import machines
from app.core.model.instants import rfc3339
from app.core.model.shoots import LastOperation, MachineView, ShootView, Undecodable, WorkerPool
from app.core.model.workloads import ResourceRef
from tests.contract.arena import KCM, REAL_TIME, SCALER, until
from tests.e2e import objects
from tests.e2e.api import all_of

pytestmark = REAL_TIME

THEN = 1_700_000_000.0


def shoot(**more):
    """A Shoot in which everything is set that is read."""
    pools = [{"name": "a"}, {"name": "b", "machineControllerManager": {"nodeConditions": ["X"]}}]
    operation = {"type": "Restore", "state": "Error", "lastUpdateTime": rfc3339(THEN)}
    return {
        "spec": {
            "hibernation": {"enabled": True},
            "provider": {"workers": pools},
            "kubernetes": {"kubeControllerManager": {"nodeMonitorGracePeriod": "1m20s"}},
        },
        "status": {"isHibernated": True, "lastOperation": operation},
    } | more


async def test_a_cluster_shows_the_shoot_that_it_embeds(arena):
    await arena.admin.create("Cluster", objects.cluster(arena.namespace, shoot()))
    view = await arena.seed.read_cluster(arena.namespace)
    assert view.name == arena.namespace
    assert view.resource_version
    assert not view.deleting
    assert view.shoot == ShootView(
        deleting=False,
        hibernation_enabled=True,
        is_hibernated=True,
        last_operation=LastOperation("Restore", "Error", THEN),
        workers=(WorkerPool("a"), WorkerPool("b", frozenset({"X"}))),
        node_monitor_grace=80.0,
    )
    await until(lambda: arena.seed.clusters().get(arena.namespace) == view, "the watch has it too")


@pytest.mark.parametrize("garbage", ["garbage", {}, {"spec": []}, None], ids=str)
async def test_a_shoot_that_cannot_be_read_is_undecodable(arena, garbage):
    await arena.admin.create("Cluster", objects.cluster(arena.namespace, garbage))
    view = await arena.seed.read_cluster(arena.namespace)
    assert isinstance(view.shoot, Undecodable)
    await until(lambda: arena.namespace in arena.seed.clusters(), "the watch has it too")


async def test_a_shoot_in_which_nothing_is_set_is_one_of_defaults(arena):
    await arena.admin.create("Cluster", objects.cluster(arena.namespace, {"spec": {}}))
    assert (await arena.seed.read_cluster(arena.namespace)).shoot == ShootView()


async def test_a_cluster_that_is_being_deleted_says_so(arena):
    await arena.admin.create("Cluster", objects.cluster(arena.namespace, shoot()))
    await arena.begin_deletion("Cluster", arena.namespace)
    assert (await arena.seed.read_cluster(arena.namespace)).deleting
    await until(
        lambda: (view := arena.seed.clusters().get(arena.namespace)) and view.deleting,
        "the watch shows the deletion",
    )
    await arena.admin.patch("Cluster", arena.namespace, {"metadata": {"finalizers": None}})


async def test_what_is_not_there_is_none_and_not_an_error(arena):
    seed, namespace = arena.seed, arena.namespace
    assert await seed.read_cluster(namespace) is None
    assert await seed.read_secret(namespace) is None
    assert await seed.read_dependent(namespace, KCM) is None
    assert await seed.read_dependent(namespace, SCALER) is None
    assert await seed.read_machines(namespace) == ()
    assert namespace not in seed.clusters()
    assert seed.secret(namespace) is None
    assert seed.dependent(namespace, KCM) is None
    assert seed.machines(namespace) == ()


async def test_a_kind_that_is_not_served_is_not_found(arena):
    nothing = ResourceRef("nowhere.example.org/v1", "Nothing", "x")
    with pytest.raises(NotFound):
        await arena.seed.read_dependent(arena.namespace, nothing)
    with pytest.raises(NotFound):
        await arena.seed.read_scale(arena.namespace, nothing)


async def test_a_secret_brings_the_bytes_of_its_kubeconfig(arena):
    await arena.admin.create("Secret", objects.secret("any: \x00\n bytes"))
    view = await arena.seed.read_secret(arena.namespace)
    assert view.namespace == arena.namespace
    assert view.kubeconfig == b"any: \x00\n bytes"
    await until(lambda: arena.seed.secret(arena.namespace) == view, "the watch has it too")


async def test_a_secret_without_the_key_has_no_kubeconfig(arena):
    body = objects.secret("") | {"data": {"other": "YQ=="}}
    await arena.admin.create("Secret", body)
    assert (await arena.seed.read_secret(arena.namespace)).kubeconfig is None


async def test_machines_are_read_to_the_last_page(arena):
    names = [f"node-{n:04}" for n in range(machines().page + 1)]
    await all_of((arena.admin.create("Machine", objects.machine(n)) for n in names), at_once=25)
    found = await arena.seed.read_machines(arena.namespace)
    assert {each.node for each in found} == set(names)
    assert len(found) == len(names)
    await until(
        lambda: set(arena.seed.machines(arena.namespace)) == set(found), "the watch has them too"
    )


async def test_a_machine_shows_its_node_and_its_phase(arena):
    await arena.admin.create("Machine", objects.machine("n"))
    phase = {"currentStatus": {"phase": "Failed", "lastUpdateTime": rfc3339(THEN)}}
    await arena.admin.create("Machine", {"metadata": {"name": "bare"}, "status": phase})
    expected = {MachineView("machine-n", "n", ""), MachineView("bare", None, "Failed")}
    assert set(await arena.seed.read_machines(arena.namespace)) == expected


async def test_a_deployment_shows_counts_generation_and_our_annotations_only(arena):
    keys = {"dependency-watchdog.gardener.cloud/ignore-scaling": "false", "other": "x"}
    body = objects.deployment(KCM.name, 2, keys)
    status = {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}
    await arena.admin.create("Deployment", body | {"status": status})
    view = await arena.seed.read_dependent(arena.namespace, KCM)
    assert (view.ref, view.namespace) == (KCM, arena.namespace)
    assert view.uid
    assert (view.replicas, view.current, view.ready) == (2, 2, 1)
    assert (view.generation, view.observed_generation) == (1, 1)
    assert dict(view.annotations) == {"dependency-watchdog.gardener.cloud/ignore-scaling": "false"}
    await until(lambda: arena.seed.dependent(arena.namespace, KCM) == view, "the watch has it too")


async def test_zeroes_that_the_json_leaves_out_read_as_zero(arena):
    await arena.admin.create("Deployment", objects.deployment(KCM.name, 0))
    view = await arena.seed.read_dependent(arena.namespace, KCM)
    assert (view.replicas, view.current, view.ready, view.observed_generation) == (0, 0, 0, 0)
    scale = await arena.seed.read_scale(arena.namespace, KCM)
    assert (scale.replicas, scale.current) == (0, 0)


@pytest.mark.parametrize("ref", [KCM, SCALER], ids=str)
async def test_scale_shows_the_count_and_the_version_of_the_object(arena, ref):
    build = {"Deployment": objects.deployment, "Scaler": objects.scaler}[ref.kind]
    body = build(ref.name, 3) | {"status": {"replicas": 2}}
    await arena.admin.create(ref.kind, body)
    view = await arena.seed.read_dependent(arena.namespace, ref)
    scale = await arena.seed.read_scale(arena.namespace, ref)
    assert (scale.replicas, scale.current) == (3, 2)
    assert scale.resource_version == view.resource_version


async def test_a_kind_of_its_own_group_shows_its_annotations_and_leaves_counting_to_scale(arena):
    await arena.admin.create("Scaler", objects.scaler(SCALER.name, 3))
    view = await arena.seed.read_dependent(arena.namespace, SCALER)
    assert (view.ref, view.namespace) == (SCALER, arena.namespace)
    assert view.resource_version
    await until(
        lambda: arena.seed.dependent(arena.namespace, SCALER) == view, "the watch has it too"
    )


async def test_the_scale_of_what_is_not_there_is_not_found(arena):
    for ref in (KCM, SCALER):
        with pytest.raises(NotFound) as caught:
            await arena.seed.read_scale(arena.namespace, ref)
        assert caught.value.status == 404


async def test_urgent_reads_bring_the_same(arena):
    await arena.admin.create("Deployment", objects.deployment(KCM.name, 1))
    seed, namespace = arena.seed, arena.namespace
    assert await seed.read_dependent(namespace, KCM, urgent=True) == await seed.read_dependent(
        namespace, KCM
    )
    assert await seed.read_scale(namespace, KCM, urgent=True) == await seed.read_scale(
        namespace, KCM
    )
    assert await seed.read_machines(namespace, urgent=True) == ()
    assert await seed.read_cluster(namespace, urgent=True) is None
    assert await seed.read_secret(namespace, urgent=True) is None
