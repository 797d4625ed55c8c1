"""Kubernetes Events: what they look like, and that they are never in the way."""

import asyncio
from typing import Any

import pytest

from app.core.clock import Clock
from app.core.errors import Forbidden, Throttled, Unreachable
from app.core.metrics import Metrics
from app.core.model.weeding import DeletionResult
from app.core.model.workloads import ResourceRef
from app.core.reporting.event_writer import EventWriter, event
from app.core.reporting.notices import OverrideNotice, PodJudged, ScalingNotice, Severity
from app.core.tasks import Tasks
from tests.support.notices import SCALED_DOWN

NS = "shoot--a"
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")


class Sink:
    """Takes Events, or fails as the test wants it."""

    def __init__(self):
        self.taken = []
        self.times = []
        self.fails = None
        self.hangs = False
        self.seconds = 0.0
        self.in_flight = self.most = 0

    async def emit(self, namespace, body):
        self.times.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(self.seconds)
            if self.hangs:
                await asyncio.Event().wait()
        finally:
            self.in_flight -= 1
        if self.fails is not None:
            raise self.fails
        self.taken.append((namespace, body))

    @property
    def reasons(self):
        return [body["reason"] for _, body in self.taken]


class Harness:
    def __init__(self):
        self.clock = Clock.of_loop()
        self.metrics = Metrics()
        self.sink = Sink()
        self.leads = True
        self.tasks = Tasks(self.clock)
        self.writer = EventWriter(
            self.sink.emit,
            leading=lambda: self.leads,
            uid_of=lambda _namespace, ref: f"uid-of-{ref.name}",
            identity="dwd-7f9",
            clock=self.clock,
            metrics=self.metrics,
        )
        _ = self.tasks.shared(self.writer.run, "events")

    def tell(self, reason="ScaledDown", message="scaled", resource=KCM, *, event=True):
        note = message if event else None
        self.writer.note(
            ScalingNotice(NS, self.clock.now(), reason, message, resource=resource, event=note)
        )

    def flood(self, number):
        for each in range(number):
            self.tell(message=f"scaled {each}")

    @property
    def off(self):
        return self.metrics.registry.get_sample_value("dwd_feature_off", {"feature": "events"})

    def lost(self, cause):
        return self.metrics.registry.get_sample_value("dwd_events_lost_total", {"cause": cause})


@pytest.fixture
async def harness():
    found = Harness()
    yield found
    await found.tasks.stop()


async def settle(seconds=1.0):
    await asyncio.sleep(seconds)


def regarding(kind, name, uid):
    return {"apiVersion": "apps/v1", "kind": kind, "namespace": NS, "name": name, "uid": uid}


async def test_an_event_is_on_the_dependent_or_on_the_owner_of_a_pod_that_was_deleted(harness):
    harness.tell()
    weeding(harness, "PodWeeded", "deleted")
    await settle()
    assert {namespace for namespace, _ in harness.sink.taken} == {NS}
    bodies = [body for _, body in harness.sink.taken]
    assert {each["metadata"]["namespace"] for each in bodies} == {NS}
    assert [(each["action"], each["note"], each["regarding"]) for each in bodies] == [
        ("Probe", "scaled", regarding("Deployment", KCM.name, f"uid-of-{KCM.name}")),
        ("Delete", "deleted", regarding("ReplicaSet", OWNER.name, "uid-of-the-owner")),
    ]


def body_of(message="scaled", severity=Severity.INFO, reason="ScaledDown"):
    at = 1_800_000_000.25
    notice = SCALED_DOWN(NS, at, reason, message, severity, resource=KCM, event=message)
    return event(notice, KCM, uid=None, identity="x" * 200, number=7)


def test_an_event_has_what_the_api_asks_for():
    body = body_of()
    assert body["apiVersion"] == "events.k8s.io/v1"
    assert body["eventTime"] == "2027-01-15T08:00:00.250000Z"
    assert body["reportingController"] == "dependency-watchdog"
    assert len(body["reportingInstance"]) == 128
    assert (body["action"], body["reason"], body["type"]) == ("ScaleDown", "ScaledDown", "Normal")
    assert body["metadata"]["name"] == "kube-controller-manager.66517289c5090.7"
    assert "uid" not in body["regarding"]


@pytest.mark.parametrize("message", ["x" * 5000, "ä" * 5000, "€" * 5000, "a" + "😀" * 5000])
def test_a_note_has_at_most_1024_bytes_and_no_half_character(message):
    note = body_of(message)["note"]
    assert 1020 < len(note.encode()) <= 1024
    assert note == message[: len(note)]


def test_a_note_has_no_control_characters():
    assert body_of("a\nb\x1b[2J\u202e")["note"] == "a b [2J "


