"""The weeder's actions are Events, logs, metrics and history; and what the API shows."""

import re

from app.core.model.probing import NoticeKind
from app.core.model.weeding import Cause, End, KeepReason, Phase
from app.core.reporting.notices import Severity
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from tests.support.weeding import API, ETCD, NAMESPACE, SCHEDULER


async def test_a_recovery_is_told_and_each_deletion_is_an_event_on_the_owner(harness):
    await harness.recover(SCHEDULER)
    (told,) = harness.told("PodWeeded")
    assert told.kind is NoticeKind.WEED
    assert told.event
    assert told.resource.kind == "ReplicaSet"
    assert told.resource.name.startswith(SCHEDULER)
    (owner,) = {pod.owner.uid for pod in harness.world.pods(NAMESPACE, SCHEDULER)}
    assert told.resource_uid == owner
    assert "kube-apiserver is ready again" in told.message
    assert "would have waited 299 s more" in told.message or "300 s more" in told.message
    assert told.pod == harness.names()[0]
    assert re.fullmatch(
        rf"Pod {told.pod} was deleted, so that it starts again at once: kube-apiserver, which it depends "
        r"on, is ready again, and its container \S+ would have waited \d+ s more\.",
        told.event,
    )
    await harness.run(300)
    (began,), (ended,) = harness.told("WeedingStarted"), harness.told("WeedingEnded")
    assert "kube-apiserver is ready again" in began.message
    assert ended.deleted == 1
    assert harness.count("dwd_weeder_recoveries_total", service=API.service) == 1
    assert harness.results("deleted") == 1


async def test_of_a_bare_pod_the_event_is_on_the_pod(lab):
    harness = lab.control_plane(weed_bare_pods=True, bare=True)
    await harness.recover("migration-check")
    (told,) = harness.told("PodWeeded")
    assert (told.resource.kind, told.resource.name) == ("Pod", "migration-check")
    assert told.resource_uid == harness.deleted()[0].pod.uid


async def test_a_cap_is_an_event_for_the_first_pod_of_each_owner_and_counted_for_each(lab):
    harness = lab.control_plane(max_deletions_per_workload=1)
    await harness.recover("gardener-resource-manager", settle=3)
    for restarts in (7, 8):
        harness.crash("gardener-resource-manager", restarts=restarts)
        await harness.run(3)
    told = harness.told("WeedingCapped")
    assert len(told) == 2
    assert [notice.event is not None for notice in told] == [True, False]
    assert told[0].severity is Severity.WARNING
    assert "2 are allowed" in told[0].message
    assert harness.results("capped") == 2


async def test_the_api_sees_what_was_deleted_and_what_was_not_and_why(harness):
    await harness.recover(SCHEDULER)
    harness.crash("cloud-controller-manager", restarts=1)
    await harness.run(1)
    status = harness.status()
    assert status.ready
    (running,) = status.recoveries
    assert running.phase is Phase.WATCHING
    assert running.cause is Cause.BECAME_READY
    (deletion,) = running.deletions
    assert deletion.pod == harness.names()[0]
    assert deletion.owner.kind == "ReplicaSet"
    spared = {each.pod[:24]: each.reason for each in running.spared}
    assert spared["cloud-controller-manager"] is KeepReason.SHORT_BACKOFF
    assert KeepReason.NOT_WAITING in spared.values()


async def test_a_pod_that_is_queued_after_all_is_not_shown_as_spared(lab):
    harness = lab.control_plane(deletions_a_second=0.05)
    harness.pauses.pause(NAMESPACE)
    await harness.recover(SCHEDULER, "cloud-controller-manager")
    harness.pauses.resume(NAMESPACE)
    await harness.run(2)
    assert len(harness.names()) == 1
    assert harness.recovery().queued == 1
    assert not [each for each in harness.recovery().spared if each.reason is KeepReason.PAUSED]


async def test_services_that_never_came_back_are_not_listed(harness):
    await harness.recover()
    assert [each.key for each in harness.weeder.controller.statuses()] == [API]
    assert harness.status(ETCD).recoveries == ()


async def test_the_end_is_told_when_the_deletions_have_been_answered(harness):
    """Else it would tell of fewer than there were."""
    slow = Trouble(latency=3.0, verbs=frozenset({"delete"}))
    with harness.world.faults.seed_trouble(slow):
        await harness.recover(SCHEDULER, "cloud-controller-manager", settle=0.5)
        _ = await harness.lose()
        await harness.run(1)
        assert harness.recovery().end is End.LOST
        assert harness.told("WeedingEnded") == []
        await harness.run(3)
    (told,) = harness.told("WeedingEnded")
    assert told.deleted == 2
    assert harness.reasons()[-3:] == ["PodWeeded", "PodWeeded", "WeedingEnded"]


async def test_pods_that_were_gone_are_not_among_the_deleted(harness):
    with harness.world.faults.seed_trouble(Trouble(latency=2.0, verbs=frozenset({"delete"}))):
        await harness.recover(SCHEDULER, "cloud-controller-manager", settle=0.5)
        (gone,) = harness.world.pods(NAMESPACE, SCHEDULER)
        harness.world.store.delete(ObjectKey("Pod", NAMESPACE, gone.name))
        await harness.run(5)
    _ = await harness.lose()
    (told,) = harness.told("WeedingEnded")
    assert told.deleted == len(harness.names()) == 1
