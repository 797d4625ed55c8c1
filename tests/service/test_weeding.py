"""The weeder in a process: what it deletes is told everywhere; virtual time."""

import asyncio
from itertools import pairwise

import pytest

from app.core.kube.election import SoleOwner
from app.core.model.instants import rfc3339
from app.core.model.weeding import KeepReason, ServiceKey
from app.core.ports import Preparation
from tests.service.lives import BOTH, SERVICE, WEEDER, life, stopped
from tests.support.harness import SHOOT

pytestmark = pytest.mark.usefixtures("lines")

SHAPES = pytest.mark.parametrize("loops", [WEEDER, BOTH], ids=" and ".join)


class Sink:
    """Takes Events."""

    def __init__(self):
        self.taken = []

    async def emit(self, namespace, body):
        assert namespace == SHOOT
        self.taken.append(body)


async def comes_back(found, *, after=90.0):
    """The service is away for so long that its dependants crash several times; returns when it is ready again."""
    await found.service.start()
    await asyncio.sleep(60)
    with found.world.faults.service_unready(SHOOT, SERVICE):
        await asyncio.sleep(after)


@SHAPES
async def test_a_deletion_is_the_same_story_in_every_record(loops, lines):
    sink = Sink()
    found = life(loops=loops, events=sink.emit)
    await comes_back(found)
    await asyncio.sleep(30)
    weeder = found.service.weeder.weeder.controller
    (recovery,) = weeder.status(ServiceKey(SHOOT, SERVICE)).recoveries
    pods = [each.pod for each in recovery.deletions]
    assert pods, "there was something to delete"
    labels = {"service": SERVICE, "result": "deleted"}
    counted = found.core.metrics.registry.get_sample_value
    assert counted("dwd_weeder_pod_deletions_total", labels) == len(pods)
    assert [line["pod"] for line in lines if line.get("reason") == "PodWeeded"] == pods
    events = [each["action"] for each in sink.taken if each["reason"] == "PodWeeded"]
    assert events == ["Delete"] * len(pods)
    # history: where there are shoots
    reasons = [each.reason for each in found.service._history.of(SHOOT) if each.kind == "Weed"]
    assert reasons.count("PodWeeded") == (len(pods) if loops == BOTH else 0)
    await found.service.stop("the test is over")


@pytest.mark.parametrize("before", [{"seconds": 7200}, {"seconds": 60}, None])
async def test_what_was_forced_despite_a_pause_is_stopped_by_any_that_comes_later(before):
    """Which of several acts, for the API and in messages, does not matter."""
    found = life(loops=WEEDER)
    clock, people, weeder = found.core.clock, found.world.people, ServiceKey(SHOOT, SERVICE)
    await found.service.start()
    await asyncio.sleep(60)
    controller = found.service.weeder.weeder.controller

    def pause(name, seconds):
        until = rfc3339(clock.now() + seconds)
        people.create("Pause", SHOOT, name, reason=name, until=until)

    if before is not None:
        pause("before", **before)
        await asyncio.sleep(1)
    controller.weed_now(weeder, author="alice", reason="it hangs", force=True)
    found.world.crash_looped(SHOOT, "kube-scheduler", 7)
    await asyncio.sleep(1)
    assert len(controller.status(weeder).recoveries[0].deletions) == 1, "it is forced"
    pause("stop", seconds=3600)
    await asyncio.sleep(1)
    found.world.crash_looped(SHOOT, "cloud-controller-manager", 7)
    await asyncio.sleep(10)
    (recovery,) = controller.status(weeder).recoveries
    assert len(recovery.deletions) == 1
    paused = [each.message for each in recovery.spared if each.reason is KeepReason.PAUSED]
    assert ["the shoot is paused by unknown" in each and "stop" in each for each in paused] == [
        True
    ]
    await found.service.stop("the test is over")


async def test_the_flag_says_how_fast_pods_are_deleted(lines):
    found = life(loops=WEEDER, flags={"max_deletions_per_second": 0.25})
    await comes_back(found)
    await asyncio.sleep(60)
    weeder = found.service.weeder.weeder.controller
    (recovery,) = weeder.status(ServiceKey(SHOOT, SERVICE)).recoveries
    times = [each.at for each in recovery.deletions]
    assert min(round(after - before, 1) for before, after in pairwise(times)) == 4.0
    await found.service.stop("the test is over")


async def test_the_election_of_each_loop_hears_how_far_that_is(monkeypatch):
    told = []
    monkeypatch.setattr(SoleOwner, "prepare", lambda _, prepared: told.append(prepared))
    found = life(loops=BOTH)
    assert [each() for each in told] == [Preparation.NONE, Preparation.NONE]
    await found.service.start()
    await asyncio.sleep(5)
    assert [each() for each in told] == [Preparation.COMPLETE, Preparation.COMPLETE]
    await stopped(found)
