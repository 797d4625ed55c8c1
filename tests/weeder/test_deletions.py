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


def named(harness, workload):
    (pod,) = harness.world.pods(NAMESPACE, workload)
    return pod


async def test_a_pod_whose_containers_run_is_left_alone(harness):
    await harness.recover()
    await harness.run(60)
    assert harness.names() == []
    assert {each.reason for each in harness.recovery().spared} == {KeepReason.NOT_WAITING}


async def test_an_init_container_that_waits_counts(harness):
    await harness.recover(INIT)
    (deletion,) = harness.recovery().deletions
    assert deletion.pod.startswith(INIT)
    assert deletion.container == "wait"


@pytest.mark.parametrize(
    ("restarts", "deleted"), [(1, False), (2, True)], ids=["waits 10 s", "waits 20 s"]
)
async def test_only_a_wait_longer_than_min_backoff_remaining_is_worth_a_deletion(
    harness, restarts, deleted
):
    await harness.recover(SCHEDULER, restarts=restarts)
    assert bool(harness.names()) is deleted


async def test_a_wait_that_becomes_short_is_left_alone(harness):
    harness.pauses.pause(NAMESPACE)
    await harness.recover(SCHEDULER, restarts=2)
    await harness.run(12)
    harness.pauses.resume(NAMESPACE)
    await harness.run(1)
    assert harness.names() == []
    (spared,) = [each for each in harness.recovery().spared if each.pod.startswith(SCHEDULER)]
    assert spared.reason is KeepReason.SHORT_BACKOFF


async def test_an_unknown_wait_counts_as_long(harness):
    await harness.recover()
    harness.crash(SCHEDULER)
    pod = harness.world.pods(NAMESPACE, SCHEDULER)[0]
    key = ObjectKey("Pod", NAMESPACE, pod.name)
    (status,) = harness.world.store.get(key)["status"]["containerStatuses"]
    untold = {**status, "lastState": {}}
    harness.world.store.patch(key, {"status": {"containerStatuses": [untold]}}, status=True)
    await harness.run(1)
    (deletion,) = harness.recovery().deletions
    assert deletion.pod == pod.name


async def test_a_pod_that_is_terminating_already_is_left_alone(harness):
    harness.pauses.pause(NAMESPACE)
    await harness.recover(SCHEDULER)
    pod = named(harness, SCHEDULER)
    harness.world.delete_pod(NAMESPACE, pod.name)
    await harness.run(0.3)
    harness.pauses.resume(NAMESPACE)
    await harness.run(30)
    assert harness.names() == []
    assert harness.seed.sent == []


async def test_a_bare_pod_is_left_alone(lab):
    world = lab.world()
    world.add_control_plane(NAMESPACE, bare=True)
    harness = lab.weeder(world)
    await harness.recover(BARE)
    assert harness.names() == []
    (spared,) = [each for each in harness.recovery().spared if each.pod == BARE]
    assert spared.reason is KeepReason.BARE_POD


async def test_a_bare_pod_is_deleted_where_that_is_wanted(lab):
    world = lab.world()
    world.add_control_plane(NAMESPACE, bare=True)
    harness = lab.weeder(world, weed_bare_pods=True)
    await harness.recover(BARE)
    assert harness.names() == [BARE]


async def test_a_pod_that_starts_between_judgement_and_deletion_is_not_deleted(lab):
    world = lab.world()
    world.add_control_plane(NAMESPACE)
    harness = lab.weeder(world, min_backoff_remaining=0.0)
    with world.faults.seed_trouble(SLOW_DELETIONS):
        await harness.recover()
        world.crash_looped(NAMESPACE, SCHEDULER, 1, exited=harness.now - 9.0)
        await harness.until(lambda: harness.seed.sent)
        assert named(harness, SCHEDULER).containers[0].crash_loops
        await harness.run(1.5)
        assert not named(harness, SCHEDULER).containers[0].crash_loops
        await harness.run(10)
    assert len(harness.seed.sent) == 1
    assert harness.names() == []
    assert (
        harness.count("dwd_weeder_pod_deletions_total", service=API.service, result="conflict") == 1
    )


async def test_a_pod_of_the_same_name_is_not_deleted_in_its_place(lab):
    """A StatefulSet makes the next one under the same name."""
    world = lab.world()
    world.add_control_plane(NAMESPACE)
    labels = {"gardener.cloud/role": "controlplane", "role": "other"}
    times = PodTimes(grace=0.2, recreate=0.1)
    world.add_workload(Workload(NAMESPACE, "vali", 1, labels, Owner.STATEFUL_SET, times=times))
    harness = lab.weeder(world)
    with world.faults.seed_trouble(SLOW_DELETIONS):
        await harness.recover("vali", settle=0)
        await harness.until(lambda: harness.seed.sent)
        before = named(harness, "vali").uid
        world.delete_pod(NAMESPACE, "vali-0")
        await harness.until(
            lambda: any(p.name == "vali-0" and p.uid != before for p in harness.pods())
        )
        await harness.run(10)
    assert harness.names() == []
    assert [each.uid for each in harness.seed.sent] == [before]


