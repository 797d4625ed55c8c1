"""Which nodes count; the grace period is short, and everything that is measured against it with it."""

import asyncio

from tests.e2e.objects import Json
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import quick
from tests.e2e.stage import Stage

EXCLUDED = {
    "node-000": "NotManaged",
    "node-001": "NotManaged",
    "node-002": "UnhealthyCondition",
    "node-003": "NoMachine",
    "node-004": "MachineFailed",
}
CLOCKS = {"node-005": -300.0, "node-006": -300.0, "node-007": 300.0}


@scenario()
async def test_nodes_that_do_not_count_make_no_outage_and_neither_do_wrong_clocks(
    stage: Stage,
) -> None:
    """Five of ten do not count, and three have clocks that are 5 minutes off.

    They and two more lose their path: 70 % of all, 40 % of those that count. All of them cut off are an outage.
    """
    shoot = stage.shoot
    await shoot.build(grace=16, duration=16, conditions=["DockerBroken"], offsets=CLOCKS)
    for node in ("node-000", "node-001"):
        await shoot.annotate_node(node, {"node.machine.sapcloud.io/not-managed-by-mcm": "1"})
    await shoot.set_condition("node-002", "DockerBroken")
    await shoot.set_condition("node-009", "DiskPressure")  # not in this list
    await shoot.remove_machine("node-003")
    await shoot.set_phase("node-004", "Failed")
    prober = await stage.healthy(quick())
    await asyncio.sleep(15)
    stage.assert_nothing_was_scaled()
    shoot.kubelets.path.cut(shoot.nodes[: len(EXCLUDED) + 2])
    await shoot.wait_until_expired(extra=10)

    async def two_expired() -> Json | None:
        """A busy machine may look later than planned."""
        leases: Json = (await prober.shoot(shoot.namespace))["leases"]
        return leases if leases["expired"] == 2 else None

    leases = await eventually(two_expired, "two leases are expired", within=30, every=0.25) or {}
    assert leases["excluded"] == dict.fromkeys(EXCLUDED.values(), 1) | {"NotManaged": 2}
    assert leases["candidates"] == 10 - len(EXCLUDED)
    nodes = (await prober.get(f"/api/v1/shoots/{shoot.namespace}/nodes"))["items"]
    assert {each["name"]: each["reason"] for each in nodes if not each["candidate"]} == EXCLUDED
    learnt = {each["name"]: each["clockOffsetSeconds"] or 0.0 for each in nodes}
    for name, offset in CLOCKS.items():
        assert abs(learnt[name] + offset) < 8, "what has to be added to its times"
    stage.assert_nothing_was_scaled()
    await stage.outage(within=40)
    shoot.kubelets.path.restore()
    await stage.until_up(within=60)
