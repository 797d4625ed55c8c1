"""Who leads, whatever happens to the Lease; on virtual time, against a Lease in memory."""

import asyncio
import json
import math
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from app.core.clock import Clock
from app.core.errors import Conflict, Forbidden, LeadershipLost, NotFound, ServerFault, Unreachable
from app.core.kube.election import ElectionTimes, LeaseElection, LeaseStore
from app.core.metrics import Metrics
from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.ports import Preparation
from tests.core.kube.server import until

LONG_AGO = "2020-01-01T00:00:00.000000Z"


class Lease:
    """The Lease as the API server has it; all candidates see this one."""

    name = "dwd-prober-leader-election"

    def __init__(self, spec=None):
        self.spec = spec
        self.version = 1
        self.writes = []
        self.clock = Clock.of_loop()
        self.written: Any = self.clock.now()
        """None: the API server does not say."""
        self.server_is_ahead = 0.0
        """Seconds by which the API server's clock is ahead when it says how late it is."""

    def body(self):
        stamps = [] if self.written is None else [{"time": rfc3339(math.floor(self.written))}]
        meta = {"resourceVersion": str(self.version), "managedFields": stamps}
        return json.dumps({"kind": "Lease", "metadata": meta, "spec": self.spec}).encode()

    def write(self, spec):
        self.version += 1
        self.spec = spec
        self.writes.append(spec)
        self.written = None if self.written is None else self.clock.now()


class Path:
    """One candidate's way to the API server of the Lease, with the faults that a test puts in it."""

    def __init__(self, lease):
        self.lease = lease
        self.server_time = None
        self.fault = None
        """An exception: raised. 'hang': no answer. 'lost': the write is made, its answer lost."""
        self.slow = 0.0, 0.0, 0.0
        """Seconds until a renewal is made, from then to its answer, and until the answer to a read."""
        self.patience = math.inf
        """Seconds after which the client gives up the answer to a renewal."""
        self.asked: list[Any] = []
        self.fresh: list[bool] = []
        """Which of the requests go over a new connection."""

    async def call(self, request, decode, _budget, *, new_connection):
        self.asked.append(request)
        self.fresh.append(new_connection)
        if isinstance(self.fault, Exception):
            raise self.fault
        if self.fault == "hang":
            await asyncio.sleep(request.within)
            raise Unreachable("no answer")
        answer = {"GET": self.read, "POST": self.create, "PUT": self.replace}[request.method]
        body, now = await answer(request.body)
        self.server_time = math.floor(now + self.lease.server_is_ahead) + 0.5
        return decode(body)

    def _now(self):
        return self.lease.body(), self.lease.clock.now()

    async def read(self, _):
        if self.lease.spec is None:
            raise NotFound("gone")
        found = self._now()
        await asyncio.sleep(self.slow[2])
        return found

    async def create(self, wanted):
        if self.lease.spec is not None:
            raise Conflict("exists")
        self.lease.write(wanted["spec"])
        return self._now()

    async def replace(self, wanted):
        if self.lease.spec is None:
            raise NotFound("gone")
        await asyncio.sleep(self.slow[0])
        if wanted["metadata"]["resourceVersion"] != str(self.lease.version):
            raise Conflict("newer")
        self.lease.write(wanted["spec"])
        written = self._now()
        await asyncio.sleep(min(self.slow[1], self.patience))
        if self.slow[1] > self.patience:
            raise Unreachable("no answer in time")
        if self.fault == "lost":
            self.fault = None
            raise Unreachable("the answer got lost")
        return written


class Candidate:
    def __init__(self, lease, identity="a", times=None, *, behind=None):
        self.lease, self.path = lease, cast("Any", Path(lease))
        self.metrics = Metrics()
        self.clock = Clock.of_loop()
        self.restored: list[float] = []
        self.store = LeaseStore(self.path, "garden", lease.name)
        self.election = LeaseElection(
            self.store,
            identity,
            times or ElectionTimes(),
            self.clock,
            self.metrics,
            Random(identity),
            behind=behind,
            restored=lambda: self.restored.append(self.clock.now()),
        )
        self.task: Any = None
        self.heard: list[tuple[bool, bool]] = []
        self.election.subscribe(
            lambda: self.heard.append((self.election.leading, self.election.may_probe))
        )

    @property
    def leading(self):
        return self.election.leading

    @property
    def may_probe(self):
        return self.election.may_probe

    @property
    def shown(self):
        """What /metrics says of who leads."""
        labels = {"name": self.lease.name}
        return self.metrics.registry.get_sample_value("leader_election_master_status", labels)


