"""Which pods are deleted, and that it is the very pod that was judged."""

import pytest

from app.core.model.weeding import KeepReason, WeederPolicy
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from app.simulation.workloads import Owner, PodTimes, Workload
from tests.support.weeding import API, ETCD, GARDENER_WEEDER, NAMESPACE

SCHEDULER = "kube-scheduler"
INIT = "csi-snapshot-controller"
BARE = "migration-check"
SLOW_DELETIONS = Trouble(latency=4.0, verbs=frozenset({"delete"}))


def named(stand, workload):
    (pod,) = stand.world.pods(NAMESPACE, workload)
    return pod


async def test_a_pod_whose_containers_run_is_left_alone(stand):
    await stand.recover()
    await stand.run(60)
    assert stand.names() == []
    assert {each.reason for each in stand.recovery().spared} == {KeepReason.NOT_WAITING}


async def test_an_init_container_that_waits_counts(stand):
    await stand.recover(INIT)
    (deletion,) = stand.recovery().deletions
    assert deletion.pod.startswith(INIT)
    assert deletion.container == "wait"


@pytest.mark.parametrize(
    ("restarts", "deleted"), [(1, False), (2, True)], ids=["waits 10 s", "waits 20 s"]
)
async def test_only_a_wait_longer_than_min_backoff_remaining_is_worth_a_deletion(
    stand, restarts, deleted
):
    await stand.recover(SCHEDULER, restarts=restarts)
    assert bool(stand.names()) is deleted


async def test_a_wait_that_becomes_short_is_left_alone(stand):
    stand.world.pauses.pause(NAMESPACE)
    await stand.recover(SCHEDULER, restarts=2)
    await stand.run(12)
    stand.world.pauses.resume(NAMESPACE)
    await stand.run(1)
    assert stand.names() == []
    (spared,) = [each for each in stand.recovery().spared if each.pod.startswith(SCHEDULER)]
    assert spared.reason is KeepReason.SHORT_BACKOFF


async def test_an_unknown_wait_counts_as_long(stand):
    await stand.recover()
    stand.crash(SCHEDULER)
    pod = stand.world.pods(NAMESPACE, SCHEDULER)[0]
    key = ObjectKey("Pod", NAMESPACE, pod.name)
    (status,) = stand.world.store.get(key)["status"]["containerStatuses"]
    untold = {**status, "lastState": {}}
    stand.world.store.patch(key, {"status": {"containerStatuses": [untold]}}, status=True)
    await stand.run(1)
    (deletion,) = stand.recovery().deletions
    assert deletion.pod == pod.name


async def test_a_pod_that_is_terminating_already_is_left_alone(stand):
    stand.world.pauses.pause(NAMESPACE)
    await stand.recover(SCHEDULER)
    pod = named(stand, SCHEDULER)
    stand.world.delete_pod(NAMESPACE, pod.name)
    await stand.run(0.3)
    stand.world.pauses.resume(NAMESPACE)
    await stand.run(30)
    assert stand.names() == []
    assert stand.seed.sent == []


async def test_a_bare_pod_is_left_alone(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE, bare=True)
    stand = stage.weeder(world)
    await stand.recover(BARE)
    assert stand.names() == []
    (spared,) = [each for each in stand.recovery().spared if each.pod == BARE]
    assert spared.reason is KeepReason.BARE_POD


async def test_a_bare_pod_is_deleted_where_that_is_wanted(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE, bare=True)
    stand = stage.weeder(world, weed_bare_pods=True)
    await stand.recover(BARE)
    assert stand.names() == [BARE]


