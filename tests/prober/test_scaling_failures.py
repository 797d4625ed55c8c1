"""A scaling run that failed shows until what it could not do is done, and no longer."""

from app.core.model.probing import ShootState
from tests.support.stands import CA, KCM, MCM, SHOOT, changed


def scaling(stand):
    (found,) = [each for each in stand.status().conditions if each.type == "ScalingSucceeded"]
    return found.status, found.message


async def fail_to_come_back(stand, ref):
    """The last level was scaled up, and its pods do not get ready in time."""
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
    stuck = stand.world.faults.pods_stuck(SHOOT, ref)
    await stand.until(lambda: stand.told("ScalingFailed"), within=200)
    return stuck


async def test_pods_that_do_not_get_ready_in_time_show_for_as_long_as_they_are_not(stand):
    await fail_to_come_back(stand, CA)
    await stand.run(300)
    assert stand.state() is ShootState.FAILING
    assert scaling(stand)[0] == "False"


async def test_pods_that_get_ready_later_leave_no_failure_behind(stand):
    (await fail_to_come_back(stand, CA)).lift()
    await stand.run(20)
    assert stand.state() is ShootState.HEALTHY
    assert scaling(stand) == ("True", "what the last scaling run could not do has been done since")


async def test_a_way_down_that_failed_is_over_with_the_outage(stand):
    await stand.run(60)
    with stand.world.faults.patch_forbidden():
        with stand.world.faults.path_cut(SHOOT):
            await stand.until(lambda: stand.told("ScalingFailed"), within=60)
            await stand.run(10)
            assert scaling(stand)[0] == "False"
        await stand.run(60)
    assert stand.state() is ShootState.HEALTHY


async def test_a_dependent_that_is_missing_is_a_failure_until_it_is_there(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, dependents=changed(CA, optional=False))
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        await stand.protect()
    world.delete(SHOOT, CA)
    await stand.until(lambda: stand.told("ScalingFailed"), within=200)
    await stand.run(60)
    assert stand.state() is ShootState.FAILING
    world.add_dependent(SHOOT, CA, 1)
    await stand.run(30)
    assert stand.state() is ShootState.HEALTHY
    assert [world.replicas(SHOOT, ref) for ref in (KCM, MCM, CA)] == [1, 1, 1]
