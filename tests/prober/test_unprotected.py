"""A scale-down that people keep back; a shoot that loses all of its nodes has not recovered."""

import pytest

from app.core.metrics import Metrics
from app.core.model import workloads as ann
from app.core.model.overrides import Scope
from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, VerdictReason
from app.core.reporting.gauges import StateCounts
from app.simulation.traffic import Trouble
from tests.prober.people import UP, Hand, again
from tests.support.overrides import MemoryStore
from tests.support.stands import CA, KCM, MCM, SHOOT, changed

IGNORED = {"metadata": {"annotations": {ann.IGNORE_SCALING: "true"}}}
HEEDED = {"metadata": {"annotations": {ann.IGNORE_SCALING: None}}}
SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=60.0))
NODES = [f"node-{number}" for number in range(10)]


async def shoot(stage, *, health_timeout=60.0, **changes) -> Hand:
    """A shoot whose machines are given up as soon as their nodes have not been well for a minute."""
    world = stage.world()
    world.add_shoot(SHOOT, health_timeout=health_timeout)
    store = MemoryStore(stage.clock)
    hand = Hand(stage.prober(world, store=store, **changes), store)
    await hand.stand.run(60)
    return hand


def condition(hand, kind="LeasesRenewed"):
    (found,) = [each for each in hand.stand.status().conditions if each.type == kind]
    return found


def shown(hand):
    """State and reason as everybody sees them."""
    status = hand.stand.status()
    return status.state, status.reason


def counted(hand):
    """Shoots in each state, as `dwd_shoots` has them."""
    registry = hand.stand.prober.registry
    _, states = StateCounts(Metrics(), registry.summaries).collect()
    return {each.labels["state"]: each.value for each in states.samples}


async def ignore(hand, *refs, patch=IGNORED):
    for ref in refs:
        hand.stand.world.patch(SHOOT, ref, patch)
    await hand.stand.run(1)


async def keep_hands_off(hand, how):
    """What a person does that keeps a scale-down back for an hour and more."""
    match how:
        case "Paused":
            await hand.pause(Scope.SCALE_DOWN, seconds=7200)
        case "Held":
            operation = await hand.scale(UP, force=True, hold=7200)
            await hand.ended(operation.id)
        case _:
            await ignore(hand, KCM, MCM, CA)


@pytest.mark.parametrize("how", ["Paused", "Held", "Ignored"])
async def test_a_shoot_that_people_keep_from_being_protected_and_that_loses_everything_is_unprotected(
    stage, how
):
    hand = await shoot(stage)
    await keep_hands_off(hand, how)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: shown(hand) == (ShootState.UNPROTECTED, how), within=45)
        assert condition(hand).status == "False"
        since = hand.stand.status().since

        def without_candidates():
            return hand.stand.reason() is VerdictReason.NO_CANDIDATES

        await hand.stand.until(without_candidates, within=200)
        await hand.stand.run(30)
        status = hand.stand.status()
        assert (status.state, status.reason, status.since) == (ShootState.UNPROTECTED, how, since)
        assert "there is no node lease that counts" in status.message
        assert "not scaled: " in status.message
        assert (condition(hand).status, condition(hand).reason) == ("Unknown", "NoCandidates")
        assert hand.stand.prober.registry.summaries() == [status.summary]
        assert not hand.stand.writes(KCM)
    await hand.stand.until(lambda: hand.stand.state() is ShootState.HEALTHY, within=600)
    assert condition(hand).status == "True"


async def test_the_word_is_counted_from_the_start_with_0(stage):
    hand = await shoot(stage)
    assert counted(hand)["Unprotected"] == 0
    await hand.pause()
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.run(40)
        assert counted(hand)["Unprotected"] == 1


async def test_what_is_resumed_when_its_nodes_are_lost_is_suspect_and_no_longer_unprotected(stage):
    hand = await shoot(stage)
    await hand.pause(seconds=7200)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(
            lambda: hand.stand.reason() is VerdictReason.NO_CANDIDATES, within=300
        )
        await hand.resume()
        await hand.stand.run(1)
        assert shown(hand) == (ShootState.SUSPECT, "NoCandidates")
        await hand.pause(seconds=7200)
        assert shown(hand) == (ShootState.UNPROTECTED, "Paused")


async def test_a_shoot_that_shrinks_to_nothing_while_it_is_well_stays_healthy(stage):
    hand = await shoot(stage)
    await hand.pause()
    for number in range(10):
        hand.stand.world.machine_phase(SHOOT, f"machine-{number}", "Terminating")
    await hand.stand.run(1)
    hand.stand.world.faults.path_cut(SHOOT)
    await hand.stand.until(lambda: hand.stand.reason() is VerdictReason.NO_CANDIDATES, within=60)
    assert shown(hand) == (ShootState.HEALTHY, "NoCandidates")
    assert condition(hand).status == "Unknown"