async def test_a_pod_that_starts_between_judgement_and_deletion_is_not_deleted(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    stand = stage.weeder(world, min_backoff_remaining=0.0)
    with world.faults.seed_trouble(SLOW_DELETIONS):
        await stand.recover()
        world.crash_looped(NAMESPACE, SCHEDULER, 1, exited=stand.now - 9.0)
        await stand.until(lambda: stand.seed.sent)
        assert named(stand, SCHEDULER).containers[0].crash_loops
        await stand.run(1.5)
        assert not named(stand, SCHEDULER).containers[0].crash_loops
        await stand.run(10)
    assert len(stand.seed.sent) == 1
    assert stand.names() == []
    assert (
        stand.count("dwd_weeder_pod_deletions_total", service=API.service, result="conflict") == 1
    )


async def test_a_pod_of_the_same_name_is_not_deleted_in_its_place(stage):
    """A StatefulSet makes the next one under the same name."""
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    labels = {"gardener.cloud/role": "controlplane", "role": "other"}
    times = PodTimes(grace=0.2, recreate=0.1)
    world.add_workload(Workload(NAMESPACE, "vali", 1, labels, Owner.STATEFUL_SET, times=times))
    stand = stage.weeder(world)
    with world.faults.seed_trouble(SLOW_DELETIONS):
        await stand.recover("vali", settle=0)
        await stand.until(lambda: stand.seed.sent)
        before = named(stand, "vali").uid
        world.delete_pod(NAMESPACE, "vali-0")
        await stand.until(lambda: any(p.name == "vali-0" and p.uid != before for p in stand.pods()))
        await stand.run(10)
    assert stand.names() == []
    assert [each.uid for each in stand.seed.sent] == [before]


async def test_what_is_sent_names_what_was_judged(stand):
    fault = await stand.lose()
    stand.crash(SCHEDULER)
    judged = named(stand, SCHEDULER)
    fault.lift()
    await stand.until(lambda: stand.seed.sent)
    (sent,) = stand.seed.sent
    assert (sent.uid, sent.resource_version) == (judged.uid, judged.resource_version)


async def test_the_longest_wait_goes_first(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    stand = stage.weeder(world, deletions_a_second=1)
    fault = await stand.lose()
    stand.crash(SCHEDULER, restarts=3)
    stand.crash("cloud-controller-manager", restarts=7)
    stand.crash("csi-driver-controller", restarts=5)
    fault.lift()
    await stand.run(5)
    first = [name.split("-")[0] for name in stand.names()]
    assert first == ["cloud", "csi", "kube"]


async def test_a_pod_is_deleted_once_however_many_services_it_depends_on(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    same = GARDENER_WEEDER.services[API.service]
    stand = stage.weeder(world, WeederPolicy({ETCD.service: same, API.service: same}))
    with world.faults.seed_trouble(Trouble(latency=2.0, verbs=frozenset({"delete"}))):
        faults = [await stand.lose(ETCD), await stand.lose(API)]
        stand.crash(SCHEDULER)
        for fault in faults:
            fault.lift()
        await stand.run(10)
    assert len(stand.recovery(ETCD).deletions) + len(stand.recovery(API).deletions) == 1
    assert len(stand.seed.sent) == 1


async def test_in_an_outage_no_uid_is_deleted_twice_and_none_that_runs(stand):
    await stand.run(5)
    for _ in range(3):
        with stand.world.faults.workload_broken(NAMESPACE, "etcd-main"):
            await stand.run(120)
        await stand.run(60)
    uids = [each.uid for each in stand.deleted()]
    assert len(uids) > 5
    assert len(uids) == len(set(uids))
    assert all(each.waiting for each in stand.deleted())


async def test_a_dry_run_judges_as_usual_and_deletes_nothing(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    stand = stage.weeder(world, dry_run=True)
    await stand.recover(SCHEDULER, "gardener-resource-manager")
    await stand.run(60)
    assert stand.seed.sent == []
    assert world.requests.total(verb="delete") == 0
    assert [each.result for each in stand.recovery().deletions] == ["dry-run"] * 3
    assert stand.count("dwd_weeder_pod_deletions_total", service=API.service, result="dry-run") == 3
    assert not any(notice.event for notice in stand.notices)
    told = [notice.message for notice in stand.told("PodNotWeeded")]
    assert len(told) == 3
    assert all("would delete" in message for message in told)


async def test_an_exit_of_1970_is_an_unknown_time_and_counts_as_long(stand):
    """So a container runtime writes that does not know when a container has ended."""
    await stand.recover()
    stand.crash(SCHEDULER)
    pod = named(stand, SCHEDULER)
    key = ObjectKey("Pod", NAMESPACE, pod.name)
    (status,) = stand.world.store.get(key)["status"]["containerStatuses"]
    ended = {**status["lastState"]["terminated"], "finishedAt": "1970-01-01T00:00:00Z"}
    untold = {**status, "lastState": {"terminated": ended}}
    stand.world.store.patch(key, {"status": {"containerStatuses": [untold]}}, status=True)
    await stand.run(1)
    (deletion,) = stand.recovery().deletions
    assert deletion.pod == pod.name
    assert deletion.remaining is None


async def test_in_a_dry_run_nothing_is_on_its_way_for_ever(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    stand = stage.weeder(world, dry_run=True)
    await stand.recover(SCHEDULER)
    assert stand.recovery().deletions
    assert not stand.environment.records._in_flight


async def test_the_end_of_a_dry_run_says_what_would_have_been_deleted(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    stand = stage.weeder(world, dry_run=True)
    await stand.recover(SCHEDULER, "gardener-resource-manager")
    _ = await stand.lose()
    (told,) = stand.told("WeedingEnded")
    assert "3 pods would have been deleted (dry run)" in told.message
    assert told.numbers["deleted"] == 3


async def test_of_an_init_container_and_a_container_that_both_wait_the_longer_wait_counts(stand):
    await stand.recover()
    stand.crash(SCHEDULER, restarts=2)
    key = ObjectKey("Pod", NAMESPACE, named(stand, SCHEDULER).name)
    (short,) = stand.world.store.get(key)["status"]["containerStatuses"]
    longer = {**short, "name": "sidecar", "restartCount": 6}
    status = {"initContainerStatuses": [longer], "containerStatuses": [short]}
    stand.world.store.patch(key, {"status": status}, status=True)
    await stand.run(1)
    (deletion,) = stand.recovery().deletions
    assert deletion.container == "sidecar"
    assert deletion.remaining == pytest.approx(300, abs=5)
