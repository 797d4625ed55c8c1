"""What an Event says: plain sentences, for whoever looks after the object that it is on."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.model import workloads as ann
from app.core.model.scaling_runs import (
    OURSELVES,
    OperationPhase,
    ScaleSpec,
    ScalingRunStatus,
    ScalingStep,
    StepResult,
    Trigger,
)
from app.core.model.workloads import Direction, Patch
from app.prober import messages
from app.prober.rules.scaling import Task, Why
from tests.support.harness import CA, GARDENER, KCM, MCM, SHOOT

OURS = re.compile(
    r"verdict|\bHOLD\b|\bflow\b|dependent|runner|probing|meltdown key|weed|ignore-scaling(?! asks| is)"
)
"""Words that only we have."""


def notes(harness):
    """The notes of all Events, by reason and name."""
    told = [each for each in harness.notices if each.event]
    return {(each.reason, each.resource.name): each.event for each in told}


async def test_an_outage_is_told_in_sentences_that_anybody_understands(harness):
    await harness.survive_an_outage()
    await harness.run(120)
    found = notes(harness)
    assert found["ScaledDown", KCM.name] == (
        "Scaled from 1 to 0 replicas, as nodes cannot reach their API server; it comes back with 1 when they can."
    )
    assert found["ScaledUp", CA.name] == (
        "Scaled from 0 to 1 replicas, as the nodes reach their API server again."
    )
    assert "10 node leases are older than 30 s" in found["MeltdownProtectionStarted", KCM.name]
    assert "are started again. Reason: 0 of 10" in found["MeltdownProtectionEnded", KCM.name]


async def test_what_a_person_wrote_into_annotations_is_answered_on_the_object(harness):
    harness.annotate(MCM, ignore_scaling="perhaps")
    async with harness.under_protection():
        harness.annotate(CA, replicas="many")
        harness.annotate(KCM, ignore_scaling="true")
        await harness.run(30)
    await harness.run(120)
    found = notes(harness)
    assert found["InvalidIgnoreScalingAnnotation", MCM.name] == (
        f"The annotation {ann.IGNORE_SCALING} is neither true nor false: it is ignored."
    )
    assert found["InvalidReplicasAnnotation", CA.name] == (
        f"The annotation {ann.REPLICAS} has no valid number of replicas: 1 is used instead."
    )
    assert found["ScalingSkipped", KCM.name] == (
        f"Left at 0 replicas, as the annotation {ann.IGNORE_SCALING} asks for."
    )


async def test_an_annotation_that_means_nothing_is_told_once_and_before_anything_is_scaled(harness):
    harness.annotate(MCM, ignore_scaling="yes")
    await harness.run(60)
    invalid = [each.resource for each in harness.told("InvalidIgnoreScalingAnnotation")]
    assert invalid == [MCM]
    for value in ("true", "perhaps"):
        harness.annotate(MCM, ignore_scaling=value)
        await harness.run(5)
    assert len(harness.told("InvalidIgnoreScalingAnnotation")) == 2
    assert not harness.told("FlowStarted")
    await harness.kill()
    following = harness.again()
    await following.run(5)
    assert len(following.told("InvalidIgnoreScalingAnnotation")) == 1, "to a new process it is new"


async def test_what_was_at_0_for_no_known_reason_says_so_when_it_comes_back(harness):
    harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    await harness.until(lambda: harness.told("FoundAtZero"), within=300)
    assert notes(harness)["FoundAtZero", KCM.name] == (
        "Scaled from 0 to 1 replicas: the nodes reach their API server, and nothing says why it was at 0."
    )


async def test_what_cannot_be_scaled_says_why(harness):
    with harness.faults.path_cut(SHOOT), harness.faults.patch_forbidden():
        await harness.until(lambda: harness.told("ScalingFailed"), within=120)
    said = [note for (reason, _), note in notes(harness).items() if reason == "ScalingFailed"]
    assert said
    assert all(each.startswith("Could not be scaled down: ") for each in said)


async def test_a_shoot_that_is_left_alone_in_an_outage_says_so_on_all_that_stays_down(harness):
    async with harness.under_protection():
        harness.faults.hibernated(SHOOT)
        await harness.until(lambda: harness.told("ProtectionAbandoned"))
    found = notes(harness)
    for ref in (KCM, MCM, CA):
        assert re.fullmatch(
            r"This cluster is no longer watched \(.*hibernat.*\): stopped controllers stay stopped\.",
            found["ProtectionAbandoned", ref.name],
        )


# Every way in which a resource can end.


def order(direction=Direction.DOWN, author=None, trigger=Trigger.AUTO):
    return ScalingRunStatus(
        "f-1",
        SHOOT,
        direction,
        trigger,
        OperationPhase.RUNNING,
        0.0,
        "the load balancer is replaced",
        author,
        hold_until=60.0,
    )


def run(
    result=StepResult.DONE, why=Why.SCALED_DOWN, before=2, after=0, *, message="", accepted=True
):
    keys = {ann.REPLICAS: "2"} if after == 0 else {}
    task = Task(ScalingStep.WRITE, why, Patch("1", after, keys), before, after)
    return SimpleNamespace(ref=KCM, result=result, task=task, message=message, accepted=accepted)


BY_HAND = order(author="alice", trigger=Trigger.MANUAL)
BY_ITSELF = "Scaled from 2 to 0 replicas, as nodes cannot reach their API server; it comes back with 2 when they can."
RELEASED = order(Direction.UP, OURSELVES, Trigger.MANUAL)


@pytest.mark.parametrize(
    ("given", "ended", "said"),
    [
        (BY_HAND, run(), "Scaled from 2 to 0 replicas for alice: the load balancer is replaced."),
        (
            RELEASED,
            run(why=Why.SCALED_UP, before=0, after=2),
            "Scaled from 0 to 2 replicas, as the maximum protection duration was reached.",
        ),
        (
            order(),
            run(StepResult.CANCELLED, message="the nodes are back"),
            f"{BY_ITSELF} Its pods were not awaited: the nodes are back.",
        ),
        (
            order(Direction.UP),
            run(StepResult.FAILED, Why.SCALED_UP, 0, 2, message="patch deployments: 403"),
            "Could not be scaled up: patch deployments: 403.",
        ),
    ],
)
def test_whoever_caused_it_is_in_the_sentence(given, ended, said):
    assert messages.note(given, ended) == said


def told(publish, *args, **more):
    """The note of the Event that this message makes."""
    said: list[Any] = []
    bus = SimpleNamespace(publish=said.append)
    clock = SimpleNamespace(now=lambda: 0.0)
    publish(SimpleNamespace(notice_bus=bus, clock=clock, policy=GARDENER), *args, **more)
    return said[0].event


@pytest.mark.parametrize("result", list(StepResult))
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("author", [None, "alice"])
def test_no_sentence_has_words_that_only_we_have(result, direction, author):
    given = order(direction, author, Trigger.MANUAL if author else Trigger.AUTO)
    why = "7 of 10 node leases are older than 30 s"
    release = ScaleSpec(Direction.UP, "long enough", OURSELVES, 300.0)
    for said in (
        messages.note(given, run(result)),
        told(messages.protection_changed, SHOOT, [KCM], why, began=True),
        told(messages.protection_changed, SHOOT, [KCM], why, began=False),
        told(messages.protection_abandoned, SHOOT, [KCM], "hibernated"),
        told(messages.released, SHOOT, release),
        told(messages.cancelled, given, author),
    ):
        assert not OURS.search(said), said
        assert said[0].isupper()
        assert said.endswith(".")


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (run(), f"{KCM} was scaled down from 2 to 0"),
        (run(StepResult.SKIPPED, message="Gone"), f"{KCM} was not scaled down: Gone"),
        (run(StepResult.FAILED, message="403"), f"scaling {KCM} down failed: 403"),
        (run(StepResult.DRY_RUN), f"{KCM} would be scaled down from 2 to 0"),
        (
            run(StepResult.CANCELLED, message="paused", accepted=False),
            f"scaling {KCM} down was ended: paused",
        ),
        (
            run(StepResult.CANCELLED, message="paused"),
            f"{KCM} was scaled down from 2 to 0; its pods were not awaited: paused",
        ),
    ],
)
def test_a_line_of_the_log_says_what_became_of_a_resource(ended, said):
    assert messages.line(Direction.DOWN, ended) == said
