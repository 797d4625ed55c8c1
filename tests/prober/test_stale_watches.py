"""Watches of the seed without contact: what a verdict needs is read live, or it is HOLD (spec, words; 4.1)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.core import errors
from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.overrides.cache import OverrideCache
from app.core.ports import Watched
from app.prober.rules.leases import Timings
from app.simulation.traffic import Host, Trouble
from tests.prober.people import DOWN, REQUEST, with_operator
from tests.support.harness import KCM, MCM, SHOOT, changed

STALE = 91.0
READS = frozenset({"get", "list"})


async def stale(lab, *watches, **options):
    """A healthy shoot and watches that have been silent for longer than 90 s."""
    harness = await lab.healthy(**options)
    for watch in watches:
        harness.faults.watch_stalled(Watched(watch))
    if watches:
        await harness.run(STALE)
    return harness


@pytest.mark.parametrize("watch", ["clusters", "secrets", "machines"])
async def test_a_scale_down_needs_a_stale_watch_read_live_and_goes_on(lab, watch):
    harness = await stale(lab, watch)
    harness.world.requests.reset()
    async with harness.under_protection():
        assert harness.world.requests.live(Host.SEED, what=watch) >= 1
        others = {"clusters", "secrets", "machines"} - {watch}
        assert not any(harness.world.requests.live(Host.SEED, what=other) for other in others)


@pytest.mark.parametrize("watch", ["clusters", "secrets", "machines"])
async def test_a_scale_down_is_held_where_a_stale_watch_cannot_be_read_live(lab, watch):
    harness = await stale(lab, watch)
    with (
        harness.faults.path_cut(SHOOT),
        harness.faults.seed_trouble(Trouble(refused=True, verbs=READS)),
    ):
        await harness.run(90)
        assert not harness.writes()
        assert harness.reason() is VerdictReason.SEED_STALE
        assert harness.decision().verdict is Verdict.HOLD
        assert harness.state() is ShootState.FAILING


async def test_live_reads_that_take_longer_than_a_reading_is_believed_hold_it(lab):
    harness = await stale(lab, "clusters", "secrets")
    with (
        harness.faults.path_cut(SHOOT),
        harness.faults.seed_trouble(Trouble(latency=3.0, verbs=READS)),
    ):
        await harness.run(60)
        assert not harness.writes()
        assert harness.reason() is VerdictReason.SEED_STALE
        assert "took longer than 5s" in harness.decision().message


async def test_so_does_a_process_that_stood_still_until_the_answer_was_there(lab, monkeypatch):
    """Its time limit is due as soon as it goes on, and the answer is taken first."""
    harness = await stale(lab, "clusters")
    refresh = OverrideCache.refresh

    async def frozen(self: OverrideCache, namespace: str, *, urgent: bool) -> None:
        await refresh(self, namespace, urgent=urgent)
        loop: Any = asyncio.get_running_loop()
        loop.setup_looptime(start=loop.time() + 60, noop_cycles=1)

    monkeypatch.setattr(OverrideCache, "refresh", frozen)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.told(VerdictReason.SEED_STALE), within=120)
        await harness.run(60)
        assert not harness.writes()


@pytest.mark.parametrize("watch", ["secrets", "clusters"])
async def test_what_the_watch_told_of_a_shoot_during_a_live_read_stays(lab, watch):
    """Also where the Cluster itself was read live: the answer may be older than what a watch that is back tells."""
    harness = await stale(lab, watch)
    runner = harness.prober.registry.runner(SHOOT)
    read_live = runner._probe.live_where_stale
    later: list[Any] = []

    async def overtaken(shoot, *, down):
        found = await read_live(shoot, down=down)
        if not later:
            later.append(replace(shoot, timings=Timings(400.0)))
            runner.cluster_changed(later[0])
        return found

    runner._probe.live_where_stale = overtaken
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: later, within=120)
        await harness.run(1)
    assert runner._shoot == later[0]


async def test_a_stale_watch_of_dependents_is_never_needed(lab):
    harness = await stale(lab, "dependents")
    harness.world.requests.reset()
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 0)
        assert harness.world.requests.live(Host.SEED, "patch") == 3


@pytest.mark.parametrize(
    ("watch", "how", "lasts"),
    [
        *(
            ("clusters", how, True)
            for how in ("hibernated", "deleted", "migrating", "cluster_gone")
        ),
        ("clusters", "cluster_gone", False),  # deleted, and made again
        ("secrets", "kubeconfig_absent", True),
    ],
)
async def test_what_ends_probing_or_makes_it_impossible_counts_though_the_watch_has_not_heard(
    lab, watch, how, lasts
):
    harness = await stale(lab, watch)
    fault = getattr(harness.faults, how)(SHOOT)
    if not lasts:
        fault.lift()
    with harness.faults.path_cut(SHOOT):
        await harness.run(90)
        assert not harness.writes()
        assert harness.reason() is VerdictReason.SEED_STALE


async def test_a_grace_that_has_changed_unheard_is_taken_from_the_live_cluster(lab):
    harness = await stale(lab, "clusters")
    kcm = {"kubeControllerManager": {"nodeMonitorGracePeriod": "120s"}}
    harness.world.patch_cluster(SHOOT, {"spec": {"kubernetes": kcm}})
    with harness.faults.path_cut(SHOOT):
        await harness.run(60)
        assert not harness.writes(), "90 s is the expiry time now"
        assert harness.status().expiry == 90
        await harness.run(60)
        assert harness.replicas() == (0, 0, 0)


async def test_a_kubeconfig_that_has_changed_unheard_is_used_at_once(lab):
    harness = await stale(lab, "secrets")
    harness.faults.rotate_token(SHOOT, overlap=3600)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.writes(MCM))
        assert not [n for n in harness.notices if n.reason == VerdictReason.SEED_STALE]


async def test_from_stale_machines_no_node_is_taken_to_have_none(lab):
    """All machines are gone for the watch; live they are there."""
    world = lab.world()
    world.faults.watch_not_opened(Watched.MACHINES)
    harness = await lab.healthy(world)
    await harness.survive_an_outage()


async def test_a_scale_up_needs_the_cluster_and_not_the_secret(lab):
    harness = await stale(lab)
    async with harness.under_protection():
        harness.faults.watch_stalled(Watched.CLUSTERS)
        harness.faults.watch_stalled(Watched.SECRETS)
        await harness.run(STALE)
    harness.world.requests.reset()
    await harness.until(lambda: harness.replicas() == (1, 1, 1), within=120)
    assert harness.world.requests.live(Host.SEED, what="clusters") >= 1
    assert harness.world.requests.live(Host.SEED, what="secrets") == 0


async def test_a_scale_up_is_held_where_the_stale_cluster_cannot_be_read_live(lab):
    harness = await stale(lab)
    async with harness.under_protection():
        harness.faults.watch_stalled(Watched.CLUSTERS)
        await harness.run(STALE)
    with harness.faults.seed_trouble(Trouble(refused=True, what=frozenset({"clusters"}))):
        await harness.run(90)
        assert harness.replicas() == (0, 0, 0)
        assert harness.told(VerdictReason.SEED_STALE)
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)


async def test_a_stale_seed_costs_a_healthy_shoot_nothing(lab):
    harness = await stale(lab, "clusters", "secrets", "machines", "dependents")
    harness.world.requests.reset()
    await harness.run(120)
    assert harness.state() is ShootState.HEALTHY
    assert harness.world.requests.live(Host.SEED) == 0


@pytest.mark.parametrize("watch", ["secrets", "dependents"])
async def test_until_the_seed_was_listed_once_every_verdict_is_not_synced(lab, watch):
    world = lab.world()
    missing = world.faults.watch_not_opened(Watched(watch))
    harness = await lab.healthy(world)
    with world.faults.path_cut(SHOOT):
        await harness.run(60)
        assert harness.decision().verdict is Verdict.HOLD
        assert not harness.writes()
        missing.lift()
        await harness.run(0.5)
        assert harness.reason() is not VerdictReason.NOT_SYNCED
        await harness.protect()


@pytest.mark.parametrize("mode", [{}, {"external_secret": "external"}])
async def test_a_secret_that_was_never_listed_is_not_called_missing(lab, mode):
    world = lab.world(external_secret_name="external" if mode else None)
    missing = world.faults.watch_not_opened(Watched.SECRETS)
    harness = await lab.healthy(world, **mode)
    assert harness.reason() is VerdictReason.NOT_SYNCED
    assert harness.state() is ShootState.PENDING
    assert "have not been listed yet" in harness.status().message
    assert not harness.told(VerdictReason.CREDENTIALS_MISSING)
    assert world.requests.total(Host.SHOOT) == 0
    probes = harness.status().probes
    missing.lift()
    await harness.run(0.5)
    assert harness.status().probes == probes + 1
    assert harness.reason() is not VerdictReason.NOT_SYNCED


# Scaling runs with holds: what a person, or a rule, asks for is nobody's verdict, and acts on the Cluster all the same.


async def hibernated_behind_the_watch(lab, **changes):
    """The Clusters' watch is stale, and the shoot is hibernated: only a live read shows that."""
    operator = await with_operator(lab, **changes)
    operator.faults.watch_stalled(Watched.CLUSTERS)
    await operator.run(STALE)
    operator.faults.hibernated(SHOOT)
    return operator