@asynccontextmanager
async def running(candidate):
    task = asyncio.ensure_future(candidate.election.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def alone(spec=None):
    """One candidate for a Lease, which runs."""
    candidate = Candidate(Lease(spec))
    async with running(candidate) as candidate.task:
        yield candidate


async def test_the_first_one_makes_the_lease_and_leads():
    lease = Lease()
    one = Candidate(lease)
    assert (one.leading, one.may_probe, one.shown) == (False, False, 0), "nothing is known yet"
    async with running(one):
        await asyncio.sleep(1)
        assert one.leading
        assert one.may_probe
        assert one.heard == [(True, True)]
        within = [each.within for each in one.path.asked]
        assert within == [3, 5], "a read may hang; a write has half the renew deadline"
        assert one.election.leader_identity == "a"
        assert lease.spec["holderIdentity"] == "a"
        assert lease.spec["leaseTransitions"] == 0
        assert lease.spec["leaseDurationSeconds"] == 15
        assert lease.spec["renewTime"] == rfc3339(one.clock.now() - 1, micro=True)
        assert one.shown == 1
    assert one.shown == 0


async def test_a_healthy_leader_renews_every_retry_period_for_hours():
    async with alone() as one:
        await asyncio.sleep(3600)
        assert one.leading
        assert not one.task.done()
        assert 1700 < len(one.lease.writes) < 1810
        assert one.lease.spec["leaseTransitions"] == 0
        assert one.lease.spec["acquireTime"] == one.lease.writes[0]["acquireTime"]


async def test_the_standby_follows_a_leader_that_was_killed_and_probes_before_it_leads():
    async with leader_and_standby() as (one, two):
        one.task.cancel()
        killed = two.clock.now()
        await until(lambda: two.may_probe, within=60)
        assert not two.leading
        assert two.clock.now() - killed <= 7.5  # a third of 15 s, and one look at the Lease
        assert two.shown == 0
        await until(lambda: two.leading, within=60)
        assert 12 < two.clock.now() - killed < 18
        assert two.lease.spec["leaseTransitions"] == 1
        assert two.lease.spec["acquireTime"] == two.lease.spec["renewTime"], "a term of its own"
        assert two.heard == [(False, True), (True, True)]


async def test_a_restored_storage_is_told_by_leader_and_standby_once_and_nobody_else_leads():
    async with leader_and_standby() as (one, two):
        await asyncio.sleep(60)
        one.lease.version = 5
        await asyncio.sleep(60)
        assert (len(one.restored), len(two.restored), one.leading) == (1, 1, True)


async def test_a_standby_stops_looking_when_the_lease_moves_again():
    async with leader_and_standby() as (one, two):
        renewals = len(two.lease.writes)
        await until(lambda: len(two.lease.writes) > renewals)
        one.path.fault = ServerFault("500")
        await asyncio.sleep(7.7)
        assert two.may_probe
        assert one.leading
        one.path.fault = None
        await asyncio.sleep(5)
        assert not two.may_probe
        assert two.heard == [(False, True), (False, False)]


async def test_a_standby_asks_once_in_a_retry_period_even_if_others_are_quicker_each_time():
    """Up to a fifth of the period sooner, at random, so that two do not collide for ever."""
    one = Candidate(Lease({}))

    async def conflict(_wanted):
        raise Conflict("newer")

    one.path.replace = conflict
    async with running(one):
        await asyncio.sleep(300)
    reads = sum(each.method == "GET" for each in one.path.asked)
    assert 300 / 2 < reads < 300 / 1.6
    assert len(one.path.asked) == 2 * reads


@pytest.mark.parametrize(
    "fault", [ServerFault("500"), Unreachable("refused"), Forbidden("403"), "hang"], ids=str
)
async def test_a_leader_that_cannot_renew_stops_at_the_deadline_and_ends(fault):
    async with alone() as one:
        await asyncio.sleep(20.5)
        last = renewed(one.lease)
        one.path.fault = fault
        while one.leading:
            assert one.clock.now() - last < 10
            await asyncio.sleep(0.01)
        assert one.clock.now() - last == pytest.approx(10, abs=0.05)
        with pytest.raises(LeadershipLost, match="not be renewed within the renew deadline"):
            await one.task
        assert one.heard[-1][0] is False
        in_time = "the Lease could not be renewed in time"
        assert one.election.trouble == (in_time if fault == "hang" else str(fault))


async def test_leading_ends_at_the_deadline_even_if_our_loop_does_not_run():
    async with alone() as one:
        await asyncio.sleep(1)
        one.path.fault = "hang"
        one.path.call = lambda *_, **__: asyncio.sleep(10**6)  # not even a time limit ends it
        assert one.leading
        await asyncio.sleep(8.9)
        assert one.leading
        await asyncio.sleep(0.2)
        assert not one.leading
        one.task.cancel()


async def test_a_short_disturbance_costs_nothing(lines):
    async with alone() as one:
        await asyncio.sleep(20)
        for fault in (Unreachable("cut"), "hang"):
            one.path.fault = fault
            await asyncio.sleep(4)
            one.path.fault = None
            await asyncio.sleep(10)
        assert one.leading
        assert not one.task.done()
        assert one.election.trouble is None
        assert one.heard == [(True, True)]
    assert [each["log_level"] for each in lines if "error" in each] == ["warning"]


async def test_a_renewal_whose_answer_was_lost_is_recognised_as_our_own():
    async with alone() as one:
        await asyncio.sleep(5)
        one.path.fault = "lost"
        await asyncio.sleep(30)
        assert one.leading
        assert not one.task.done()
        assert one.lease.spec["leaseTransitions"] == 0


NEVER = 1e6


def renewed(lease):
    return parse_rfc3339(lease.spec["renewTime"]) or 0.0


@pytest.mark.parametrize(
    ("slow", "patience"),
    [
        pytest.param((0, 8, 2), 10, id="the Lease shows it before its answer comes"),
        pytest.param((0, 8, 2.5), 3, id="the Lease shows it after its answer was given up"),
        pytest.param((4.6, 0.1, 2), 10, id="its answer comes, and the Lease did not show it"),
        pytest.param((0, 4, NEVER), 10, id="its answer comes, and a read has none"),
    ],
)
async def test_a_leader_on_a_slow_seed_leads_on_as_long_as_its_renewals_arrive(slow, patience):
    async with alone() as one:
        await asyncio.sleep(5)
        one.path.slow, one.path.patience = slow, patience
        for _ in range(600):
            await asyncio.sleep(1)
            assert one.leading


async def test_a_renewal_that_only_the_lease_shows_counts_from_its_begin():
    async with alone() as one:
        await asyncio.sleep(5)
        one.path.slow = 0, NEVER, 2
        await asyncio.sleep(60)
        one.path.slow = NEVER, NEVER, 2
        await asyncio.wait([one.task], timeout=20)
        assert not one.leading
        assert one.clock.now() - renewed(one.lease) == pytest.approx(10, abs=0.05)


async def test_a_renewal_that_a_later_attempt_finds_counts_from_its_own_begin():
    async with alone() as one:
        await asyncio.sleep(5)
        one.path.slow = 0, NEVER, NEVER
        await asyncio.sleep(2.5)
        arrived = renewed(one.lease)
        await asyncio.sleep(5)
        one.path.slow, read = (0, 0, 0), one.path.read

        async def read_for_the_last_time(_):
            found = await read(_)
            one.path.fault = "hang"
            return found

        # the next attempt meets a conflict, and reads the Lease
        one.path.read = read_for_the_last_time
        await asyncio.wait([one.task], timeout=30)
        assert renewed(one.lease) == arrived
        assert one.clock.now() - arrived == pytest.approx(10, abs=0.05)


async def test_a_lease_that_is_gone_when_it_is_read_is_made_again():
    async with alone() as one:
        await asyncio.sleep(5)
        one.path.slow = NEVER, NEVER, 1
        await asyncio.sleep(1.5)
        one.lease.spec = None
        await asyncio.sleep(2)
        one.path.slow = 0, 0, 0
        await asyncio.sleep(5)
        assert one.leading
        assert one.lease.spec["holderIdentity"] == "a"


async def test_no_request_outlives_its_attempt():
    async with alone() as one:
        await asyncio.sleep(5)
        one.path.slow = 0, 8, 2
        await asyncio.sleep(60)
        one.path.slow = 0, 0, 0
        await asyncio.sleep(3)
        assert asyncio.all_tasks() == {asyncio.current_task(), one.task}


async def test_what_somebody_else_writes_in_our_name_is_no_renewal():
    async with alone() as one:
        await asyncio.sleep(5)
        last = renewed(one.lease)
        with_ours = one.path.replace

        async def replace_after_an_edit(wanted):
            ahead = rfc3339(one.clock.now() + 3600, micro=True)
            one.lease.write(one.lease.spec | {"renewTime": ahead})
            return await with_ours(wanted)

        one.path.replace = replace_after_an_edit
        await asyncio.wait([one.task], timeout=20)
        assert one.clock.now() - last == pytest.approx(10, abs=0.05)


@pytest.mark.parametrize("holder", ["usurper", ""])
@pytest.mark.parametrize(
    ("slow", "within"),
    [((0, 0, 0), 2.1), ((NEVER, NEVER, 2), 2 + 1 + 2.1)],
    ids=["at once", "though our renewal has no answer"],
)
async def test_a_lease_that_is_not_ours_any_more_ends_leadership(slow, within, holder):
    async with alone() as one:
        await asyncio.sleep(5)
        one.path.slow = slow
        one.lease.write(one.lease.spec | {"holderIdentity": holder})
        await asyncio.sleep(within)
        assert not one.leading
        with pytest.raises(LeadershipLost, match=f"^{holder or 'nobody'} holds the Lease"):
            await one.task


@pytest.mark.parametrize("known", [Preparation.LISTED, Preparation.COMPLETE])
async def test_a_clean_stop_gives_the_lease_back_and_the_next_one_need_not_wait(known):
    """Not even to know all: while a leader renews no standby looks, and none of them can know more."""
    async with leader_and_standby() as (one, two):
        two.election.prepare(lambda: known)
        kept = {"leaseTransitions": 7, "strategy": "of others"}
        one.lease.write(one.lease.spec | kept)
        await asyncio.sleep(5)
        stopped = one.clock.now()
        await one.election.release()
        assert not one.leading
        given_back = kept | {"holderIdentity": "", "leaseDurationSeconds": 1}
        assert given_back.items() <= two.lease.spec.items()
        await until(lambda: two.leading, within=60)
        assert two.clock.now() - stopped <= 2.05


@pytest.mark.parametrize(("arrives", "left"), [(None, ""), ("a", ""), ("other", "other")])
async def test_release_works_when_the_loop_was_cancelled_and_a_write_was_on_its_way(arrives, left):
    async with alone() as one:
        await asyncio.sleep(5)
    assert not one.leading
    if arrives:
        one.lease.write(one.lease.spec | {"holderIdentity": arrives})
    await one.election.release()
    assert one.lease.spec["holderIdentity"] == left


@pytest.mark.parametrize("fault", ["hang", Unreachable("refused"), None], ids=str)
async def test_release_takes_a_second_at_most_and_raises_nothing(fault):
    async with alone() as one:
        await asyncio.sleep(5)
    one.path.fault, one.path.slow = fault, (0.6, 0.0, 0.6)
    one.lease.write(dict(one.lease.spec))
    before = one.clock.now()
    await one.election.release()
    assert one.clock.now() - before <= 1.01


@pytest.mark.parametrize("how", ["cancelled", "lost"])
async def test_a_lease_whose_taking_was_not_answered_is_released_if_it_is_ours(how):
    one = Candidate(Lease({"holderIdentity": "", "leaseDurationSeconds": 1}))
    if how == "cancelled":
        one.path.slow = 0.0, 60.0, 0.0
    else:
        one.path.fault = "lost"
    async with running(one):
        await asyncio.sleep(0.1)
        assert (one.lease.spec["holderIdentity"], one.leading) == ("a", False)
    one.path.slow = 0.0, 0.0, 0.0
    await one.election.release()
    assert one.lease.spec["holderIdentity"] == ""


async def test_what_another_one_holds_is_not_released():
    async with alone(
        {"holderIdentity": "other", "renewTime": "x", "leaseDurationSeconds": 15}
    ) as one:
        await asyncio.sleep(3)
        await one.election.release()
    assert one.lease.writes == []


OF_X: dict[str, Any] = {"holderIdentity": "x", "leaseDurationSeconds": 15}
MOST = 2**31 - 1


@pytest.mark.parametrize(
    ("spec", "after"),
    [
        pytest.param({}, 0, id="empty"),
        pytest.param({"holderIdentity": None}, 0, id="a holder that is null"),
        pytest.param({"holderIdentity": ""}, 0, id="a holder that is empty"),
        pytest.param(OF_X | {"holderIdentity": "a"}, 0, id="ours, though the answer got lost"),
        pytest.param(OF_X, 15, id="another one's"),
        pytest.param(OF_X | {"leaseDurationSeconds": None}, 15, id="no duration"),
        pytest.param(OF_X | {"leaseDurationSeconds": 0}, 15, id="a duration of nothing"),
        pytest.param(OF_X | {"leaseDurationSeconds": -5}, 15, id="a duration below nothing"),
        # as a leader with a wrong clock writes it: only that it moves counts
        pytest.param(OF_X | {"renewTime": "2099-01-01T00:00:00Z"}, 15, id="a time to come"),
        # one more would be no int32, and the API server refuses such a write
        pytest.param(OF_X | {"leaseTransitions": MOST}, 15, id="a count that cannot grow"),
    ],
)
async def test_when_a_lease_that_nobody_renews_is_taken(spec, after):
    async with alone(spec) as one:
        if spec.get("holderIdentity") == "a":  # however little it knows
            one.election.prepare(lambda: Preparation.NONE)
        if after:
            await asyncio.sleep(after - 1)
            assert not one.leading
        await asyncio.sleep(4 if after else 0.5)
        assert one.leading
        assert one.lease.spec["leaseTransitions"] <= MOST


async def test_a_forbidden_lease_is_reported_once_and_tried_again(lines):
    async with alone() as one:
        one.path.fault = Forbidden("get leases in garden/x: 403 (Forbidden)")
        await asyncio.sleep(60)
        assert not one.leading
        assert "403" in str(one.election.trouble)
        one.path.fault = None
        await asyncio.sleep(3)
        assert one.leading
        assert one.election.trouble is None
    refused, *others = lines
    assert refused == {
        "event": "the Lease cannot be read or written",
        "lease": one.lease.name,
        "error": "get leases in garden/x: 403 (Forbidden)",
        "log_level": "error",
    }
    assert all(each["log_level"] != "error" for each in others)


async def test_who_has_released_the_lease_does_not_lead_again():
    async with alone() as one:
        answered = one.path.replace

        async def slowly(wanted):
            found = await answered(wanted)
            if wanted["spec"]["holderIdentity"]:
                await asyncio.sleep(0.5)
            return found

        one.path.replace = slowly
        await asyncio.sleep(2.1)
        await one.election.release()
        await asyncio.sleep(0.6)
        assert not one.leading


# After an absence of the seed, or of our own.


@asynccontextmanager
async def leader_and_standby(phase=0.0, times=None):
    """A leader, and a standby that runs; some time later."""
    lease = Lease()
    one, two = Candidate(lease, "a", times), Candidate(lease, "b", times)
    async with running(one) as one.task:
        await asyncio.sleep(1)
        async with running(two):
            await asyncio.sleep(10 + phase)
            yield one, two


PHASES = [each / 4 for each in range(12)]


async def leads_after(candidate):
    """The way is open now: seconds until it leads."""
    candidate.path.fault = None
    back = candidate.clock.now()
    await until(lambda: candidate.leading, within=60)
    return candidate.clock.now() - back


@pytest.mark.parametrize("phase", PHASES)
async def test_a_standby_that_was_cut_off_with_the_leader_follows_at_once_when_it_is_back(phase):
    """At whatever moment: the last renewal, which it perhaps sees only now, was long ago, by two clocks."""
    async with leader_and_standby(phase) as (one, two):
        two.path.fault = Unreachable("cut")
        await asyncio.sleep(0.8)
        one.task.cancel()
        await asyncio.sleep(25)
        assert not two.leading
        assert await leads_after(two) <= 2.05


async def test_a_renewal_that_the_storage_carries_out_when_it_is_back_is_as_old_as_its_request():
    """The leader had given it up, and has ended: it is nobody's sign of life."""
    async with leader_and_standby() as (one, two):
        await until(lambda: one.clock.now() - two.lease.written < 0.02)
        two.path.fault = Unreachable("the storage is away")
        await asyncio.sleep(2)
        asked = two.clock.now()
        late = two.lease.spec | {"renewTime": rfc3339(asked, micro=True)}
        one.task.cancel()
        await asyncio.sleep(14)
        two.lease.write(late)
        two.lease.written = asked
        assert await leads_after(two) <= 4


@pytest.mark.parametrize("phase", PHASES)
async def test_a_leader_that_a_standby_could_not_see_is_not_followed_while_it_renews(phase):
    async with leader_and_standby(phase) as (one, two):
        two.path.fault = Unreachable("cut")
        await asyncio.sleep(40)
        two.path.fault = None
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert one.leading
            assert not two.leading


async def test_a_killed_leader_is_followed_17_s_after_its_last_renewal_at_the_latest():
    took = []
    for phase in PHASES:
        async with leader_and_standby(phase) as (one, two):
            await until(lambda seen=two.lease: seen.clock.now() - seen.written < 0.02)
            last = renewed(two.lease)
            one.task.cancel()
            await until(lambda standby=two: standby.leading, within=60)
            took.append(two.clock.now() - last)
    assert min(took) >= 15
    assert max(took) <= 17.05


# One clock that is wrong changes nothing.


def two_seconds_later(lease):
    """By the holder's own clock."""
    return lease.spec | {"renewTime": rfc3339(renewed(lease) + 2, micro=True)}


async def cut_off_beside(two, holder):
    """The standby is cut off for half a minute; then `holder` has just renewed. Seconds to its leadership."""
    two.path.fault = Unreachable("cut")
    await asyncio.sleep(30)
    two.lease.write(holder)
    return await leads_after(two)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("times", "least"), [(ElectionTimes(), 15 - 1.5), (ElectionTimes(4, 3, 1), 4 - 0.5)], ids=str
)
async def test_a_holder_whose_clock_stood_still_is_followed_after_its_renew_deadline(
    phase, times, least
):
    """Its machine was suspended: by its own clock only two seconds have passed since we saw it last.

    The API server knows better, but for whole seconds; of those no more counts than half of what lies between the
    renew deadline and the lease duration.
    """
    async with leader_and_standby(phase, times) as (one, two):
        one.task.cancel()
        assert await cut_off_beside(two, two_seconds_later(two.lease)) >= least


