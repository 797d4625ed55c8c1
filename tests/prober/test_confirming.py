"""What a verdict has to stand: it is counted, and a scale-down that would write is confirmed by a second reading."""

from functools import partial
from types import SimpleNamespace

import pytest

from app.core.model.overrides import Scope
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.simulation.traffic import Host, Trouble
from tests.prober.people import DOWN, with_operator
from tests.support.harness import KCM, SHOOT

LEASES = frozenset({"leases"})


async def before_the_confirming_reading(harness, happens):
    """Lets something happen between the first reading of an outage and the confirming one; waits for the probe's
    end."""
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
    async with harness.under_protection():
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
    wait = SimpleNamespace(take=lambda: harness.clock.sleep_until(good + turn))
    harness.environment.scale_ups = wait
    await harness.until(lambda: harness.told("FlowStarted")[1:])
    harness.world.requests.reset()

    def only_the_last_probe_counts(notice):
        if notice.kind == "Look" and notice.reason != VerdictReason.LEASES_EXPIRED:
            harness.world.requests.reset()

    harness.environment.notice_bus.subscribe(only_the_last_probe_counts)
    await harness.until(lambda: harness.decision().verdict is Verdict.SCALE_DOWN)
    return harness, harness.told(VerdictReason.LEASES_EXPIRED)[-1].at - good


async def test_a_verdict_down_with_nothing_to_write_does_not_act_on_what_a_late_answer_brings(lab):
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


# How often a direction must be seen before it counts.


@pytest.mark.parametrize("jitter", [0.0, 0.3])
async def test_probes_that_count_are_suspect_interval_apart_and_none_is_lost(lab, jitter):
    """A quick look after a slow one counts as well."""
    harness = await lab.healthy(failure_threshold=3)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING)
        first = harness.now
        with harness.faults.latency(SHOOT, jitter):
            await harness.until(lambda: "2 of 3" in harness.decision().message)
        await harness.until(harness.writes)
    assert 10.0 <= harness.now - first < 11.0


async def test_a_slow_first_good_probe_does_not_make_a_fourth_one_necessary(harness):
    async with harness.under_protection():
        await harness.run(7)
    with harness.faults.latency(SHOOT, 0.2):
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING, within=60)
    seen = len(harness.probes())
    await harness.until(lambda: len(harness.told("FlowStarted")) == 2, within=90)
    assert len(harness.probes()) - seen <= 2


async def test_each_further_protection_within_an_hour_needs_a_longer_good_span(harness):
    """30 s for the second, 60 s for the third."""
    spans = []
    for _ in range(3):
        await harness.run(120)
        begun = len(harness.told("FlowStarted"))
        async with harness.under_protection():
            await harness.run(5)
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING, within=60)
        first = harness.probes()[-1]
        await harness.until(lambda n=begun: len(harness.told("FlowStarted")) == n + 2, within=200)
        spans.append(harness.now - first)
    assert spans[0] == pytest.approx(10, abs=1)
    assert spans[1] == pytest.approx(30, abs=6)
    assert spans[2] == pytest.approx(60, abs=6)


async def test_a_protection_that_somebody_else_began_is_not_flapping(lab):
    first = await lab.healthy()
    async with first.under_protection():
        await first.kill()
        second = first.again()
        await second.run(30)
    started = len(second.told("FlowStarted"))
    await second.until(lambda: len(second.told("FlowStarted")) > started, within=45)


async def test_a_protection_by_hand_is_not_flapping_because_of_our_own_ones_before_it(lab):
    operator = await with_operator(lab)
    for _ in range(3):
        await operator.survive_an_outage()
        await operator.until(lambda: operator.state() is ShootState.HEALTHY, within=300)
    await operator.pause(Scope.SCALE_DOWN)
    with operator.faults.path_cut(SHOOT):
        await operator.until(lambda: operator.reason() is VerdictReason.PAUSED, within=60)
        await operator.ended((await operator.scale(DOWN, hold=0)).id)
    started = len(operator.told("FlowStarted"))
    await operator.until(lambda: operator.told("FlowStarted")[started:], within=30)
