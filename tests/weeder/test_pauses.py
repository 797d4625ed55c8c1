"""A paused namespace is not weeded."""

from app.core.model.weeding import KeepReason
from app.simulation.traffic import Trouble
from tests.support.weeding import NAMESPACE, SCHEDULER


async def test_a_paused_namespace_is_not_weeded(harness):
    harness.pauses.pause(NAMESPACE, "paused by carol: moving etcd")
    await harness.recover(SCHEDULER)
    await harness.run(60)
    assert harness.seed.sent == []
    (spared,) = [each for each in harness.recovery().spared if each.pod.startswith(SCHEDULER)]
    assert spared.reason is KeepReason.PAUSED
    assert spared.message == "paused by carol: moving etcd"


async def test_when_a_pause_ends_the_pods_of_running_recoveries_are_judged_again(harness):
    harness.pauses.pause(NAMESPACE)
    await harness.recover(SCHEDULER)
    await harness.run(60)
    harness.pauses.resume(NAMESPACE)
    await harness.run(0.1)
    assert len(harness.names()) == 1
    assert not [each for each in harness.recovery().spared if each.reason is KeepReason.PAUSED]


async def test_a_pause_that_comes_right_before_a_deletion_is_sent_is_in_time(harness):
    harness.delay_deletions(2)
    await harness.recover(SCHEDULER)
    harness.pauses.pause(NAMESPACE)
    await harness.run(10)
    assert harness.seed.sent == []
    harness.pauses.resume(NAMESPACE)
    await harness.run(5)
    assert len(harness.names()) == 1, "what was called off does not count as deleted"


async def test_a_deletion_that_was_sent_before_the_pause_is_not_called_back(harness):
    slow = harness.world.faults.seed_trouble(Trouble(latency=3.0, verbs=frozenset({"delete"})))
    await harness.recover(SCHEDULER)
    harness.pauses.pause(NAMESPACE)
    await harness.run(5)
    assert [each.result for each in harness.recovery().deletions] == ["deleted"]
    slow.lift()
