"""ScaleRequests that another process finds half done, which goes on with them.

Every leader in a seed carries out the ScaleRequests of all shoots that it knows: each scenario has a seed of its own.
"""

import asyncio

from tests.e2e import objects
from tests.e2e.canaries import assert_nothing_secret_was_told
from tests.e2e.objects import CA, KCM, MCM, Json
from tests.e2e.parallel import scenario
from tests.e2e.people import Kubectl, found, until_phase
from tests.e2e.processes import eventually
from tests.e2e.program import SHORT_LEASE, Program, config, dependent
from tests.e2e.stage import Stage
from tests.e2e.worlds import own_seed

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
WHY = "a test of the etcd"


async def furnished(stage: Stage) -> Kubectl:
    await stage.furnish()
    await stage.shoot.build(nodes=5, grace=16, duration=16, replicas=COUNTS)
    return Kubectl(stage, stage.shoot.namespace)


def phase_is(phase: str) -> str:
    return f"--for=jsonpath={{.status.phase}}={phase}"


async def until_first_step_is_shown(stage: Stage, name: str) -> Json:
    """The status follows the run, a second later at most; returns the ScaleRequest."""

    async def is_so() -> Json | None:
        one = await found(stage, "scalerequests", name) or {}
        steps = (one.get("status") or {}).get("steps") or [{}]
        return one if steps[0].get("phase") == "Done" else None

    return await eventually(is_so, f"the first step of {name} is shown", within=3, every=0.1) or {}


async def carried_on(stage: Stage, prober: Program, begun: Json) -> Json:
    """This instance ends the scaling run of another one; the hold stays, and holds. Returns the ScaleRequest."""
    uid, name = begun["metadata"]["uid"], begun["metadata"]["name"]
    request = await until_phase(stage, name, "Succeeded", within=45)
    operation = (await prober.api.get(f"operations/{uid}")).body
    assert (operation["phase"], operation["carriedOn"]) == ("Done", True)
    assert (operation["trigger"], operation["direction"]) == ("manual", "down")
    assert operation["reason"] == WHY
    down = await stage.until_down(within=1)
    assert {each: state.saved for each, state in down.items()} == {
        each: str(count) for each, count in COUNTS.items()
    }
    assert [each.name for each in stage.writes()] == [CA, MCM, KCM], "each once"
    status = request["status"]
    assert status["startedAt"] == begun["status"]["startedAt"]
    assert status["observedBy"] != begun["status"]["observedBy"], "another one has ended it"
    assert [each["before"] for each in status["steps"]] == [COUNTS[n] for n in (CA, MCM, KCM)]
    await asyncio.sleep(7)  # more than one look at nodes that are all well
    assert len(stage.writes()) == len(COUNTS), "held"
    return request


async def comes_back(stage: Stage, prober: Program) -> None:
    """The end of the hold lets the verdict act."""
    answer = await prober.api.delete(f"shoots/{stage.shoot.namespace}/hold")
    assert answer.status == 204
    up = await stage.until_up(within=40)
    assert {name: each.replicas for name, each in up.items()} == COUNTS


@scenario()
async def test_the_next_leader_goes_on_with_a_request_after_kill_9_in_its_middle(
    outer: Stage,
) -> None:
    """Made with kubectl, and waited for with kubectl, which notices nothing of it."""
    async with own_seed(outer) as world:
        stage = world.stage
        kubectl = await furnished(stage)
        leader = await stage.healthy(SLOW, **SHORT_LEASE)
        standby = await stage.start(SLOW, **SHORT_LEASE)
        assert await leader.leads()
        await kubectl.create(objects.scale_request("down", "Down", reason=WHY, hold="10m"))
        waiting = asyncio.create_task(
            kubectl("wait", "scalerequest/down", phase_is("Succeeded"), "--timeout=55s")
        )
        await stage.until_down(CA, within=10)
        begun = await until_first_step_is_shown(stage, "down")
        await leader.kill()
        await eventually(standby.leads, "the standby leads", within=15)
        await carried_on(stage, standby, begun)
        assert "condition met" in await waiting
        await comes_back(stage, standby)
        await assert_nothing_secret_was_told(stage)
