"""What a gate has held back: from what the program says, sorted into scenes."""

from app.core.model.probing import ShootState, Verdict
from app.simulation.demo.losses import GateOutcome, Met, added_up, fates_by_scene, is_gated, met
from app.simulation.demo.program_api import ShootReport
from tests.demo.scenes import performance

HEALTHY = ShootReport(ShootState.HEALTHY, "ExternalReachable", "…", None, Verdict.SCALE_UP)
COUNTING = ShootReport(ShootState.SUSPECT, "Counting", "…", None, Verdict.SCALE_DOWN)
GATED = ShootReport(ShootState.SUSPECT, "Gated", "…", None, Verdict.SCALE_DOWN)
PROTECTING = ShootReport(
    ShootState.PROTECTING, "ExternalUnreachable", "…", None, Verdict.SCALE_DOWN
)
PROTECTED = ShootReport(ShootState.PROTECTED, "ExternalUnreachable", "…", None, Verdict.SCALE_DOWN)
RECOVERING = ShootReport(ShootState.RECOVERING, "ExternalReachable", "…", None, Verdict.SCALE_UP)
NONE = {GateOutcome.SCALED: 0, GateOutcome.HELD_BACK: 0}


def named(**said):
    return {f"shoot--demo--{name}": each for name, each in said.items()}


def test_a_shoot_is_met_when_it_is_gated_or_scaled_and_not_before():
    after = named(a=GATED, b=PROTECTING, c=COUNTING, d=HEALTHY)
    assert met({}, after, 5.0) == [
        Met(5.0, "a", GateOutcome.HELD_BACK),
        Met(5.0, "b", GateOutcome.SCALED),
    ]


def test_what_goes_on_is_not_met_again():
    assert met(named(a=GATED, b=PROTECTING), named(a=GATED, b=PROTECTED), 6.0) == []


def test_what_was_held_back_may_be_scaled_later_and_held_back_once_more():
    assert met(named(a=GATED), named(a=PROTECTING), 7.0) == [Met(7.0, "a", GateOutcome.SCALED)]
    assert met(named(a=COUNTING), named(a=GATED), 8.0) == [Met(8.0, "a", GateOutcome.HELD_BACK)]


def test_what_comes_back_before_the_screen_has_seen_it_at_0_was_scaled():
    assert met(named(a=GATED), named(a=RECOVERING), 7.0) == [Met(7.0, "a", GateOutcome.SCALED)]
    assert met(named(a=PROTECTED), named(a=RECOVERING), 8.0) == []
    assert met(named(a=RECOVERING), named(a=RECOVERING), 9.0) == []
    assert met(named(a=RECOVERING), named(a=PROTECTED), 9.0) == [Met(9.0, "a", GateOutcome.SCALED)]


def test_a_gate_holds_back_only_what_asks_to_be_scaled_down():
    assert is_gated(GATED)
    assert not is_gated(ShootReport(ShootState.SUSPECT, "Gated", "…", None, Verdict.HOLD))
    assert not is_gated(COUNTING)


def test_in_a_scene_each_shoot_counts_once():
    scene = performance(1, ("a", "b"), began=100.0)
    seen = [Met(at, "a", GateOutcome.HELD_BACK) for at in (110.0, 120.0)] + [
        Met(130.0, "b", GateOutcome.SCALED)
    ]
    assert fates_by_scene([scene], seen) == {1: {GateOutcome.SCALED: 1, GateOutcome.HELD_BACK: 1}}


def test_what_happens_to_the_seed_happens_to_every_shoot():
    seed = performance(1, (), began=100.0, ended=150.0)
    later = performance(2, ("a",), began=200.0)
    seen = [
        Met(90.0, "c", GateOutcome.HELD_BACK),  # before any scene
        Met(110.0, "a", GateOutcome.HELD_BACK),
        Met(110.0, "b", GateOutcome.HELD_BACK),
        Met(210.0, "a", GateOutcome.SCALED),
        Met(211.0, "b", GateOutcome.SCALED),  # of the other scene it is no part
    ]
    scenes = fates_by_scene([seed, later], seen)
    assert scenes == {
        1: {GateOutcome.SCALED: 1, GateOutcome.HELD_BACK: 2},
        2: {GateOutcome.SCALED: 1, GateOutcome.HELD_BACK: 0},
    }
    assert added_up(scenes.values()) == {GateOutcome.SCALED: 2, GateOutcome.HELD_BACK: 2}


def test_without_scenes_there_is_nothing():
    assert fates_by_scene([], [Met(1.0, "a", GateOutcome.SCALED)]) == {}
    assert added_up([]) == NONE
