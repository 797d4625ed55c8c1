"""ScaleRequests that people make with kubectl: which are carried out, in which order, and what they hold back."""

import itertools

import pytest
from structlog.testing import capture_logs

from app.core.errors import NotFound
from app.core.model.overrides import API_VERSION
from app.core.model.policy import ScalePolicy
from app.core.model.probing import VerdictReason
from app.core.model.scaling_runs import OperationPhase
from app.core.model.workloads import ResourceRef
from app.prober.scaling.manual import ShootScaleRequests
from app.prober.scaling.resource import ResourceRun
from app.prober.scaling.run import ScalingRun
from app.simulation.traffic import Trouble
from tests.prober.people import REQUEST, Operator, newer_version, with_operator
from tests.support.doubles import SetLeadership
from tests.support.harness import CA, KCM, MCM, SHOOT, SLOW_KCM, changed

SOON_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=4.0))
OUTSIDE = "kube-system"


async def refused(operator: Operator) -> str:
    """The request is refused before anything is written, and holds nothing; the reason."""
    status = await operator.done(within=2)
    assert status["phase"] == "Refused"
    assert not {"startedAt", "holdUntil"} & status.keys()
    assert operator.hold() is None
    assert not operator.writes()
    assert not operator.told("FlowStarted")
    return str(status["message"])


# What is carried out.


async def test_one_is_begun_within_a_second_and_its_status_says_how_it_went(operator):
    at = operator.now
    operator.request("Down", reason="a new load balancer", author="carol")
    await operator.until(lambda: operator.writes(MCM), within=1)
    assert operator.phase() == "Running"
    assert operator.notes()[0].at < operator.writes()[0].at
    status = await operator.done()
    assert status["phase"] == "Succeeded"
    assert [(each["resource"], each["level"], each["phase"]) for each in status["steps"]] == [
        ("Deployment/machine-controller-manager", 0, "Done"),
        ("Deployment/cluster-autoscaler", 0, "Done"),
        ("Deployment/kube-controller-manager", 1, "Done"),
    ]
    assert {(each["before"], each["after"]) for each in status["steps"]} == {(1, 0)}
    assert operator.now - at < 2
    (told,) = operator.told("FlowStarted")
    assert "by hand (carol: a new load balancer)" in told.message


async def test_its_begin_and_its_end_are_events_on_it(operator):
    name = operator.request("Down", author="carol")
    await operator.done()
    await operator.run(1)
    for reason in ("ScaleRequestStarted", "ScaleRequestSucceeded"):
        (told,) = operator.told(reason)
        assert told.event
        assert told.resource == ResourceRef(API_VERSION, "ScaleRequest", REQUEST)
        assert told.resource_uid == name
        assert "carol" in told.message


async def test_its_progress_is_shown_step_by_step(slow):
    slow.request("Down")
    await slow.run(3)
    assert {each["resource"]: each["phase"] for each in slow.status_of()["steps"]} == {
        "Deployment/machine-controller-manager": "Done",
        "Deployment/cluster-autoscaler": "Done",
        "Deployment/kube-controller-manager": "Running",
    }
    written = len(slow.notes())
    await slow.run(20)
    assert len(slow.notes()) == written, "nothing has changed"


# What is refused.


@pytest.mark.parametrize("direction", ["Up", "Down"])
async def test_a_shoot_that_is_not_probed_needs_force(operator, direction):
    operator.faults.hibernated(SHOOT)
    await operator.until(lambda: not operator.runs())
    operator.request(direction)
    assert "not probed" in await refused(operator)
    operator.request(direction, name="forced", force=True)
    assert (await operator.done("forced"))["phase"] == "Succeeded"


async def test_one_in_a_namespace_that_is_not_a_shoots_is_refused(operator):
    operator.kubectl.create("ScaleRequest", OUTSIDE, "lost", direction="Down", reason="r")
    await operator.run(1)
    (found,) = operator.world.store.list("ScaleRequest")
    assert found["status"]["phase"] == "Refused"
    assert found["status"]["message"] == "its namespace is not that of a shoot"


async def test_one_that_nobody_has_begun_for_an_hour_is_refused(operator):
    operator.made("ScaleRequest", REQUEST, ago=3_600, direction="Down", reason="r")
    assert "not begun within an hour" in await refused(operator)
    await operator.run(1)
    (told,) = operator.told("ScaleRequestRefused")
    assert told.event
    assert "was refused: it was not begun within an hour" in told.message
    operator.made("ScaleRequest", "younger", ago=3_590, direction="Down", reason="r")
    assert (await operator.done("younger"))["phase"] == "Succeeded"


async def test_one_that_is_made_while_nobody_leads_waits_for_a_leader(lab):
    operator = await with_operator(lab, leadership=SetLeadership(leading=False))
    operator.request("Down")
    await operator.run(30)
    assert not operator.notes()
    assert not operator.writes()
    operator.leadership.become(leading=True)
    await operator.done(within=2)


