"""A gate over a scale-down, as the loop of a shoot obeys it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.model.scaling_runs import OperationPhase
from tests.prober.people import DOWN, Hand
from tests.support.overrides import MemoryStore
from tests.support.stands import KCM, MCM, SHOOT, changed

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
async def stand(stage, gate):
    return under(stage, gate)


def under(stage, gate, **changes):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, **changes)
    stand.prober.registry.endpoints = gate
    return stand


def by_hand(stage, gate, **changes):
    """A stand with a gate, and a person before it."""
    store = MemoryStore(stage.clock)
    return Hand(under(stage, gate, store=store, **changes), store)


async def gated(stand, gate):
    """An outage whose scale-down is held back by the gate alone."""
    await stand.run(60)
    gate.close()
    fault = stand.world.faults.path_cut(SHOOT)
    await stand.until(lambda: stand.reason() is VerdictReason.GATED)
    return fault


async def test_nothing_is_scaled_down_while_the_gate_is_closed_and_the_verdict_says_so(stand, gate):
    await gated(stand, gate)
    await stand.run(300)
    assert not stand.writes()
    assert stand.decision().would_be is Verdict.SCALE_DOWN
    assert "not scaled: canary fails" in stand.decision().message
    assert stand.state() is ShootState.SUSPECT
    assert [n.verdict for n in stand.told("Gated") if n.kind == "Verdict"] == [Verdict.HOLD]


async def test_what_a_gate_holds_back_as_well_is_not_unprotected_because_of_people_alone(
    stage, gate
):
    hand = by_hand(stage, gate)
    await hand.stand.run(60)
    gate.close()
    await hand.pause()
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: hand.stand.decision().would_be is Verdict.SCALE_DOWN)
        assert (hand.stand.state(), hand.stand.reason()) == (
            ShootState.SUSPECT,
            VerdictReason.PAUSED,
        )
        gate.open()
        await hand.stand.run(6)
        assert hand.stand.state() is ShootState.UNPROTECTED


async def test_a_gated_shoot_is_looked_at_every_suspect_interval(stand, gate):
    await gated(stand, gate)
    seen = len(stand.probes())
    await stand.run(50)
    assert len(stand.probes()) - seen == pytest.approx(10, abs=1)


async def test_when_the_gate_opens_it_is_looked_at_and_scaled_at_once(stand, gate):
    await gated(stand, gate)
    await stand.run(2)
    gate.open()
    opened = stand.now
    await stand.until(stand.writes)
    assert stand.now - opened < 0.5


async def test_a_change_that_leaves_the_gate_closed_wakes_nobody(stand, gate):
    await gated(stand, gate)
    seen = len(stand.probes())
    for _ in range(20):
        gate.tell()
        await stand.run(0.01)
    assert len(stand.probes()) <= seen + 1


async def test_a_gate_that_opens_over_a_healthy_shoot_wakes_nobody(stand, gate):
    await stand.run(60)
    gate.close()
    seen = len(stand.probes())
    gate.open()
    await stand.run(0.5)
    assert len(stand.probes()) == seen


async def test_a_closed_gate_never_holds_back_a_scale_up(stand, gate):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        gate.close()
    await stand.until(lambda: stand.replicas() == (1, 1, 1), within=180)


async def test_a_gate_that_closes_ends_no_run_and_delays_none(stage, gate):
    stand = under(stage, gate, dependents=SLOW_KCM)
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        begun = await stand.until(lambda: stand.writes(MCM))
        gate.close()
        await stand.until(lambda: stand.writes(KCM))
        assert stand.now - begun == pytest.approx(20.0, abs=1.5)
    assert not [n for n in stand.told("FlowEnded") if "was ended" in n.message]


async def test_a_gate_that_closes_during_protection_ends_nothing(stand, gate):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        gate.close()
        await stand.run(120)
        assert stand.replicas() == (0, 0, 0)
        assert stand.state() is ShootState.PROTECTED


async def test_a_closed_gate_holds_back_no_scale_down_that_a_person_asks_for(stage, gate):
    hand = by_hand(stage, gate)
    await hand.stand.run(60)
    gate.close()
    began = await hand.scale(DOWN)
    assert (await hand.ended(began.id)).phase is OperationPhase.DONE
    assert hand.stand.replicas() == (0, 0, 0)


async def test_a_person_may_scale_down_what_the_gate_alone_holds_back(stage, gate):
    hand = by_hand(stage, gate)
    await gated(hand.stand, gate)
    began = await hand.scale(DOWN)
    assert (await hand.ended(began.id)).phase is OperationPhase.DONE
    assert hand.stand.replicas() == (0, 0, 0)


async def test_a_gate_that_closes_ends_no_run_of_a_person(stage, gate):
    hand = by_hand(stage, gate, dependents=SLOW_KCM)
    await hand.stand.run(60)
    began = await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    gate.close()
    assert (await hand.ended(began.id)).phase is OperationPhase.DONE
    assert hand.stand.replicas() == (0, 0, 0)


async def test_endpoint_probes_live_as_long_as_the_shoot_is_probed(stand, gate):
    await stand.run(60)
    assert gate.probed == {SHOOT}
    stand.world.faults.hibernated(SHOOT)
    await stand.until(lambda: not gate.probed)


async def test_they_end_with_the_process(stand, gate):
    await stand.run(60)
    await stand.prober.stop("SIGTERM")
    assert not gate.probed
