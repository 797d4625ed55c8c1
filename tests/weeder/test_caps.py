"""How many pods of one owner are deleted, and how soon a service is weeded for again."""

import pytest
from structlog.testing import capture_logs

from app.core.errors import ServerFault
from app.core.model.selectors import LabelSelector
from app.core.model.weeding import End, KeepReason, Phase, ServiceKey, WeederPolicy
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from app.simulation.workloads import Workload
from tests.support.weeding import API, CONTROL_PLANE, ETCD, NAMESPACE, requirement

APP = "dependant"
OTHER = ServiceKey("shoot--local--b", API.service)
LABELS = {"gardener.cloud/role": "controlplane", "role": "other"}


def with_app(stage, replicas, **options):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    world.add_workload(Workload(NAMESPACE, APP, replicas, LABELS))
    return stage.weeder(world, **options)


async def crash_again(stand, times, every=2.0):
    """The pods crash as soon as they were made anew, again and again."""
    for _ in range(times):
        stand.crash(APP)
        await stand.run(every)


async def test_of_an_owner_with_few_pods_max_deletions_per_workload_are_deleted(stage):
    stand = with_app(stage, 2)
    await stand.recover(APP)
    await crash_again(stand, 5)
    assert len(stand.names()) == 5
    capped = [each for each in stand.recovery().spared if each.reason is KeepReason.CAP_REACHED]
    assert capped
    assert "5 are allowed" in capped[0].message


async def test_of_an_owner_with_more_pods_as_many_as_it_had(stage):
    stand = with_app(stage, 8)
    await stand.recover(APP)
    await crash_again(stand, 5)
    assert len(stand.names()) == 8


async def test_the_least_is_configured(stage):
    stand = with_app(stage, 2, max_deletions_per_workload=3)
    await stand.recover(APP)
    await crash_again(stand, 5)
    assert len(stand.names()) == 3


async def test_each_owner_has_a_cap_of_its_own(stage):
    stand = with_app(stage, 8)
    await stand.recover(APP)
    await crash_again(stand, 2)
    stand.crash("kube-scheduler")
    await stand.run(1)
    assert sum(name.startswith("kube-scheduler") for name in stand.names()) == 1


async def test_the_cap_is_one_over_several_recoveries(stage):
    stand = with_app(stage, 2)
    for _ in range(3):
        await stand.recover(APP, settle=3.0)
    assert len(stand.names()) == 5


async def test_the_pods_at_the_start_of_the_first_recovery_count(stage):
    """More of them at the second make the cap no higher."""
    stand = with_app(stage, 6)
    await stand.recover(APP, settle=5.0)
    (owner,) = {pod.owner.name for pod in stand.world.pods(NAMESPACE, APP)}
    key = ObjectKey("ReplicaSet", NAMESPACE, owner)
    stand.world.store.patch(key, {"spec": {"replicas": 12}})
    await stand.run(5)
    await stand.recover(APP, settle=5.0)
    assert len(stand.names()) == 6


