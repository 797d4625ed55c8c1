"""A process that is stopped for longer than any of its time limits, and goes on as if nothing had been.

All that it knows is as old as it was away: it must look before it acts, and ages count from that look. How long it is
away is 90 s: longer than watches are believed.
"""

import asyncio
import time

from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.parallel import scenario
from tests.e2e.program import Program, config, dependent, quick
from tests.e2e.stage import Stage

FROZEN = 90.0
LIMIT = FROZEN + 180
WITHOUT_ELECTION = {"enable_leader_election": "false"}


async def frozen_into_an_outage(stage: Stage, prober: Program) -> float:
    """The nodes are cut off 30 s before it is woken; when that was."""
    prober.child.pause()
    await asyncio.sleep(FROZEN - 30)
    stage.shoot.kubelets.path.cut()
    await asyncio.sleep(30)
    prober.child.resume()
    return time.time()


@scenario(limit=LIMIT)
async def test_a_frozen_leader_ends_when_it_is_woken_and_writes_nothing(stage: Stage) -> None:
    """The nodes were cut meanwhile, and nobody else took the Lease: it is over all the same.

    The process ends with 1 within 5 s. Started again, it learns the leases anew, and protects.
    """
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    woken = await frozen_into_an_outage(stage, prober)
    assert await prober.child.ended(within=5) == 1
    stage.figure(f"frozen for {FROZEN:g} s, leading: ended {time.time() - woken:.1f} s after")
    stage.assert_nothing_was_scaled()
    started = time.time()
    await prober.start()
    await stage.until_down(within=30)
    first = stage.writes()[0].at - started
    stage.figure(f"first write {first:.1f} s after the start of the next one, in mid-outage")


@scenario(limit=LIMIT)
async def test_after_a_freeze_the_ages_of_the_leases_count_from_the_first_probe(
    stage: Stage,
) -> None:
    """Without election. The nodes were cut for 30 s when it woke: it cannot know that they were, and not it.

    An expiry time after its first probe, and not before, it protects.
    """
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick(), **WITHOUT_ELECTION)
    await asyncio.sleep(8)
    woken = await frozen_into_an_outage(stage, prober)
    await stage.until_down(within=30)
    first = stage.writes()[0].at - woken
    stage.figure(f"frozen for {FROZEN:g} s into an outage: first write {first:.1f} s after")
    assert stage.shoot.expiry <= first <= stage.shoot.expiry + 4


# Time to freeze the process between its writes.
SLOWLY = config(
    [
        dependent(CA, down=0, up=2),
        dependent(MCM, down=1, up=1, down_delay="4s"),
        dependent(KCM, down=2, up=0, down_delay="4s"),
    ],
    interval="5s",
)


@scenario(limit=LIMIT)
async def test_a_scale_down_that_was_frozen_does_not_go_on_when_the_outage_is_over(
    stage: Stage,
) -> None:
    """Without election. Frozen after the first of three writes; the nodes came back meanwhile.

    None of the other two is written, and the first is undone.
    """
    counts = {KCM: 3, MCM: 2, CA: 1}
    await stage.shoot.build(grace=16, duration=16, replicas=counts)
    prober = await stage.healthy(SLOWLY, **WITHOUT_ELECTION)
    stage.shoot.kubelets.path.cut()
    await stage.until_down(CA, within=40)
    prober.child.pause()
    assert await stage.shoot.replicas() == {**counts, CA: 0}, "frozen between two writes"
    await asyncio.sleep(FROZEN - 20)
    stage.shoot.kubelets.path.restore()
    await asyncio.sleep(20)
    woken = time.time()
    prober.child.resume()
    state = await stage.until_up(within=60)
    stage.figure(
        f"frozen for {FROZEN:g} s in a scale-down: undone {time.time() - woken:.1f} s after"
    )
    assert {name: each.replicas for name, each in state.items()} == counts
    assert [each.name for each in stage.writes(woken)] == [CA]
