"""What is read of a shoot, through the kubeconfig in its Secret."""

import asyncio
from contextlib import suppress

import pytest

from app.core.errors import (
    CertificateUntrusted,
    ClusterError,
    Forbidden,
    Unauthorized,
    Unreachable,
)
from app.core.model.instants import rfc3339
from app.core.model.shoots import LeaseView, NodeView
from tests.contract.arena import REAL_TIME
from tests.e2e import objects

pytestmark = REAL_TIME

THEN = 1_700_000_000.25


def lease(name, **spec):
    return {"metadata": {"name": name}, "spec": {"holderIdentity": name, **spec}}


async def once_it_answers(ask):
    """The first answer of a server that is just coming back."""
    async with asyncio.timeout(5):
        while True:
            with suppress(Unreachable):
                return await ask()


async def test_a_lease_shows_when_it_was_renewed_and_for_how_long(arena):
    shoot = await arena.shoot()
    renewed = rfc3339(THEN, micro=True)
    await shoot.admin.create("Lease", lease("a", renewTime=renewed, leaseDurationSeconds=40))
    await shoot.admin.create("Lease", lease("b"))
    before = arena.clock.now()
    reading = await (await arena.connector.connect(shoot.secret())).leases()
    assert set(reading.leases) == {LeaseView("a", THEN, 40), LeaseView("b", None, None)}
    assert before <= reading.sent <= reading.received <= arena.clock.now()


async def test_no_nodes_are_no_leases_and_still_a_contact(arena):
    shoot = await arena.shoot()
    cluster = await arena.connector.connect(shoot.secret())
    assert (await cluster.leases()).leases == ()
    before = arena.clock.now()
    assert before <= await cluster.contact() <= arena.clock.now()
    assert await cluster.nodes() == ()


async def test_a_node_shows_pool_zone_and_what_makes_it_no_candidate(arena):
    shoot = await arena.shoot()
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "DiskPressure", "status": "False"},
        {"type": "InPlaceUpdate", "status": "True", "reason": "ReadyForUpdate"},
    ]
    unmanaged = {"node.machine.sapcloud.io/not-managed-by-mcm": "1"}
    body = objects.node("a", annotations=unmanaged) | {"status": {"conditions": conditions}}
    await shoot.admin.create("Node", body)
    await shoot.admin.create("Node", {"metadata": {"name": "b"}})
    cluster = await arena.connector.connect(shoot.secret())
    found = await cluster.nodes(consistent=True)
    async with asyncio.timeout(5):  # the cache may be a moment late
        while await cluster.nodes() != found:
            pass
    true = frozenset({"Ready", "InPlaceUpdate"})
    first = NodeView("a", objects.POOL, "a", not_managed=True, conditions=true)
    assert found == (first._replace(in_place_update="ReadyForUpdate"), NodeView("b"))


async def test_without_storage_version_and_cached_nodes_answer_and_leases_do_not(arena):
    shoot = await arena.shoot()
    await shoot.admin.create("Node", objects.node("a"))
    await shoot.admin.create("Lease", lease("a"))
    cluster = await arena.connector.connect(shoot.secret())
    await cluster.leases()
    nodes = await cluster.nodes()
    async with shoot.storage_away():
        assert await cluster.version()
        assert await cluster.nodes() == nodes
        refused = await asyncio.gather(
            cluster.leases(),
            cluster.leases(new_connection=True),
            cluster.contact(),
            cluster.nodes(consistent=True),
            return_exceptions=True,
        )
        assert all(isinstance(each, ClusterError) for each in refused), refused
        assert await cluster.version()
    assert len((await cluster.leases()).leases) == 1


async def test_a_server_that_is_down_is_unreachable_and_then_there_again(arena):
    shoot = await arena.shoot()
    cluster = await arena.connector.connect(shoot.secret())
    await cluster.version()
    async with shoot.down():
        for ask in (cluster.version, cluster.leases, cluster.contact, cluster.nodes):
            with pytest.raises(Unreachable):
                await ask()
    assert await once_it_answers(cluster.version)


async def test_a_token_that_is_not_accepted_is_unauthorized_everywhere(arena):
    shoot = await arena.shoot()
    cluster = await arena.connector.connect(shoot.secret(token="not-a-token"))
    for ask in (cluster.version, cluster.leases, cluster.contact, cluster.nodes):
        with pytest.raises(Unauthorized) as caught:
            await ask()
        assert caught.value.status == 401


async def test_after_a_rotation_the_new_secret_leads_in(arena):
    shoot = await arena.shoot()
    before = shoot.secret()
    await (await arena.connector.connect(before)).version()
    after = await shoot.rotate()
    assert after.kubeconfig != before.kubeconfig
    assert await (await arena.connector.connect(after)).version()


async def test_a_server_that_the_secrets_authority_did_not_sign_is_untrusted(arena):
    shoot = await arena.shoot()
    async with shoot.impostor() as secret:
        cluster = await arena.connector.connect(secret)
        for ask in (cluster.version, cluster.leases):
            with pytest.raises(CertificateUntrusted):
                await ask()


async def test_what_may_not_be_listed_is_forbidden_and_the_rest_goes_on(arena):
    shoot = await arena.shoot()
    cluster = await arena.connector.connect(shoot.secret())
    async with shoot.forbidden():
        with pytest.raises(Forbidden) as caught:
            await cluster.nodes()
        assert caught.value.status == 403
        assert "nodes" in str(caught.value)
        assert await cluster.version()
        assert (await cluster.leases()).leases == ()
    assert await cluster.nodes() == ()