@pytest.mark.parametrize("ahead", [20.0, 3600.0])
async def test_an_api_server_whose_clock_has_jumped_ahead_lets_nobody_follow_early(ahead):
    async with leader_and_standby() as (one, two):
        one.task.cancel()
        fresh = two.lease.spec | {"renewTime": rfc3339(two.lease.clock.now() + 30, micro=True)}
        two.lease.server_is_ahead = ahead
        assert await cut_off_beside(two, fresh) >= 14.9


async def test_a_server_that_does_not_say_when_it_was_written_lets_nobody_follow_early():
    async with leader_and_standby() as (one, two):
        one.task.cancel()
        two.lease.written = None
        assert await cut_off_beside(two, two_seconds_later(two.lease)) >= 15


async def test_of_another_holder_nothing_is_known_from_the_one_before():
    async with leader_and_standby() as (one, two):
        one.task.cancel()
        two.path.fault = Unreachable("cut")
        await asyncio.sleep(30)
        two.lease.write(two.lease.spec | {"holderIdentity": "x"})
        two.lease.written -= 3600  # and the API server's clock is wrong as well
        assert await leads_after(two) >= 15


async def test_a_read_that_was_swallowed_is_followed_by_the_next_one_at_once():
    """The seed is back while a request of before hangs: 3 s for that, and no pause after it."""
    async with leader_and_standby() as (one, two):
        one.task.cancel()
        two.path.fault = "hang"
        await asyncio.sleep(30.1)
        assert await leads_after(two) <= 3.05