async def test_a_run_by_hand_does_not_begin_on_a_stale_watch_that_shows_what_was(lab):
    operator = await hibernated_behind_the_watch(lab)
    with pytest.raises(errors.Refused, match="hibernated"):
        await operator.scale(DOWN)
    assert operator.replicas() == (1, 1, 1)
    assert operator.hold() is None


async def test_nor_does_it_begin_where_nobody_can_tell(lab):
    operator = await hibernated_behind_the_watch(lab)
    with operator.faults.seed_down(), pytest.raises(errors.Unreachable):
        await operator.scale(DOWN)
    assert operator.replicas() == (1, 1, 1)


@pytest.mark.parametrize(("begun", "end"), [({}, "Refused"), ({"phase": "Running"}, "Cancelled")])
async def test_nor_does_what_is_asked_for_with_kubectl_or_is_to_be_carried_on(lab, begun, end):
    operator = await hibernated_behind_the_watch(lab)
    operator.made("ScaleRequest", REQUEST, status=begun, direction="Down", reason="r")
    ended = await operator.done(within=5)
    assert ended["phase"] == end
    assert "hibernated" in str(ended["message"])
    assert operator.replicas() == (1, 1, 1)


async def test_what_nobody_can_tell_of_begins_when_somebody_can(operator):
    operator.faults.watch_stalled(Watched.CLUSTERS)
    await operator.run(STALE)
    with operator.faults.seed_down():
        operator.request("Down")
        await operator.run(30)
        assert operator.replicas() == (1, 1, 1)
    await operator.done()
    assert operator.replicas() == (0, 0, 0)


