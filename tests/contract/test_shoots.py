"""What a shoot's API server still answers while its storage is away."""

import asyncio

from app.core.errors import ClusterError
from tests.contract.arena import REAL_TIME
from tests.e2e import objects

pytestmark = REAL_TIME


async def test_without_storage_version_and_cached_nodes_answer_and_leases_do_not(arena):
    shoot = await arena.shoot()
    await shoot.admin.create("Node", objects.node("a"))
    await shoot.admin.create("Lease", {"metadata": {"name": "a"}, "spec": {"holderIdentity": "a"}})
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
