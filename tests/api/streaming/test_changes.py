"""What is told as a change, once and in time; and what is told to nobody."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from app.api import presenting
from app.core.model import workloads as ann
from app.core.model.overrides import API_PAUSE
from app.core.model.policy import Loop
from app.core.model.probing import NoticeKind
from app.core.model.scaling_runs import OperationPhase, RunStep, StepPhase, Trigger
from app.core.model.weeding import End, Phase, ServiceKey
from app.core.model.workloads import Direction
from app.core.ports import SeedChange, Watched
from tests.api import facts

OTHER = "shoot--acme--dev"
ETCD = ServiceKey(facts.NAMESPACE, "etcd-main-client")


def operation(phase=OperationPhase.RUNNING, step=StepPhase.WAITING, name="op-1"):
    how = {"direction": Direction.DOWN, "trigger": Trigger.AUTO, "started": facts.NOW}
    return facts.run(name, phase=phase, steps=(RunStep(facts.KCM, 0, step),), **how)


def recovery(deletions=0, **more):
    found = tuple(facts.deleted(f"pod-{n}") for n in range(deletions))
    return replace(facts.recovery(ETCD, facts.NOW, deletions=found), **more)


def service(*recoveries):
    return facts.service(*recoveries, key=ETCD)


def watched(shoots, monkeypatch):
    """The shoots that are asked for, from now on."""
    asked: list[str] = []
    inner = shoots.status

    def status(namespace):
        asked.append(namespace)
        return inner(namespace)

    monkeypatch.setattr(shoots, "status", status)
    return asked


async def test_a_change_of_a_shoot_is_told_within_a_tenth_of_a_second(harness, shoots):
    shoots.add(facts.healthy(OTHER))
    client = await harness.listen()
    assert client.events == [], "it begins with what changes next"
    shoots.add(facts.protected())
    began = harness.clock.now()
    harness.look(facts.NAMESPACE)
    await harness.run(0.3)
    [event] = client.events
    assert (event.name, event.data["namespace"], event.data["state"]) == (
        "shoot",
        facts.NAMESPACE,
        "Protected",
    )
    assert event.at - began < 0.1
    prober = harness.given.prober
    shown = presenting.shoot(
        facts.protected(), prober.policy, prober.overrides.effective(facts.NAMESPACE)
    )
    assert event.data == shown.public(), "as a read of the shoot has it"


async def test_many_signs_within_a_moment_are_one_probe_and_one_event(harness, shoots, monkeypatch):
    client = await harness.listen()
    asked = watched(shoots, monkeypatch)
    for number in range(100):
        shoots.add(replace(facts.healthy(), message=f"{number}"))
        harness.look(facts.NAMESPACE)
        await harness.run(0.01)
    await harness.run(0.3)
    assert len(client.events) <= 7
    assert len(asked) <= 7
    assert client.events[-1].data["message"] == "99", "the last word is told"


async def test_what_a_watch_shows_is_told_without_a_notice(harness, shoots):
    client = await harness.listen()
    shoots.add(replace(facts.healthy(), resources={facts.KCM: facts.workload(facts.KCM, 0)}))
    harness.streams.seed_changed(SeedChange(Watched.DEPENDENTS, facts.NAMESPACE))
    await harness.run(0.3)
    assert client.data("shoot")[0]["resources"][0]["replicas"]["spec"] == 0


@pytest.mark.parametrize("what", [Watched.MACHINES, Watched.SECRETS])
async def test_what_is_no_part_of_a_shoot_makes_nobody_probe(harness, shoots, monkeypatch, what):
    await harness.listen()
    asked = watched(shoots, monkeypatch)
    harness.streams.seed_changed(SeedChange(what, facts.NAMESPACE))
    await harness.run(0.3)
    assert asked == []


async def test_a_shoot_that_is_new_and_one_that_is_gone_are_told_once(harness, shoots):
    client = await harness.listen()
    shoots.add(facts.healthy(OTHER))
    harness.note(NoticeKind.LIFECYCLE, OTHER)
    await harness.run(0.3)
    assert client.names == ["shoot"]
    del shoots.known[OTHER]
    harness.note(NoticeKind.LIFECYCLE, OTHER)
    harness.note(NoticeKind.LIFECYCLE, "shoot--never--was")
    await harness.run(0.3)
    harness.note(NoticeKind.LIFECYCLE, OTHER)
    await harness.run(0.3)
    assert [(each.name, each.data) for each in client.events[1:]] == [
        ("shoot-gone", {"namespace": OTHER})
    ]


async def test_each_step_of_a_run_is_told_whether_it_comes_with_a_notice_or_not(
    harness, scaling_runs
):
    client = await harness.listen()
    scaling_runs.add(operation())
    harness.note(NoticeKind.SCALE, facts.NAMESPACE)
    await harness.run(0.3)
    scaling_runs.add(operation(step=StepPhase.RUNNING))
    await harness.run(1.3)
    scaling_runs.add(operation(OperationPhase.DONE, StepPhase.DONE))
    await harness.run(1.3)
    scaling_runs.add(operation(OperationPhase.FAILED), operation(name="op-2"))
    await harness.run(5)
    told = [(each["phase"], each["steps"][0]["phase"]) for each in client.data("operation")]
    assert told == [("Running", "Waiting"), ("Running", "Running"), ("Done", "Done")]


async def test_a_run_that_is_over_before_anybody_looked_is_told_all_the_same(harness, scaling_runs):
    scaling_runs.add(operation(OperationPhase.DONE, name="op-0"))
    client = await harness.listen()
    scaling_runs.add(operation(OperationPhase.FAILED))
    harness.note(NoticeKind.SCALE, facts.NAMESPACE)
    await harness.run(0.3)
    assert [each["id"] for each in client.data("operation")] == ["op-1"]


async def test_a_recovery_is_told_with_its_numbers_and_without_its_pods(harness, weeders):
    client = await harness.listen()
    weeders.add(service(recovery(deletions=2_000, queued=3)))
    harness.note(NoticeKind.WEED, facts.NAMESPACE, service=ETCD.service)
    await harness.run(0.3)
    [data] = client.data("weeder")
    assert (data["namespace"], data["service"]) == ETCD
    assert (data["recovery"]["deletions"], data["recovery"]["queued"]) == (2_000, 3)
    assert len(str(data)) < 1_000


async def test_a_recovery_that_runs_is_looked_at_each_second_until_it_has_ended(harness, weeders):
    client = await harness.listen()
    weeders.add(service(recovery(phase=Phase.OPENING)))
    harness.note(NoticeKind.WEED, facts.NAMESPACE, service=ETCD.service)
    await harness.run(0.3)
    weeders.add(service(recovery()))
    await harness.run(1.3)
    weeders.add(service(recovery(phase=Phase.ENDED, ended=facts.NOW, end=End.LOST)))
    await harness.run(1.3)
    weeders.add(service(recovery(phase=Phase.ENDED, ended=facts.NOW, end=End.COMPLETED)))
    await harness.run(5)
    told = [each["recovery"]["phase"] for each in client.data("weeder")]
    assert told == ["Opening", "Watching", "Ended"]
    assert client.data("weeder")[-1]["recovery"]["end"] == "ServiceLost"


async def test_a_pause_and_its_end_are_told_with_the_shoot_that_they_cover(
    harness, shoots, overrides
):
    shoots.add(facts.healthy(OTHER))
    client = await harness.listen()
    overrides.add(facts.pause())
    await harness.run(0.3)
    [told] = client.data("override")
    assert (told["namespace"], told["kind"], told["resource"]) == (facts.NAMESPACE, "pause", None)
    assert (told["author"], told["before"]) == ("alice", None)
    assert told["after"]["reason"] == "maintenance of the seed"
    [shoot] = client.data("shoot")
    assert (shoot["namespace"], shoot["pause"]["covers"]) == (facts.NAMESPACE, "shoot")
    await overrides.end_pause(facts.NAMESPACE, API_PAUSE, by="bob")
    await harness.run(0.3)
    told = client.data("override")[1]
    assert (told["before"]["author"], told["after"], told["author"]) == ("alice", None, "bob")
    assert [each["pause"] for each in client.data("shoot")][1:] == [None]


async def test_a_hold_begins_by_its_author_and_ends_by_who_asked_for_that(harness, overrides):
    client = await harness.listen()
    overrides.add(asked := facts.request(author="carol"))
    await harness.run(0.3)
    await overrides.delete_request(asked, by="bob")
    await harness.run(0.3)
    told = [(each["kind"], each["author"]) for each in client.data("override")]
    assert told == [("hold", "carol"), ("hold", "bob")]


async def test_a_pause_of_all_is_one_override_without_namespace_and_an_event_of_each_shoot(
    harness, shoots, overrides
):
    shoots.add(facts.healthy(OTHER))
    client = await harness.listen()
    overrides.add(facts.pause(of=facts.HOME))
    await harness.run(0.3)
    [told] = client.data("override")
    assert (told["namespace"], told["kind"], told["after"]["covers"]) == (None, "pause", "all")
    assert {each["namespace"] for each in client.data("shoot")} == {facts.NAMESPACE, OTHER}


async def test_a_pause_beside_the_one_that_acts_shows_in_the_number_alone(harness, overrides):
    overrides.add(facts.pause())
    client = await harness.listen()
    overrides.add(facts.pause(name="night-shift", seconds=60))
    await harness.run(0.3)
    assert client.data("override") == []
    assert [each["pauses"] for each in client.data("shoot")] == [2]
    await overrides.end_pause(facts.NAMESPACE, API_PAUSE, by="bob")
    await harness.run(0.3)
    [told] = client.data("override")
    assert (told["before"]["name"], told["after"]["name"]) == ("api", "night-shift")
    assert told["after"]["verified"] is False


async def test_a_request_of_kubectl_is_an_operation_before_anybody_has_begun_it(
    harness, scaling_runs, overrides
):
    client = await harness.listen()
    scaling_runs.add(operation(OperationPhase.PENDING))
    overrides.add(facts.request(done=False))
    await harness.run(0.3)
    assert [each["phase"] for each in client.data("operation")] == ["Pending"]
    assert [each["kind"] for each in client.data("override")] == ["hold"]


async def test_ignore_scaling_is_told_with_who_did_it_where_a_notice_says_so(harness, shoots):
    shoots.add(replace(facts.healthy(), resources={facts.KCM: facts.workload(facts.KCM)}))
    client = await harness.listen()
    ignored = replace(facts.workload(facts.KCM), annotations={ann.IGNORE_SCALING: "true"})
    shoots.add(replace(facts.healthy(), resources={facts.KCM: ignored}))
    harness.streams.seed_changed(SeedChange(Watched.DEPENDENTS, facts.NAMESPACE))
    marked = {"override": "ignore-scaling", "action": "SetOverride"}
    harness.note(NoticeKind.OVERRIDE, facts.NAMESPACE, author="bob", **marked)
    await harness.run(0.3)
    shoots.add(replace(facts.healthy(), resources={facts.KCM: facts.workload(facts.KCM)}))
    harness.streams.seed_changed(SeedChange(Watched.DEPENDENTS, facts.NAMESPACE))
    await harness.run(0.3)
    told = [
        (each["kind"], each["resource"], each["author"], each["before"], each["after"])
        for each in client.data("override")
    ]
    name = "Deployment/kube-controller-manager"
    assert told == [
        ("ignore-scaling", name, "bob", None, True),
        ("ignore-scaling", name, None, True, None),
    ]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"shoot", "operation", "override"}),
        ("kind=shoot", {"shoot"}),
        ("kind=shoot&kind=override", {"shoot", "override"}),
        (f"namespace={facts.NAMESPACE}", {"shoot", "operation", "override"}),
        (f"namespace={OTHER}", set()),
        (f"namespace={facts.NAMESPACE}&kind=operation", {"operation"}),
    ],
)
async def test_filters_leave_out_the_rest(harness, scaling_runs, overrides, query, found):
    client = await harness.listen(query)
    overrides.add(facts.pause())
    scaling_runs.add(operation())
    harness.note(NoticeKind.SCALE, facts.NAMESPACE)
    await harness.run(0.3)
    assert set(client.names) == found


async def test_attempts_are_told_to_those_who_ask_for_them_once_for_each_moment(harness):
    asked, usual = await harness.listen("kind=audit"), await harness.listen()
    for number in range(100):
        harness.given.audit.note(facts.attempt(f"r{number}", 403))
    await harness.run(0.3)
    assert asked.names == ["audit"]
    assert asked.data("audit") == [{"time": asked.data("audit")[0]["time"]}], (
        "not who, and not what"
    )
    assert usual.names == []


async def test_a_process_with_the_weeder_alone_tells_of_the_weeder(
    harness, process, weeders, shoots
):
    process.loops = (Loop.WEEDER,)
    client = await harness.listen()
    shoots.add(facts.protected())
    weeders.add(service(recovery()))
    harness.look(facts.NAMESPACE)
    harness.note(NoticeKind.WEED, facts.NAMESPACE, service=ETCD.service)
    await harness.run(0.3)
    assert client.names == ["weeder"]


async def test_nothing_is_drawn_while_nobody_listens(harness, shoots, monkeypatch):
    asked = watched(shoots, monkeypatch)
    for _ in range(10):
        harness.look(facts.NAMESPACE)
        await harness.run(1)
    assert asked == []
    client = await harness.listen()
    assert asked
    await client.leave()
    await harness.run(70)
    asked.clear()
    harness.look(facts.NAMESPACE)
    await harness.run(1)
    assert asked == []


async def test_drawing_many_shoots_lets_others_have_the_loop(harness, shoots, monkeypatch):
    shoots.add(*(facts.healthy(f"shoot--{n}") for n in range(150)))
    turn = 0
    rendered: Counter[int] = Counter()
    inner = shoots.status

    def status(namespace):
        rendered[turn] += 1
        return inner(namespace)

    async def another():
        nonlocal turn
        while True:
            await harness.clock.sleep(0.001)
            turn += 1

    monkeypatch.setattr(shoots, "status", status)
    task = asyncio.ensure_future(another())
    client = await harness.listen()
    for n in range(150):
        shoots.add(facts.protected(f"shoot--{n}"))
        harness.look(f"shoot--{n}")
    await harness.run(1)
    task.cancel()
    assert len(client.events) == 150
    assert max(rendered.values()) <= 50