# Who stands first.


@pytest.mark.parametrize(
    ("spec", "known", "after"),
    [
        # nobody holds it: whoever has not listed the seed leaves it to others for one duration
        pytest.param(None, Preparation.NONE, 15, id="not listed"),
        # two tries of the others, and the time that a read of theirs may hang
        pytest.param(OF_X, Preparation.LISTED, 15 + 7, id="only listed"),
        # its clock and ours may differ by anything: an hour, and a Lease that was written an hour ago looks new
        pytest.param(OF_X | {"renewTime": LONG_AGO}, Preparation.COMPLETE, 15, id="never seen"),
    ],
)
async def test_how_long_a_lease_is_left_to_others(spec, known, after):
    async with alone(spec) as one:
        one.election.prepare(lambda: known)
        one.lease.written -= 3600
        await asyncio.sleep(after - 0.1)
        assert not one.leading
        assert one.may_probe, "it is time to look"
        await asyncio.sleep(0.3)
        assert one.leading


@pytest.mark.parametrize("spec", [None, {"holderIdentity": ""}])
async def test_who_is_prepared_takes_a_free_lease_within_a_tenth_of_a_second(spec):
    prepared = [Preparation.NONE]
    async with alone(spec) as one:
        one.election.prepare(lambda: prepared[0])
        for _ in range(7):
            await asyncio.sleep(1)
            assert not one.leading
        prepared[0] = Preparation.COMPLETE
        await asyncio.sleep(0.15)
        assert one.leading


