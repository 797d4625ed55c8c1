"""A scale-down that people keep back; a shoot that loses all of its nodes has not recovered."""

import pytest

from app.core.model import workloads as ann
from app.core.model.overrides import Scope
from app.core.model.probing import ShootState, VerdictReason
from app.simulation.traffic import Trouble
from tests.prober.people import UP, Operator, again
from tests.support.harness import CA, KCM, MCM, SHOOT, SLOW_KCM

IGNORED = {"metadata": {"annotations": {ann.IGNORE_SCALING: "true"}}}
NODES = [f"node-{number}" for number in range(10)]


async def shoot(lab, *, health_timeout=60.0, **changes) -> Operator:
    """A shoot whose machines are given up as soon as their nodes have not been well for a minute."""
    return Operator.at(await lab.healthy(shoot={"health_timeout": health_timeout}, **changes))


@pytest.fixture
async def operator(lab, virtual_time):
    with virtual_time():
        return await shoot(lab)


def shown(operator):
    """State and reason as everybody sees them."""
    status = operator.status()
    return status.state, status.reason


async def ignore(operator, *refs, patch=IGNORED):
    for ref in refs:
        operator.world.patch(SHOOT, ref, patch)
    await operator.run(1)


async def keep_hands_off(operator, how):
    """What a person does that keeps a scale-down back for an hour and more."""
    match how:
        case "Paused":
            await operator.pause(Scope.SCALE_DOWN, seconds=7200)
        case "Held":
            await operator.ended((await operator.scale(UP, force=True, hold=7200)).id)
        case _:
            await ignore(operator, KCM, MCM, CA)


@pytest.mark.parametrize("how", ["Paused", "Held", "Ignored"])
async def test_a_shoot_that_people_keep_from_being_protected_and_that_loses_everything_is_unprotected(
    operator, how
):
    await keep_hands_off(operator, how)
    with operator.faults.path_cut(SHOOT):
        await operator.until(lambda: shown(operator) == (ShootState.UNPROTECTED, how), within=45)
        assert operator.condition("LeasesRenewed").status == "False"
        since = operator.status().since

        def without_candidates():
            return operator.reason() is VerdictReason.NO_CANDIDATES

        await operator.until(without_candidates, within=200)
        await operator.run(30)
        status = operator.status()
        assert (status.state, status.reason, status.since) == (ShootState.UNPROTECTED, how, since)
        assert "there is no node lease that counts" in status.message
        assert "not scaled: " in status.message
        assert (
            operator.condition("LeasesRenewed").status,
            operator.condition("LeasesRenewed").reason,
        ) == ("Unknown", "NoCandidates")
        assert operator.prober.registry.summaries() == [status.summary]
        assert not operator.writes(KCM)
    await operator.until(lambda: operator.state() is ShootState.HEALTHY, within=600)
    assert operator.condition("LeasesRenewed").status == "True"


async def test_a_shoot_that_shrinks_to_nothing_while_it_is_well_stays_healthy(operator):
    await operator.pause()
    for number in range(10):
        operator.world.machine_phase(SHOOT, f"machine-{number}", "Terminating")
    await operator.run(1)
    operator.faults.path_cut(SHOOT)
    await operator.until(lambda: operator.reason() is VerdictReason.NO_CANDIDATES, within=60)
    assert shown(operator) == (ShootState.HEALTHY, "NoCandidates")
    assert operator.condition("LeasesRenewed").status == "Unknown"


async def test_a_process_that_finds_machines_taken_away_and_no_candidate_does_not_call_that_healthy(
    operator,
):
    await operator.pause(seconds=7200)
    with operator.faults.path_cut(SHOOT):
        await operator.until(lambda: operator.reason() is VerdictReason.NO_CANDIDATES, within=300)
        await operator.kill()
        after = again(operator)
        await after.run(25)
        assert after.reason() is VerdictReason.NO_CANDIDATES
        assert shown(after) == (ShootState.SUSPECT, "NoCandidates")
        assert after.condition("LeasesRenewed").status == "Unknown"


async def test_a_pause_in_the_middle_of_a_scale_down_leaves_it_unprotected(lab):
    operator = await shoot(lab, dependents=SLOW_KCM)
    with operator.faults.path_cut(SHOOT):
        await operator.until(lambda: operator.replicas() == (1, 0, 0))
        await operator.pause()
        await operator.until(
            lambda: shown(operator) == (ShootState.UNPROTECTED, "Paused"), within=6
        )
        assert "machine-controller-manager and cluster-autoscaler are at 0" in (
            operator.status().message
        )


# Ignore-scaling.


async def test_late_leases_that_do_not_count_leave_no_ignored_shoot_unprotected(operator):
    """Nodes are read before anybody is told that nothing protects them."""
    await ignore(operator, KCM, MCM, CA)
    for number in range(20):
        operator.world.add_lease(SHOOT, f"gone-{number}", operator.now - 3600)
    await operator.run(60)
    assert operator.state() is ShootState.HEALTHY


# Reasons of their own.


async def test_a_few_late_nodes_are_no_renewed_leases(lab):
    operator = await shoot(lab, health_timeout=6000.0)
    with operator.faults.path_cut(SHOOT, nodes=NODES[:3]):
        await operator.run(45)
        assert shown(operator) == (ShootState.SUSPECT, "SomeLeasesExpired")
        assert (
            operator.condition("LeasesRenewed").status,
            operator.condition("LeasesRenewed").reason,
        ) == ("False", "SomeLeasesExpired")


async def test_scaling_that_fails_is_the_reason_of_a_shoot_that_fails_because_of_it(operator):
    forbidden = Trouble(forbidden=True, verbs=frozenset({"patch"}))
    with operator.faults.seed_trouble(forbidden), operator.faults.path_cut(SHOOT):
        await operator.until(lambda: operator.state() is ShootState.FAILING)
        status = operator.status()
        assert status.reason == "ScalingFailed"
        assert "; scaling failed: Deployment/" in status.message


async def test_a_protected_shoot_says_why_scaling_up_fails(operator):
    with operator.faults.path_cut(SHOOT):
        await operator.until(lambda: operator.state() is ShootState.PROTECTED)
    with operator.faults.patch_forbidden():
        await operator.until(lambda: operator.status().scaling_failure, within=120)
        status = operator.status()
        assert (status.state, status.reason) == (ShootState.PROTECTED, "LeasesRenewed")
        assert "; scaling failed: Deployment/" in status.message
