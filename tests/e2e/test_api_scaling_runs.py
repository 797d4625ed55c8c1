"""Manual scaling runs that another process finds half done: the same scaling run goes on, under the same id."""

import asyncio

from tests.e2e import apirights
from tests.e2e.canaries import assert_nothing_secret_was_told
from tests.e2e.objects import CA, KCM, MCM, Json
from tests.e2e.overrides import entry
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, config, dependent
from tests.e2e.stage import Stage

COUNTS = {KCM: 3, MCM: 2, CA: 1}
# One level for each, and time for something to happen between two writes.
SLOW = config(
    [
        dependent(CA, down=0, up=2, up_delay="1s"),
        dependent(MCM, down=1, up=1, down_delay="5s", up_delay="1s"),
        dependent(KCM, down=2, up=0, down_delay="5s"),
    ],
    interval="5s",
)
# The Lease of a process that was killed has to run out before the next one leads.
SHORT_LEASE = {
    "leader_elect_lease_duration": "4s",
    "leader_elect_renew_deadline": "3s",
    "leader_elect_retry_period": "1s",
}


async def begun(stage: Stage, prober: Program) -> str:
    """A manual scaling run to 0, at its first step; returns its id."""
    order = {"direction": "down", "reason": "a test of the etcd", "hold": "10m"}
    answer = await prober.api.post(f"shoots/{stage.shoot.namespace}/scale", order)
    assert answer.status == 202, answer
    name = answer.body["id"]
    assert answer.headers["Location"] == f"/api/v1/operations/{name}"
    await stage.until_down(CA, within=10)
    hold = await entry(stage, "hold")
    assert (hold["operation"], hold["direction"], hold["done"]) == (name, "down", False)
    return str(name)


async def carried_on(stage: Stage, prober: Program, name: str) -> None:
    """This instance ends the scaling run of another one; the hold stays, and holds."""

    async def ended() -> Json | None:
        answer = await prober.api.get(f"operations/{name}")
        return answer.body if answer.body.get("phase") == "Done" else None

    operation = await eventually(ended, "the scaling run has ended", within=45, every=0.25) or {}
    assert operation["carriedOn"] is True
    assert (operation["trigger"], operation["direction"]) == ("manual", "down")
    assert operation["reason"] == "a test of the etcd"
    down = await stage.until_down(within=1)
    assert {each: state.saved for each, state in down.items()} == {
        each: str(count) for each, count in COUNTS.items()
    }
    assert [each.name for each in stage.writes()] == [CA, MCM, KCM], "each once"
    hold = await eventually(lambda: finished(stage), "the hold is done", within=5)
    assert hold["operation"] == name
    await asyncio.sleep(7)  # more than one look at nodes that are all well
    assert len(stage.writes()) == len(COUNTS), "held"


async def finished(stage: Stage) -> Json:
    hold = await entry(stage, "hold")
    return hold if hold.get("done") else {}


async def comes_back(stage: Stage, prober: Program) -> None:
    """The end of the hold lets the verdict act."""
    answer = await prober.api.delete(f"shoots/{stage.shoot.namespace}/hold")
    assert answer.status == 204
    up = await stage.until_up(within=40)
    assert {name: each.replicas for name, each in up.items()} == COUNTS


@scenario()
async def test_a_manual_run_goes_on_under_its_id_after_kill_9_in_its_middle(stage: Stage) -> None:
    await apirights.furnish(stage)
    await stage.shoot.build(nodes=5, grace=16, duration=16, replicas=COUNTS)
    prober = await stage.healthy(SLOW, **SHORT_LEASE)
    name = await begun(stage, prober)
    await prober.kill()
    await prober.start()
    await eventually(prober.leads, "it leads again", within=15)
    await carried_on(stage, prober, name)
    await comes_back(stage, prober)
    await assert_nothing_secret_was_told(stage)


@scenario()
async def test_a_manual_run_goes_on_under_its_id_with_the_next_leader(stage: Stage) -> None:
    await apirights.furnish(stage)
    await stage.shoot.build(nodes=5, grace=16, duration=16, replicas=COUNTS)
    leader = await stage.healthy(SLOW)
    standby = await stage.start(SLOW)
    assert await leader.leads()
    refused = await standby.api.post(
        f"shoots/{stage.shoot.namespace}/scale", {"direction": "down", "reason": "not here"}
    )
    assert (refused.status, refused.problem) == (503, "not-the-leader")
    name = await begun(stage, leader)
    assert await leader.terminate(within=3) == 0
    assert (await stage.shoot.replicas())[KCM] == COUNTS[KCM], "ended between two writes"
    await eventually(standby.leads, "the standby leads", within=8)
    await carried_on(stage, standby, name)
    await comes_back(stage, standby)
    await assert_nothing_secret_was_told(stage)
