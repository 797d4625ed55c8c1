"""The Lease of an election on the simulated seed: the real election runs over it."""

import random

import pytest

from app.core.errors import Conflict, LeadershipLost, NotFound, Unreachable
from app.core.kube.election import ElectionTimes, LeaseElection
from app.core.kube.election_lease import LeaseTerm
from app.core.metrics import Metrics
from app.simulation.leases import SimulatedLeaseStore
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from tests.simulation.worlds import simulated

NAME = ("garden", "leader")


def a_store(world):
    return SimulatedLeaseStore(world.parts.api, world.store, world.clock, *NAME)


def a_term(world, holder="a", transitions=0):
    return LeaseTerm(holder, 15.0, transitions, world.clock.now(), acquired=True)


def an_election(world, tasks, identity):
    election = LeaseElection(
        a_store(world),
        identity,
        ElectionTimes(),
        world.clock,
        Metrics(),
        random.Random(identity),
    )
    lost = []

    async def run():
        try:
            await election.run()
        except LeadershipLost as error:
            lost.append(str(error))

    return election, tasks.once(run, identity), lost


@simulated()
async def test_what_was_written_is_read_back(world):
    store = a_store(world)
    assert await store.read(1.0) is None
    made = await store.create(a_term(world), 1.0)
    assert (made.holder, made.duration, made.transitions) == ("a", 15.0, 0)
    assert await store.read(1.0) == made


@simulated()
async def test_only_one_of_two_makes_the_lease(world):
    store = a_store(world)
    await store.create(a_term(world), 1.0)
    with pytest.raises(Conflict):
        await store.create(a_term(world, "b"), 1.0)


@simulated()
async def test_a_term_over_a_lease_that_has_changed_is_a_conflict(world):
    store = a_store(world)
    first = await store.create(a_term(world), 1.0)
    await store.replace(first, a_term(world, "b", 1), 1.0)
    with pytest.raises(Conflict):
        await store.replace(first, a_term(world), 1.0)
    assert (await store.read(1.0)).holder == "b"


@simulated()
async def test_a_lease_that_is_gone_cannot_be_renewed(world):
    store = a_store(world)
    first = await store.create(a_term(world), 1.0)
    world.store.delete(ObjectKey("Lease", *NAME))
    with pytest.raises(NotFound):
        await store.replace(first, a_term(world), 1.0)


@simulated()
async def test_it_suffers_what_the_seed_suffers(world):
    with world.faults.seed_trouble(Trouble(silent=True)), pytest.raises(Unreachable):
        await a_store(world).read(1.0)


@simulated()
async def test_one_leads_and_the_other_takes_over_when_it_falls_silent(world, clock, tasks):
    first, running, _ = an_election(world, tasks, "a")
    await clock.sleep(5)
    second, _, _ = an_election(world, tasks, "b")
    await clock.sleep(30)
    assert (first.leading, second.leading) == (True, False)
    running.cancel()
    await clock.sleep(20)
    assert second.leading
    assert not first.leading


@simulated()
async def test_a_leader_that_cannot_write_the_lease_leads_no_longer(world, clock, tasks):
    election, _, lost = an_election(world, tasks, "a")
    await clock.sleep(5)
    assert election.leading
    with world.faults.seed_trouble(Trouble(refused=True, verbs=frozenset({"update"}))):
        await clock.sleep(12)
        assert not election.leading
    assert lost