async def test_the_cap_is_one_over_two_services(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    world.add_workload(Workload(NAMESPACE, APP, 2, LABELS))
    same = (LabelSelector((CONTROL_PLANE,)),)
    stand = stage.weeder(world, WeederPolicy({ETCD.service: same, API.service: same}))
    await stand.recover(APP, key=ETCD)
    await stand.recover(APP, key=API)
    await crash_again(stand, 4)
    assert len([name for name in stand.names() if name.startswith(APP)]) == 5


async def test_after_watch_duration_deletions_no_longer_count(stage):
    stand = with_app(stage, 2)
    await stand.recover(APP)
    await crash_again(stand, 4)
    assert len(stand.names()) == 5
    await stand.run(300)
    await stand.recover(APP)
    assert len(stand.names()) == 7


async def test_within_any_watch_duration_there_are_no_more_than_the_cap(stage):
    stand = with_app(stage, 3, watch_duration=60.0)
    for _ in range(20):
        await stand.recover(APP, settle=11.0)
    times = [each.at for each in stand.deleted()]
    assert len(times) > 10
    assert all(sixth - first >= 60 for first, sixth in zip(times, times[5:], strict=False))


async def test_a_pod_for_which_there_was_no_room_is_judged_again_when_there_is(stage):
    """No event tells that a cap has become free."""
    stand = with_app(stage, 1, watch_duration=60.0)
    await stand.recover(APP)
    await crash_again(stand, 4)
    await stand.run(45)
    await stand.recover(APP)
    assert len(stand.names()) == 5
    await stand.run(20)
    assert len(stand.names()) == 6


async def test_a_refused_deletion_does_not_use_the_cap(stage):
    stand = with_app(stage, 1)
    conflict = Trouble(throttled=True, verbs=frozenset({"delete"}))
    with stand.world.faults.seed_trouble(conflict):
        await stand.recover(APP, settle=60.0)
        assert len(stand.seed.sent) >= 6
    await stand.run(31)
    await crash_again(stand, 4)
    assert len(stand.names()) == 5


async def test_after_a_restart_no_pod_is_deleted_twice(stage):
    stand = with_app(stage, 4)
    slow = Trouble(latency=3.0, verbs=frozenset({"delete"}))
    with stand.world.faults.seed_trouble(slow):
        await stand.recover(APP, settle=2.0)
        await stand.kill()
        again = stand.again()
        await stand.run(10)
    await stand.run(60)
    uids = [each.uid for each in stand.deleted()]
    assert len(uids) == len(set(uids)) == 4
    assert again.recovery().cause == "Started"


# The pace.


async def test_after_three_recoveries_the_next_waits_30_60_120_and_120_seconds(stage):
    stand = with_app(stage, 1, watch_duration=3600.0)
    waits = []
    for _ in range(8):
        await stand.recover()
        waits.append(round(stand.recovery().due - stand.recovery().began))
        await stand.run(125)
    assert waits == [0, 0, 0, 30, 60, 120, 120, 120]


async def test_while_it_waits_nothing_is_listed_or_deleted_and_its_time_begins_then(stage):
    stand = with_app(stage, 1)
    for _ in range(3):
        await stand.recover()
    back = await stand.recover(APP)
    lists = len(stand.seed.watched)
    assert stand.recovery().phase is Phase.WAITING
    await stand.run(27)
    assert stand.names() == []
    assert len(stand.seed.watched) == lists
    await stand.run(4)
    (deletion,) = stand.deleted()
    assert deletion.at - back == pytest.approx(30, abs=0.3)
    assert stand.recovery().until - stand.recovery().due == 300
    assert len(stand.told("WeedingDelayed")) == 1


async def test_one_that_is_lost_while_it_waits_does_not_count(stage):
    stand = with_app(stage, 1)
    for _ in range(3):
        await stand.recover()
    for _ in range(4):
        await stand.recover(settle=5.0)
        assert stand.recovery().due - stand.recovery().began == 30
    assert stand.recoveries()[1].end is End.LOST
    assert stand.count("dwd_weeder_recoveries_total", service=API.service) == 3


async def test_recoveries_of_long_ago_do_not_count(stage):
    stand = with_app(stage, 1)
    for _ in range(3):
        await stand.recover()
    await stand.run(300)
    await stand.recover(APP)
    assert len(stand.names()) == 1


async def test_other_services_are_not_kept_waiting(stage):
    stand = with_app(stage, 1)
    for _ in range(4):
        await stand.recover()
    await stand.recover("kube-apiserver", key=ETCD)
    assert len(stand.names()) == 2


async def test_a_restart_forgets_the_pace(stage):
    stand = with_app(stage, 1)
    for _ in range(4):
        await stand.recover()
    await stand.stop()
    stand = stand.again()
    await stand.run(1)
    await stand.recover(APP)
    assert len(stand.names()) == 1
    assert stand.recovery().due == stand.recovery().began


async def test_a_service_that_flaps_for_ten_minutes_is_opened_three_times_within_watch_duration(
    stage,
):
    stand = with_app(stage, 10)
    flaps = stand.world.faults.service_flaps(*API, every=5.0)
    stand.crash(APP)
    await stand.run(290)
    assert stand.count("dwd_weeder_recoveries_total", service=API.service) == 3
    await stand.run(310)
    flaps.lift()
    assert stand.count("dwd_weeder_recoveries_total", service=API.service) <= 7
    uids = [each.uid for each in stand.deleted()]
    assert len(uids) == len(set(uids)) <= 20


async def test_of_an_owner_only_pods_that_a_selector_matches_make_its_cap(stage):
    """With several selectors all pods of the namespace are seen, also those that are none of its business."""
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    world.add_workload(Workload(NAMESPACE, APP, 10, LABELS))
    other = LabelSelector((requirement("role", "In", "nobody"),))
    both = (LabelSelector((CONTROL_PLANE, requirement("role", "In", "other"))), other)
    stand = stage.weeder(world, WeederPolicy({API.service: both}))
    for pod in world.pods(NAMESPACE, APP)[3:]:
        patch = {"metadata": {"labels": {"role": "main"}}}
        world.store.patch(ObjectKey("Pod", NAMESPACE, pod.name), patch)
    await stand.recover(APP)
    assert len(stand.names()) == 3
    await crash_again(stand, 4)
    assert len(stand.names()) == 5


async def test_a_deletion_that_a_5xx_hid_counts_to_the_cap(stage, monkeypatch):
    """A server that waits in vain for its storage may have deleted the pod all the same."""
    stand = with_app(stage, 1)
    original = stand.seed.delete_pod

    async def carry_out_and_fail(namespace, name, **more):
        await original(namespace, name, **more)
        raise ServerFault("etcdserver: request timed out", status=500)

    monkeypatch.setattr(stand.seed, "delete_pod", carry_out_and_fail)
    await stand.recover(APP)
    await crash_again(stand, 20)
    assert len(stand.names()) == 5


@pytest.mark.parametrize("pods", [1, 120], ids=["one page", "two pages"])
async def test_a_recovery_counts_once_however_often_it_asks(stage, monkeypatch, pods):
    """Each page of its list has a turn of its own, and so has each start after a failure."""
    stand = with_app(stage, pods)
    asked: list[float] = []
    original = stand.seed.watch_pods

    def ask_twice(namespace, selector, changed, admitted):
        async def admitted_twice():
            asked.append(stand.now)
            await admitted()
            await admitted()

        return original(namespace, selector, changed, admitted_twice)

    monkeypatch.setattr(stand.seed, "watch_pods", ask_twice)
    for _ in range(3):
        await stand.recover()
    assert asked
    assert stand.count("dwd_weeder_recoveries_total", service=API.service) == 3
    await stand.recover()
    assert stand.recovery().due - stand.recovery().began == 30


async def test_a_recovery_that_is_started_again_counts_once(stage):
    stand = with_app(stage, 1)
    await stand.recover(settle=0.2)
    recovery = stand.weeder.registry.running(API)
    with capture_logs():
        for _ in range(3):
            recovery._deletions.failure = RuntimeError("a bug")
            recovery.judge_again()
            await stand.run(10)
    assert len(stand.told("RunnerFailed")) == 3
    assert stand.count("dwd_weeder_recoveries_total", service=API.service) == 1
    await stand.recover()
    assert stand.recovery().due == stand.recovery().began
