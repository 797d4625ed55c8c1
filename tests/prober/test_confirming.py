"""A scale-down that would write is confirmed by a second reading, judged like any other."""

import pytest

from app.core.model.probing import Verdict, VerdictReason
from app.simulation.traffic import Trouble
from tests.support.stands import KCM, SHOOT

LEASES = frozenset({"leases"})


async def before_the_confirming_reading(stand, happens):
    """Lets something happen between the first reading of an outage and the confirming one; waits for the probe's
    end."""
    await stand.run(60)
    cut = stand.world.faults.path_cut(SHOOT)
    observer = stand.prober.registry.runner(SHOOT)._observer
    confirm = observer.confirm
    probes: list[int] = []

    async def meanwhile(*given):
        observer.confirm = confirm
        probes.append(len(stand.probes()))
        happens(cut)
        return await confirm(*given)

    observer.confirm = meanwhile
    await stand.until(lambda: probes and len(stand.probes()) > probes[0])


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
async def test_a_confirming_reading_that_fails_is_a_hold(stand, trouble, reason):
    faults = []
    await before_the_confirming_reading(
        stand, lambda _: faults.append(stand.world.faults.trouble(SHOOT, trouble))
    )
    assert stand.decision().verdict is Verdict.HOLD
    assert stand.reason() is reason
    assert not stand.writes()
    faults[0].lift()
    await stand.protect()


async def test_leases_that_are_renewed_before_the_confirming_reading_make_it_a_hold(stand):
    def comes_back(cut):
        cut.lift()
        fleet = stand.world.shoot(SHOOT).fleet
        for kubelet in fleet.kubelets:
            fleet.revive(kubelet.node, stand.now)

    await before_the_confirming_reading(stand, comes_back)
    assert stand.reason() is VerdictReason.NOT_CONFIRMED
    assert "did not confirm" in stand.decision().message
    await stand.run(60)
    assert not stand.writes()


async def test_nodes_that_stop_being_candidates_before_the_confirming_reading_make_it_a_hold(stand):
    def machines_fail(_):
        for n in range(9):
            stand.world.machine_phase(SHOOT, f"machine-{n}", "Failed")
        stand.world._stage.caches.catch_up()

    await before_the_confirming_reading(stand, machines_fail)
    assert stand.reason() is VerdictReason.NOT_CONFIRMED
    await stand.run(60)
    assert not stand.writes()


async def test_what_comes_to_be_written_while_a_probe_is_under_way_is_confirmed_too(stand):
    """Everything was at 0 when it began: it read no Nodes, and must not act on leases alone."""
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        await stand.run(12)
        written, probes = len(stand.writes()), len(stand.probes())
        with stand.world.faults.latency(SHOOT, 1.0):
            await stand.until(lambda: stand.now > stand.status().next_probe + 0.5)
            stand.world.requests.reset()
            stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 1}})
            await stand.until(lambda: len(stand.probes()) > probes)
        await stand.until(lambda: len(stand.writes()) > written)
        assert stand.world.requests.connections[SHOOT] >= 2, "Nodes, and Leases by a new one"
        assert len(stand.probes()) == probes + 1


async def recurring(stage, turn):
    """An outage recurs while a scale-up waits for its turn, so long after the first good probe; when is it known?"""
    world = stage.world(watch_delay=0.0)
    world.add_shoot(SHOOT)
    stand = stage.prober(world, suspect_interval=2.0, success_threshold=13)
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        await stand.protect()
    await stand.until(lambda: "1 of 13" in stand.decision().message)
    good = stand.probes()[-1]
    world.faults.path_cut(SHOOT)
    stand.environment.scale_ups._free_at = good + turn
    await stand.until(lambda: stand.told("FlowStarted")[1:])
    world.requests.reset()
    await stand.until(lambda: stand.decision().verdict is Verdict.SCALE_DOWN)
    return stand, stand.told(VerdictReason.LEASES_EXPIRED)[-1].at - good


@pytest.mark.on_ports  # milliseconds decide
async def test_a_verdict_down_with_nothing_to_write_does_not_act_on_what_a_late_answer_brings(
    stage,
):
    """KCM's scale-up is on its way when the verdict turns: it lands, and only a confirmed verdict takes it down."""
    stand, known = await recurring(stage, turn=90.0)
    await stand.kill()
    for early in (0.001, 0.004, 0.008):
        stand, _ = await recurring(stage, turn=known - early)
        assert not stand.world.requests.connections, "nothing was to be written yet"
        await stand.until(lambda stand=stand: len(stand.writes(KCM)) == 3)
        assert stand.writes(KCM)[1].patch["spec"] == {"replicas": 1}
        assert stand.world.requests.connections[SHOOT] >= 2, "Nodes, and Leases by a new one"
        await stand.kill()
