"""The weeder in a process: what it deletes is told everywhere; virtual time."""

import asyncio

import pytest
from structlog.testing import capture_logs

from app.api import schemas
from app.core.kube.election import SoleOwner
from app.core.model.weeding import ServiceKey
from app.core.ports import Preparation
from app.simulation.store import ObjectKey
from tests.service.lives import BOTH, SERVICE, WEEDER, life, stopped
from tests.support.harness import SHOOT

SHAPES = pytest.mark.parametrize("loops", [WEEDER, BOTH], ids=" and ".join)


@pytest.fixture(autouse=True)
def lines():
    with capture_logs() as found:
        yield found


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


def value(found, name, **labels):
    return found.core.metrics.registry.get_sample_value(name, labels)


def weeded(found):
    """The service as the API shows it, and the pods that were deleted."""
    status = found.service.weeder.weeder.controller.status(ServiceKey(SHOOT, SERVICE))
    shown = schemas.Weeder.of(status)
    return shown, [each.pod for each in shown.recoveries[0].deletions]


@SHAPES
async def test_a_deletion_is_the_same_story_in_every_record(loops, lines):
    sink = Sink()
    found = life(loops=loops, events=sink.emit)
    await comes_back(found)
    await asyncio.sleep(30)
    shown, pods = weeded(found)
    assert pods, "there was something to delete"
    assert shown.ready
    assert all(each.spared_backoff for each in shown.recoveries[0].deletions)
    # metrics
    name = "dwd_weeder_pod_deletions_total"
    assert value(found, name, service=SERVICE, result="deleted") == len(pods)
    assert value(found, "dwd_weeder_recoveries_total", service=SERVICE) == 1
    assert value(found, "dwd_weeder_watches_active") == 1
    # log
    told = [line for line in lines if line.get("reason") == "PodWeeded"]
    assert [line["pod"] for line in told] == pods
    # Events, on the owners
    events = [each for each in sink.taken if each["reason"] == "PodWeeded"]
    assert [each["action"] for each in events] == ["Delete"] * len(pods)
    for each in events:
        about = each["regarding"]
        owner = found.world.store.get(ObjectKey(about["kind"], SHOOT, about["name"]))
        assert about["uid"] == owner["metadata"]["uid"]
    # history: where there are shoots
    kept = [each for each in found.service._history.of(SHOOT) if each.kind == "Weed"]
    reasons = [each.reason for each in kept]
    assert reasons.count("PodWeeded") == (len(pods) if loops == BOTH else 0)
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
