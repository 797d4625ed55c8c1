"""How many pods of one owner are deleted, and how soon a service is weeded for again."""

import pytest

from app.core.model.names import LabelSelector
from app.core.model.weeding import End, Phase, WeederPolicy
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from app.simulation.workloads import Workload
from tests.support.weeding import API, CONTROL_PLANE, ETCD, NAMESPACE, requirement

APP = "dependant"
LABELS = {"gardener.cloud/role": "controlplane", "role": "other"}


def with_app(lab, replicas, *policy, **options):
    harness = lab.control_plane(*policy, **options)
    harness.world.add_workload(Workload(NAMESPACE, APP, replicas, LABELS))
    return harness


async def crash_again(harness, times, every=2.0):
    """The pods crash as soon as they were made anew, again and again."""
    for _ in range(times):
        harness.crash(APP)
        await harness.run(every)


async def test_of_an_owner_with_more_as_many_as_it_had_at_the_start_of_the_first_recovery(lab):
    """More of them at the second make the cap no higher."""
    harness = with_app(lab, 6)
    await harness.recover(APP, settle=5.0)
    (owner,) = {pod.owner.name for pod in harness.world.pods(NAMESPACE, APP)}
    key = ObjectKey("ReplicaSet", NAMESPACE, owner)
    harness.world.store.patch(key, {"spec": {"replicas": 12}})
    await harness.run(5)
    await harness.recover(APP, settle=5.0)
    assert len(harness.names()) == 6


async def test_the_cap_is_one_over_two_services(lab):
    same = (LabelSelector((CONTROL_PLANE,)),)
    harness = with_app(lab, 2, WeederPolicy({ETCD.service: same, API.service: same}))
    await harness.recover(APP, key=ETCD)
    await harness.recover(APP, key=API)
    await crash_again(harness, 4)
    assert len([name for name in harness.names() if name.startswith(APP)]) == 5


async def test_a_pod_for_which_there_was_no_room_is_judged_again_when_there_is(lab):
    """No event tells that a cap has become free."""
    harness = with_app(lab, 1, watch_duration=60.0)
    await harness.recover(APP)
    await crash_again(harness, 4)
    await harness.run(45)
    await harness.recover(APP)
    assert len(harness.names()) == 5
    await harness.run(20)
    assert len(harness.names()) == 6


async def test_after_a_restart_no_pod_is_deleted_twice(lab):
    harness = with_app(lab, 4)
    slow = Trouble(latency=3.0, verbs=frozenset({"delete"}))
    with harness.world.faults.seed_trouble(slow):
        await harness.recover(APP, settle=2.0)
        await harness.kill()
        again = harness.again()
        await harness.run(10)
    await harness.run(60)
    uids = [each.pod.uid for each in harness.deleted()]
    assert len(uids) == len(set(uids)) == 4
    assert again.recovery().cause == "Started"


# The pace.


async def test_while_it_waits_nothing_is_listed_or_deleted_and_its_time_begins_then(lab):
    harness = with_app(lab, 1)
    for _ in range(3):
        await harness.recover()
    back = await harness.recover(APP)
    lists = len(harness.seed.watched)
    assert harness.recovery().phase is Phase.WAITING
    await harness.run(27)
    assert harness.names() == []
    assert len(harness.seed.watched) == lists
    await harness.run(4)
    (deletion,) = harness.deleted()
    assert deletion.at - back == pytest.approx(30, abs=0.3)
    assert harness.recovery().until - harness.recovery().due == 300
    assert len(harness.told("WeedingDelayed")) == 1


async def test_one_that_is_lost_while_it_waits_does_not_count(lab):
    harness = with_app(lab, 1)
    for _ in range(3):
        await harness.recover()
    for _ in range(4):
        await harness.recover(settle=5.0)
        assert harness.recovery().due - harness.recovery().began == 30
    assert harness.recoveries()[1].end is End.LOST
    assert harness.count("dwd_weeder_recoveries_total", service=API.service) == 3


async def test_other_services_are_not_kept_waiting(lab):
    harness = with_app(lab, 1)
    for _ in range(4):
        await harness.recover()
    await harness.recover("kube-apiserver", key=ETCD)
    assert len(harness.names()) == 2


async def test_of_an_owner_only_pods_that_a_selector_matches_make_its_cap(lab):
    """With several selectors all pods of the namespace are seen, also those that are none of its business."""
    other = LabelSelector((requirement("role", "In", "nobody"),))
    both = (LabelSelector((CONTROL_PLANE, requirement("role", "In", "other"))), other)
    harness = with_app(lab, 10, WeederPolicy({API.service: both}))
    for pod in harness.world.pods(NAMESPACE, APP)[3:]:
        patch = {"metadata": {"labels": {"role": "main"}}}
        harness.world.store.patch(ObjectKey("Pod", NAMESPACE, pod.name), patch)
    await harness.recover(APP)
    assert len(harness.names()) == 3
    await crash_again(harness, 4)
    assert len(harness.names()) == 5


@pytest.mark.parametrize("pods", [1, 120], ids=["one page", "two pages"])
async def test_a_recovery_counts_once_however_often_it_asks(lab, monkeypatch, pods):
    """Each page of its list has a turn of its own, and so has each start after a failure."""
    harness = with_app(lab, pods)
    asked: list[float] = []
    original = harness.seed.watch_pods

    def ask_twice(namespace, selector, changed, admitted):
        async def admitted_twice():
            asked.append(harness.now)
            await admitted()
            await admitted()

        return original(namespace, selector, changed, admitted_twice)

    monkeypatch.setattr(harness.seed, "watch_pods", ask_twice)
    for _ in range(3):
        await harness.recover()
    assert asked
    assert harness.count("dwd_weeder_recoveries_total", service=API.service) == 3
    await harness.recover()
    assert harness.recovery().due - harness.recovery().began == 30
