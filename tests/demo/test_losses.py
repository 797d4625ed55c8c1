"""What the simulated controllers did, with a watchdog and without, and in which scene."""

from app.core.config.policy_files import parse_prober
from app.core.model.probing import ShootState, Verdict
from app.simulation.builders import World
from app.simulation.demo.losses import (
    EXPIRY,
    LIMIT,
    Comparison,
    GateOutcome,
    Harm,
    Met,
    NodeLoss,
    Toll,
    Witness,
    added_up,
    by_scene,
    fates_by_scene,
    is_gated,
    met,
)
from tests.demo.scenes import performance, said
from tests.docs.pages import ROOT
from tests.simulation.worlds import simulated

A, B = "shoot--demo--a", "shoot--demo--b"


def lost(at, shoot="a", harm=Harm.NODE):
    return NodeLoss(at, shoot, harm)


def toll(witness):
    """What was lost, none of it below the limit."""
    found = Comparison.of(witness.losses, [])
    assert not found.below[0]
    return found.having


def world_of(world):
    made = World(world.clock, world.tasks, seed=1)
    for namespace in (A, B):
        made.add_shoot(namespace, nodes=3, health_timeout=30.0)
    return made


@simulated()
async def test_marked_nodes_and_machines_that_are_given_up_are_counted_each_once(world):
    made = world_of(world)
    witness = Witness(made, [A, B])
    with made.faults.path_cut(A):
        await world.clock.sleep(55)
        assert toll(witness) == Toll(nodes=3, machines=0)
        await world.clock.sleep(60)
    assert toll(witness) == Toll(nodes=3, machines=3)
    assert {loss.shoot for loss in witness.losses} == {"a"}
    await world.clock.sleep(120)  # drained, deleted, replaced
    assert toll(witness) == Toll(nodes=3, machines=3)


@simulated()
async def test_a_node_that_is_marked_again_counts_again(world):
    made = world_of(world)
    witness = Witness(made, [A, B])
    for _ in range(2):
        with made.faults.path_cut(A):
            await world.clock.sleep(60)
        await world.clock.sleep(30)
    assert toll(witness).nodes == 6


@simulated()
async def test_what_is_lost_already_is_not_lost_again_by_another_change(world):
    made = world_of(world)
    witness = Witness(made, [A, B])
    with made.faults.path_cut(A):
        await world.clock.sleep(100)
        before = toll(witness)
        made.patch_node(A, "node-0", {"metadata": {"labels": {"other": "label"}}})
        made.patch(A, "kube-controller-manager", {"metadata": {"labels": {"other": "label"}}})
        made.machine_phase(A, "machine-0", "Terminating")
        assert before == Toll(nodes=3, machines=3)
        assert toll(witness) == before


@simulated()
async def test_nothing_is_lost_where_the_controllers_are_stopped(world):
    made = world_of(world)
    witness = Witness(made, [A, B])
    with made.faults.path_cut(A):
        await world.clock.sleep(28)
        for name in ("kube-controller-manager", "machine-controller-manager"):
            made.patch(A, name, {"spec": {"replicas": 0}})
        await world.clock.sleep(120)
    assert toll(witness) == Toll()
    assert witness.losses == []


def wide(world):
    made = World(world.clock, world.tasks, seed=1)
    made.add_shoot(A, nodes=10, health_timeout=30.0)
    return made


@simulated()
async def test_what_is_lost_where_fewer_nodes_are_cut_off_than_the_limit_is_told_apart(world):
    made = wide(world)
    witness = Witness(made, [A])
    with made.faults.path_cut(A, nodes=[f"node-{number}" for number in range(5)]):
        await world.clock.sleep(120)
    assert Comparison.of(witness.losses, []) == Comparison(below=(Toll(5, 5), Toll()))


@simulated()
async def test_what_is_lost_from_the_limit_on_counts_as_lost_to_the_last_machine(world):
    made = wide(world)
    witness = Witness(made, [A])
    with made.faults.path_cut(A, nodes=[f"node-{number}" for number in range(6)]):
        await world.clock.sleep(120)
    assert toll(witness) == Toll(nodes=6, machines=6)


@simulated()
async def test_nodes_that_are_marked_when_the_path_is_back_belong_to_its_outage(world):
    made = wide(world)
    witness = Witness(made, [A])
    with made.faults.path_cut(A):
        await world.clock.sleep(45)
    await world.clock.sleep(30)
    assert toll(witness).nodes >= 5


def test_the_limit_is_that_of_the_file_that_comes_with_the_program():
    text = (ROOT / "config/prober.yaml").read_text()
    policy = parse_prober(text, "prober.yaml", strict=True).policy
    assert (policy.limit, 0.75 * policy.grace) == (LIMIT, EXPIRY)


def test_a_scene_may_have_losses_below_the_limit_and_others():
    mine = [lost(110), NodeLoss(111, "a", Harm.NODE, below_limit=True)]
    theirs = [NodeLoss(112, "a", Harm.MACHINE, below_limit=True)]
    assert by_scene([performance(1)], mine, theirs) == {
        1: Comparison(Toll(1, 0), Toll(), below=(Toll(1, 0), Toll(0, 1)))
    }


def test_a_loss_belongs_to_the_last_scene_that_had_begun_with_its_shoot():
    scenes = [
        performance(1, ("a", "b"), 100.0, 150.0),
        performance(2, ("a",), 120.0, 130.0),
        performance(3, ("b",), 300.0),
    ]
    mine = [lost(110), lost(125), lost(200), lost(250, "b", Harm.MACHINE), lost(300, "b")]
    assert by_scene(scenes, mine, []) == {
        1: Comparison(Toll(1, 1), Toll()),
        2: Comparison(Toll(2, 0), Toll()),
        3: Comparison(Toll(1, 0), Toll()),
    }


def test_what_was_lost_before_any_scene_or_elsewhere_belongs_to_none():
    assert by_scene([performance(1)], [lost(99), lost(200, "c")], [lost(101)]) == {
        1: Comparison(Toll(), Toll(1, 0))
    }


# What a gate has held back: from what the program says, sorted into scenes.

HEALTHY = said(ShootState.HEALTHY, "ExternalReachable", would_be=Verdict.SCALE_UP)
COUNTING = said(ShootState.SUSPECT, "Counting", would_be=Verdict.SCALE_DOWN)
GATED = said(ShootState.SUSPECT, "Gated", would_be=Verdict.SCALE_DOWN)
PROTECTING = said(ShootState.PROTECTING, "ExternalUnreachable", would_be=Verdict.SCALE_DOWN)
PROTECTED = said(ShootState.PROTECTED, "ExternalUnreachable", would_be=Verdict.SCALE_DOWN)
RECOVERING = said(ShootState.RECOVERING, "ExternalReachable", would_be=Verdict.SCALE_UP)
NONE = {GateOutcome.SCALED: 0, GateOutcome.HELD_BACK: 0}


def named(**shoots):
    return {f"shoot--demo--{name}": each for name, each in shoots.items()}


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
    assert not is_gated(said(ShootState.SUSPECT, "Gated", would_be=Verdict.HOLD))
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
