"""Random failures in seeded worlds, and strikes at every boundary of a flow's requests; in large: `make explore`."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from app.core.model.overrides import Scope, Unreadable
from app.core.records.overrides.document import Content, read_key
from bench import explore
from bench.exploration import boundaries, draws, operators, plants, wishes
from bench.exploration.line import Boundary
from bench.exploration.strikes import How
from bench.exploration.weeder import draws as weeder_draws

pytestmark = pytest.mark.timeout(60)  # two seconds a world at most, and thrice that under coverage

SEED = 1
NOW = 1_800_000_000.0
WORLDS = 20
ROOT = Path(__file__).parents[2]
FOUND_IN = {
    "no-confirmation": 0,
    "saved-count-overwritten": 0,
    "leadership-unheeded": 0,
    "no-gap-rule": 22,
    "key-left-behind": 0,
    "hold-taken-for-up": 0,
    "stale-version": 14,
    "count-not-kept": 6,
    "old-consent": 33,
    "pause-unheeded": 0,
    "garbage-unheeded": 1,
    "hold-over-with-its-flow": 0,
    "nobody-carries-on": 1,
    "end-of-hold-unheeded": 10,
    "unsynced-unheeded": 3,
}
"""A world of `SEED` in which each planted defect shows; if the simulation has changed, one that comes after it."""
TRIES = 60


@pytest.mark.parametrize("number", range(WORLDS))
def test_whatever_goes_wrong_nothing_happens_that_must_not(number):
    _, found = explore.explore(SEED, number)
    assert not found.violations, found.replay


@pytest.mark.parametrize("number", boundaries.of_flows(boundaries.cases(), How.KILL))
def test_a_process_that_is_killed_at_a_boundary_of_a_flow_leaves_nothing_lost_or_undone(number):
    _, found = explore.strike(number)
    assert not found.violations, found.replay


@pytest.mark.parametrize("boundary", Boundary)
def test_a_leader_that_is_stopped_for_longer_than_a_term_at_a_boundary_loses_nothing(boundary):
    every = boundaries.cases()
    numbers = [n for n in boundaries.of_flows(every, How.PAUSE) if every[n].boundary is boundary]
    for number in numbers[::6]:
        _, found = explore.strike(number)
        assert not found.violations, found.replay


def test_every_request_of_both_flows_has_all_its_boundaries():
    every = boundaries.cases()
    for how in How:
        mine = [every[n] for n in boundaries.of_flows(every, how)]
        patches = {case.number for case in mine if "patch" in case.what}
        assert len(patches) == 10, "three Deployments and, in two steps, an Etcd: down and up"
        for number in patches:
            assert {case.boundary for case in mine if case.number == number} == set(Boundary)


def test_every_fault_of_the_simulation_is_drawn_or_has_a_reason_why_not():
    drawn = set(draws.FAULTS) | set(weeder_draws.FAULTS)
    assert drawn | set(draws.NOT_PLAYED) == draws.known_faults()
    assert not drawn & set(draws.NOT_PLAYED)
    assert all(draws.NOT_PLAYED.values())


def test_whatever_people_decide_comes_about():
    counts = Counter[str]()
    for number in range(6):
        counts.update(explore.explore(SEED, number)[0].counts)
    assert set(operators.ACTS) <= set(counts)


@pytest.mark.parametrize("text", operators.GARBAGE)
def test_what_people_get_wrong_in_the_worlds_can_truly_not_be_read(text):
    assert isinstance(read_key("shoot--a", text, NOW), Unreadable)
    assert not wishes.read(text, NOW).readable


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"scope": "scaleDown"},
        {"until": "2027-01-15T09:00:00Z", "scope": "all"},
        {"createdAt": "2027-01-15T07:00:00Z"},
        {"createdAt": "2027-01-15T07:00:00Z", "until": "2027-01-15T09:00:00Z"},
    ],
)
def test_a_pause_is_reckoned_apart_from_the_product_and_comes_to_the_same(entry):
    text = json.dumps({"pause": entry})
    content, mine = read_key("shoot--a", text, NOW), wishes.read(text, NOW).pausing()
    assert isinstance(content, Content)
    assert content.entry.pause is not None
    assert mine is not None
    assert mine.until == content.entry.pause.until
    assert mine.everything is (content.entry.pause.scope is Scope.ALL)


def test_a_seed_gives_the_same_log_byte_by_byte_in_every_process():
    command = [sys.executable, "-m", "bench.explore", "--seed", "1", "--world", "5", "--log"]
    logs = [
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert logs[0].count(b"\n") > 1000
    assert logs[0] == logs[1]


def test_another_seed_gives_another_log():
    assert explore.explore(1, 2)[1].digest != explore.explore(2, 2)[1].digest


@pytest.mark.parametrize("plant", FOUND_IN)
def test_a_planted_defect_is_found(plant):
    worlds = range(FOUND_IN[plant], FOUND_IN[plant] + TRIES)
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
