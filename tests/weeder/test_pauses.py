"""A paused namespace is not weeded."""

from app.core.model.weeding import KeepReason, ServiceKey
from app.simulation.traffic import Trouble
from tests.support.weeding import API, NAMESPACE

SCHEDULER = "kube-scheduler"
OTHER = ServiceKey("shoot--local--b", API.service)


async def test_a_paused_namespace_is_not_weeded(stand):
    stand.world.pauses.pause(NAMESPACE, "paused by carol: moving etcd")
    await stand.recover(SCHEDULER)
    await stand.run(60)
    assert stand.seed.sent == []
    (spared,) = [each for each in stand.recovery().spared if each.pod.startswith(SCHEDULER)]
    assert spared.reason is KeepReason.PAUSED
    assert spared.message == "paused by carol: moving etcd"


async def test_other_namespaces_are_weeded_meanwhile(stand):
    stand.world.add_control_plane(OTHER.namespace)
    stand.world.pauses.pause(NAMESPACE)
    await stand.recover(SCHEDULER)
    await stand.recover(SCHEDULER, key=OTHER)
    assert stand.names(NAMESPACE) == []
    assert len(stand.names(OTHER.namespace)) == 1


async def test_when_a_pause_ends_the_pods_of_running_recoveries_are_judged_again(stand):
    stand.world.pauses.pause(NAMESPACE)
    await stand.recover(SCHEDULER)
    await stand.run(60)
    stand.world.pauses.resume(NAMESPACE)
    await stand.run(0.1)
    assert len(stand.names()) == 1
    assert not [each for each in stand.recovery().spared if each.reason is KeepReason.PAUSED]


async def test_a_pause_in_mid_recovery_holds_what_is_still_queued(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    stand = stage.weeder(world, deletions_a_second=1.0)
    await stand.recover(SCHEDULER, "cloud-controller-manager", "csi-driver-controller", settle=0.5)
    world.pauses.pause(NAMESPACE)
    await stand.run(30)
    assert len(stand.names()) == 1
    world.pauses.resume(NAMESPACE)
    await stand.run(3)
    assert len(stand.names()) == 3


async def test_a_pause_that_ends_after_the_recovery_changes_nothing(stand):
    stand.world.pauses.pause(NAMESPACE)
    await stand.recover(SCHEDULER)
    await stand.run(301)
    stand.world.pauses.resume(NAMESPACE)
    await stand.run(60)
    assert stand.names() == []


async def test_a_pause_that_comes_right_before_a_deletion_is_sent_is_in_time(stand, monkeypatch):
    original = stand.seed.delete_pod

    async def wait_first(namespace, name, **more):
        await stand.run(2)  # as for a connection
        await original(namespace, name, **more)

    monkeypatch.setattr(stand.seed, "delete_pod", wait_first)
    await stand.recover(SCHEDULER)
    stand.world.pauses.pause(NAMESPACE)
    await stand.run(10)
    assert stand.seed.sent == []
    stand.world.pauses.resume(NAMESPACE)
    await stand.run(5)
    assert len(stand.names()) == 1, "what was called off does not count as deleted"


async def test_a_deletion_that_was_sent_before_the_pause_is_not_called_back(stand):
    slow = stand.world.faults.seed_trouble(Trouble(latency=3.0, verbs=frozenset({"delete"})))
    await stand.recover(SCHEDULER)
    stand.world.pauses.pause(NAMESPACE)
    await stand.run(5)
    assert [each.result for each in stand.recovery().deletions] == ["deleted"]
    slow.lift()
