"""The status of a ScaleRequest when it cannot be written, and ScaleRequests that vanish in mid-run."""

import asyncio
from dataclasses import replace

import pytest

from app.core import errors
from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.probing import Verdict, VerdictReason
from app.core.model.scaling_runs import OperationPhase
from app.simulation.store import ObjectKey
from app.simulation.traffic import Host, Trouble
from tests.prober.people import DOWN, REQUEST, Operator
from tests.support.doubles import before_each_write
from tests.support.harness import KCM, MCM, SHOOT

STATUS = frozenset({"scalerequests/status"})
OTHER = "shoot--local--b"
TROUBLES = [
    Trouble(refused=True),
    Trouble(forbidden=True),
    Trouble(error_rate=1.0),
    Trouble(throttled=True, retry_after=1.0),
    Trouble(silent=True),
]
NAMES = ["refused", "forbidden", "failing", "throttled", "silent"]


def instant(status: dict[str, object], field: str) -> float:
    found = parse_rfc3339(str(status[field]))
    assert found is not None
    return found


async def somebody_else_writes(operator: Operator) -> None:
    """Each write of the status conflicts, as the object changes while the write is on its way."""
    for number in range(100_000):
        body = {"metadata": {"annotations": {"number": str(number)}}}
        operator.world.store.patch(ObjectKey("ScaleRequest", SHOOT, REQUEST), body)
        await operator.clock.sleep(0.008)  # a request takes 10 ms to get there


# Before the first write to a dependent.


@pytest.mark.parametrize("trouble", TROUBLES, ids=NAMES)
async def test_people_do_not_wait_longer_than_2_s_for_a_status_that_cannot_be_written(
    operator, trouble
):
    with operator.faults.seed_trouble(replace(trouble, what=STATUS)):
        operator.request("Down")
        began = operator.now
        at = await operator.until(lambda: operator.writes(MCM), within=5)
        assert at - began == pytest.approx(2.0, abs=0.2)
        assert operator.status_of() == {}
        await operator.run(30)
        assert operator.replicas() == (0, 0, 0)
        assert operator.reason() is VerdictReason.HELD
    status = await operator.done(within=15)
    assert status["phase"] == "Succeeded"
    assert [each["before"] for each in status["steps"]] == [1, 1, 1]
    assert instant(status, "startedAt") - began < 3
    assert instant(status, "endedAt") - began < 5, "it says when it was, not when it could be said"
    assert instant(status, "holdUntil") - instant(status, "endedAt") == 1_800
    assert len(operator.writes()) == 3


async def test_nor_for_one_that_conflicts_each_time(operator):
    operator.request("Down")
    began = operator.now
    writing = asyncio.ensure_future(somebody_else_writes(operator))
    at = await operator.until(lambda: operator.writes(MCM), within=5)
    assert at - began == pytest.approx(2.0, abs=0.2)
    await operator.run(5)
    assert operator.phase() is None
    writing.cancel()
    status = await operator.done(within=1)
    assert status["phase"] == "Succeeded"
    assert [each["before"] for each in status["steps"]] == [1, 1, 1]


@pytest.mark.parametrize("lags", [False, True], ids=["the watch shows it", "the watch lags"])
async def test_a_request_that_is_deleted_while_its_status_cannot_be_written_does_not_begin(
    operator, lags
):
    """A watch that lags is not stale yet, and the write of the status waits for an answer that would say so."""
    with operator.faults.seed_trouble(Trouble(silent=True, what=STATUS)):
        operator.request("Down")
        await operator.run(1)
        if lags:
            operator.faults.overrides_watch_stalled()
        operator.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
        await operator.run(30)
    assert not operator.writes()
    assert not operator.told("FlowStarted")
    assert lags or operator.hold() is None


@pytest.mark.parametrize(("latency", "after"), [(0.2, 0.02), (1.5, 0.5), (6.0, 0.5)])
@pytest.mark.parametrize("direction", ["Down", "Up"])
async def test_what_changes_while_the_status_is_written_counts(operator, direction, latency, after):
    with operator.faults.seed_trouble(Trouble(latency=latency, what=STATUS)):
        operator.request(direction)
        await operator.run(after)
        operator.faults.hibernated(SHOOT)
        await operator.run(30)
    await operator.run(30)
    assert not operator.writes()
    assert not operator.told("FlowStarted")
    assert operator.phase() in {"Refused", "Cancelled"}


