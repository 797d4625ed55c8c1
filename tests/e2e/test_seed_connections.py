"""The way from the program to its seed: connections stall, nothing gets through, or too little is allowed.

What each of them must not do to the shoots, and what must have happened when, is in docs/failures.md.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.e2e.audit import Request
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import quick
from tests.e2e.proxies import TcpProxy
from tests.e2e.stage import Stage
from tests.e2e.test_real_seed import resize
from tests.e2e.worlds import watches_are_well

WITHOUT_ELECTION = {"enable_leader_election": "false"}
ONE_EACH = ("clusters", "machines", "secrets", "pauses", "scalerequests")
WATCHES = Counter({"deployments": 3, **dict.fromkeys(ONE_EACH, 1)})
STALE = 90.0


@asynccontextmanager
async def proxied(stage: Stage) -> AsyncIterator[TcpProxy]:
    """Programs that are started from now on reach the seed through a proxy."""
    way = TcpProxy(stage.seed.port)
    await way.start()
    stage.way_to_seed = f"https://127.0.0.1:{way.port}"
    try:
        yield way
    finally:
        await way.stop()


async def opened_anew(stage: Stage, since: float) -> float:
    """Waits until all watches were opened anew; returns how long that took."""

    async def are() -> bool:
        asked = stage.requests_to_seed(since)
        return Counter(each.resource for each in asked if each.verb == "watch") >= WATCHES

    await eventually(are, "all watches were opened anew", within=STALE + since - time.time())
    return time.time() - since


@scenario(limit=300)
async def test_stalled_watches_are_opened_anew_within_90_s_and_hide_no_outage(stage: Stage) -> None:
    """Every connection that is open to the seed passes nothing on any more, and nobody closes it; new ones work.

    The leader stays leader. A count that changed since is not lost: the write is refused, and decided anew.
    """
    async with proxied(stage) as way:
        await stage.shoot.build(grace=16, duration=16)
        prober = await stage.healthy(quick())
        await asyncio.sleep(8)
        stalled = time.time()
        way.stall()
        await resize(stage, stage.shoot.namespace, KCM, 2)
        down = await stage.outage(within=40)
        assert {name: each.saved for name, each in down.items()} == {KCM: "2", MCM: "1", CA: "1"}
        late = [each.at - stage.shoot.known_at() for each in stage.writes()]
        stage.figure(f"stalled: first write {late[0]:.1f} s, last {late[-1]:.1f} s after")
        assert late[-1] <= 5
        restored = stage.shoot.kubelets.path.restore()
        up = await stage.until_up(within=60)
        stage.figure(f"stalled: all back {time.time() - restored:.0f} s after the outage")
        assert up[KCM].replicas == 2
        took = await opened_anew(stage, stalled)
        stage.figure(f"stalled: watches opened anew after {took:.0f} s")
        await eventually(lambda: watches_are_well(prober), "watches go on", within=5)
        assert await prober.leads()


def asked_before_the_first_write(stage: Stage, since: float) -> list[Request]:
    """What the seed answered from then on, until it was written to."""
    first = stage.writes(since)[0].at
    return [each for each in stage.requests_to_seed(since) if each.code == 200 and each.at < first]


@scenario(limit=300)
async def test_an_outage_while_the_seed_is_out_of_reach_is_protected_when_it_is_back(
    stage: Stage,
) -> None:
    """Nothing gets through to the seed for 100 s and more, on new connections neither; without election.

    What cannot be written is not; after 90 s it is HOLD, which ends the scaling run. Once the way is open it is
    protected within 10 s, and the watches are back within 45 s."""
    async with proxied(stage) as way:
        await stage.shoot.build(grace=16, duration=16)
        prober = await stage.healthy(quick(), **WITHOUT_ELECTION)
        await asyncio.sleep(8)
        way.stall(new=True)
        await asyncio.sleep(70)
        stage.shoot.kubelets.path.cut()
        await asyncio.sleep(STALE - 70 + 10)
        found = await stage.until_state(prober, "Failing", within=30)
        assert found["reason"] == "SeedStale"
        stage.assert_nothing_was_scaled()
        back = time.time()
        await way.heal()
        await stage.until_down(within=20)
        first = stage.writes()[0].at - back
        stage.figure(f"seed out of reach: first write {first:.1f} s after it was back")
        assert first <= 10
        heard_of = {each.resource for each in asked_before_the_first_write(stage, back)}
        assert heard_of >= {"clusters", "secrets", "machines"}, "by a watch or live, since then"
        await eventually(lambda: watches_are_well(prober), "watches go on", within=45)
        stage.figure(f"seed out of reach: watches back {time.time() - back:.1f} s after")
