"""What the original leaves behind on the Deployments, and what becomes of it (docs/migrate.md)."""

from app.core.model import workloads as ann
from app.core.model.probing import ShootState
from tests.support.harness import CA, KCM, MCM, SHOOT

ALL = (KCM, MCM, CA)


def left_behind(harness, keys, *, replicas):
    """Each Deployment as the original left it."""
    for ref in ALL:
        patch = {"metadata": {"annotations": keys}, "spec": {"replicas": replicas}}
        harness.world.patch(SHOOT, ref, patch)


async def test_a_saved_count_on_what_runs_is_removed_and_nothing_else_is_written(harness):
    left_behind(harness, {ann.REPLICAS: "1"}, replicas=1)
    await harness.run(300)
    removed = {ann.REPLICAS: None}
    assert [write.patch["metadata"]["annotations"] for write in harness.writes()] == [removed] * 3
    assert all("spec" not in write.patch for write in harness.writes())
    assert harness.replicas() == (1, 1, 1)


async def test_a_protection_of_the_original_goes_on_and_ends_with_its_outage(harness):
    with harness.faults.path_cut(SHOOT):
        left_behind(harness, {ann.REPLICAS: "1", ann.MELTDOWN: ""}, replicas=0)
        taken_over = harness.now
        await harness.run(120)
        assert harness.replicas() == (0, 0, 0)
        since = harness.status().protected_since
        assert since is not None
        assert since >= taken_over, "the original does not say since when"
    await harness.until(lambda: harness.replicas() == (1, 1, 1), within=180)
    assert not set(harness.world.annotations(SHOOT, KCM)) & ann.OURS


async def test_a_protection_of_the_original_is_seen_where_nothing_is_probed_any_more(harness):
    left_behind(harness, {ann.REPLICAS: "1", ann.MELTDOWN: ""}, replicas=0)
    harness.faults.hibernated(SHOOT)
    await harness.run(60)
    assert harness.status().state is ShootState.NOT_PROBED
    since = harness.status().protected_since
    assert since is not None, "the alert on it needs an instant"
    assert since <= harness.now