@pytest.mark.parametrize("worse", [Preparation.NONE, Preparation.LISTED])
@pytest.mark.parametrize("phase", PHASES)
async def test_of_two_that_reach_the_lease_again_the_one_that_knows_more_leads(worse, phase):
    """The other one has just been started again, and perhaps reads the Lease first."""
    async with leader_and_standby() as (one, two):
        one.task.cancel()
        two.path.fault = Unreachable("cut")
        restarted = Candidate(two.lease, "c")
        restarted.election.prepare(lambda: worse)
        restarted.path.fault = Unreachable("cut")
        async with running(restarted):
            await asyncio.sleep(25 + phase)
            restarted.path.fault = two.path.fault = None
            await until(lambda: two.leading or restarted.leading, within=60)
            assert two.leading


@pytest.mark.parametrize("phase", PHASES)
async def test_one_that_knows_more_leads_even_if_its_read_still_hangs_when_the_seed_is_back(phase):
    async with leader_and_standby() as (one, two):
        one.task.cancel()
        two.path.fault = "hang"
        restarted = Candidate(two.lease, "c")
        restarted.election.prepare(lambda: Preparation.LISTED)
        async with running(restarted):
            await asyncio.sleep(1)
            restarted.path.fault = Unreachable("cut")
            await asyncio.sleep(15 + phase)
            restarted.path.fault = two.path.fault = None
            await until(lambda: two.leading or restarted.leading, within=60)
            assert two.leading