async def test_a_cluster_that_has_no_workers_any_more_ends_it(stage):
    hand = await shoot(stage)
    await hand.pause(seconds=7200)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(
            lambda: hand.stand.reason() is VerdictReason.NO_CANDIDATES, within=300
        )
        hand.stand.world.patch_cluster(SHOOT, {"spec": {"provider": {"workers": []}}})
        await hand.stand.run(1)
        assert shown(hand) == (ShootState.NOT_PROBED, "NoWorkers")


async def test_a_process_that_finds_machines_taken_away_and_no_candidate_does_not_call_that_healthy(
    stage,
):
    hand = await shoot(stage)
    await hand.pause(seconds=7200)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(
            lambda: hand.stand.reason() is VerdictReason.NO_CANDIDATES, within=300
        )
        await hand.stand.kill()
        after = again(hand)
        await after.stand.run(25)
        assert after.stand.reason() is VerdictReason.NO_CANDIDATES
        assert shown(after) == (ShootState.SUSPECT, "NoCandidates")
        assert condition(after).status == "Unknown"


async def test_a_pause_in_the_middle_of_a_scale_down_leaves_it_unprotected(stage):
    hand = await shoot(stage, dependents=SLOW_KCM)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: hand.stand.replicas() == (1, 0, 0))
        await hand.pause()
        await hand.stand.until(lambda: shown(hand) == (ShootState.UNPROTECTED, "Paused"), within=6)
        assert "machine-controller-manager and cluster-autoscaler are at 0" in (
            hand.stand.status().message
        )


async def test_a_pause_over_a_complete_protection_keeps_nothing_back(stage):
    hand = await shoot(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        await hand.pause()
        await hand.stand.run(60)
        assert shown(hand) == (ShootState.PROTECTED, "Paused")


async def test_an_api_server_that_does_not_answer_says_nothing_of_what_is_kept_back(stage):
    hand = await shoot(stage, health_timeout=6000.0)
    await hand.pause()
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.run(40)
        with hand.stand.world.faults.api_down(SHOOT):
            await hand.stand.run(10)
            assert shown(hand) == (ShootState.UNREACHABLE, "Unreachable")
        await hand.stand.until(lambda: hand.stand.state() is ShootState.UNPROTECTED, within=60)


# Ignore-scaling.


async def test_ignore_scaling_of_some_dependents_leaves_the_others_to_be_scaled(stage):
    hand = await shoot(stage)
    await ignore(hand, KCM, MCM)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        assert hand.stand.replicas() == (1, 1, 0)
        await hand.stand.run(20)
        assert shown(hand) == (ShootState.PROTECTED, "LeasesExpired")


async def test_ignore_scaling_of_all_that_exists_is_that_of_all(stage):
    hand = await shoot(stage)
    hand.stand.world.delete(SHOOT, CA)
    await ignore(hand, KCM, MCM)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: shown(hand) == (ShootState.UNPROTECTED, "Ignored"), 45)


async def test_when_ignore_scaling_is_taken_back_the_next_verdict_acts(stage):
    hand = await shoot(stage)
    await ignore(hand, KCM, MCM, CA)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: hand.stand.state() is ShootState.UNPROTECTED, within=45)
        await ignore(hand, KCM, MCM, CA, patch=HEEDED)
        await hand.stand.until(lambda: hand.stand.replicas() == (0, 0, 0), within=6)


async def test_late_leases_that_do_not_count_leave_no_ignored_shoot_unprotected(stage):
    """Nodes are read before anybody is told that nothing protects them."""
    hand = await shoot(stage)
    await ignore(hand, KCM, MCM, CA)
    for number in range(20):
        hand.stand.world.add_lease(SHOOT, f"gone-{number}", hand.stand.now - 3600)
    await hand.stand.run(60)
    assert hand.stand.state() is ShootState.HEALTHY


# Reasons of their own.


async def test_a_few_late_nodes_are_no_renewed_leases(stage):
    hand = await shoot(stage, health_timeout=6000.0)
    with hand.stand.world.faults.path_cut(SHOOT, nodes=NODES[:3]):
        await hand.stand.run(45)
        assert shown(hand) == (ShootState.SUSPECT, "SomeLeasesExpired")
        assert (condition(hand).status, condition(hand).reason) == ("False", "SomeLeasesExpired")


async def test_scaling_that_fails_is_the_reason_of_a_shoot_that_fails_because_of_it(stage):
    hand = await shoot(stage)
    forbidden = Trouble(forbidden=True, verbs=frozenset({"patch"}))
    with hand.stand.world.faults.seed_trouble(forbidden), hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: hand.stand.state() is ShootState.FAILING)
        status = hand.stand.status()
        assert status.reason == "ScalingFailed"
        assert "; scaling failed: Deployment/" in status.message
