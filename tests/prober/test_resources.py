"""One resource: what is to be done, saved counts, ignore-scaling, found at 0, other kinds (rules 4.3, steps 1 to 5)."""

from dataclasses import replace

import pytest

from app.core import errors
from app.core.kube.seed import SeedCluster
from app.core.model import workloads as ann
from app.core.model.workloads import ResourceRef
from app.simulation.store import ObjectKey
from app.simulation.traffic import Host, Trouble
from tests.support.doubles import before_each_write
from tests.support.harness import CA, ETCD, GARDENER, KCM, MCM, SHOOT, WITH_ETCD


async def with_etcd(lab):
    """A fourth dependent has its replicas, three, in `scale` alone."""
    replicas = {KCM: 1, MCM: 1, CA: 1, ETCD: 3}
    return await lab.healthy(shoot={"replicas": replicas}, dependents=WITH_ETCD)


async def test_a_resource_at_0_without_keys_is_scaled_up_at_two_verdicts_15_s_apart(harness):
    harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    at = harness.now
    await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 1)
    probes = [look for look in harness.probes() if at < look < harness.now]
    assert probes[-1] - probes[0] >= 15 - 0.1
    assert probes[-2] - probes[0] < 15
    await harness.run(6)
    (found,) = harness.told("FoundAtZero")
    assert found.event


async def test_a_hold_between_the_two_verdicts_does_not_start_anew(harness):
    harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    probes = len(harness.probes())
    await harness.until(lambda: len(harness.probes()) > probes)
    first = harness.now
    with harness.faults.api_down(SHOOT):
        await harness.run(13)
    await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 1)
    assert harness.now - first < 32


async def test_a_scale_down_between_the_two_verdicts_starts_anew(harness):
    cut = harness.faults.path_cut(SHOOT)
    await harness.run(15)
    harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    await harness.protect()
    cut.lift()
    await harness.until(lambda: harness.writes(MCM)[1:], within=120)
    await harness.run(10)
    assert not harness.writes(KCM)


async def test_a_verdict_15_s_old_does_not_count_as_two(lab):
    """The scaling run comes to CA 35 s after the only verdict so far, in which it was at 0."""
    rare = {"suspect_interval": 50.0, "probe_interval": 50.0, "success_threshold": 1}
    harness = await lab.healthy(settle=120, **rare)
    harness.world.patch(SHOOT, CA, {"spec": {"replicas": 0}})
    ours = {"metadata": {"annotations": {ann.MELTDOWN: "", ann.REPLICAS: "1"}}}
    harness.world.patch(SHOOT, MCM, {**ours, "spec": {"replicas": 0}})
    seen = len(harness.probes())
    await harness.until(lambda: harness.world.replicas(SHOOT, CA) == 1, within=300)
    assert len(harness.probes()) >= seen + 2


async def test_another_kind_goes_down_by_annotations_then_scale_and_up_by_scale_then_removal(lab):
    harness = await with_etcd(lab)
    async with harness.under_protection():
        assert harness.world.replicas(SHOOT, ETCD) == 0
        assert harness.world.annotations(SHOOT, ETCD)[ann.REPLICAS] == "3"
        assert [write.verb for write in harness.writes(ETCD)] == ["patch", "scale"]
    await harness.run(180)
    assert harness.world.replicas(SHOOT, ETCD) == 3
    assert not harness.world.annotations(SHOOT, ETCD)
    assert [write.verb for write in harness.writes(ETCD)] == ["patch", "scale", "scale", "patch"]


async def test_a_count_that_changes_between_the_two_writes_to_another_kind_is_not_lost(
    lab, monkeypatch
):
    """Its annotations are written first, with the count of then, and its scale after that."""
    patch_scale = SeedCluster.patch_scale
    changed: list[object] = []

    async def after_a_change(seed, *given, **more):
        if not changed:
            changed.append(given)
            harness.world.patch(SHOOT, ETCD, {"spec": {"size": 5}})
        return await patch_scale(seed, *given, **more)

    harness = await with_etcd(lab)
    monkeypatch.setattr(SeedCluster, "patch_scale", after_a_change)
    async with harness.under_protection():
        assert harness.world.replicas(SHOOT, ETCD) == 0
        assert harness.world.annotations(SHOOT, ETCD)[ann.REPLICAS] == "5"
    await harness.run(200)
    assert harness.world.replicas(SHOOT, ETCD) == 5


async def test_another_kind_that_changes_after_its_scale_was_scaled_up_by_us(lab, monkeypatch):
    harness, changes = await with_etcd(lab), iter(range(1))
    await harness.survive_an_outage()

    def changed(request):
        for number in changes if request.path.endswith("/etcd-main") else ():
            harness.world.patch(SHOOT, ETCD, {"metadata": {"labels": {"number": str(number)}}})

    before_each_write(monkeypatch, changed)
    await harness.until(lambda: harness.told("ScaledUp")[3:], within=200)
    assert next(changes, None) is None


async def test_another_kind_that_is_at_0_is_left_in_peace_under_protection(lab):
    harness = await with_etcd(lab)
    async with harness.under_protection():
        await harness.run(20)
        harness.world.requests.reset()
        await harness.run(100)
        assert harness.world.requests.live(Host.SEED) == 0


