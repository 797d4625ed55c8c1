"""The leader's address in its EndpointSlice: written by the leader, read by who stands by."""

from contextlib import asynccontextmanager

import pytest

from app.core.kube import leader_slice
from app.core.kube.leader_slice import ApiEndpoint, LeaderAddress
from tests.contract.arena import GARDEN, REAL_ALONE, REAL_TIME, until
from tests.contract.real import RealArena
from tests.e2e import objects
from tests.e2e.landscape import PROBER, RBAC
from tests.e2e.processes import eventually
from tests.support.doubles import SetLeadership

pytestmark = REAL_TIME

NAME = "dwd-prober-leader"
FIRST = ApiEndpoint("10.0.0.1", 8080)
SERVICE = {"kubernetes.io/service-name": "dwd-prober"}


OF_CHART = {
    "metadata": {"name": NAME, "labels": SERVICE},
    "addressType": "IPv4",
    "endpoints": [],
    "ports": [{"name": "https", "protocol": "TCP", "port": 1}],
}


class Garden:
    """The own namespace, and the slice that the chart makes there."""

    def __init__(self, arena):
        self.arena = arena
        self.namespace = arena.garden if isinstance(arena, RealArena) else GARDEN

    async def may(self):
        """Gives us the rights of threat T16, on a real API server."""
        if not isinstance(self.arena, RealArena):
            return
        api, inside = self.arena.api, f"{RBAC}/namespaces/{self.namespace}"
        rule = objects.rule("discovery.k8s.io", ["endpointslices"], "get update", [NAME])
        await api.create(f"{inside}/roles", objects.role("Role", "leader", [rule]))
        bound = objects.binding("RoleBinding", "leader", "leader", self.namespace, PROBER)
        await api.create(f"{inside}/rolebindings", bound)
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices/{NAME}"

        async def known():
            return await self.arena.user.refusal("GET", path) != 403

        await eventually(known, "the slice may be read", within=10, every=0.02)

    async def install(self):
        """As the chart does."""
        await self.arena.admin.create("EndpointSlice", OF_CHART, namespace=self.namespace)

    async def slice(self):
        """As it truly is."""
        return await self.arena.admin.find("EndpointSlice", NAME, namespace=self.namespace)

    async def eventually_says(self, place):
        """Waits until it names this one place, ready, by the chart's name of the port."""

        async def so():
            found = await self.slice()
            endpoints, ports = found.get("endpoints") or [], found.get("ports") or []
            return (
                [(each["addresses"], each["conditions"]["ready"]) for each in endpoints],
                [(each.get("name"), each.get("port")) for each in ports],
            ) == ([([place.ip], True)], [("https", place.port)])

        await eventually(so, f"it says {place}", within=10, every=0.02)

    @asynccontextmanager
    async def leader(self):
        """One of ours, which leads."""
        leadership = SetLeadership(leading=True)
        made = LeaderAddress(self.arena.adapter.api, self.namespace, NAME, FIRST, leadership)
        task = self.arena.tasks.once(made.run, "contract: leader's address")
        try:
            yield made
        finally:
            task.cancel()


@pytest.fixture
def garden(arena, monkeypatch):
    monkeypatch.setattr(leader_slice, "_CHECK_INTERVAL", 0.3)
    monkeypatch.setattr(leader_slice, "_ASKS_EVERY", 0.1)
    return Garden(arena)


async def test_a_leader_writes_its_address_and_keeps_all_else(garden):
    await garden.may()
    await garden.install()
    async with garden.leader() as one:
        await garden.eventually_says(FIRST)
        assert (one.address(), one.off) == ("10.0.0.1:8080", None)
    assert (await garden.slice())["metadata"]["labels"] == SERVICE


@REAL_ALONE  # only a real API server knows rights
async def test_without_the_right_it_is_off_until_it_is_given(garden):
    await garden.install()
    async with garden.leader() as one:
        await until(lambda: one.off is not None, "it is off")
        assert "get endpointslices" in one.off
        await garden.may()
        await garden.eventually_says(FIRST)