# In which order.


async def test_a_second_one_waits_while_another_one_runs_and_begins_then(lab):
    operator = await with_operator(lab, dependents=SOON_KCM)
    operator.request("Down", name="first")
    await operator.run(1)
    second = operator.request("Down", name="second")
    await operator.run(1)
    assert operator.phase("second") == "Pending"
    assert operator.status_of("second")["message"] == "another one is carried out"
    assert operator.operation(second).phase.running
    first = await operator.done("first")
    then = await operator.done("second")
    assert (first["phase"], then["phase"]) == ("Succeeded", "Succeeded")
    assert first["endedAt"] < then["startedAt"]
    assert len(operator.writes()) == 3, "there was nothing left to do"


async def test_a_second_one_does_not_wait_for_the_end_of_a_hold(operator):
    operator.request("Down", name="first", hold="24h")
    await operator.done("first")
    operator.request("Up", name="second")
    await operator.until(lambda: operator.replicas() == (1, 1, 1), within=60)


async def test_of_several_the_oldest_begins_first_and_then_the_first_by_name(lab):
    operator = await with_operator(lab, leadership=SetLeadership(leading=False))
    for name, ago in (("a-late", 10), ("z-early", 30), ("c-middle", 20), ("b-middle", 20)):
        operator.made("ScaleRequest", name, ago=ago, direction="Down", reason="r")
    await operator.run(1)
    operator.leadership.become(leading=True)
    began = [
        (str((await operator.done(name))["startedAt"]), name)
        for name in ("a-late", "b-middle", "c-middle", "z-early")
    ]
    assert [name for _, name in sorted(began)] == ["z-early", "b-middle", "c-middle", "a-late"]


async def test_one_that_was_begun_goes_on_before_older_ones_that_were_not(lab):
    operator = await with_operator(lab, leadership=SetLeadership(leading=False))
    begun = {"phase": "Running"}
    operator.made("ScaleRequest", "older", ago=60, direction="Down", reason="r")
    operator.made("ScaleRequest", "begun", ago=30, status=begun, direction="Down", reason="r")
    await operator.run(1)
    operator.leadership.become(leading=True)
    older = await operator.done("older")
    assert operator.status_of("begun")["endedAt"] < older["startedAt"]


async def test_one_that_waits_and_is_deleted_never_begins(lab):
    operator = await with_operator(lab, dependents=SOON_KCM)
    operator.request("Down", name="first")
    await operator.run(1)
    operator.request("Up", name="second")
    await operator.run(1)
    operator.kubectl.delete("ScaleRequest", SHOOT, "second")
    await operator.done("first")
    await operator.run(60)
    assert operator.replicas() == (0, 0, 0)


async def test_those_of_two_shoots_do_not_wait_for_each_other(lab):
    other = "shoot--local--b"
    operator = await with_operator(
        lab, dependents=SLOW_KCM, prepare=lambda world: world.add_shoot(other)
    )
    operator.request("Down")
    operator.kubectl.create("ScaleRequest", other, "mine", direction="Down", reason="r")
    await operator.run(2)
    assert operator.writes(MCM)
    assert operator.writes(MCM, other)


@pytest.mark.parametrize(("direction", "waits"), [("Up", True), ("Down", False)])
async def test_up_waits_for_the_first_verdict_and_down_does_not(lab, direction, waits):
    world = lab.with_shoot()
    await lab.clock.sleep(60)
    world.patch(SHOOT, KCM, {"spec": {"replicas": int(not waits)}})
    with world.faults.latency(SHOOT, 3.0):
        operator = Operator.at(lab.prober(world))
        operator.request(direction)
        await operator.run(2)
        assert operator.status().decision is None
        assert bool(operator.writes(KCM)) is not waits
        await operator.until(lambda: operator.writes(KCM))


# What they hold back.


async def test_one_holds_from_its_creation_until_so_long_after_its_end(lab):
    operator = await with_operator(lab, dependents=SOON_KCM)
    operator.request("Down", hold="90s")
    await operator.run(1)
    held = operator.hold()
    assert held is not None
    assert not held.done
    await operator.run(1)
    assert operator.reason() is VerdictReason.HELD
    await operator.done()
    await operator.run(89)
    assert operator.replicas() == (0, 0, 0)
    assert operator.reason() is VerdictReason.HELD
    await operator.until(lambda: operator.world.replicas(SHOOT, KCM), within=2)


async def test_a_down_that_failed_holds(operator):
    forbidden = Trouble(forbidden=True, verbs=frozenset({"patch"}), what=frozenset({"deployments"}))
    with operator.faults.seed_trouble(forbidden):
        operator.request("Down")
        assert (await operator.done())["phase"] == "Failed"
    assert operator.hold() is not None
    with operator.faults.path_cut(SHOOT):
        await operator.run(60)
        assert operator.reason() is VerdictReason.HELD
        assert not operator.writes()


