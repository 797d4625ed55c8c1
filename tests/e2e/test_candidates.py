"""Which nodes count; the grace period is short, and everything that is measured against it with it."""

import asyncio

from tests.e2e.objects import Json
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage

OUT = 5  # of ten nodes do not count: they and two more lose their path, 70 % of all, 40 % of those that count


async def without_those(stage: Stage, reason: str) -> None:
    """Nothing is scaled while `OUT` nodes and two more are cut off; all of them cut off are an outage."""
    prober = await stage.healthy(quick())
    stage.shoot.kubelets.path.cut(stage.shoot.nodes[: OUT + 2])
    await stage.shoot.wait_until_expired(extra=10)
    leases = await until_expired(stage, prober, 2)
    assert leases["excluded"] == {reason: OUT}
    assert leases["candidates"] == 10 - OUT
    nodes = await prober.get(f"/api/v1/shoots/{stage.shoot.namespace}/nodes")
    reasons = {each["name"]: each["reason"] for each in nodes["items"] if not each["candidate"]}
    assert reasons == dict.fromkeys(stage.shoot.nodes[:OUT], reason)
    stage.assert_nothing_was_scaled()
    await stage.outage(within=40)


async def until_expired(stage: Stage, prober: Program, number: int) -> Json:
    """Waits until the last probe saw that many expired leases: a busy machine may look later than planned."""

    async def is_so() -> Json | None:
        leases: Json = (await prober.shoot(stage.shoot.namespace))["leases"]
        return leases if leases["expired"] == number else None

    return await eventually(is_so, f"{number} leases are expired", within=30, every=0.25) or {}


@scenario()
async def test_nodes_that_are_not_managed_do_not_count(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    for node in stage.shoot.nodes[:OUT]:
        key = "node.machine.sapcloud.io/not-managed-by-mcm"
        await stage.shoot.annotate_node(node, {key: "1"})
    await without_those(stage, "NotManaged")


@scenario()
async def test_nodes_with_a_condition_that_their_pool_lists_do_not_count(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16, conditions=["DockerBroken"])
    for node in stage.shoot.nodes[:OUT]:
        await stage.shoot.set_condition(node, "DockerBroken")
    await stage.shoot.set_condition(stage.shoot.nodes[-1], "DiskPressure")  # not in this list
    await without_those(stage, "UnhealthyCondition")


@scenario()
async def test_nodes_without_machine_do_not_count(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    for node in stage.shoot.nodes[:OUT]:
        await stage.shoot.remove_machine(node)
    await without_those(stage, "NoMachine")


@scenario()
async def test_machines_that_failed_do_not_count(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    for node in stage.shoot.nodes[:OUT]:
        await stage.shoot.set_phase(node, "Failed")
    await without_those(stage, "MachineFailed")


@scenario()
async def test_one_node_never_takes_the_controllers_down(stage: Stage) -> None:
    await stage.shoot.build(nodes=1, grace=16, duration=16)
    prober = await stage.healthy(quick())
    stage.shoot.kubelets.path.cut()
    await stage.shoot.wait_until_expired(extra=20)
    shoot = await prober.shoot(stage.shoot.namespace)
    assert shoot["leases"]["expired"] == 1
    assert shoot["probe"]["verdict"] == "Hold"
    stage.assert_nothing_was_scaled()


@scenario()
async def test_node_clocks_5_minutes_off_do_not_decide(stage: Stage) -> None:
    behind = {f"node-{n:03}": -300.0 for n in range(7)}
    ahead = {f"node-{n:03}": 300.0 for n in (7, 8)}
    await stage.shoot.build(grace=16, duration=16, offsets=behind | ahead)
    prober = await stage.healthy(quick())
    await asyncio.sleep(25)
    stage.assert_nothing_was_scaled()
    nodes = (await prober.get(f"/api/v1/shoots/{stage.shoot.namespace}/nodes"))["items"]
    learnt = {each["name"]: each["clockOffsetSeconds"] or 0.0 for each in nodes}
    for name, offset in (behind | ahead).items():
        assert abs(learnt[name] + offset) < 8, "what has to be added to its times"
    await stage.outage(within=40)
    stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
