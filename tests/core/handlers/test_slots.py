"""The places of runs: on virtual time, without a network."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.handlers.handlers import RunSlots


async def held(places, namespace, seconds, done=None):
    async with places.place(namespace):
        await asyncio.sleep(seconds)
    if done is not None:
        done.append(namespace)


async def test_no_more_run_at_once_than_there_are_places():
    places = RunSlots(4, 1)
    most = 0

    async def one(namespace):
        nonlocal most
        async with places.place(namespace):
            most = max(most, places.used)
            await asyncio.sleep(1)

    await asyncio.gather(*(one(f"ns{n}") for n in range(20)))
    assert (most, places.used) == (4, 0)


async def test_one_namespace_leaves_the_spare_places_to_others():
    places = RunSlots(4, 1)
    slow = [asyncio.ensure_future(held(places, "slow", 100)) for _ in range(10)]
    await asyncio.sleep(1)
    assert places.used == 3
    async with asyncio.timeout(1):
        await held(places, "other", 0)
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert places.used == 0


async def test_who_has_least_is_next_however_long_others_wait():
    places, done = RunSlots(4, 0), list[str]()
    jobs = [
        asyncio.ensure_future(held(places, name, seconds, done))
        for name, seconds in (
            *(("greedy", 10), ("greedy", 20), ("greedy", 20), ("modest", 20)),
            *(("greedy", 1), ("modest", 1)),  # these wait
        )
    ]
    await asyncio.gather(*jobs)
    assert done[:3] == ["greedy", "modest", "greedy"]


async def test_to_wait_costs_the_same_however_many_wait_already():
    class Namespace(str):
        __slots__ = ()
        lookups = 0

        def __hash__(self):
            Namespace.lookups += 1
            return super().__hash__()

    places = RunSlots(1, 0)
    costs = []
    async with places.place("a"):
        jobs = []
        for n in range(100):
            jobs.append(asyncio.ensure_future(held(places, Namespace(f"ns{n}"), 0)))
            before = Namespace.lookups
            await asyncio.sleep(0)
            costs.append(Namespace.lookups - before)
    await asyncio.gather(*jobs)
    assert max(costs) == min(costs)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(1, 8), st.integers(0, 4)),
        max_size=20,
    )
)
def test_whatever_happens_every_place_is_free_in_the_end(jobs):
    async def play():
        places = RunSlots(3, 1)

        async def one(namespace, start, patience, work):
            await asyncio.sleep(start / 1000)
            try:
                async with asyncio.timeout(patience / 1000), places.place(namespace):
                    assert places.used <= 3
                    await asyncio.sleep(work / 1000)
            except TimeoutError:
                pass

        await asyncio.gather(*(one(*job) for job in jobs))
        assert places.used == 0
        assert not places._waiting
        assert not places._taken

    asyncio.run(play())