async def test_a_request_that_is_deleted_while_the_seed_is_asked_does_not_begin(operator):
    operator.faults.watch_stalled(Watched.CLUSTERS)
    await operator.run(STALE)
    with operator.faults.seed_trouble(Trouble(latency=3.0)):
        operator.request("Down")
        await operator.run(1)
        operator.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
        await operator.run(30)
    assert not operator.told("FlowStarted")


async def test_a_run_that_was_forced_begins_whatever_the_cluster_says(lab):
    operator = await hibernated_behind_the_watch(lab)
    await operator.ended((await operator.scale(DOWN, force=True)).id)
    assert operator.replicas() == (0, 0, 0)


SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=120.0))


async def in_mid_run_behind_the_watch(lab, **options):
    """A run by hand whose last write is due two minutes later, when the Clusters' watch has been silent for long."""
    operator = await with_operator(lab, dependents=SLOW_KCM)
    begun = await operator.scale(DOWN, **options)
    operator.faults.watch_stalled(Watched.CLUSTERS)
    await operator.run(30)
    return operator, begun.id


async def test_a_run_by_hand_ends_before_its_next_write_if_the_shoot_has_hibernated_meanwhile(lab):
    operator, name = await in_mid_run_behind_the_watch(lab)
    operator.faults.hibernated(SHOOT)
    await operator.run(120)
    assert operator.replicas() == (1, 0, 0)
    assert "hibernated" in operator.prober.scaling_runs.operation(name).message


async def test_its_next_write_waits_until_somebody_can_tell(lab):
    operator, _ = await in_mid_run_behind_the_watch(lab)
    with operator.faults.seed_trouble(Trouble(silent=True, verbs=frozenset({"get"}))):
        await operator.run(120)
        assert operator.replicas() == (1, 0, 0)
    await operator.done()
    assert operator.replicas() == (0, 0, 0)


async def test_but_one_that_was_forced_goes_on(lab):
    operator, _ = await in_mid_run_behind_the_watch(lab, force=True)
    operator.faults.hibernated(SHOOT)
    await operator.done(within=200)
    assert operator.replicas() == (0, 0, 0)


async def test_a_run_whose_request_was_deleted_unheard_writes_nothing_more(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    operator.request("Down")
    await operator.run(5)
    with operator.faults.overrides_watch_cut():
        await operator.run(STALE)
        operator.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
        await operator.run(60)
        assert operator.replicas() == (1, 0, 0), "it waits until somebody can tell"
    await operator.run(30)
    assert not operator.writes(KCM)
    assert operator.hold() is None


async def test_a_scale_up_is_held_where_stale_pauses_cannot_be_read_live(operator):
    with operator.faults.overrides_watch_cut():
        async with operator.under_protection():
            await operator.run(STALE)
            operator.kubectl.create("Pause", SHOOT, "mine", reason="hands off")
        await operator.run(60)
        assert operator.replicas() == (0, 0, 0)
    await operator.run(60)
    assert operator.replicas() == (0, 0, 0)
    assert operator.reason() is VerdictReason.PAUSED