async def test_what_is_sent_names_what_was_judged(harness):
    fault = await harness.lose()
    harness.crash(SCHEDULER)
    judged = named(harness, SCHEDULER)
    fault.lift()
    await harness.until(lambda: harness.seed.sent)
    (sent,) = harness.seed.sent
    assert (sent.uid, sent.resource_version) == (judged.uid, judged.resource_version)


async def test_the_longest_wait_goes_first(lab):
    world = lab.world()
    world.add_control_plane(NAMESPACE)
    harness = lab.weeder(world, deletions_a_second=1)
    fault = await harness.lose()
    harness.crash(SCHEDULER, restarts=3)
    harness.crash("cloud-controller-manager", restarts=7)
    harness.crash("csi-driver-controller", restarts=5)
    fault.lift()
    await harness.run(5)
    first = [name.split("-")[0] for name in harness.names()]
    assert first == ["cloud", "csi", "kube"]


async def test_a_pod_is_deleted_once_however_many_services_it_depends_on(lab):
    world = lab.world()
    world.add_control_plane(NAMESPACE)
    same = GARDENER_WEEDER.services[API.service]
    harness = lab.weeder(world, WeederPolicy({ETCD.service: same, API.service: same}))
    with world.faults.seed_trouble(Trouble(latency=2.0, verbs=frozenset({"delete"}))):
        faults = [await harness.lose(ETCD), await harness.lose(API)]
        harness.crash(SCHEDULER)
        for fault in faults:
            fault.lift()
        await harness.run(10)
    assert len(harness.recovery(ETCD).deletions) + len(harness.recovery(API).deletions) == 1
    assert len(harness.seed.sent) == 1


async def test_in_an_outage_no_uid_is_deleted_twice_and_none_that_runs(harness):
    await harness.run(5)
    for _ in range(3):
        with harness.world.faults.workload_broken(NAMESPACE, "etcd-main"):
            await harness.run(120)
        await harness.run(60)
    uids = [each.uid for each in harness.deleted()]
    assert len(uids) > 5
    assert len(uids) == len(set(uids))
    assert all(each.waiting for each in harness.deleted())


async def test_a_dry_run_judges_as_usual_and_deletes_nothing(lab):
    world = lab.world()
    world.add_control_plane(NAMESPACE)
    harness = lab.weeder(world, dry_run=True)
    await harness.recover(SCHEDULER, "gardener-resource-manager")
    await harness.run(60)
    assert harness.seed.sent == []
    assert world.requests.total(verb="delete") == 0
    assert [each.result for each in harness.recovery().deletions] == ["dry-run"] * 3
    assert (
        harness.count("dwd_weeder_pod_deletions_total", service=API.service, result="dry-run") == 3
    )
    assert not any(notice.event for notice in harness.notices)
    told = [notice.message for notice in harness.told("PodNotWeeded")]
    assert len(told) == 3
    assert all("would delete" in message for message in told)


async def test_an_exit_of_1970_is_an_unknown_time_and_counts_as_long(harness):
    """So a container runtime writes that does not know when a container has ended."""
    await harness.recover()
    harness.crash(SCHEDULER)
    pod = named(harness, SCHEDULER)
    key = ObjectKey("Pod", NAMESPACE, pod.name)
    (status,) = harness.world.store.get(key)["status"]["containerStatuses"]
    ended = {**status["lastState"]["terminated"], "finishedAt": "1970-01-01T00:00:00Z"}
    untold = {**status, "lastState": {"terminated": ended}}
    harness.world.store.patch(key, {"status": {"containerStatuses": [untold]}}, status=True)
    await harness.run(1)
    (deletion,) = harness.recovery().deletions
    assert deletion.pod == pod.name
    assert deletion.remaining is None


async def test_in_a_dry_run_nothing_is_on_its_way_for_ever(lab):
    world = lab.world()
    world.add_control_plane(NAMESPACE)
    harness = lab.weeder(world, dry_run=True)
    await harness.recover(SCHEDULER)
    assert harness.recovery().deletions
    assert not harness.environment.records._in_flight


async def test_the_end_of_a_dry_run_says_what_would_have_been_deleted(lab):
    world = lab.world()
    world.add_control_plane(NAMESPACE)
    harness = lab.weeder(world, dry_run=True)
    await harness.recover(SCHEDULER, "gardener-resource-manager")
    _ = await harness.lose()
    (told,) = harness.told("WeedingEnded")
    assert "3 pods would have been deleted (dry run)" in told.message
    assert told.numbers["deleted"] == 3


async def test_of_an_init_container_and_a_container_that_both_wait_the_longer_wait_counts(harness):
    await harness.recover()
    harness.crash(SCHEDULER, restarts=2)
    key = ObjectKey("Pod", NAMESPACE, named(harness, SCHEDULER).name)
    (short,) = harness.world.store.get(key)["status"]["containerStatuses"]
    longer = {**short, "name": "sidecar", "restartCount": 6}
    status = {"initContainerStatuses": [longer], "containerStatuses": [short]}
    harness.world.store.patch(key, {"status": status}, status=True)
    await harness.run(1)
    (deletion,) = harness.recovery().deletions
    assert deletion.container == "sidecar"
    assert deletion.remaining == pytest.approx(300, abs=5)
