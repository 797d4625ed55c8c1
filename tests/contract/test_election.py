"""Who leads, by a Lease: with several candidates on one cluster."""

import asyncio
from contextlib import asynccontextmanager, suppress

from app.core.errors import LeadershipLost
from tests.contract.arena import REAL_TIME, TIMES, until

pytestmark = REAL_TIME


@asynccontextmanager
async def running(candidate):
    """A candidate that runs; ended as by kill: nothing is given back."""
    task = asyncio.create_task(candidate.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, LeadershipLost):
            await task


async def test_of_many_that_start_at_once_one_leads(arena):
    several = [arena.candidate(f"number-{n}") for n in range(5)]
    tasks = [asyncio.create_task(each.run()) for each in several]
    await until(lambda: any(each.leading for each in several), "one leads")
    began = arena.clock.now()
    leaders = set()
    while arena.clock.now() < began + 3 * TIMES.retry_period:
        leaders.add(tuple(each.leading for each in several))
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [sum(each) for each in leaders] == [1]


async def test_a_leader_makes_a_lease_again_that_somebody_deleted(arena):
    one = arena.candidate("one")
    async with running(one):
        await until(lambda: one.leading, "it leads")
        before = await arena.lease()
        await arena.drop_lease()
        async with asyncio.timeout(5):
            while (after := await arena.lease()) is None:  # noqa: ASYNC110  no event tells of it
                await asyncio.sleep(0.01)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"]["holderIdentity"] == "one"
        assert one.leading
