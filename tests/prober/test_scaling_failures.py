"""A scaling run that failed shows until what it could not do is done, and no longer."""

from app.core.model.probing import ShootState
from tests.support.harness import CA, KCM, MCM, SHOOT, changed


def scaling(harness):
    found = harness.condition("ScalingSucceeded")
    return found.status, found.message


async def fail_to_come_back(harness, ref):
    """The last level was scaled up, and its pods do not get ready in time."""
    await harness.run(60)
    await harness.survive_an_outage()
    stuck = harness.faults.pods_stuck(SHOOT, ref)
    await harness.until(lambda: harness.told("ScalingFailed"), within=200)
    return stuck


async def test_pods_that_do_not_get_ready_in_time_show_for_as_long_as_they_are_not(harness):
    await fail_to_come_back(harness, CA)
    await harness.run(300)
    assert harness.state() is ShootState.FAILING
    assert scaling(harness)[0] == "False"


async def test_pods_that_get_ready_later_leave_no_failure_behind(harness):
    (await fail_to_come_back(harness, CA)).lift()
    await harness.run(20)
    assert harness.state() is ShootState.HEALTHY
    assert scaling(harness) == (
        "True",
        "what the last scaling run could not do has been done since",
    )


async def test_what_fails_later_is_no_failure_of_the_scaling_run(harness):
    stuck = await fail_to_come_back(harness, CA)
    harness.faults.pods_stuck(SHOOT, KCM)
    for replicas in (0, 1):
        harness.world.patch(SHOOT, KCM, {"spec": {"replicas": replicas}})
        await harness.run(5)
    stuck.lift()
    await harness.run(20)
    assert harness.world.dependent(SHOOT, KCM).ready == 0
    assert harness.state() is ShootState.HEALTHY
    assert scaling(harness)[0] == "True"


async def test_a_way_down_that_failed_is_over_with_the_outage(harness):
    await harness.run(60)
    with harness.faults.patch_forbidden():
        with harness.faults.path_cut(SHOOT):
            await harness.until(lambda: harness.told("ScalingFailed"), within=60)
            await harness.run(10)
            assert scaling(harness)[0] == "False"
        await harness.run(60)
    assert harness.state() is ShootState.HEALTHY


async def test_a_dependent_that_is_missing_is_a_failure_until_it_is_there(lab):
    harness = await lab.healthy(dependents=changed(CA, optional=False))
    await harness.survive_an_outage()
    harness.world.delete(SHOOT, CA)
    await harness.until(lambda: harness.told("ScalingFailed"), within=200)
    await harness.run(60)
    assert harness.state() is ShootState.FAILING
    harness.world.add_dependent(SHOOT, CA, 1)
    await harness.run(30)
    assert harness.state() is ShootState.HEALTHY
    assert [harness.world.replicas(SHOOT, ref) for ref in (KCM, MCM, CA)] == [1, 1, 1]