async def test_a_verdict_that_turns_while_the_status_is_written_counts(operator):
    with (
        operator.faults.path_cut(SHOOT),
        operator.faults.seed_trouble(Trouble(latency=1.5, what=STATUS)),
    ):
        await operator.run(25.0)  # until just before the probe that finds the leases expired
        assert operator.decision().would_be is Verdict.SCALE_UP
        operator.request("Up")
        ended = await operator.done(within=10)
        assert operator.decision().would_be is Verdict.SCALE_DOWN
        assert ended["phase"] == "Refused"
        assert "the verdict would be SCALE DOWN" in ended["message"]
        assert not operator.told("ScaleRequestStarted")
        assert operator.hold() is None
        await operator.until(lambda: operator.replicas() == (0, 0, 0), within=30)


async def test_an_automatic_run_ends_at_once_while_the_status_is_written(slow):
    """Its hold is in force from the creation on."""
    with slow.faults.path_cut(SHOOT), slow.faults.seed_trouble(Trouble(silent=True, what=STATUS)):
        await slow.until(lambda: slow.writes(MCM), within=60)
        slow.request("Up", force=True)
        await slow.run(0.1)
        assert "was ended: held by" in slow.told("FlowEnded")[0].message


async def test_a_status_that_waited_for_the_budget_is_not_written_after_the_lease_ran_out(
    operator, monkeypatch
):
    before_each_write(monkeypatch, lambda _: operator.leadership.run_out())
    operator.request("Down")
    await operator.run(10)
    assert not operator.leadership.leading
    assert operator.status_of() == {}
    assert not operator.writes()


async def test_what_shows_that_others_wait_delays_nothing_to_speak_of(slow):
    slow.request("Down", name="first")
    await slow.run(5)
    with slow.faults.seed_trouble(Trouble(silent=True, what=STATUS)):
        for number in range(5):
            slow.request("Up", name=f"waits-{number}", force=True)
        await slow.run(1)
        slow.kubectl.delete("ScaleRequest", SHOOT, "first")
        began = slow.now
        begins = slow.told
        await slow.until(lambda: begins("ScaleRequestStarted")[1:], within=10)
        assert slow.now - began < 7


async def test_the_failures_of_one_request_do_not_keep_the_next_one_waiting(operator):
    operator.request("Down", name="first")
    await operator.until(lambda: operator.phase("first") == "Running", within=2)
    with operator.faults.seed_trouble(Trouble(forbidden=True, what=STATUS)):
        await operator.run(60)
    operator.kubectl.delete("ScaleRequest", SHOOT, "first")
    operator.request("Up", name="second", force=True)
    asked, begins = operator.now, operator.told
    begun = await operator.until(lambda: begins("ScaleRequestStarted")[1:], within=1)
    assert begun - asked < 0.5


async def test_of_a_deleted_one_that_a_finalizer_keeps_nothing_is_written(slow):
    slow.request("Down")
    await slow.run(5)
    key = ObjectKey("ScaleRequest", SHOOT, REQUEST)
    gone = {"metadata": {"deletionTimestamp": rfc3339(slow.now)}}
    slow.world.store.patch(key, gone)
    await slow.run(1)
    before = slow.status_of()
    await slow.run(60)
    assert slow.status_of() == before
    assert before["phase"] == "Running"
    assert slow.replicas() == (1, 1, 1), "the verdicts act again"


async def test_a_status_that_conflicts_for_ever_is_written_ever_more_seldom(operator):
    operator.request("Down")
    writing = asyncio.ensure_future(somebody_else_writes(operator))
    await operator.run(20)
    operator.world.requests.reset()
    await operator.run(80)
    assert operator.world.requests.live(Host.SEED, "patch", "scalerequests/status") <= 12
    writing.cancel()
    assert (await operator.done())["phase"] == "Succeeded"


async def test_the_hold_of_what_was_ended_by_hand_goes_on_before_the_leader_has_added_the_end(slow):
    """Its hold is shorter than the time since it was made, and the seed takes a while to write the end."""
    slow.request("Down", hold="30s")
    await slow.run(40)
    with slow.faults.seed_trouble(Trouble(latency=3.0, what=STATUS)):
        slow.set_status(phase="Cancelled")
        ended = slow.now
        await slow.until(lambda: slow.objects()[0]["status"].get("holdUntil"))
        assert slow.now - ended > 1
    await slow.until(lambda: len(slow.told("FlowStarted")) == 2, within=60)
    assert slow.now - ended > 30


async def test_to_a_final_phase_written_by_hand_the_leader_adds_the_end(slow):
    slow.request("Down", name="first")
    await slow.run(3)
    slow.request("Down", name="second")
    await slow.run(3)
    assert slow.phase("second") == "Pending"
    slow.set_status("second", phase="Cancelled")
    await slow.done("first", within=120)
    status = await slow.done("second", within=5)
    assert (status["phase"], status["message"]) == ("Cancelled", "its status was set to Cancelled")
    assert instant(status, "holdUntil") == pytest.approx(instant(status, "endedAt") + 1_800)


