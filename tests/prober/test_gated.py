"""A gate over a scale-down, as the loop of a shoot obeys it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.model.scaling_runs import OperationPhase
from app.simulation.manifests import EXTERNAL_SECRET_NAME
from app.simulation.traffic import Host, Trouble
from tests.prober.people import DOWN, Operator
from tests.support.harness import KCM, MCM, SHOOT, changed

SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=20.0))


@dataclass
class Gate:
    """Endpoint probes that say what a test wants them to say."""

    why: str | None = None
    probed: set[str] = field(default_factory=set)
    listeners: list[Callable[[str], None]] = field(default_factory=list)

    def start(self, namespace: str) -> None:
        self.probed.add(namespace)

    async def stop(self, namespace: str) -> None:
        self.probed.discard(namespace)

    def closed(self, namespace: str) -> str | None:
        assert namespace == SHOOT
        return self.why

    def views(self, namespace: str) -> tuple[()]:
        return ()

    def subscribe(self, listener: Callable[[str], None]) -> None:
        self.listeners.append(listener)

    def close(self) -> None:
        self.why = "canary fails"
        self.tell()

    def open(self) -> None:
        self.why = None
        self.tell()

    def tell(self) -> None:
        for listener in self.listeners:
            listener(SHOOT)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def harness(lab, gate, virtual_time):
    with virtual_time():
        return await under(lab, gate)


async def under(lab, gate, world=None, **changes):
    """A prober that has probed one healthy shoot for a minute, under this gate."""
    harness = lab.prober(world or lab.with_shoot(), **changes)
    harness.prober.registry.endpoints = gate
    await harness.run(60)
    return harness


@pytest.fixture
async def by_paths(lab, gate, virtual_time):
    """The same in endpoint mode."""
    world = lab.with_shoot(external_secret_name=EXTERNAL_SECRET_NAME)
    thresholds = {"failure_threshold": 3, "success_threshold": 1}
    with virtual_time():
        return await under(lab, gate, world, external_secret=EXTERNAL_SECRET_NAME, **thresholds)


async def by_hand(lab, gate, **changes):
    """A harness with a gate, and what a person does at it."""
    return Operator.at(await under(lab, gate, **changes))


async def gated(harness, gate):
    """An outage whose scale-down is held back by the gate alone."""
    gate.close()
    fault = harness.faults.path_cut(SHOOT)
    await harness.until(lambda: harness.reason() is VerdictReason.GATED)
    return fault


async def test_nothing_is_scaled_down_while_the_gate_is_closed_and_the_verdict_says_so(
    harness, gate
):
    await gated(harness, gate)
    await harness.run(300)
    assert not harness.writes()
    assert harness.decision().would_be is Verdict.SCALE_DOWN
    assert "not scaled: canary fails" in harness.decision().message
    assert harness.state() is ShootState.SUSPECT
    assert [n.verdict for n in harness.told("Gated") if n.kind == "Verdict"] == [Verdict.HOLD]


async def test_what_a_gate_holds_back_as_well_is_not_unprotected_because_of_people_alone(lab, gate):
    operator = await by_hand(lab, gate)
    gate.close()
    await operator.pause()
    with operator.faults.path_cut(SHOOT):
        await operator.until(lambda: operator.decision().would_be is Verdict.SCALE_DOWN)
        assert (operator.state(), operator.reason()) == (ShootState.SUSPECT, VerdictReason.PAUSED)
        gate.open()
        await operator.run(6)
        assert operator.state() is ShootState.UNPROTECTED


async def test_when_the_gate_opens_it_is_looked_at_and_scaled_at_once(harness, gate):
    await gated(harness, gate)
    await harness.run(2)
    gate.open()
    opened = harness.now
    await harness.until(harness.writes)
    assert harness.now - opened < 0.5


async def test_a_change_that_leaves_the_gate_closed_wakes_nobody(harness, gate):
    await gated(harness, gate)
    seen = len(harness.probes())
    for _ in range(20):
        gate.tell()
        await harness.run(0.01)
    assert len(harness.probes()) <= seen + 1


async def test_a_gate_that_opens_over_a_healthy_shoot_wakes_nobody(harness, gate):
    gate.close()
    seen = len(harness.probes())
    gate.open()
    await harness.run(0.5)
    assert len(harness.probes()) == seen


async def test_a_gate_that_closes_ends_no_run_and_delays_none(lab, gate):
    harness = await under(lab, gate, dependents=SLOW_KCM)
    with harness.faults.path_cut(SHOOT):
        begun = await harness.until(lambda: harness.writes(MCM))
        gate.close()
        await harness.until(lambda: harness.writes(KCM))
        assert harness.now - begun == pytest.approx(20.0, abs=1.5)
    assert not [n for n in harness.told("FlowEnded") if "was ended" in n.message]


async def test_a_gate_that_closes_during_protection_ends_nothing(harness, gate):
    async with harness.under_protection():
        gate.close()
        await harness.run(120)
        assert harness.replicas() == (0, 0, 0)
        assert harness.state() is ShootState.PROTECTED


async def test_a_closed_gate_holds_back_no_scale_down_that_a_person_asks_for(lab, gate):
    operator = await by_hand(lab, gate)
    gate.close()
    began = await operator.scale(DOWN)
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE
    assert operator.replicas() == (0, 0, 0)


async def test_endpoint_probes_live_as_long_as_the_shoot_is_probed(harness, gate):
    assert gate.probed == {SHOOT}
    harness.faults.hibernated(SHOOT)
    await harness.until(lambda: not gate.probed)


async def test_they_end_with_the_process(harness, gate):
    await harness.prober.stop("SIGTERM")
    assert not gate.probed


# A gate that opens while a probe is under way: what the probe saw, it saw while the gate was closed.


async def next_probe_ends(by_paths):
    seen = len(by_paths.probes())
    await by_paths.until(lambda: len(by_paths.probes()) > seen)


async def test_a_probe_that_began_while_the_gate_was_closed_scales_nothing_after_it_opened(
    by_paths, gate
):
    """The end of a false alarm: the canary is back at once, and an attempt of before still fails."""
    await by_paths.run(60)
    gate.close()
    fault = by_paths.faults.path_cut(SHOOT)
    await by_paths.until(lambda: by_paths.reason() is VerdictReason.GATED)
    await by_paths.run(2)
    gate.open()
    await next_probe_ends(by_paths)
    assert by_paths.reason() is VerdictReason.GATED
    assert "open again since this probe began" in by_paths.decision().message
    fault.lift()
    await by_paths.until(lambda: by_paths.state() is ShootState.HEALTHY)
    await by_paths.run(60)
    assert not by_paths.writes()


async def test_so_is_one_in_which_the_gate_closed_and_opened(by_paths, gate):
    fault = by_paths.faults.path_cut(SHOOT)
    await by_paths.until(lambda: "2 of 3 probes" in by_paths.decision().message)
    await by_paths.run(1)
    gate.close()
    await by_paths.run(1)
    gate.open()
    await next_probe_ends(by_paths)
    assert by_paths.reason() is VerdictReason.GATED
    fault.lift()
    await by_paths.run(60)
    assert not by_paths.writes()


async def test_the_next_probe_comes_at_once_and_decides(by_paths, gate):
    gate.close()
    by_paths.faults.path_cut(SHOOT)
    await by_paths.until(lambda: "2 of 3 probes" in by_paths.decision().message)
    await by_paths.run(2)
    gate.open()
    await next_probe_ends(by_paths)
    held = by_paths.now
    await by_paths.until(by_paths.writes)
    assert by_paths.now - held == pytest.approx(5.0, abs=0.2)  # one attempt on the external path


async def test_a_gate_that_closes_keeps_a_scale_down_back_that_waits_for_the_end_of_a_scale_up(
    lab, gate
):
    slow_mcm = changed(MCM, scale_up=ScalePolicy(1, initial_delay=20.0))
    harness = await under(lab, gate, dependents=slow_mcm)
    faults, patches = harness.faults, frozenset({"patch"})
    with faults.path_cut(SHOOT):
        await harness.protect()
        await harness.run(20)
    await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 1)
    with faults.path_cut(SHOOT):
        await harness.run(20)
        with faults.seed_trouble(Trouble(latency=9.0, verbs=patches)):  # MCM's way up is sent now
            await harness.until(lambda: harness.decision().verdict is Verdict.SCALE_DOWN)
            with faults.api_hanging(SHOOT):  # so that no verdict comes before that is answered
                gate.close()
                before = harness.world.requests.live(Host.SEED, "patch")
                await harness.until(lambda: len(harness.told("FlowEnded")) == 2)
                await harness.run(20)
                assert harness.world.requests.live(Host.SEED, "patch") == before
