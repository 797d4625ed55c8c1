"""What is read of the seed, live and from the watches; the decoding itself is tested in tests/core/kube."""

import pytest

from app.core.errors import NotFound
from app.core.model.instants import rfc3339
from app.core.model.shoots import MachineView
from app.core.model.workloads import ResourceRef
from tests.contract.arena import KCM, REAL_TIME, SCALER, until
from tests.e2e import objects

pytestmark = REAL_TIME

THEN = 1_700_000_000.0
OURS = "dependency-watchdog.gardener.cloud/ignore-scaling"


async def test_what_is_not_there_is_none_and_its_scale_and_kind_are_not_found(arena):
    seed, namespace = arena.seed, arena.namespace
    assert await seed.read_cluster(namespace) is None
    assert await seed.read_secret(namespace) is None
    assert await seed.read_machines(namespace) == ()
    for ref in (KCM, SCALER):
        assert await seed.read_dependent(namespace, ref) is None
        with pytest.raises(NotFound):
            await seed.read_scale(namespace, ref)
    nothing = ResourceRef("nowhere.example.org/v1", "Nothing", "x")
    for read in (seed.read_dependent, seed.read_scale):
        with pytest.raises(NotFound):
            await read(namespace, nothing)


async def test_a_secret_and_machines_are_read_as_the_watches_show_them(arena):
    await arena.admin.create("Secret", objects.secret("any: \x00\n bytes"))
    await arena.admin.create("Machine", objects.machine("n"))
    phase = {"currentStatus": {"phase": "Failed", "lastUpdateTime": rfc3339(THEN)}}
    await arena.admin.create("Machine", {"metadata": {"name": "bare"}, "status": phase})
    view = await arena.seed.read_secret(arena.namespace)
    assert view.kubeconfig == b"any: \x00\n bytes"
    machines = set(await arena.seed.read_machines(arena.namespace))
    assert machines == {MachineView("machine-n", "n", ""), MachineView("bare", None, "Failed")}
    await until(
        lambda: (
            arena.seed.secret(arena.namespace) == view
            and set(arena.seed.machines(arena.namespace)) == machines
        ),
        "the watches have them too",
    )


async def test_a_deployment_shows_counts_generation_and_our_annotations_only(arena):
    body = objects.deployment(KCM.name, 2, {OURS: "false", "other": "x"})
    status = {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}
    await arena.admin.create("Deployment", body | {"status": status})
    view = await arena.seed.read_dependent(arena.namespace, KCM)
    assert (view.ref, view.namespace) == (KCM, arena.namespace)
    assert (view.replicas, view.current, view.ready) == (2, 2, 1)
    assert (view.generation, view.observed_generation) == (1, 1)
    assert dict(view.annotations) == {OURS: "false"}
    await until(lambda: arena.seed.dependent(arena.namespace, KCM) == view, "the watch has it too")


@pytest.mark.parametrize("ref", [KCM, SCALER], ids=str)
@pytest.mark.parametrize(("wanted", "current"), [(3, 2), (0, 0)])
async def test_scale_shows_the_counts_and_the_version_of_the_object(arena, ref, wanted, current):
    build = {"Deployment": objects.deployment, "Scaler": objects.scaler}[ref.kind]
    status = {"status": {"replicas": current}} if current else {}
    await arena.admin.create(ref.kind, build(ref.name, wanted) | status)
    view = await arena.seed.read_dependent(arena.namespace, ref)
    scale = await arena.seed.read_scale(arena.namespace, ref)
    assert (scale.replicas, scale.current) == (wanted, current)
    assert scale.resource_version == view.resource_version
    await until(lambda: arena.seed.dependent(arena.namespace, ref) == view, "the watch has it too")
