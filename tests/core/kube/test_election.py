"""Who leads, whatever happens to the Lease; on virtual time, against a Lease in memory."""

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import pytest
import structlog

from app.core.errors import Conflict, Forbidden, LeadershipLost, NotFound, ServerFault, Unreachable
from app.core.kube.election import ElectionTimes, LeaseElection, SoleOwner
from app.core.kube.leases import LeaseRecord
from app.core.model.instants import parse_rfc3339
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics
from tests.core.kube.server import until


class Lease:
    """The Lease as the API server has it; all candidates see this one."""

    name = "dwd-prober-leader-election"

    def __init__(self, spec=None):
        self.spec = spec
        self.version = 1
        self.writes = []

    def record(self):
        spec = self.spec
        return LeaseRecord(
            str(self.version),
            spec.get("holderIdentity") or "",
            spec.get("leaseDurationSeconds"),
            spec.get("renewTime") or "",
            spec.get("leaseTransitions") or 0,
            {"metadata": {"labels": {"kept": "yes"}}, "spec": dict(spec)},
        )

    def write(self, spec):
        self.version += 1
        self.spec = spec
        self.writes.append(spec)
        return self.record()


class Path:
    """One candidate's way to the Lease, with the faults that a test puts in it."""

    name = Lease.name

    def __init__(self, lease):
        self.lease = lease
        self.fault = None
        """An exception: raised. 'hang': no answer. 'lost': the write is made, its answer lost."""

    async def _before(self, within):
        if isinstance(self.fault, Exception):
            raise self.fault
        if self.fault == "hang":
            await asyncio.sleep(within)
            raise Unreachable("no answer")

    async def read(self, within):
        await self._before(within)
        return None if self.lease.spec is None else self.lease.record()

    async def create(self, term, within):
        await self._before(within)
        if self.lease.spec is not None:
            raise Conflict("exists")
        return self.lease.write(term.spec({}))

    async def replace(self, record, term, within):
        await self._before(within)
        if self.lease.spec is None:
            raise NotFound("gone")
        if record.version != str(self.lease.version):
            raise Conflict("newer")
        written = self.lease.write(term.spec(record.whole["spec"]))
        if self.fault == "lost":
            self.fault = None
            raise Unreachable("the answer got lost")
        return written


class Candidate:
    def __init__(self, lease, identity="a", times=None):
        self.path = cast("Any", Path(lease))
        self.metrics = Metrics()
        self.clock = Clock.of_loop()
        self.election = LeaseElection(
            self.path, identity, times or ElectionTimes(), self.clock, self.metrics, Random(1)
        )
        self.heard: list[tuple[bool, bool]] = []
        self.election.subscribe(
            lambda: self.heard.append((self.election.leading, self.election.observing))
        )

    @property
    def leading(self):
        return self.election.leading

    @property
    def observing(self):
        return self.election.observing


