"""All deletions together, the openings, and that namespaces share them."""

from itertools import pairwise

import pytest

from app.core.model.weeding import Cause, End, ServiceKey
from app.simulation.faults import PodWatched
from app.simulation.workloads import API_SERVER, PodTimes, Workload

LABELS = {"gardener.cloud/role": "controlplane", "role": "other"}
SERVER = {"gardener.cloud/role": "controlplane", "role": "apiserver"}


def many(lab, sizes, **options):
    """A control plane for each size, with so many pods that wait, whose services are all away."""
    world = lab.world()
    names = [f"shoot--many--{number:03}" for number in range(len(sizes))]
    for namespace, size in zip(names, sizes, strict=True):
        world.add_workload(Workload(namespace, API_SERVER, labels=SERVER, service=API_SERVER))
        times = PodTimes(grace=30.0)
        world.add_workload(Workload(namespace, "dependant", size, LABELS, times=times))
    return names, lab.weeder(world, **options)


async def all_back(harness, names):
    faults = [harness.world.faults.service_unready(name, API_SERVER) for name in names]
    await harness.run(2)
    for name in names:
        harness.crash("dependant", namespace=name)
    for fault in faults:
        fault.lift()
    return harness.now


def most_in_a_second(times):
    return max(sum(at <= other < at + 1 - 1e-4 for other in times) for at in times)


async def test_openings_and_pod_reads_keep_to_fifty_a_second(lab):
    names, harness = many(lab, [1] * 120)
    await harness.run(60)
    before = harness.world.requests.total(what="pods")
    await all_back(harness, names)
    await harness.run(1)
    asked = harness.world.requests.total(what="pods") - before - len(harness.seed.sent)
    assert 50 <= asked <= 100
    await harness.run(10)
    asked = harness.world.requests.total(what="pods") - before - len(harness.seed.sent)
    assert asked == 240, "a list and a watch each"


async def test_what_is_queued_when_the_service_is_lost_is_dropped_and_told(lab):
    names, harness = many(lab, [50])
    await all_back(harness, names)
    await harness.run(1.5)
    key = ServiceKey(names[0], API_SERVER)
    _ = await harness.lose(key)
    await harness.run(20)
    ended = harness.recovery(key)
    assert ended.end is End.LOST
    assert ended.queued >= 10
    assert ended.queued + len(harness.names()) == 50
    (told,) = harness.told("WeedingEnded", names[0])
    assert told.dropped == ended.queued
    assert "still queued" in told.message


async def test_what_is_queued_when_its_time_is_over_is_dropped_and_told(lab):
    names, harness = many(lab, [50], watch_duration=2.0, deletions_a_second=5.0)
    await all_back(harness, names)
    await harness.run(20)
    key = ServiceKey(names[0], API_SERVER)
    assert harness.recovery(key).end is End.COMPLETED
    assert harness.recovery(key).queued + len(harness.names()) == 50
    assert harness.environment.deletion_turns.waiting(names[0]) == 0


async def test_a_turn_that_nobody_needs_any_more_is_anothers(lab):
    """Pods that were made to run while they waited for their turn cost nobody anything."""
    names, harness = many(lab, [1, 1, 1, 1], deletions_a_second=1.0)
    await all_back(harness, names)
    deletions = harness.environment.deletion_turns
    await harness.until(lambda: sum(map(deletions.waiting, names)) == 3)
    first = {each.pod.namespace for each in harness.deleted()}
    harness.pauses.pause(next(name for name in names if name not in first))
    await harness.run(2.5)
    assert len(harness.seed.sent) == 3
    assert [round(b.at - a.at, 2) for a, b in pairwise(harness.seed.sent)] == [1, 1]


@pytest.mark.parametrize("lost", [True, False], ids=["ended", "stalled"])
async def test_a_watch_without_pods_asks_for_no_turn(lab, lost):
    names, harness = many(lab, [0])
    if not lost:
        harness.world.faults.pod_watch_stalled(PodWatched.PODS)
    await all_back(harness, names)
    await harness.run(60)
    assert harness.environment.deletion_turns.waiting(names[0]) == 0
    assert harness.seed.sent == []


async def test_recoveries_of_namespaces_that_waited_longest_are_opened_first(lab):
    names, harness = many(lab, [2] * 80)
    await all_back(harness, names[:40])
    await harness.run(3)
    await all_back(harness, names)
    await harness.run(5)
    assert [name for name in names[40:] if not harness.names(name)] == []


async def test_who_waits_longest_for_a_deletion_is_let_in_first(lab):
    """Else those that come late in each wave of an outage would stay out, however often they were let in."""

    def wave():
        for name in names:
            _ = harness.weeder.registry.begin(ServiceKey(name, API_SERVER), Cause.ASKED, 300.0)

    names, harness = many(lab, [1] * 60, deletions_a_second=100.0)
    early, late = names[:50], names[50:]
    await harness.run(10)
    for name in early:
        harness.crash("dependant", namespace=name)
    wave()
    await harness.run(5)
    assert {each.pod.namespace for each in harness.deleted()} == set(early)
    for name in names:
        harness.crash("dependant", namespace=name)
    wave()
    await harness.run(0.6)
    assert {each.pod.namespace for each in harness.deleted()[50:]} >= set(late)
    assert len(harness.deleted()) < 110, "not all of them were let in yet"