# One behind another.


async def test_the_second_lease_is_observed_from_the_start_and_taken_with_the_first():
    """Both were held by one that is dead: the second needs no duration of its own."""
    first, second = Lease(), Lease()
    dead, dead_too = Candidate(first, "dead"), Candidate(second, "dead")
    async with running(dead), running(dead_too):
        await asyncio.sleep(10)
        one = Candidate(first, "b")
        two = Candidate(second, "b", behind=one.election)
        tasks = [asyncio.ensure_future(each.election.run()) for each in (one, two)]
        await asyncio.sleep(10)
    killed = one.clock.now()
    await until(lambda: one.leading, within=60)
    await until(lambda: two.leading, within=60)
    assert two.clock.now() - killed <= 17.05
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_second_lease_is_not_taken_while_another_one_holds_the_first():
    first, second = Lease(), Lease({})
    holder = Candidate(first, "holder")
    one = Candidate(first, "b")
    two = Candidate(second, "b", behind=one.election)
    async with running(holder):
        await asyncio.sleep(1)
        async with running(one), running(two):
            await asyncio.sleep(100)
            assert second.writes == []
            assert not two.leading


async def test_the_second_lease_is_taken_right_after_the_first():
    one = Candidate(Lease(), "b")
    two = Candidate(Lease(), "b", behind=one.election)
    async with running(two):
        await asyncio.sleep(5)
        async with running(one):
            await asyncio.sleep(0.1)
            assert one.leading
            assert two.leading