@pytest.mark.parametrize(
    ("reason", "severity", "kind"),
    [
        ("ScalingFailed", Severity.ERROR, "Warning"),
        ("MeltdownProtectionStarted", Severity.WARNING, "Warning"),
        ("MeltdownProtectionEnded", Severity.WARNING, "Normal"),
        ("ScaledUp", Severity.INFO, "Normal"),
    ],
)
def test_trouble_is_a_warning_and_its_end_is_not(reason, severity, kind):
    assert body_of(reason=reason, severity=severity)["type"] == kind


async def test_what_is_no_event_or_has_no_resource_is_not_written(harness):
    harness.tell(event=False)
    harness.tell(resource=None)
    await settle()
    assert harness.sink.taken == []


async def test_what_was_queued_while_leading_is_not_written_after(harness):
    harness.tell()
    harness.leads = False
    await settle()
    assert harness.sink.times == []


async def test_the_same_within_5_minutes_is_told_once(harness):
    for _ in range(3):
        harness.tell("ScalingFailed", "conflict")
        harness.tell("InvalidReplicasAnnotation", "not one")
        await settle(60)
    assert harness.sink.reasons == ["ScalingFailed", "InvalidReplicasAnnotation"]
    await settle(200)
    harness.tell("ScalingFailed", "conflict")
    await settle()
    assert harness.sink.reasons[-1] == "ScalingFailed"
    assert len(harness.sink.taken) == 3


async def test_what_was_told_of_resources_is_forgotten_after_5_minutes(harness):
    """Most are pods, each with a name of its own: a week of crashes must not add up."""
    told = harness.writer._repeats._told
    for number in range(50):
        harness.tell(resource=ResourceRef("v1", "Pod", f"pod-{number}"))
        await settle(10)
    assert 30 <= len(told) <= 31
    await settle(300)
    harness.tell()
    assert [resource for _, resource in told] == [KCM]


@pytest.mark.parametrize(
    "told",
    [
        [{}, {"resource": MCM}, {"message": "scaled from 3"}],
        [{"reason": each} for each in ("ScaledDown", "ScaledUp", "ScaledDown")],
    ],
    ids=["another resource or note", "down, up and down again"],
)
async def test_what_differs_from_the_last_of_its_resource_is_told(harness, told):
    for each in told:
        harness.tell(**each)
        await settle()
    assert len(harness.sink.taken) == 3


async def test_100_events_go_at_once_and_then_200_a_second(harness):
    begin = asyncio.get_running_loop().time()
    harness.flood(500)
    await settle(30)
    at = [round(time - begin, 2) for time in harness.sink.times]
    assert at[99] == 0
    assert at[101] > 0
    assert at[499] == pytest.approx(2.0, abs=0.05)


async def test_at_most_10_events_are_on_their_way(harness):
    harness.sink.seconds = 0.5
    harness.flood(100)
    await settle(10)
    assert harness.sink.most == 10
    assert len(harness.sink.taken) == 100


MOST_IMPORTANT_FIRST = (
    "MeltdownProtectionStarted",
    "ScaledDown",
    "ScaledUp",
    "ScalingFailed",
    "PodWeeded",
)


def of_every_importance(harness, number):
    """So many of each, the least important first."""
    for each in range(number):
        weeding(harness, "PodWeeded", f"{each}")
    for reason in reversed(MOST_IMPORTANT_FIRST[:-1]):
        for each in range(number):
            harness.tell(reason, f"{each}")


async def test_the_most_important_go_first_and_the_oldest_of_them(harness):
    of_every_importance(harness, 50)
    await settle(10)
    assert harness.sink.reasons == [each for each in MOST_IMPORTANT_FIRST for _ in range(50)]
    notes = [body["note"] for _, body in harness.sink.taken]
    assert notes[:50] == [f"{each}" for each in range(50)]


async def test_what_comes_later_and_is_more_important_overtakes(harness):
    harness.sink.seconds = 1.0
    harness.flood(30)
    await settle(0.5)
    harness.tell("MeltdownProtectionStarted")
    await settle(2)
    assert harness.sink.reasons.index("MeltdownProtectionStarted") < 20


async def test_where_too_many_wait_the_least_important_are_dropped_counted_and_told(harness, lines):
    of_every_importance(harness, 600)
    await settle(30)
    kept = {each: harness.sink.reasons.count(each) for each in MOST_IMPORTANT_FIRST}
    assert list(kept.values()) == [600, 600, 600, 200, 0]
    assert harness.lost("queue") == 1_000
    assert [line["number"] for line in lines if "dropped" in line["event"]] == [1_000]


async def test_of_equally_important_ones_the_last_is_dropped(harness):
    harness.flood(2_100)
    await settle(30)
    assert len(harness.sink.taken) == 2_000
    assert harness.sink.taken[-1][1]["note"] == "scaled 1999"


