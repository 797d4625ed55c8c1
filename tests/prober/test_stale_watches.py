"""Watches of the seed without contact: what a verdict needs is read live, or it is HOLD (spec, words; 4.1)."""

import pytest

from app.core import errors
from app.core.model.policy import EndpointMode
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.ports import Watched
from app.simulation.traffic import Host, Trouble
from tests.prober.people import DOWN, at_hand
from tests.support.stands import KCM, MCM, SHOOT

STALE = 91.0
READS = frozenset({"get", "list"})


async def stale(stage, *watches, **options):
    """A healthy shoot and watches that have been silent for longer than 90 s."""
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, **options)
    await stand.run(60)
    for watch in watches:
        world.faults.watch_stalled(Watched(watch))
    if watches:
        await stand.run(STALE)
    return stand


@pytest.mark.parametrize("watch", ["clusters", "secrets", "machines"])
async def test_a_scale_down_needs_a_stale_watch_read_live_and_goes_on(stage, watch):
    stand = await stale(stage, watch)
    stand.world.requests.reset()
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        assert stand.world.requests.live(Host.SEED, what=watch) >= 1
        others = {"clusters", "secrets", "machines"} - {watch}
        assert not any(stand.world.requests.live(Host.SEED, what=other) for other in others)


@pytest.mark.parametrize("watch", ["clusters", "secrets", "machines"])
async def test_a_scale_down_is_held_where_a_stale_watch_cannot_be_read_live(stage, watch):
    stand = await stale(stage, watch)
    with (
        stand.world.faults.path_cut(SHOOT),
        stand.world.faults.seed_trouble(Trouble(refused=True, verbs=READS)),
    ):
        await stand.run(90)
        assert not stand.writes()
        assert stand.reason() is VerdictReason.SEED_STALE
        assert stand.decision().verdict is Verdict.HOLD
        assert stand.state() is ShootState.FAILING


async def test_a_stale_watch_of_dependents_is_never_needed(stage):
    stand = await stale(stage, "dependents")
    stand.world.requests.reset()
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 0)
        assert stand.world.requests.live(Host.SEED, "patch") == 3


async def test_a_watch_that_is_silent_for_less_than_90_s_is_trusted(stage):
    stand = await stale(stage)
    for watch in ("clusters", "secrets", "machines"):
        stand.world.faults.watch_stalled(Watched(watch))
    await stand.run(30)
    stand.world.requests.reset()
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 0)
        assert stand.world.requests.live(Host.SEED) == 3


@pytest.mark.parametrize("how", ["hibernated", "deleted", "migrating", "cluster_gone"])
async def test_a_shoot_that_is_no_longer_probed_is_not_scaled_though_the_watch_has_not_heard(
    stage, how
):
    stand = await stale(stage, "clusters")
    getattr(stand.world.faults, how)(SHOOT)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(90)
        assert not stand.writes()
        assert stand.reason() is VerdictReason.SEED_STALE


async def test_a_cluster_that_has_changed_in_what_no_rule_reads_holds_nothing(stage):
    stand = await stale(stage, "clusters")
    stand.world.patch_cluster(SHOOT, {"status": {"somethingElse": 1}})
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        assert not [n for n in stand.notices if n.reason == VerdictReason.SEED_STALE]


async def test_a_grace_that_has_changed_unheard_is_taken_from_the_live_cluster(stage):
    stand = await stale(stage, "clusters")
    kcm = {"kubeControllerManager": {"nodeMonitorGracePeriod": "120s"}}
    stand.world.patch_cluster(SHOOT, {"spec": {"kubernetes": kcm}})
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(60)
        assert not stand.writes(), "90 s is the expiry time now"
        assert stand.status().expiry == 90
        await stand.run(60)
        assert stand.replicas() == (0, 0, 0)


async def test_a_kubeconfig_that_has_changed_unheard_is_used_at_once(stage):
    stand = await stale(stage, "secrets")
    stand.world.faults.rotate_token(SHOOT, overlap=3600)
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.writes(MCM))
        assert not [n for n in stand.notices if n.reason == VerdictReason.SEED_STALE]


async def test_a_kubeconfig_that_has_gone_unheard_holds_a_scale_down(stage):
    stand = await stale(stage, "secrets")
    stand.world.faults.kubeconfig_absent(SHOOT)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(90)
        assert not stand.writes()
        assert stand.reason() is VerdictReason.SEED_STALE


async def test_from_stale_machines_no_node_is_taken_to_have_none(stage):
    """All machines are gone for the watch; live they are there."""
    world = stage.world()
    world.add_shoot(SHOOT)
    world.faults.watch_not_synced(Watched.MACHINES)
    stand = stage.prober(world)
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()


