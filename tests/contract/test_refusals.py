"""What the seed refuses, and how the ports say so."""

import pytest

from app.core.errors import Forbidden
from app.core.model.workloads import Patch
from app.core.ports import Permission
from tests.contract.arena import KCM, REAL_TIME, until
from tests.e2e import objects

pytestmark = REAL_TIME


async def test_a_right_that_is_missing_is_named_by_the_review_and_by_the_refusal(arena):
    await arena.admin.create("Deployment", objects.deployment(KCM.name, 1))
    before = await arena.seed.read_dependent(arena.namespace, KCM)
    right = Permission("patch", "apps", "deployments", KCM.name)
    reading = Permission("get", "apps", "deployments", KCM.name)
    assert await arena.access.missing([right, reading]) == ()
    async with arena.without(right):
        assert await arena.access.missing([right, reading]) == (right,)
        with pytest.raises(Forbidden) as caught:
            await arena.seed.patch_dependent(
                arena.namespace, KCM, Patch(before.resource_version, 0)
            )
        assert caught.value.status == 403
        assert "patch deployments" in str(caught.value)
        assert await arena.seed.read_dependent(arena.namespace, KCM) == before


async def test_watches_go_on_after_they_were_throttled(arena):
    async with arena.throttled():
        async with arena.watches_cut():
            pass
        await arena.admin.create("Deployment", objects.deployment(KCM.name, 1))
        await until(arena.adapter.seed.troubles, "the watches are in trouble")
    await until(lambda: arena.seed.dependent(arena.namespace, KCM), "the watch has it")
    await until(lambda: not arena.adapter.seed.troubles(), "the watches are well again")
