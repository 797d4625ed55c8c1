"""One resource: what is to be done, saved counts, ignore-scaling, found at 0, other kinds (rules 4.3, steps 1 to 5)."""

from dataclasses import replace

import pytest

from app.core.model import workloads as ann
from app.core.model.policy import DependentPolicy, ScalePolicy
from app.core.model.probing import ShootState
from app.core.model.workloads import ResourceRef
from app.simulation.store import ObjectKey
from app.simulation.traffic import Host, Trouble
from tests.support.stands import CA, GARDENER, KCM, MCM, SHOOT

ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")
WITH_ETCD = (*GARDENER.dependents, DependentPolicy(ETCD, ScalePolicy(3), ScalePolicy(2)))


async def shoot(stage, *, wait=60, **options):
    world = stage.world()
    world.add_shoot(SHOOT, **options.pop("shoot", {}))
    stand = stage.prober(world, **options)
    await stand.run(wait)
    return stand


def annotate(stand, ref, **keys):
    body = {
        "metadata": {"annotations": {ann.PREFIX + k.replace("_", "-"): v for k, v in keys.items()}}
    }
    stand.world.patch(SHOOT, ref, body)


@pytest.mark.parametrize("value", ["1", "t", "T", "true", "True", "TRUE"])
async def test_ignore_scaling_leaves_a_resource_alone_in_an_outage(stage, value):
    stand = await shoot(stage)
    annotate(stand, KCM, ignore_scaling=value)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(120)
        assert stand.replicas() == (1, 0, 0)
        assert not stand.writes(KCM)


@pytest.mark.parametrize("value", ["0", "false", "F"])
async def test_ignore_scaling_false_is_not_heeded_without_a_warning(stage, value):
    stand = await shoot(stage)
    annotate(stand, KCM, ignore_scaling=value)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
    assert stand.world.replicas(SHOOT, KCM) == 0
    assert not stand.told("InvalidIgnoreScalingAnnotation")


@pytest.mark.parametrize("value", ["yes", "", "tRUE", "1 "])
async def test_any_other_value_of_ignore_scaling_is_not_heeded_with_a_warning(stage, value):
    stand = await shoot(stage)
    annotate(stand, KCM, ignore_scaling=value)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
    assert stand.world.replicas(SHOOT, KCM) == 0
    (warning, *_) = stand.told("InvalidIgnoreScalingAnnotation")
    assert warning.event
    assert warning.resource == KCM


async def test_ignore_scaling_set_while_at_0_drops_the_key_keeps_the_count_and_says_left_at_0(
    stage,
):
    stand = await shoot(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        annotate(stand, KCM, ignore_scaling="true")
        await stand.run(30)
    await stand.run(180)
    keys = stand.world.annotations(SHOOT, KCM)
    assert ann.MELTDOWN not in keys
    assert keys[ann.REPLICAS] == "1"
    assert stand.replicas() == (0, 1, 1)
    assert [n for n in stand.notices if "left at 0" in n.message and n.event]


@pytest.mark.parametrize("saved", ["0", "-3", "many", "", "2147483648", "01", "1.5"])
async def test_an_invalid_saved_count_means_1_with_a_warning(stage, saved):
    stand = await shoot(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        annotate(stand, KCM, replicas=saved)
    await stand.run(120)
    assert stand.world.replicas(SHOOT, KCM) == 1
    (warning, *_) = stand.told("InvalidReplicasAnnotation")
    assert warning.event


async def test_the_larger_of_saved_and_current_count_is_kept(stage):
    """Somebody scaled it up to 2 under protection, where 5 is saved."""
    stand = await shoot(stage, shoot={"replicas": {"kube-controller-manager": 5, MCM: 1, CA: 1}})
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        since = stand.world.annotations(SHOOT, KCM)[ann.SINCE]
        stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 2}})
        await stand.run(30)
        keys = stand.world.annotations(SHOOT, KCM)
        assert stand.world.replicas(SHOOT, KCM) == 0
        assert keys[ann.REPLICAS] == "5"
        assert keys[ann.SINCE] == since, "a renewed scale-down keeps it"
    await stand.run(120)
    assert stand.world.replicas(SHOOT, KCM) == 5


async def test_a_saved_count_without_the_meltdown_key_is_not_kept(stage):
    stand = await shoot(stage, shoot={"replicas": {"kube-controller-manager": 3, MCM: 1, CA: 1}})
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(15)  # no scale-up verdict comes any more that would remove it
        annotate(stand, KCM, replicas="7")
        await stand.protect()
        assert stand.world.annotations(SHOOT, KCM)[ann.REPLICAS] == "3"


async def test_what_is_left_of_the_keys_is_removed_from_a_resource_that_is_up(stage):
    stand = await shoot(stage)
    annotate(stand, KCM, replicas="4", meltdown_protection_active="")
    await stand.run(60)
    assert not stand.world.annotations(SHOOT, KCM)
    assert stand.world.replicas(SHOOT, KCM) == 1


async def test_a_resource_at_0_without_keys_is_scaled_up_at_two_verdicts_15_s_apart(stage):
    stand = await shoot(stage)
    stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    at = stand.now
    await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 1)
    probes = [look for look in stand.probes() if at < look < stand.now]
    assert probes[-1] - probes[0] >= 15 - 0.1
    assert probes[-2] - probes[0] < 15
    await stand.run(6)
    (found,) = stand.told("FoundAtZero")
    assert found.event


async def test_a_hold_between_the_two_verdicts_does_not_start_anew(stage):
    stand = await shoot(stage)
    stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    probes = len(stand.probes())
    await stand.until(lambda: len(stand.probes()) > probes)
    first = stand.now
    with stand.world.faults.api_down(SHOOT):
        await stand.run(13)
    await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 1)
    assert stand.now - first < 32


