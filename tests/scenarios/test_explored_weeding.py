"""The weeder in seeded worlds in which services come and go and everything fails; in large: `make explore`.

CI plays many more worlds, and every boundary, beside these: what is here shows that they find what they are for.
"""

import os
import sys
from pathlib import Path

import pytest
import yaml

from bench import explore
from bench.exploration.kinds import Kind
from bench.exploration.line import Boundary
from bench.exploration.strikes import How
from bench.exploration.weeder import boundaries, draws, plants
from bench.exploration.weeder.facts import backoff_left
from tests.support.programs import printed

HANGS = 900.0
"""Seconds: dozens of worlds, and CI leaves them what others do not use."""
pytestmark = pytest.mark.timeout(HANGS)

SEED = 1
WORLDS = 4
TRIES = 30
CASES = boundaries.cases()
KILLS = [number for number, case in enumerate(CASES) if case.how is How.KILL]
FOUND_IN = yaml.safe_load(Path(__file__).with_name("plants.yaml").read_text(encoding="utf-8"))[
    "weeder"
]
"""A world of `SEED` in which each planted defect shows; if the simulation has changed, one that comes after it."""


@pytest.mark.parametrize("number", range(WORLDS))
def test_whatever_goes_wrong_nothing_is_deleted_that_must_not_be_and_nobody_waits_in_vain(number):
    story, found = explore.explore(SEED, number, kind=Kind.WEEDER)
    assert not found.violations, found.replay
    assert story.deletions, "pods are deleted while much goes wrong"
    assert sum(story.counts.values()) > 50


@pytest.mark.parametrize("number", KILLS[::10])
def test_a_weeder_that_is_killed_at_a_boundary_of_a_recovery_deletes_nothing_twice_and_leaves_nobody_waiting(
    number,
):
    _, found = explore.strike(number, kind=Kind.WEEDER)
    assert not found.violations, found.replay


@pytest.mark.parametrize("boundary", Boundary)
def test_a_weeder_that_is_stopped_for_longer_than_a_term_at_a_boundary_does_no_harm(boundary):
    chosen = [n for n, c in enumerate(CASES) if c.how is How.PAUSE and c.boundary is boundary]
    for number in chosen[::15]:
        _, found = explore.strike(number, kind=Kind.WEEDER)
        assert not found.violations, found.replay


def test_every_request_of_a_recovery_has_all_its_boundaries():
    for how in How:
        mine = [case for case in CASES if case.how is how]
        assert {case.what.split()[1] for case in mine} >= {"list", "watch", "delete"}
        for place in {(case.process, case.number) for case in mine}:
            passed = {case.boundary for case in mine if (case.process, case.number) == place}
            assert passed == set(Boundary)


@pytest.mark.parametrize("plant", FOUND_IN)
def test_a_planted_defect_of_the_weeder_is_found(plant):
    worlds = range(FOUND_IN[plant], FOUND_IN[plant] + TRIES)
    assert any(explore.explore(SEED, each, plant, Kind.WEEDER)[1].violations for each in worlds)


def test_every_planted_defect_of_the_weeder_is_looked_for():
    assert set(FOUND_IN) == set(plants.PLANTS)


def test_everything_that_can_happen_to_pods_and_their_watches_is_drawn():
    assert set(draws.FAULTS) >= draws.of_pods()


def test_a_seed_gives_the_same_log_of_weeding_byte_by_byte_in_every_process():
    options = ["--kind", "weeder", "--seed", "1", "--world", "1", "--log"]
    logs = [
        printed(
            *(sys.executable, "-m", "bench.explore", *options),
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=HANGS,
        )
        for seed in ("1", "2")
    ]
    assert logs[0].count("\n") > 300
    assert logs[0] == logs[1]


def test_what_is_found_in_a_world_of_the_weeder_is_printed_with_the_command_that_replays_it(capsys):
    assert explore.main(["--seed", "1", "--worlds", "2", "--plant", "bare-pods-deleted"]) == 1
    told = capsys.readouterr().out
    replay = (
        "python -m bench.explore --kind weeder --seed 1 --world 1 --log --plant bare-pods-deleted"
    )
    assert f"replay: {replay}" in told
    assert "prober" not in told
    assert explore.main(replay.split()[3:]) == 1
    assert "VIOLATION" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("restarts", "whole", "ago", "left"),
    [
        (1, "10s", 0.0, 10.0),
        (2, "20s", 5.0, 15.0),
        (6, "5m0s", 0.0, 300.0),
        (6, "10s", 0.0, 10.0),
        (60, "5m0s", 400.0, 0.0),
    ],
)
def test_the_back_off_that_is_left_is_reckoned_apart_from_the_rules(restarts, whole, ago, left):
    message = f"back-off {whole} restarting failed container=main pod=a_b(c)"
    container = {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": message}},
        "lastState": {"terminated": {"finishedAt": "1970-01-01T00:00:00Z"}},
        "restartCount": restarts,
    }
    assert backoff_left({"status": {"containerStatuses": [container]}}, ago) == left
    assert (
        backoff_left({"status": {"containerStatuses": [{"state": {"running": {}}}]}}, 1.0) is None
    )
