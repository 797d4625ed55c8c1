"""What is written to the seed: merge patches of objects and of `scale`, each on the version it was decided on."""

import pytest

from app.core.errors import Conflict, Invalid, LeadershipLost, NotFound
from app.core.model import workloads as ann
from app.core.model.workloads import Patch
from tests.contract.arena import KCM, REAL_TIME, SCALER, until
from tests.e2e import objects

pytestmark = REAL_TIME


async def deployed(arena, replicas=1, annotations=None):
    """A Deployment, as a live read shows it."""
    body = objects.deployment(KCM.name, replicas, annotations)
    await arena.admin.create("Deployment", body)
    return await arena.seed.read_dependent(arena.namespace, KCM)


async def scaler(arena, replicas=1):
    """A resource of another kind, as a live read shows it."""
    await arena.admin.create("Scaler", objects.scaler(SCALER.name, replicas))
    return await arena.seed.read_dependent(arena.namespace, SCALER)


async def test_one_patch_writes_count_and_annotations_and_gives_the_object_as_it_is_then(arena):
    before = await deployed(arena, 3)
    patch = Patch(before.resource_version, 0, {ann.REPLICAS: "3", ann.MELTDOWN: ""})
    view = await arena.seed.patch_dependent(arena.namespace, KCM, patch)
    assert view.replicas == 0
    assert dict(view.annotations) == {ann.REPLICAS: "3", ann.MELTDOWN: ""}
    assert view.resource_version != before.resource_version
    assert view.generation == before.generation + 1
    assert view == await arena.seed.read_dependent(arena.namespace, KCM)
    await until(lambda: arena.seed.dependent(arena.namespace, KCM) == view, "the watch has it too")


async def test_a_key_that_is_patched_with_nothing_is_gone_and_others_stay(arena):
    before = await deployed(arena, 0, {ann.REPLICAS: "3", ann.MELTDOWN: "", "theirs": "x"})
    patch = Patch(before.resource_version, 3, {ann.MELTDOWN: None, ann.SINCE: None})
    view = await arena.seed.patch_dependent(arena.namespace, KCM, patch)
    assert dict(view.annotations) == {ann.REPLICAS: "3"}
    truth = await arena.admin.find("Deployment", KCM.name)
    assert truth["metadata"]["annotations"] == {ann.REPLICAS: "3", "theirs": "x"}


@pytest.mark.parametrize(("make", "generations"), [(deployed, 1), (scaler, 0)])
async def test_annotations_alone_begin_a_generation_of_a_deployment_only(arena, make, generations):
    before = await make(arena)
    patch = Patch(before.resource_version, annotations={ann.REPLICAS: "1"})
    view = await arena.seed.patch_dependent(arena.namespace, before.ref, patch)
    assert view.generation == before.generation + generations
    assert view.resource_version != before.resource_version


@pytest.mark.parametrize("make", [deployed, scaler])
async def test_a_status_begins_no_generation(arena, make):
    before = await make(arena)
    await arena.admin.patch(
        before.ref.kind, before.ref.name, {"status": {"replicas": 1}}, status=True
    )
    view = await arena.seed.read_dependent(arena.namespace, before.ref)
    assert view.generation == before.generation
    assert view.resource_version != before.resource_version


async def test_a_patch_that_changes_nothing_has_no_version_of_its_own(arena):
    before = await deployed(arena, 2)
    view = await arena.seed.patch_dependent(arena.namespace, KCM, Patch(before.resource_version, 2))
    assert view == before


async def test_a_patch_on_a_stale_version_is_a_conflict_and_writes_nothing(arena):
    before = await deployed(arena, 3)
    await arena.admin.patch("Deployment", KCM.name, {"spec": {"replicas": 4}})
    patch = Patch(before.resource_version, 0, {ann.MELTDOWN: ""})
    with pytest.raises(Conflict) as caught:
        await arena.seed.patch_dependent(arena.namespace, KCM, patch)
    assert caught.value.status == 409
    view = await arena.seed.read_dependent(arena.namespace, KCM)
    assert (view.replicas, dict(view.annotations)) == (4, {})


async def test_a_status_that_somebody_else_wrote_makes_a_patch_stale_too(arena):
    before = await deployed(arena, 1)
    await arena.admin.patch("Deployment", KCM.name, {"status": {"replicas": 1}}, status=True)
    with pytest.raises(Conflict):
        await arena.seed.patch_dependent(arena.namespace, KCM, Patch(before.resource_version, 0))