async def test_nothing_is_lost_until_there_is_something(harness):
    assert (harness.lost("queue"), harness.lost("seed")) == (0, 0)


async def test_forbidden_switches_the_feature_off_is_told_once_and_tried_again_each_hour(
    harness, lines
):
    harness.sink.fails = Forbidden("create events is forbidden")
    for number in range(6):
        harness.tell(message=f"{number}")
        await settle(1300)
        assert harness.off == 1
    assert len(harness.sink.times) == 3 + 1, "the third in a row counts, then one each hour"
    assert len(lines) == 1, "not again where it is still forbidden"
    assert harness.writer.off == "create events is forbidden"
    await settle(3700)
    harness.sink.fails = None
    harness.tell(message="after")
    await settle()
    assert [body["note"] for _, body in harness.sink.taken] == ["after"]
    assert (harness.off, harness.writer.off) == (0, None)


async def test_a_server_that_has_just_started_may_refuse_for_a_moment(harness):
    harness.sink.fails = Forbidden("create events is forbidden")
    for number in range(6):
        harness.tell(message=f"{number}")
    await settle(3)
    assert harness.off != 1, "two in a row, however many were in flight"
    harness.sink.fails = None
    await settle(5)
    assert len(harness.sink.taken) == 6
    assert harness.off != 1


async def test_an_event_that_cannot_be_written_is_lost_and_the_first_of_a_row_is_told(
    harness, lines
):
    harness.sink.fails = Unreachable("refused")
    harness.flood(3)
    await settle(10)
    harness.sink.fails = None
    harness.tell(message="last")
    await settle()
    assert [body["note"] for _, body in harness.sink.taken] == ["last"]
    assert [line["log_level"] for line in lines] == ["warning", "debug", "debug"]
    assert harness.lost("seed") == 3


async def test_a_seed_that_does_not_answer_holds_up_no_more_than_10_s(harness):
    harness.sink.hangs = True
    harness.flood(10)
    await settle(5)
    harness.sink.hangs = False
    harness.tell(message="next")
    await settle(4.5)
    assert harness.sink.taken == []
    await settle(1)
    assert [body["note"] for _, body in harness.sink.taken] == ["next"]
    assert harness.lost("seed") == 10


async def test_an_event_for_which_there_is_no_room_waits_until_there_is(harness, lines):
    """As at a seed that throttles; it is asked once a second, however many wait."""
    harness.sink.fails = Throttled("429")
    harness.flood(300)
    await settle(20)
    assert len(harness.sink.times) <= 10 + 20
    harness.sink.fails = None
    await settle(5)
    assert len(harness.sink.taken) == 300
    assert lines == []


async def test_a_pause_that_the_seed_asks_for_is_kept_by_all(harness):
    harness.sink.fails = Throttled("429", retry_after=7.0)
    harness.tell()
    await settle(1)
    harness.tell("MeltdownProtectionStarted")
    await settle(19)
    first, second, third = harness.sink.times
    assert (second - first, third - second) == (pytest.approx(7.0), pytest.approx(7.0))


async def test_an_event_is_given_up_where_there_is_no_room_for_a_minute(harness, lines):
    harness.sink.fails = Throttled("the request budget for the seed is used up")
    harness.tell()
    await settle(65)
    assert [line["log_level"] for line in lines] == ["warning"]
    assert 55 <= len(harness.sink.times) <= 62
    assert harness.lost("seed") == 1


async def test_an_event_that_waits_for_room_is_dropped_by_one_that_leads_no_more(harness):
    harness.sink.fails = Throttled("the request budget for the seed is used up")
    harness.tell()
    await settle(5)
    harness.leads, harness.sink.fails = False, None
    await settle(5)
    assert harness.sink.taken == []


# The weeder: on the owner of the pod, which is no configured dependent.

OWNER = ResourceRef("apps/v1", "ReplicaSet", "kube-scheduler-5d")


def weeding(harness, reason, message, **more):
    facts: dict[str, Any] = {
        "service": "kube-apiserver",
        "pod": "kube-scheduler-5d-x",
        "result": DeletionResult.DELETED,
        "action": "Delete",
        "resource": OWNER,
        "resource_uid": "uid-of-the-owner",
        "event": message,
    }
    facts |= more
    harness.writer.note(PodJudged(NS, harness.clock.now(), reason, message, **facts))


async def test_a_standby_writes_of_what_a_person_asked_it_for_and_of_nothing_else(harness):
    harness.leads = False
    for of, reason in ((ScalingNotice, "ScaledDown"), (OverrideNotice, "OverrideSet")):
        harness.writer.note(of(NS, 1.0, reason, "so", resource=KCM, event="so"))
    await asyncio.sleep(1)
    assert harness.sink.reasons == ["OverrideSet"]
