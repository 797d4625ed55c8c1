"""What the original leaves behind on the Deployments, and what becomes of it (docs/migrate.md)."""

from app.core.model import workloads as ann
from app.core.model.probing import ShootState
from tests.support.stands import CA, KCM, MCM, SHOOT

ALL = (KCM, MCM, CA)


def left_behind(stand, keys, *, replicas):
    """Each Deployment as the original left it."""
    for ref in ALL:
        patch = {"metadata": {"annotations": keys}, "spec": {"replicas": replicas}}
        stand.world.patch(SHOOT, ref, patch)


async def test_a_saved_count_on_what_runs_is_removed_and_nothing_else_is_written(stand):
    left_behind(stand, {ann.REPLICAS: "1"}, replicas=1)
    await stand.run(300)
    removed = {ann.REPLICAS: None}
    assert [write.patch["metadata"]["annotations"] for write in stand.writes()] == [removed] * 3
    assert all("spec" not in write.patch for write in stand.writes())
    assert stand.replicas() == (1, 1, 1)


async def test_a_protection_of_the_original_goes_on_and_ends_with_its_outage(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        left_behind(stand, {ann.REPLICAS: "1", ann.MELTDOWN: ""}, replicas=0)
        taken_over = stand.now
        await stand.run(120)
        assert stand.replicas() == (0, 0, 0)
        since = stand.status().protected_since
        assert since is not None
        assert since >= taken_over, "the original does not say since when"
    await stand.until(lambda: stand.replicas() == (1, 1, 1), within=180)
    assert not set(stand.world.annotations(SHOOT, KCM)) & ann.OURS


async def test_a_protection_of_the_original_is_seen_where_nothing_is_probed_any_more(stand):
    left_behind(stand, {ann.REPLICAS: "1", ann.MELTDOWN: ""}, replicas=0)
    stand.world.faults.hibernated(SHOOT)
    await stand.run(60)
    assert stand.status().state is ShootState.NOT_PROBED
    since = stand.status().protected_since
    assert since is not None, "the alert on it needs an instant"
    assert since <= stand.now
