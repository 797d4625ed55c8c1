"""What is read of a shoot, through the kubeconfig in its Secret."""

import asyncio

from app.core.errors import (
    ClusterError,
)
from app.core.model.instants import rfc3339
from app.core.model.shoots import LeaseView, NodeView
from tests.contract.arena import REAL_TIME
from tests.e2e import objects

pytestmark = REAL_TIME

THEN = 1_700_000_000.25


def lease(name, **spec):
    return {"metadata": {"name": name}, "spec": {"holderIdentity": name, **spec}}


async def test_a_lease_shows_when_it_was_renewed_and_for_how_long(arena):
    shoot = await arena.shoot()
    renewed = rfc3339(THEN, micro=True)
    await shoot.admin.create("Lease", lease("a", renewTime=renewed, leaseDurationSeconds=40))
    await shoot.admin.create("Lease", lease("b"))
    before = arena.clock.now()
    reading = await (await arena.connector.connect(shoot.secret())).leases()
    assert set(reading.leases) == {LeaseView("a", THEN, 40), LeaseView("b", None, None)}
    assert before <= reading.sent <= reading.received <= arena.clock.now()


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