async def test_one_that_somebody_cancels_by_its_status_ends_its_run_and_holds_on(slow):
    name = slow.request("Down")
    await slow.until(lambda: slow.writes(MCM))
    await slow.run(2)
    slow.set_status(phase="Cancelled")
    await slow.run(1)
    assert not slow.operation(name).running
    assert slow.hold() is not None
    await slow.run(90)
    assert not slow.writes(KCM)
    assert slow.replicas() == (1, 0, 0)
    found = slow.status_of()  # of which the person has written the phase alone
    assert (found["phase"], found["message"]) == ("Cancelled", "its status says Cancelled")
    assert [each["phase"] for each in found["steps"]] == ["Done", "Done", "Cancelled"]
    assert found["endedAt"] < found["holdUntil"]


async def test_deleting_one_that_has_ended_ends_its_hold(operator):
    operator.request("Down", hold="24h")
    await operator.done()
    await operator.run(30)
    assert operator.replicas() == (0, 0, 0)
    operator.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
    await operator.until(lambda: operator.world.replicas(SHOOT, KCM), within=1)


async def test_one_that_cannot_be_decoded_is_neither_carried_out_nor_does_it_hold(lab):
    operator = await with_operator(lab, prepare=newer_version)
    operator.request("Sideways")
    await operator.run(5)
    assert operator.status_of() == {}
    assert operator.hold() is None
    assert not operator.writes()


async def test_one_that_cannot_be_decoded_is_no_operation_as_nobody_knows_what_it_asks_for(lab):
    operator = await with_operator(lab, prepare=newer_version)
    operator.request("Sideways")
    await operator.run(5)
    (request,) = operator.environment.overrides.requests()
    runs = operator.prober.scaling_runs
    assert list(runs.operations()) == []
    assert runs.operation(request.id.uid) is None
    with pytest.raises(NotFound):
        await runs.cancel(request.id.uid, by="bob")


# Dry run.


async def test_a_dry_run_writes_nothing_not_even_a_status(lab, capsys):
    operator = await with_operator(lab, dry_run=True)
    operator.held(name="one-before")
    operator.request("Down")
    await operator.run(30)
    assert operator.status_of(REQUEST) == {}
    assert not operator.notes()
    assert not operator.writes()
    assert not operator.told("FlowStarted")
    said = [line for line in capsys.readouterr().out.splitlines() if "is not carried out" in line]
    assert len(said) == 1
    assert "step=begin" in said[0]


async def test_a_dry_run_says_again_what_it_would_do_where_that_changes(lab, capsys):
    operator = await with_operator(lab, settle=0, dry_run=True)
    operator.request("Up")
    await operator.run(60)
    said = [line for line in capsys.readouterr().out.splitlines() if "is not carried out" in line]
    assert ["step=wait" in each for each in said] == [True, False]
    assert "step=begin" in said[1]


# An unexpected error: nothing may wait for ever for what has failed.


async def test_an_unexpected_error_of_a_request_is_reported_and_it_is_looked_at_again(
    operator, monkeypatch
):
    step, steps = ShootScaleRequests._step, itertools.count(1)

    async def fails_once(shoot, request):
        if next(steps) == 1:
            raise RuntimeError("a defect")
        return await step(shoot, request)

    monkeypatch.setattr(ShootScaleRequests, "_step", fails_once)
    with capture_logs():  # a rendered traceback would cost a second of real time
        await operator.ended(operator.request("Down"), within=60)
    assert operator.told("RunnerFailed")
    assert operator.replicas() == (0, 0, 0)


async def test_an_unexpected_error_of_a_run_ends_it_and_its_request(operator, monkeypatch, lines):
    plan, levels = ScalingRun._plan, itertools.count(1)

    def fails_at_the_second_level(run, dependents):
        if next(levels) == 2:
            raise RuntimeError("a defect")
        return plan(run, dependents)

    monkeypatch.setattr(ScalingRun, "_plan", fails_at_the_second_level)
    ended = await operator.ended(operator.request("Down", hold="1m"), within=60)
    assert ended.phase is OperationPhase.CANCELLED
    assert "RuntimeError" in ended.message
    assert [each for each in lines if each["event"] == "scaling run failed"]
    await operator.until(lambda: operator.replicas() == (1, 1, 1), within=300)


async def test_an_unexpected_error_of_one_resource_fails_its_step_alone(operator, monkeypatch):
    scale = ResourceRun._scale

    async def fails(run):
        if run.ref == MCM:
            raise RuntimeError("a defect")
        await scale(run)

    monkeypatch.setattr(ResourceRun, "_scale", fails)
    with capture_logs():
        ended = await operator.ended(operator.request("Down"), within=60)
    why = {each.resource.name: each.message for each in ended.steps}
    assert why == {MCM.name: "an unexpected error, see the log", CA.name: "", KCM.name: ""}
