"""What is read of the seed, live and from the watches; the decoding itself is tested in tests/core/kube."""

import pytest

from app.core.errors import NotFound
from app.core.model.workloads import ResourceRef
from tests.contract.arena import KCM, REAL_TIME, SCALER, until
from tests.e2e import objects

pytestmark = REAL_TIME


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
