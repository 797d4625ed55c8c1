"""Which pods are deleted, and that it is the very pod that was judged."""

from app.simulation.traffic import Trouble
from app.simulation.workloads import Owner, PodTimes, Workload
from tests.support.weeding import NAMESPACE, SCHEDULER

SLOW_DELETIONS = Trouble(latency=4.0, verbs=frozenset({"delete"}))


def named(harness, workload):
    (pod,) = harness.world.pods(NAMESPACE, workload)
    return pod


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


async def test_a_dry_run_judges_as_usual_and_deletes_nothing(lab):
    harness = lab.control_plane(dry_run=True)
    await harness.recover(SCHEDULER, "gardener-resource-manager")
    await harness.run(60)
    assert harness.seed.sent == []
    assert harness.world.requests.total(verb="delete") == 0
    assert [each.result for each in harness.recovery().deletions] == ["dry-run"] * 3
    assert harness.results("dry-run") == 3
    assert not any(notice.event for notice in harness.notices)
    told = [notice.message for notice in harness.told("PodNotWeeded")]
    assert len(told) == 3
    assert all("would delete" in message for message in told)
    _ = await harness.lose()
    (ended,) = harness.told("WeedingEnded")
    assert "3 pods would have been deleted (dry run)" in ended.message
    assert ended.deleted == 3
