"""All deletions together, the openings, and that namespaces share them."""

from itertools import pairwise

import pytest

from app.core.model.weeding import Cause, End, ServiceKey
from app.simulation.faults import PodWatched
from app.simulation.workloads import API_SERVER, PodTimes, Workload

LABELS = {"gardener.cloud/role": "controlplane", "role": "other"}
SERVER = {"gardener.cloud/role": "controlplane", "role": "apiserver"}


def many(stage, sizes, **options):
    """A control plane for each size, with so many pods that wait, whose services are all away."""
    world = stage.world()
    names = [f"shoot--many--{number:03}" for number in range(len(sizes))]
    for namespace, size in zip(names, sizes, strict=True):
        world.add_workload(Workload(namespace, API_SERVER, labels=SERVER, service=API_SERVER))
        times = PodTimes(grace=30.0)
        world.add_workload(Workload(namespace, "dependant", size, LABELS, times=times))
    return names, stage.weeder(world, **options)


async def all_back(stand, names):
    faults = [stand.world.faults.service_unready(name, API_SERVER) for name in names]
    await stand.run(2)
    for name in names:
        stand.crash("dependant", namespace=name)
    for fault in faults:
        fault.lift()
    return stand.now


def most_in_a_second(times):
    return max(sum(at <= other < at + 1 - 1e-4 for other in times) for at in times)


async def test_all_deletions_together_keep_to_the_budget(stage):
    names, stand = many(stage, [10] * 12)
    await all_back(stand, names)
    await stand.run(10)
    times = [each.at for each in stand.seed.sent]
    assert len(times) == 120
    assert most_in_a_second(times) == 20
    assert times[-1] - times[0] < 6


async def test_the_budget_is_configured(stage):
    names, stand = many(stage, [10] * 12, deletions_a_second=100.0)
    await all_back(stand, names)
    await stand.run(2)
    assert len(stand.seed.sent) == 120


async def test_fifty_pods_of_one_namespace_take_less_than_three_seconds(stage):
    names, stand = many(stage, [50])
    back = await all_back(stand, names)
    await stand.run(10)
    times = [each.at for each in stand.seed.sent]
    assert len(times) == 50
    assert times[0] - back < 0.3
    assert times[-1] - times[0] < 3


async def test_a_namespace_with_hundreds_of_pods_does_not_keep_others_waiting(stage):
    names, stand = many(stage, [200, 1, 1, 1, 1])
    await all_back(stand, names)
    await stand.run(2)
    assert {each.pod.namespace for each in stand.deleted()} == set(names)


async def test_while_many_wait_each_has_its_turn(stage):
    names, stand = many(stage, [6] * 30)
    await all_back(stand, names)
    await stand.run(2.5)
    counts = [len(stand.names(name)) for name in names]
    assert sum(counts) in (40, 60)
    assert min(counts) >= 1


async def test_openings_and_pod_reads_keep_to_fifty_a_second(stage):
    names, stand = many(stage, [1] * 120)
    await stand.run(60)
    before = stand.world.requests.total(what="pods")
    await all_back(stand, names)
    await stand.run(1)
    asked = stand.world.requests.total(what="pods") - before - len(stand.seed.sent)
    assert 50 <= asked <= 100
    await stand.run(10)
    asked = stand.world.requests.total(what="pods") - before - len(stand.seed.sent)
    assert asked == 240, "a list and a watch each"


async def test_what_is_queued_when_the_service_is_lost_is_dropped_and_told(stage):
    names, stand = many(stage, [50])
    await all_back(stand, names)
    await stand.run(1.5)
    key = ServiceKey(names[0], API_SERVER)
    _ = await stand.lose(key)
    await stand.run(20)
    ended = stand.recovery(key)
    assert ended.end is End.LOST
    assert ended.queued >= 10
    assert ended.queued + len(stand.names()) == 50
    (told,) = stand.told("WeedingEnded", names[0])
    assert told.numbers["dropped"] == ended.queued
    assert "still queued" in told.message


async def test_what_is_queued_when_its_time_is_over_is_dropped_and_told(stage):
    names, stand = many(stage, [50], watch_duration=2.0, deletions_a_second=5.0)
    await all_back(stand, names)
    await stand.run(20)
    key = ServiceKey(names[0], API_SERVER)
    assert stand.recovery(key).end is End.COMPLETED
    assert stand.recovery(key).queued + len(stand.names()) == 50
    assert stand.environment.deletions.waiting == 0


async def test_a_turn_that_nobody_needs_any_more_is_anothers(stage):
    """Pods that were made to run while they waited for their turn cost nobody anything."""
    names, stand = many(stage, [1, 1, 1, 1], deletions_a_second=1.0)
    await all_back(stand, names)
    await stand.until(lambda: stand.environment.deletions.waiting == 3)
    first = {each.pod.namespace for each in stand.deleted()}
    stand.world.pauses.pause(next(name for name in names if name not in first))
    await stand.run(2.5)
    assert len(stand.seed.sent) == 3
    assert [round(b.at - a.at, 2) for a, b in pairwise(stand.seed.sent)] == [1, 1]


@pytest.mark.parametrize("lost", [True, False], ids=["ended", "stalled"])
async def test_a_watch_without_pods_asks_for_no_turn(stage, lost):
    names, stand = many(stage, [0])
    if not lost:
        stand.world.faults.pod_watch_stalled(PodWatched.PODS)
    await all_back(stand, names)
    await stand.run(60)
    assert stand.environment.deletions.waiting == 0
    assert stand.seed.sent == []


async def test_recoveries_of_namespaces_that_waited_longest_are_opened_first(stage):
    names, stand = many(stage, [2] * 80)
    await all_back(stand, names[:40])
    await stand.run(3)
    faults = [stand.world.faults.service_unready(name, API_SERVER) for name in names]
    await stand.run(2)
    for name in names:
        stand.crash("dependant", namespace=name)
    for fault in faults:
        fault.lift()
    await stand.run(5)
    again = [name for name in names[40:] if not stand.names(name)]
    assert again == []


async def test_who_waits_longest_for_a_deletion_is_let_in_first(stage):
    """Else those that come late in each wave of an outage would stay out, however often they were let in."""

    def wave():
        for name in names:
            _ = stand.weeder.registry.begin(ServiceKey(name, API_SERVER), Cause.ASKED, 300.0)

    names, stand = many(stage, [1] * 60, deletions_a_second=100.0)
    early, late = names[:50], names[50:]
    await stand.run(10)
    for name in early:
        stand.crash("dependant", namespace=name)
    wave()
    await stand.run(5)
    assert {each.pod.namespace for each in stand.deleted()} == set(early)
    for name in names:
        stand.crash("dependant", namespace=name)
    wave()
    await stand.run(0.6)
    assert {each.pod.namespace for each in stand.deleted()[50:]} >= set(late)
    assert len(stand.deleted()) < 110, "not all of them were let in yet"
