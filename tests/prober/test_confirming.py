"""A scale-down that would write is confirmed by a second reading, judged like any other."""

from functools import partial
from types import SimpleNamespace

import pytest

from app.core.model.probing import Verdict, VerdictReason
from app.simulation.traffic import Host, Trouble
from tests.support.harness import KCM, SHOOT

LEASES = frozenset({"leases"})


async def before_the_confirming_reading(harness, happens):
    """Lets something happen between the first reading of an outage and the confirming one; waits for the probe's
    end."""
    await harness.run(60)
    cut = harness.faults.path_cut(SHOOT)
    probe = harness.prober.registry.runner(SHOOT)._probe
    confirm = probe.confirm
    probes: list[int] = []

    async def meanwhile(*given):
        probe.confirm = confirm
        probes.append(len(harness.probes()))
        happens(cut)
        return await confirm(*given)

    probe.confirm = meanwhile
    await harness.until(lambda: probes and len(harness.probes()) > probes[0])


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Trouble(error_rate=1.0, what=LEASES), VerdictReason.LEASES_UNREADABLE),
        (Trouble(silent=True, what=LEASES), VerdictReason.LEASES_UNREADABLE),
        (Trouble(throttled=True, what=LEASES), VerdictReason.THROTTLED),
        (Trouble(refused=True), VerdictReason.NODES_UNREADABLE),
        (Trouble(error_rate=1.0, what=frozenset({"nodes"})), VerdictReason.NODES_UNREADABLE),
    ],
)
async def test_a_confirming_reading_that_fails_is_a_hold(harness, trouble, reason):
    faults = []
    await before_the_confirming_reading(
        harness, lambda _: faults.append(harness.faults.trouble(SHOOT, trouble))
    )
    assert harness.decision().verdict is Verdict.HOLD
    assert harness.reason() is reason
    assert not harness.writes()
    faults[0].lift()
    await harness.protect()


async def test_leases_that_are_renewed_before_the_confirming_reading_make_it_a_hold(harness):
    def comes_back(cut):
        cut.lift()
        fleet = harness.world.shoot(SHOOT).fleet
        for kubelet in fleet.kubelets:
            fleet.revive(kubelet.node, harness.now)

    await before_the_confirming_reading(harness, comes_back)
    assert harness.reason() is VerdictReason.NOT_CONFIRMED
    assert "did not confirm" in harness.decision().message
    await harness.run(60)
    assert not harness.writes()


async def test_nodes_that_stop_being_candidates_before_the_confirming_reading_make_it_a_hold(
    harness,
):
    def machines_fail(_):
        for n in range(9):
            harness.world.machine_phase(SHOOT, f"machine-{n}", "Failed")

    await before_the_confirming_reading(harness, machines_fail)
    assert harness.reason() is VerdictReason.NOT_CONFIRMED
    await harness.run(60)
    assert not harness.writes()


async def test_what_comes_to_be_written_while_a_probe_is_under_way_is_confirmed_too(harness):
    """Everything was at 0 when it began: it read no Nodes, and must not act on leases alone."""
    await harness.run(60)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
        await harness.run(12)
        written, probes = len(harness.writes()), len(harness.probes())
        with harness.faults.latency(SHOOT, 1.0):
            await harness.until(lambda: harness.now > harness.status().next_probe + 0.5)
            harness.world.requests.reset()
            harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 1}})
            await harness.until(lambda: len(harness.probes()) > probes)
        await harness.until(lambda: len(harness.writes()) > written)
        assert harness.world.requests.connections[SHOOT] >= 2, "Nodes, and Leases by a new one"
        assert len(harness.probes()) == probes + 1


async def recurring(lab, turn):
    """An outage recurs while a scale-up waits for its turn, so long after the first good probe; when is it known?"""
    harness = await lab.healthy(suspect_interval=2.0, success_threshold=13)
    await harness.survive_an_outage()
    await harness.until(lambda: "1 of 13" in harness.decision().message)
    good = harness.probes()[-1]
    harness.faults.path_cut(SHOOT)
    wait = SimpleNamespace(owe=lambda now: max(good + turn - now, 0.0))
    harness.environment.scale_ups = wait
    await harness.until(lambda: harness.told("FlowStarted")[1:])
    harness.world.requests.reset()

    def only_the_last_probe_counts(notice):
        if notice.kind == "Look" and notice.reason != VerdictReason.LEASES_EXPIRED:
            harness.world.requests.reset()

    harness.environment.notice_bus.subscribe(only_the_last_probe_counts)
    await harness.until(lambda: harness.decision().verdict is Verdict.SCALE_DOWN)
    return harness, harness.told(VerdictReason.LEASES_EXPIRED)[-1].at - good


async def test_a_verdict_down_with_nothing_to_write_does_not_act_on_what_a_late_answer_brings(
    lab,
):
    """KCM's scale-up is on its way when the verdict turns: it lands, and only a confirmed verdict takes it down."""
    harness, known = await recurring(lab, turn=90.0)
    await harness.kill()
    for early in (0.001, 0.004, 0.008):
        harness, _ = await recurring(lab, turn=known - early)
        nodes = partial(harness.world.requests.total, Host.SHOOT, "list", "nodes")
        assert not nodes(), "nothing was to be written yet"
        await harness.until(lambda harness=harness: len(harness.writes(KCM)) == 3)
        assert harness.writes(KCM)[1].patch["spec"] == {"replicas": 1}
        assert nodes(), "it was confirmed"
        await harness.kill()
