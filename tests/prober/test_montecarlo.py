"""The rules against random worlds, in small; in large: `python -m bench.montecarlo`."""

import json

import pytest

from bench import montecarlo
from bench.account import Account, Circumstance, Incident
from bench.looker import Without

HOURS = 30
SEED = 4
"""In its first hours each of the rules below is needed."""


@pytest.fixture(scope="module")
def account():
    return montecarlo.run(HOURS, SEED, jobs=1)


@pytest.mark.parametrize("what", montecarlo.INCIDENTS)
def test_in_some_hours_of_disturbances_nothing_happens_that_must_not(account, what):
    assert [incident for incident in account.incidents if incident.what == what] == []


def test_there_were_outages_of_every_kind_to_find(account):
    assert account.hours == HOURS
    assert account.knowable > HOURS
    assert {Circumstance.RIGHT, Circumstance.OFF, Circumstance.AWAY} <= set(account.delays)


def test_an_outage_is_seen_within_a_second_of_the_moment_when_it_can_be_known(account):
    right = account.delays[Circumstance.RIGHT]
    assert montecarlo.quantile(right, 0.5) <= 0.5
    assert montecarlo.quantile(right, 0.99) <= 1.5


def test_the_same_seed_makes_the_same_hour():
    first, _, events = montecarlo.simulate(SEED, 5, frozenset())
    again, _, events_again = montecarlo.simulate(SEED, 5, frozenset())
    assert (first, events) == (again, events_again)


@pytest.mark.parametrize(
    ("without", "what"),
    [
        (Without.GAP, "false scale-down"),
        (Without.OFFSET, "false scale-down"),
        (Without.UNKNOWN, "ended in mid-outage"),
        (Without.CONTACT, "missed"),
    ],
)
def test_a_rule_that_is_left_out_is_missed(without, what):
    account = montecarlo.run(HOURS, SEED, jobs=1, without=frozenset({without}))
    assert account.count(what) > 0


def test_an_incident_or_a_delay_beyond_the_figure_is_a_violation():
    account = Account(
        incidents=[Incident("missed", 1.0, "so")], delays={Circumstance.RIGHT: [0.1, 0.2, 9.0]}
    )
    found = montecarlo.violations(account)
    assert found[0] == "missed: 1"
    assert "right clocks, p99" in found[1]


def test_the_program_prints_its_figures_and_ends_with_0_where_all_are_reached(capsys):
    assert montecarlo.main(["--hours", "1", "--seed", "4", "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["violations"] == []
    assert montecarlo.main(["--seed", "4", "--only", "0"]) == 0
    assert "false scale-down:               0" in capsys.readouterr().out
