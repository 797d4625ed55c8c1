"""Random failures in seeded worlds, and strikes at boundaries of a scaling run's requests; in large: `make explore`.

CI plays many more worlds, and every boundary, beside these: what is here shows that they find what they are for.
What the judges of a world know of gates, paths and overrides is shown by the planted defects that they find, and by the
worlds in which they find nothing.
"""

import os
import sys
from pathlib import Path

import pytest
import yaml

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.definitions import Rejected
from bench import explore
from bench.exploration import boundaries, draws, operators, path_draws, path_plants, plants
from bench.exploration import recipe as recipes
from bench.exploration.line import Boundary
from bench.exploration.strikes import How
from bench.exploration.weeder import draws as weeder_draws
from tests.support.programs import printed

HANGS = 900.0
"""Seconds: dozens of worlds, and CI leaves them what others do not use."""
pytestmark = pytest.mark.timeout(HANGS)

SEED = 1
NOW = 1_800_000_000.0
HOUR = "2027-01-15T08:00:00Z"
SHOOT = "shoot--world--a"
FOUND_IN = yaml.safe_load(Path(__file__).with_name("plants.yaml").read_text(encoding="utf-8"))[
    "prober"
]
"""A world of `SEED` in which each planted defect shows; if the simulation has changed, one that comes after it."""
TRIES = 60


@pytest.mark.parametrize("number", boundaries.of_flows(boundaries.cases(), How.KILL)[::50])
def test_a_process_that_is_killed_at_a_boundary_of_a_run_leaves_nothing_lost_or_undone(number):
    _, found = explore.strike(number)
    assert not found.violations, found.replay


@pytest.mark.parametrize("boundary", Boundary)
def test_a_leader_that_is_stopped_for_longer_than_a_term_at_a_boundary_loses_nothing(boundary):
    every = boundaries.cases()
    numbers = [n for n in boundaries.of_flows(every, How.PAUSE) if every[n].boundary is boundary]
    _, found = explore.strike(numbers[len(numbers) // 2])
    assert not found.violations, found.replay


@pytest.mark.parametrize("world", ["lease mode", "endpoint mode", "by hand"])
def test_every_request_of_both_runs_has_all_its_boundaries(world):
    every = tuple(case for case in boundaries.cases() if case.world == world)
    for how in How:
        mine = [every[n] for n in boundaries.of_flows(every, how)]
        dependents = ("patch deployments", "patch etcds")
        patches = {c.number for c in mine if any(each in c.what for each in dependents)}
        assert len(patches) == 10, "three Deployments and, in two steps, an Etcd: down and up"
        for number in patches:
            assert {case.boundary for case in mine if case.number == number} == set(Boundary)


def test_every_fault_of_the_simulation_is_drawn():
    drawn = set(draws.FAULTS) | set(path_draws.FAULTS) | set(weeder_draws.FAULTS)
    assert drawn == draws.known_faults()


def test_one_world_in_four_is_in_endpoint_mode_and_most_of_these_have_a_gate():
    policies = [recipes.draw(SEED, number).policy for number in range(200)]
    paths = [policy for policy in policies if policy.endpoint_mode]
    assert len(paths) == 50
    assert 25 < sum(bool(policy.endpoint_probes) for policy in paths) < 50
    assert {policy.failure_threshold for policy in paths} == {1, 2, 3}


def well(number):
    """A world in which nothing happens that must not."""
    story, found = explore.explore(SEED, number)
    assert not found.violations, found.replay
    return story


def test_what_can_happen_to_paths_and_gates_comes_about_and_shoots_go_down_and_come_back():
    downs = ups = 0
    missing = set(path_draws.FAULTS) - set(draws.FAULTS)  # what lease mode has too is rare here
    for number in (*range(3, 24, 4), 35):
        story = well(number)
        missing -= set(story.counts)
        downs, ups = downs + story.downs, ups + story.ups
        if not missing and min(downs, ups) > 50:
            return
    pytest.fail(f"missing: {missing}; {downs} times down, {ups} times up")


def test_whatever_people_decide_comes_about():
    missing = set(operators.ACTS)
    for number in range(12):
        missing -= set(well(number).counts)
        if not missing:
            return
    pytest.fail(f"missing: {missing}")


@pytest.mark.parametrize(("kind", "spec"), operators.MISTAKES)
async def test_what_people_get_wrong_in_the_worlds_is_truly_refused(kind, spec):
    clock = Clock.of_loop()
    world = World(clock, Tasks(clock), seed=1)
    with pytest.raises(Rejected):
        world.people.create(kind, SHOOT, "mistake", **spec)
    assert not world.store.list(kind)


@pytest.mark.parametrize("world", ["5", "15"])
def test_a_seed_gives_the_same_log_byte_by_byte_in_every_process(world):
    command = [sys.executable, "-m", "bench.explore", "--seed", "1", "--world", world, "--log"]
    logs = [
        printed(*command, env={**os.environ, "PYTHONHASHSEED": seed}, timeout=HANGS)
        for seed in ("1", "2")
    ]
    assert logs[0].count("\n") > 1000
    assert logs[0] == logs[1]


@pytest.mark.parametrize("plant", FOUND_IN)
def test_a_planted_defect_is_found(plant):
    step = 4 if plant in path_plants.PLANTS else 1
    worlds = range(FOUND_IN[plant], FOUND_IN[plant] + TRIES, step)
    assert any(explore.explore(SEED, number, plant)[1].violations for number in worlds)


def test_every_planted_defect_is_looked_for():
    assert set(FOUND_IN) == set(plants.PLANTS)


def test_what_is_found_is_printed_with_the_command_that_replays_it(capsys):
    worlds = ["--seed", "1", "--worlds", "2", "--plant", "key-left-behind"]
    assert explore.main(worlds) == 1
    told = capsys.readouterr().out
    assert "every_shoot_is_as_it_should_be: shoot--world--" in told
    replay = (
        "python -m bench.explore --kind prober --seed 1 --world 1 --log --plant key-left-behind"
    )
    assert f"replay: {replay}" in told
    assert explore.main(replay.split()[3:]) == 1
    assert "VIOLATION" in capsys.readouterr().out


def test_a_run_without_violations_says_what_was_explored_and_ends_well(capsys):
    assert explore.main(["--seed", "1", "--worlds", "1"]) == 0
    told = capsys.readouterr().out
    assert "prober worlds of seed 1: 1 explored, 0 with violations" in told
    assert "weeder worlds of seed 1: 1 explored, 0 with violations" in told