async def test_a_patch_of_what_is_not_there_is_not_found(arena):
    with pytest.raises(NotFound) as caught:
        await arena.seed.patch_dependent(arena.namespace, KCM, Patch("1", 0))
    assert caught.value.status == 404
    with pytest.raises(NotFound):
        await arena.seed.patch_scale(arena.namespace, SCALER, Patch("1", 0))


async def test_a_patch_of_what_was_deleted_and_made_anew_is_a_conflict(arena):
    before = await deployed(arena, 1)
    await arena.admin.delete("Deployment", KCM.name)
    await deployed(arena, 1)
    with pytest.raises(Conflict):
        await arena.seed.patch_dependent(arena.namespace, KCM, Patch(before.resource_version, 0))


async def test_a_negative_count_is_invalid_and_changes_nothing(arena):
    before = await deployed(arena, 1)
    with pytest.raises(Invalid) as caught:
        await arena.seed.patch_dependent(arena.namespace, KCM, Patch(before.resource_version, -1))
    assert caught.value.status == 422
    assert await arena.seed.read_dependent(arena.namespace, KCM) == before


@pytest.mark.parametrize("make", [deployed, scaler])
async def test_scale_takes_any_count_zero_too(arena, make):
    ref = (await make(arena, 2)).ref
    for wanted in (0, 0, 5):
        read = await arena.seed.read_scale(arena.namespace, ref)
        patch = Patch(read.resource_version, wanted)
        scale = await arena.seed.patch_scale(arena.namespace, ref, patch)
        assert scale.replicas == wanted
        assert scale == await arena.seed.read_scale(arena.namespace, ref)
    found = await arena.admin.find(ref.kind, ref.name)
    assert found["spec"]["replicas"] == 5


@pytest.mark.parametrize("make", [deployed, scaler])
async def test_scale_on_a_stale_version_is_a_conflict(arena, make):
    before = await make(arena, 2)
    marked = {"metadata": {"annotations": {"marked": "yes"}}}
    await arena.admin.patch(before.ref.kind, before.ref.name, marked)
    with pytest.raises(Conflict) as caught:
        await arena.seed.patch_scale(arena.namespace, before.ref, Patch(before.resource_version, 0))
    assert caught.value.status == 409
    assert (await arena.seed.read_scale(arena.namespace, before.ref)).replicas == 2


@pytest.mark.parametrize("make", [deployed, scaler])
async def test_a_negative_scale_is_invalid(arena, make):
    before = await make(arena, 2)
    with pytest.raises(Invalid) as caught:
        await arena.seed.patch_scale(
            arena.namespace, before.ref, Patch(before.resource_version, -1)
        )
    assert caught.value.status == 422
    assert (await arena.seed.read_scale(arena.namespace, before.ref)).replicas == 2


async def test_annotations_of_another_kind_and_its_scale_follow_each_others_versions(arena):
    before = await scaler(arena, 2)
    marked = await arena.seed.patch_dependent(
        arena.namespace, SCALER, Patch(before.resource_version, annotations={ann.REPLICAS: "2"})
    )
    scale = await arena.seed.patch_scale(arena.namespace, SCALER, Patch(marked.resource_version, 0))
    removed = {ann.REPLICAS: None}
    freed = await arena.seed.patch_dependent(
        arena.namespace, SCALER, Patch(scale.resource_version, annotations=removed)
    )
    assert dict(freed.annotations) == {}


async def test_nothing_is_sent_when_leadership_ends_right_before(arena):
    before = await deployed(arena, 1)

    def lost() -> None:
        raise LeadershipLost("another instance leads")

    with pytest.raises(LeadershipLost):
        await arena.seed.patch_dependent(
            arena.namespace, KCM, Patch(before.resource_version, 0), starting=lost
        )
    with pytest.raises(LeadershipLost):
        await arena.seed.patch_scale(
            arena.namespace, KCM, Patch(before.resource_version, 0), starting=lost
        )
    assert await arena.seed.read_dependent(arena.namespace, KCM) == before


async def test_an_urgent_patch_is_a_patch(arena):
    before = await deployed(arena, 1)
    patch = Patch(before.resource_version, 0)
    view = await arena.seed.patch_dependent(arena.namespace, KCM, patch, urgent=True)
    assert view.replicas == 0
