"""What is read of the seed, and written to it: merge patches, each on the version that it was decided on."""

from dataclasses import replace
from random import Random

import pytest

from app.core.errors import NotFound
from app.core.kube.seed import SeedCluster
from app.core.model import workloads as ann
from app.core.model.workloads import Patch, ResourceRef
from app.core.ports import Watched
from tests.contract.arena import KCM, POLICY, REAL_TIME, SCALER, until
from tests.e2e import objects

pytestmark = REAL_TIME

BOTH = pytest.mark.parametrize("ref", [KCM, SCALER], ids=str)


async def made(arena, ref, replicas=1, annotations=None):
    """A resource, as a live read shows it."""
    body = objects.scaler(SCALER.name, replicas)
    if ref is KCM:
        body = objects.deployment(KCM.name, replicas, annotations)
    await arena.admin.create(ref.kind, body)
    return await arena.seed.read_dependent(arena.namespace, ref)


async def test_one_patch_writes_count_and_annotations_and_gives_the_object_as_it_is_then(arena):
    keys = {ann.REPLICAS: "3", ann.SINCE: "", "theirs": "x"}
    before = await made(arena, KCM, 3, keys)
    patch = Patch(before.resource_version, 0, {ann.SINCE: None, ann.MELTDOWN: ""})
    view = await arena.seed.patch_dependent(arena.namespace, KCM, patch)
    assert view.replicas == 0
    assert dict(view.annotations) == {ann.REPLICAS: "3", ann.MELTDOWN: ""}
    assert view.resource_version != before.resource_version
    assert view.generation == before.generation + 1
    assert view == await arena.seed.read_dependent(arena.namespace, KCM)
    truth = await arena.admin.find("Deployment", KCM.name)
    assert truth["metadata"]["annotations"]["theirs"] == "x"
    await until(lambda: arena.seed.dependent(arena.namespace, KCM) == view, "the watch has it too")
    same = await arena.seed.patch_dependent(arena.namespace, KCM, Patch(view.resource_version, 0))
    assert same == view, "what changes nothing has no version of its own"


async def test_what_is_not_there_is_none_and_its_scale_and_kind_are_not_found(arena):
    seed, namespace = arena.seed, arena.namespace
    assert await seed.read_cluster(namespace) is None
    assert await seed.read_secret(namespace) is None
    for ref in (KCM, SCALER):
        assert await seed.read_dependent(namespace, ref) is None
        with pytest.raises(NotFound):
            await seed.read_scale(namespace, ref)
    nothing = ResourceRef("nowhere.example.org/v1", "Nothing", "x")
    for read in (seed.read_dependent, seed.read_scale):
        with pytest.raises(NotFound):
            await read(namespace, nothing)


async def test_in_endpoint_mode_two_secrets_are_watched_and_nobody_waits_for_machines(arena):
    policy = replace(POLICY, external_secret="external")
    seed = SeedCluster(arena.adapter.api, policy, arena.tasks, Random(2))
    await seed.start()
    await arena.admin.create("Machine", objects.machine("n"))
    for name in policy.secret_names.values():
        body = objects.secret(name) | {"metadata": {"name": name}}
        await arena.admin.create("Secret", body)

    def shown():
        found = {route: seed.secret(arena.namespace, route) for route in policy.secret_names}
        return {route: each and each.kubeconfig for route, each in found.items()}

    expected = {route: name.encode() for route, name in policy.secret_names.items()}
    await until(lambda: shown() == expected, "both Secrets are shown")
    assert seed.machines(arena.namespace) == ()
    state = seed.watch_state(Watched.MACHINES)
    assert state.synced
    assert not state.stale(arena.clock.now(), after=0.1)


@pytest.mark.parametrize(("ref", "generations"), [(KCM, 1), (SCALER, 0)], ids=str)
async def test_annotations_alone_begin_a_generation_of_a_deployment_only(arena, ref, generations):
    before = await made(arena, ref)
    patch = Patch(before.resource_version, annotations={ann.REPLICAS: "1"})
    view = await arena.seed.patch_dependent(arena.namespace, ref, patch)
    assert view.generation == before.generation + generations


@BOTH
async def test_scale_takes_any_count_zero_too_and_follows_the_versions_of_annotations(arena, ref):
    version = (await made(arena, ref, 2)).resource_version
    for wanted in (0, 0, 5):
        patch = Patch(version, annotations={ann.REPLICAS: str(wanted)})
        marked = await arena.seed.patch_dependent(arena.namespace, ref, patch)
        patch = Patch(marked.resource_version, wanted)
        scale = await arena.seed.patch_scale(arena.namespace, ref, patch)
        assert scale.replicas == wanted
        assert scale == await arena.seed.read_scale(arena.namespace, ref)
        version = scale.resource_version
    assert (await arena.admin.find(ref.kind, ref.name))["spec"]["replicas"] == 5