async def test_a_scale_up_needs_the_cluster_and_not_the_secret(stage):
    stand = await stale(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        stand.world.faults.watch_stalled(Watched.CLUSTERS)
        stand.world.faults.watch_stalled(Watched.SECRETS)
        await stand.run(STALE)
    stand.world.requests.reset()
    await stand.until(lambda: stand.replicas() == (1, 1, 1), within=120)
    assert stand.world.requests.live(Host.SEED, what="clusters") >= 1
    assert stand.world.requests.live(Host.SEED, what="secrets") == 0


async def test_a_scale_up_is_held_where_the_stale_cluster_cannot_be_read_live(stage):
    stand = await stale(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        stand.world.faults.watch_stalled(Watched.CLUSTERS)
        await stand.run(STALE)
    with stand.world.faults.seed_trouble(Trouble(refused=True, what=frozenset({"clusters"}))):
        await stand.run(90)
        assert stand.replicas() == (0, 0, 0)
        assert stand.told(VerdictReason.SEED_STALE)
    await stand.run(120)
    assert stand.replicas() == (1, 1, 1)


async def test_a_stale_seed_costs_a_healthy_shoot_nothing(stage):
    stand = await stale(stage, "clusters", "secrets", "machines", "dependents")
    stand.world.requests.reset()
    await stand.run(120)
    assert stand.state() is ShootState.HEALTHY
    assert stand.world.requests.live(Host.SEED) == 0


@pytest.mark.parametrize("watch", ["secrets", "dependents"])
async def test_until_the_seed_was_listed_once_every_verdict_is_not_synced(stage, watch):
    world = stage.world()
    world.add_shoot(SHOOT)
    missing = world.faults.watch_not_synced(Watched(watch))
    stand = stage.prober(world)
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        await stand.run(60)
        assert stand.decision().verdict is Verdict.HOLD
        assert not stand.writes()
        missing.lift()
        await stand.protect()


@pytest.mark.parametrize("mode", [{}, {"endpoint_mode": EndpointMode("external")}])
async def test_a_secret_that_was_never_listed_is_not_called_missing(stage, mode):
    world = stage.world(external_secret_name="external" if mode else None)
    world.add_shoot(SHOOT)
    missing = world.faults.watch_not_synced(Watched.SECRETS)
    stand = stage.prober(world, **mode)
    await stand.run(60)
    assert stand.reason() is VerdictReason.NOT_SYNCED
    assert stand.state() is ShootState.PENDING
    assert "have not been listed yet" in stand.status().message
    assert not stand.told(VerdictReason.CREDENTIALS_MISSING)
    assert world.requests.total(Host.SHOOT) == 0
    probes = stand.status().probes
    missing.lift()
    await stand.run(0.5)
    assert stand.status().probes == probes + 1
    assert stand.reason() is not VerdictReason.NOT_SYNCED


async def test_until_clusters_were_listed_nothing_is_probed(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    missing = world.faults.watch_not_synced(Watched.CLUSTERS)
    stand = stage.prober(world)
    await stand.run(60)
    assert world.requests.live() == 0
    missing.lift()
    await stand.run(5)
    assert stand.state() is ShootState.HEALTHY


# Scaling runs with holds: what a person, or a rule, asks for is nobody's verdict, and acts on the Cluster all the same.


async def hibernated_behind_the_watch(stage, **changes):
    """The Clusters' watch is stale, and the shoot is hibernated: only a live read shows that."""
    hand = await at_hand(stage, **changes)
    hand.stand.world.faults.watch_stalled(Watched.CLUSTERS)
    await hand.stand.run(STALE)
    hand.stand.world.faults.hibernated(SHOOT)
    return hand


def left(**fields):
    """A hold whose scaling run is to be carried on."""
    return {"hold": {"reason": "r", "direction": "down", "operation": "op", "done": False} | fields}


async def test_a_run_by_hand_does_not_begin_on_a_stale_watch_that_shows_what_was(stage):
    hand = await hibernated_behind_the_watch(stage)
    with pytest.raises(errors.Refused, match="hibernated"):
        await hand.scale(DOWN)
    assert hand.stand.replicas() == (1, 1, 1)
    assert hand.hold() is None


async def test_nor_does_it_begin_where_nobody_can_tell(stage):
    hand = await hibernated_behind_the_watch(stage)
    with hand.stand.world.faults.seed_down(), pytest.raises(errors.Unreachable):
        await hand.scale(DOWN)
    assert hand.stand.replicas() == (1, 1, 1)


async def test_nor_is_one_carried_on_and_its_hold_ends(stage):
    hand = await hibernated_behind_the_watch(stage)
    hand.store.kubectl_set(SHOOT, left())
    await hand.stand.run(5)
    assert hand.hold() is None
    assert hand.stand.replicas() == (1, 1, 1)
    assert "hibernated" in hand.stand.told("HoldEnded")[0].message


async def test_what_nobody_can_tell_of_is_carried_on_when_somebody_can(stage):
    hand = await at_hand(stage)
    hand.stand.world.faults.watch_stalled(Watched.CLUSTERS)
    await hand.stand.run(STALE)
    with hand.stand.world.faults.seed_down():
        hand.store.kubectl_set(SHOOT, left())
        await hand.stand.run(30)
        assert hand.stand.replicas() == (1, 1, 1)
    await hand.done()
    assert hand.stand.replicas() == (0, 0, 0)


async def test_a_hold_that_ends_while_the_seed_is_asked_is_carried_on_by_nobody(stage):
    hand = await at_hand(stage)
    hand.stand.world.faults.watch_stalled(Watched.CLUSTERS)
    await hand.stand.run(STALE)
    with hand.stand.world.faults.seed_trouble(Trouble(latency=3.0)):
        hand.store.kubectl_set(SHOOT, left())
        await hand.stand.run(1)
        hand.store.kubectl_set(SHOOT, None)
        await hand.stand.run(30)
    assert hand.stand.replicas() == (1, 1, 1)


async def test_a_run_that_was_forced_begins_whatever_the_cluster_says(stage):
    hand = await hibernated_behind_the_watch(stage)
    await hand.ended((await hand.scale(DOWN, force=True)).id)
    assert hand.stand.replicas() == (0, 0, 0)


async def test_over_a_stale_watch_of_a_shoot_that_is_as_it_was_a_run_by_hand_begins(stage):
    hand = await at_hand(stage)
    hand.stand.world.faults.watch_stalled(Watched.CLUSTERS)
    await hand.stand.run(STALE)
    await hand.ended((await hand.scale(DOWN)).id)
    assert hand.stand.replicas() == (0, 0, 0)