@asynccontextmanager
async def running(candidate):
    task = asyncio.ensure_future(candidate.election.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_first_one_makes_the_lease_and_leads():
    lease = Lease()
    one = Candidate(lease)
    assert not one.leading
    async with running(one):
        await asyncio.sleep(1)
        assert one.leading
        assert one.observing
        assert one.heard == [(True, True)]
        assert one.election.leader_identity == "a"
        assert lease.spec["holderIdentity"] == "a"
        assert lease.spec["leaseTransitions"] == 0
        assert lease.spec["leaseDurationSeconds"] == 15
        assert (
            one.metrics.registry.get_sample_value(
                "leader_election_master_status", {"name": lease.name}
            )
            == 1
        )


async def test_times_are_written_in_utc_with_microseconds():
    lease = Lease()
    one = Candidate(lease)
    async with running(one):
        await asyncio.sleep(0.5)
        assert lease.spec["renewTime"].endswith("Z")
        assert len(lease.spec["renewTime"]) == len("2026-11-21T19:00:00.000000Z")
        assert parse_rfc3339(lease.spec["renewTime"]) == pytest.approx(
            one.clock.now() - 0.5, abs=1e-3
        )


async def test_a_healthy_leader_renews_every_retry_period_for_hours():
    lease = Lease()
    one = Candidate(lease)
    async with running(one) as task:
        await asyncio.sleep(3600)
        assert one.leading
        assert not task.done()
        assert 1700 < len(lease.writes) < 1810
        assert lease.spec["leaseTransitions"] == 0
        assert lease.spec["acquireTime"] == lease.writes[0]["acquireTime"]


async def test_two_never_lead_together_and_the_second_stands_by():
    lease = Lease()
    one, two = Candidate(lease, "a"), Candidate(lease, "b")
    async with running(one), running(two):
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert not (one.leading and two.leading)
        assert one.leading
        assert not two.observing
        assert two.election.leader_identity == "a"
        assert two.heard == []


async def test_the_standby_follows_a_leader_that_was_killed_and_looks_before_it_leads():
    lease = Lease()
    one, two = Candidate(lease, "a"), Candidate(lease, "b")
    async with running(one):
        await asyncio.sleep(1)
        two_task = asyncio.ensure_future(two.election.run())
        await asyncio.sleep(30)
    killed = two.clock.now()
    await until(lambda: two.observing, within=60)
    assert not two.leading
    assert two.clock.now() - killed <= 7.5  # a third of 15 s, and one look at the Lease
    await until(lambda: two.leading, within=60)
    assert 12 < two.clock.now() - killed < 18
    assert lease.spec["leaseTransitions"] == 1
    assert two.heard == [(False, True), (True, True)]
    two_task.cancel()
    await asyncio.gather(two_task, return_exceptions=True)


async def test_a_standby_stops_looking_when_the_lease_moves_again():
    lease = Lease()
    one, two = Candidate(lease, "a"), Candidate(lease, "b")
    async with running(one):
        await asyncio.sleep(1)
        async with running(two):
            await asyncio.sleep(10)
            renewals = len(lease.writes)
            await until(lambda: len(lease.writes) > renewals)
            one.path.fault = ServerFault("500")
            await asyncio.sleep(7.7)
            assert two.observing
            assert one.leading
            one.path.fault = None
            await asyncio.sleep(5)
            assert not two.observing
            assert two.heard == [(False, True), (False, False)]


@pytest.mark.parametrize(
    "fault", [ServerFault("500"), Unreachable("refused"), Forbidden("403"), "hang"], ids=str
)
async def test_a_leader_that_cannot_renew_stops_at_the_deadline_and_ends(fault):
    lease = Lease()
    one = Candidate(lease)
    async with running(one) as task:
        await asyncio.sleep(20.5)
        last = parse_rfc3339(lease.spec["renewTime"]) or 0.0
        one.path.fault = fault
        while one.leading:
            assert one.clock.now() - last < 10
            await asyncio.sleep(0.01)
        assert one.clock.now() - last == pytest.approx(10, abs=0.05)
        with pytest.raises(LeadershipLost):
            await task
        assert one.heard[-1][0] is False
        assert one.election.trouble


async def test_leading_ends_at_the_deadline_even_if_our_loop_does_not_run():
    lease = Lease()
    one = Candidate(lease)
    async with running(one) as task:
        await asyncio.sleep(1)
        one.path.fault = "hang"
        one.path._before = lambda within: asyncio.sleep(10**6)  # not even a time limit ends it
        assert one.leading
        await asyncio.sleep(8.9)
        assert one.leading
        await asyncio.sleep(0.2)
        assert not one.leading
        task.cancel()


async def test_a_short_disturbance_costs_nothing():
    lease = Lease()
    one = Candidate(lease)
    async with running(one) as task:
        await asyncio.sleep(20)
        for fault in (Unreachable("cut"), "hang"):
            one.path.fault = fault
            await asyncio.sleep(4)
            one.path.fault = None
            await asyncio.sleep(10)
        assert one.leading
        assert not task.done()
        assert one.election.trouble is None
        assert one.heard == [(True, True)]


async def test_a_renewal_whose_answer_was_lost_is_recognised_as_our_own():
    lease = Lease()
    one = Candidate(lease)
    async with running(one) as task:
        await asyncio.sleep(5)
        one.path.fault = "lost"
        await asyncio.sleep(30)
        assert one.leading
        assert not task.done()
        assert lease.spec["leaseTransitions"] == 0


async def test_a_lease_that_another_one_took_ends_leadership_at_once():
    lease = Lease()
    one = Candidate(lease)
    async with running(one) as task:
        await asyncio.sleep(5)
        lease.write(lease.spec | {"holderIdentity": "usurper"})
        await asyncio.sleep(2.1)
        assert not one.leading
        with pytest.raises(LeadershipLost, match="usurper"):
            await task


async def test_a_lease_that_was_deleted_is_made_again():
    lease = Lease()
    one = Candidate(lease)
    async with running(one):
        await asyncio.sleep(5)
        lease.spec = None
        await asyncio.sleep(6)
        assert one.leading
        assert lease.spec["holderIdentity"] == "a"


async def test_a_clean_stop_gives_the_lease_back_and_the_next_one_need_not_wait():
    lease = Lease()
    one, two = Candidate(lease, "a"), Candidate(lease, "b")
    async with running(one):
        await asyncio.sleep(5)
        async with running(two):
            await asyncio.sleep(5)
            stopped = one.clock.now()
            await one.election.release()
            assert not one.leading
            assert lease.spec["holderIdentity"] == ""
            assert lease.spec["leaseDurationSeconds"] == 1
            await until(lambda: two.leading, within=60)
            assert two.clock.now() - stopped < 3


async def test_release_after_the_loop_was_cancelled_works_too():
    lease = Lease()
    one = Candidate(lease)
    async with running(one):
        await asyncio.sleep(5)
    assert not one.leading
    await one.election.release()
    assert lease.spec["holderIdentity"] == ""


async def test_release_survives_a_renewal_that_was_on_its_way():
    lease = Lease()
    one = Candidate(lease)
    async with running(one):
        await asyncio.sleep(5)
    lease.write(dict(lease.spec))
    await one.election.release()
    assert lease.spec["holderIdentity"] == ""


@pytest.mark.parametrize("fault", ["hang", Unreachable("refused")], ids=str)
async def test_release_takes_a_second_at_most_and_raises_nothing(fault):
    lease = Lease()
    one = Candidate(lease)
    async with running(one):
        await asyncio.sleep(5)
    one.path.fault = fault
    before = one.clock.now()
    await one.election.release()
    assert one.clock.now() - before <= 1.01


async def test_what_another_one_holds_is_not_released():
    lease = Lease({"holderIdentity": "other", "renewTime": "x", "leaseDurationSeconds": 15})
    one = Candidate(lease)
    async with running(one):
        await asyncio.sleep(3)
        await one.election.release()
    assert lease.writes == []


async def test_a_clock_that_is_off_does_not_matter():
    """renewTime lies an hour in the future, as a leader with a wrong clock writes it: only its moving counts."""
    lease = Lease(
        {"holderIdentity": "x", "renewTime": "2099-01-01T00:00:00Z", "leaseDurationSeconds": 15}
    )
    two = Candidate(lease, "b")
    async with running(two):
        await asyncio.sleep(14)
        assert not two.leading
        await asyncio.sleep(4)
        assert two.leading


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": None}, {"holderIdentity": ""}])
async def test_a_lease_without_holder_is_taken_at_once(spec):
    lease = Lease(spec)
    one = Candidate(lease)
    async with running(one):
        await asyncio.sleep(0.5)
        assert one.leading


@pytest.mark.parametrize("duration", [None, 0, -5])
async def test_a_lease_without_a_sensible_duration_lasts_as_long_as_ours(duration):
    lease = Lease({"holderIdentity": "x", "leaseDurationSeconds": duration})
    one = Candidate(lease)
    async with running(one):
        await asyncio.sleep(14)
        assert not one.leading
        await asyncio.sleep(4)
        assert one.leading


async def test_of_two_that_try_together_one_leads():
    lease = Lease({})
    one, two = Candidate(lease, "a"), Candidate(lease, "b")
    async with running(one), running(two):
        await asyncio.sleep(1)
        assert one.leading != two.leading


async def test_a_forbidden_lease_is_reported_once_and_tried_again():
    lease = Lease()
    one = Candidate(lease)
    one.path.fault = Forbidden("get leases in garden/x: 403 (Forbidden)")
    with structlog.testing.capture_logs() as logs:
        async with running(one):
            await asyncio.sleep(60)
            assert not one.leading
            assert "403" in str(one.election.trouble)
            one.path.fault = None
            await asyncio.sleep(3)
            assert one.leading
            assert one.election.trouble is None
    assert [entry["log_level"] for entry in logs][:1] == ["error"]
    assert sum(entry["log_level"] == "error" for entry in logs) == 1


async def test_a_listener_that_fails_does_not_end_the_election():
    one = Candidate(Lease())

    def broken():
        raise RuntimeError("no")

    one.election.subscribe(broken)
    with structlog.testing.capture_logs() as logs:
        async with running(one):
            await asyncio.sleep(30)
            assert one.leading
    assert "a listener failed" in [entry["event"] for entry in logs]


def test_without_election_one_leads_always():
    owner = SoleOwner()
    owner.subscribe(lambda: None)
    assert owner.leading
    assert owner.observing


async def test_who_has_released_the_lease_does_not_lead_again():
    candidate = Candidate(Lease())
    answered = candidate.path.replace

    async def slowly(record, term, within):
        found = await answered(record, term, within)
        if term.holder:
            await asyncio.sleep(0.5)
        return found

    candidate.path.replace = slowly
    task = asyncio.ensure_future(candidate.election.run())
    await asyncio.sleep(2.1)
    await candidate.election.release()
    await asyncio.sleep(0.6)
    leads = candidate.leading
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not leads