# The Lease as the API server has it: what of it is read, and how old it is by the server's own clock.


STAMPED = 1_800_000_000.0  # 2027-01-15T08:00:00Z
RENEWED = "2027-01-15T07:59:58.000000Z"
SPEC = {
    "holderIdentity": "a",
    "leaseDurationSeconds": 15,
    "leaseTransitions": 3,
    "renewTime": RENEWED,
}


async def read(now, **metadata):
    """As a store reads it of a server that answers so, and says what time it is."""
    body = json.dumps({"kind": "Lease", "metadata": {"name": "x"} | metadata, "spec": SPEC})

    async def call(_request, decode, _budget, **_):
        return decode(body.encode())

    api: Any = SimpleNamespace(call=call, server_time=now)
    return await LeaseStore(api, "garden", "x").read(1.0)


async def age(managed, now):
    stamps = {} if managed == "left out" else {"managedFields": managed}
    found = await read(now, resourceVersion="7", **stamps)
    known = (found.holder, found.duration, found.transitions, found.renewed)
    assert known == ("a", 15.0, 3, RENEWED)
    return found.age


def stamp(text):
    return {"manager": "dwd", "operation": "Update", "time": text}


AT_8 = stamp("2027-01-15T08:00:00Z")


@pytest.mark.parametrize(
    ("managed", "now", "found"),
    [
        pytest.param([AT_8], STAMPED + 20.5, 20.5, id="the server's time less its stamp"),
        pytest.param(
            [AT_8, stamp("2027-01-15T07:00:00Z")], STAMPED + 9, 9, id="the last stamp counts"
        ),
        pytest.param([AT_8], None, None, id="before the server has said what time it is"),
        *(
            pytest.param(unstamped, STAMPED, None, id=f"no stamp: {unstamped}")
            for unstamped in (
                "left out",
                None,
                [],
                [{"manager": "dwd"}],
                [stamp(None)],
                [stamp("yesterday")],
            )
        ),
    ],
)
async def test_the_age_of_a_lease(managed, now, found):
    assert await age(managed, now) == found


