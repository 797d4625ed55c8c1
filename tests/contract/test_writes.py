"""What is written to the seed: merge patches of objects and of `scale`, each on the version it was decided on."""

import pytest

from app.core.model import workloads as ann
from app.core.model.workloads import Patch
from tests.contract.arena import KCM, REAL_TIME, SCALER, until
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
    found = await arena.admin.find(ref.kind, ref.name)
    assert found["spec"]["replicas"] == 5