async def test_a_kind_without_scale_fails_and_the_others_go_on(lab):
    other = ResourceRef("example.org/v1", "Thing", "no-scale")
    harness = await lab.healthy(
        dependents=(*GARDENER.dependents, replace(WITH_ETCD[-1], ref=other))
    )
    body = {"apiVersion": other.api_version, "spec": {}}
    harness.world.store.create(ObjectKey(other.kind, SHOOT, other.name), body)
    with harness.faults.path_cut(SHOOT):
        await harness.run(90)
        assert harness.replicas() == (0, 0, 0)
        assert "no scale" in harness.told("ScalingFailed")[0].message
        shown = await harness.prober.dependents.live(SHOOT)
        assert [ref for ref, view in shown.items() if view is None] == [other]


async def test_forbidden_scale_of_another_kind_fails_with_its_count_kept(lab):
    harness = await with_etcd(lab)
    with harness.faults.path_cut(SHOOT):
        with harness.faults.patch_forbidden("etcds/scale"):
            await harness.run(90)
            assert harness.world.replicas(SHOOT, ETCD) == 3
            assert harness.world.annotations(SHOOT, ETCD)[ann.REPLICAS] == "3"
        await harness.run(10)
        assert harness.world.replicas(SHOOT, ETCD) == 0, "with the right back it is finished"
    await harness.run(200)
    assert harness.world.replicas(SHOOT, ETCD) == 3


@pytest.mark.parametrize(
    "error",
    [
        errors.BadAnswer("the answer was cut off"),
        errors.LimitExceeded("time", "the answer was not complete after 5 s"),
    ],
    ids=["cut off", "not complete"],
)
@pytest.mark.parametrize("method", ["patch_dependent", "patch_scale"])
async def test_a_write_whose_answer_was_cut_off_was_carried_out_and_is_no_failure(
    lab, monkeypatch, method, error
):
    write = getattr(SeedCluster, method)
    cut: list[object] = []

    async def cut_off(seed, *given, **more):
        found = await write(seed, *given, **more)
        if len(cut) < 2:
            cut.append(given)
            raise error
        return found

    harness = await with_etcd(lab)
    monkeypatch.setattr(SeedCluster, method, cut_off)
    async with harness.under_protection():
        await harness.run(20)
        assert cut
        assert harness.world.replicas(SHOOT, ETCD) == 0
        assert harness.world.annotations(SHOOT, ETCD)[ann.REPLICAS] == "3"
    await harness.run(200)
    assert len(cut) == 2
    assert not harness.told("ScalingFailed")
    assert len(harness.told("ScaledDown")) == 4
    # what is left after the scale of the Etcd was done is to remove the keys
    assert len(harness.told("ScaledUp")) + len(harness.told("KeysRemoved")) == 4
    assert harness.replicas() == (1, 1, 1)
    assert harness.world.replicas(SHOOT, ETCD) == 3


async def test_a_write_that_is_answered_with_a_redirect_fails_at_once(lab, monkeypatch):
    async def redirected(*_given, starting, **_more):
        starting()
        raise errors.BadAnswer("a redirect (302), which is never followed", status=302)

    harness = await lab.healthy()
    monkeypatch.setattr(SeedCluster, "patch_dependent", redirected)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.told("ScalingFailed"), within=60)
        began = harness.told("FlowStarted")[0].at
        assert harness.told("ScalingFailed")[0].at - began < 2


def pods_shown_by_scale_alone(monkeypatch):
    """Dependents themselves do not say what became of their pods."""

    def hidden(view):
        return None if view is None else replace(view, current=None, ready=None)

    def sync(original):
        return lambda *given, **more: hidden(original(*given, **more))

    def live(original):
        async def read(*given, **more):
            return hidden(await original(*given, **more))

        return read

    for name, hide in (("dependent", sync), ("read_dependent", live), ("patch_dependent", live)):
        monkeypatch.setattr(SeedCluster, name, hide(getattr(SeedCluster, name)))


async def test_a_scale_that_cannot_be_read_for_a_moment_fails_no_run(lab, monkeypatch):
    pods_shown_by_scale_alone(monkeypatch)
    harness = await with_etcd(lab)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: len(harness.writes(ETCD)) == 2)
        scale = Trouble(error_rate=1.0, verbs=frozenset({"get"}), what=frozenset({"etcds/scale"}))
        with harness.faults.seed_trouble(scale):
            await harness.run(5)
        await harness.protect()
    assert not harness.told("ScalingFailed")


async def test_what_was_found_at_zero_waits_for_the_level_before_to_be_ready(harness):
    with harness.faults.pods_stuck(SHOOT, KCM):
        harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
        await harness.run(3)
        harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 1}})
        await harness.run(3)
        harness.world.patch(SHOOT, MCM, {"spec": {"replicas": 0}})
        await harness.run(120)
        assert not harness.writes(MCM)
    await harness.until(lambda: harness.world.replicas(SHOOT, MCM) == 1)