async def test_what_has_no_version_is_no_lease_as_its_replacement_would_have_none_either():
    with pytest.raises(msgspec.ValidationError, match="resourceVersion"):
        await read(STAMPED)


@pytest.mark.parametrize(
    "fails_after", [1, 2], ids=["it fails first", "the other one is read first"]
)
async def test_after_a_failure_no_kept_connection_is_trusted_before_a_request_that_began_later_is_answered(
    fails_after,
):
    """All that are open may stall; a read that went over a new one at the same time proves nothing for the others."""
    one = Candidate(Lease(SPEC))
    stalled = Unreachable("stalled")
    answers = iter([(fails_after, stalled), (3 - fails_after, None), (0, None), (0, None)])

    async def answer(_):
        seconds, error = next(answers)
        await asyncio.sleep(seconds)
        if error is not None:
            raise error
        return one.lease.body(), one.clock.now()

    one.path.read = answer
    await asyncio.gather(one.store.read(5), one.store.read(5), return_exceptions=True)
    await one.store.read(5)
    await one.store.read(5)
    assert one.path.fresh == [False, True, True, False]


async def test_a_lease_is_made_under_its_name_within_the_time_that_there_is():
    one = Candidate(Lease())
    await one.store.create(SPEC, 1.5)
    (asked,) = one.path.asked
    assert (asked.within, asked.body) == (
        1.5,
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": Lease.name, "namespace": "garden"},
            "spec": SPEC,
        },
    )