# In mid-run, and at the end.


@pytest.mark.parametrize("trouble", TROUBLES, ids=NAMES)
async def test_the_end_is_written_as_soon_as_it_is_accepted(slow, trouble):
    slow.request("Down")
    await slow.run(30)
    started = slow.status_of()["startedAt"]
    with slow.faults.seed_trouble(replace(trouble, what=STATUS)):
        ended = await slow.until(lambda: slow.replicas() == (0, 0, 0), within=60)
        await slow.run(100)
        assert slow.phase() == "Running"
        assert slow.reason() is VerdictReason.HELD
        assert not slow.told("ScaleRequestSucceeded")
    status = await slow.done(within=15)
    assert (status["phase"], status["startedAt"]) == ("Succeeded", started)
    assert instant(status, "endedAt") == pytest.approx(ended, abs=2)
    await slow.run(1)
    assert len(slow.told("ScaleRequestSucceeded")) == 1


async def test_an_end_whose_answer_was_lost_is_told_once(slow):
    slow.request("Down")
    await slow.run(30)
    with slow.faults.seed_trouble(Trouble(latency=15.0, what=STATUS)):
        await slow.done(within=90)
        await slow.run(60)
    assert len(slow.told("ScaleRequestSucceeded")) == 1
    assert not slow.requests()[0].open


async def test_a_refusal_whose_answer_was_lost_is_told_once(operator):
    with operator.faults.seed_trouble(Trouble(latency=15.0, what=STATUS)):
        operator.made("ScaleRequest", REQUEST, ago=4_000, direction="Down", reason="r")
        await operator.done(within=90)
        await operator.run(60)
    assert len(operator.told("ScaleRequestRefused")) == 1


async def test_a_hold_that_is_over_when_its_end_is_accepted_is_over(operator):
    operator.request("Down", hold="60s")
    await operator.run(0.1)
    with operator.faults.seed_trouble(Trouble(refused=True, what=STATUS)):
        await operator.run(90)
        assert operator.replicas() == (0, 0, 0)
    await operator.done(within=5)
    assert operator.hold() is None
    await operator.until(lambda: operator.world.replicas(SHOOT, KCM), within=10)


@pytest.mark.parametrize("fault", ["overrides_watch_cut", "overrides_away", "overrides_forbidden"])
async def test_a_run_goes_on_while_the_requests_cannot_be_followed(slow, fault):
    slow.request("Down")
    await slow.until(lambda: slow.writes(MCM))
    with getattr(slow.faults, fault)():
        await slow.until(lambda: slow.replicas() == (0, 0, 0), within=70)
        await slow.run(60)
        assert slow.replicas() == (0, 0, 0), "it is held"
    assert (await slow.done(within=60))["phase"] == "Succeeded"


async def test_a_request_that_a_stale_watch_does_not_show_is_begun_when_it_is_shown(operator):
    with operator.faults.overrides_watch_cut():
        operator.request("Down")
        await operator.run(60)
        assert not operator.writes()
    assert (await operator.done(within=60))["phase"] == "Succeeded"


# What vanishes.


async def test_definitions_that_are_removed_in_mid_run_cancel_it_and_the_feature_is_off(slow):
    name = slow.request("Down")
    await slow.until(lambda: slow.writes(MCM))
    removed = slow.faults.crds_removed()
    await slow.run(1)
    assert slow.operation(name).phase is OperationPhase.CANCELLED
    assert slow.hold() is None
    await slow.run(60)
    with pytest.raises(errors.FeatureUnavailable):
        await slow.scale(DOWN)
    await slow.until(lambda: slow.replicas() == (1, 1, 1), within=120)
    assert not slow.writes(KCM)
    removed.lift()
    await slow.run(61)
    began = await slow.scale(DOWN)
    assert (await slow.ended(began.id)).phase is OperationPhase.DONE


async def test_of_a_shoot_whose_namespace_is_deleted_nothing_is_left(slow):
    world = slow.world
    world.add_shoot(OTHER)
    slow.request("Down")
    await slow.until(lambda: slow.writes(MCM))
    slow.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
    world.remove_shoot(SHOOT)
    await slow.run(90)
    assert not slow.writes(KCM)
    assert not slow.requests()
    assert slow.prober.registry.scaler(SHOOT) is None
    assert slow.prober.scale_requests._shoots == {}
    slow.kubectl.create("ScaleRequest", OTHER, "mine", direction="Down", reason="r")
    await slow.until(lambda: slow.writes(KCM, OTHER), within=70)