async def test_a_scale_down_between_the_two_verdicts_starts_anew(stage):
    stand = await shoot(stage)
    cut = stand.world.faults.path_cut(SHOOT)
    await stand.run(15)
    stand.world.patch(SHOOT, CA, {"spec": {"replicas": 0}})
    await stand.protect()
    cut.lift()
    await stand.until(lambda: stand.world.replicas(SHOOT, MCM) == 1, within=120)
    assert stand.world.replicas(SHOOT, CA) == 0 or stand.told("FoundAtZero")


async def test_a_verdict_15_s_old_does_not_count_as_two(stage):
    """The scaling run comes to CA 35 s after the only verdict so far, in which it was at 0."""
    rare = {"suspect_interval": 50.0, "probe_interval": 50.0, "success_threshold": 1}
    stand = await shoot(stage, wait=120, **rare)
    stand.world.patch(SHOOT, CA, {"spec": {"replicas": 0}})
    ours = {"metadata": {"annotations": {ann.MELTDOWN: "", ann.REPLICAS: "1"}}}
    stand.world.patch(SHOOT, MCM, {**ours, "spec": {"replicas": 0}})
    seen = len(stand.probes())
    await stand.until(lambda: stand.world.replicas(SHOOT, CA) == 1, within=300)
    assert len(stand.probes()) >= seen + 2


async def test_a_resource_at_0_that_somebody_ignores_is_not_found_at_zero(stage):
    stand = await shoot(stage)
    annotate(stand, CA, ignore_scaling="true")
    stand.world.patch(SHOOT, CA, {"spec": {"replicas": 0}})
    await stand.run(120)
    assert stand.world.replicas(SHOOT, CA) == 0
    assert stand.state() is ShootState.HEALTHY


async def test_another_kind_goes_down_by_annotations_then_scale_and_up_by_scale_then_removal(stage):
    stand = await shoot(
        stage,
        shoot={"replicas": {KCM: 1, MCM: 1, CA: 1, ETCD: 3}},
        dependents=WITH_ETCD,
    )
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        assert stand.world.replicas(SHOOT, ETCD) == 0
        assert stand.world.annotations(SHOOT, ETCD)[ann.REPLICAS] == "3"
        assert [write.verb for write in stand.writes(ETCD)] == ["patch", "scale"]
    await stand.run(180)
    assert stand.world.replicas(SHOOT, ETCD) == 3
    assert not stand.world.annotations(SHOOT, ETCD)
    assert [write.verb for write in stand.writes(ETCD)] == ["patch", "scale", "scale", "patch"]


async def test_another_kind_that_is_at_0_is_left_in_peace_under_protection(stage):
    stand = await shoot(
        stage, shoot={"replicas": {KCM: 1, MCM: 1, CA: 1, ETCD: 3}}, dependents=WITH_ETCD
    )
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        await stand.run(20)
        stand.world.requests.reset()
        await stand.run(100)
        assert stand.world.requests.live(Host.SEED) == 0


async def test_a_kind_without_scale_fails_and_the_others_go_on(stage):
    other = ResourceRef("example.org/v1", "Thing", "no-scale")
    stand = await shoot(stage, dependents=(*GARDENER.dependents, replace(WITH_ETCD[-1], ref=other)))
    body = {"apiVersion": other.api_version, "spec": {}}
    stand.world.store.create(ObjectKey(other.kind, SHOOT, other.name), body)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(90)
        assert stand.replicas() == (0, 0, 0)
        assert "no scale" in stand.told("ScalingFailed")[0].message


async def test_forbidden_scale_of_another_kind_fails_with_its_count_kept(stage):
    stand = await shoot(
        stage, shoot={"replicas": {KCM: 1, MCM: 1, CA: 1, ETCD: 3}}, dependents=WITH_ETCD
    )
    with stand.world.faults.path_cut(SHOOT):
        with stand.world.faults.patch_forbidden("etcds/scale"):
            await stand.run(90)
            assert stand.world.replicas(SHOOT, ETCD) == 3
            assert stand.world.annotations(SHOOT, ETCD)[ann.REPLICAS] == "3"
        await stand.run(10)
        assert stand.world.replicas(SHOOT, ETCD) == 0, "with the right back it is finished"
    await stand.run(200)
    assert stand.world.replicas(SHOOT, ETCD) == 3


@pytest.mark.on_ports  # over the real adapter the status of the object itself shows its pods
async def test_a_scale_that_cannot_be_read_for_a_moment_fails_no_run(stage):
    stand = await shoot(
        stage, shoot={"replicas": {KCM: 1, MCM: 1, CA: 1, ETCD: 3}}, dependents=WITH_ETCD
    )
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: len(stand.writes(ETCD)) == 2)
        scale = Trouble(error_rate=1.0, verbs=frozenset({"get"}), what=frozenset({"etcds/scale"}))
        with stand.world.faults.seed_trouble(scale):
            await stand.run(5)
        await stand.protect()
    assert not stand.told("ScalingFailed")


async def test_what_was_found_at_zero_waits_for_the_level_before_to_be_ready(stage):
    stand = await shoot(stage)
    with stand.world.faults.pods_stuck(SHOOT, KCM):
        stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
        await stand.run(3)
        stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 1}})
        await stand.run(3)
        stand.world.patch(SHOOT, MCM, {"spec": {"replicas": 0}})
        await stand.run(120)
        assert not stand.writes(MCM)
    await stand.until(lambda: stand.world.replicas(SHOOT, MCM) == 1)
