"""What the bench makes of its measurements: goals, doubts, tables."""

import math
from dataclasses import replace
from typing import Any

import pytest

from bench.perf import table
from bench.perf.cases import Run
from bench.perf.figures import Buckets
from bench.perf.goals import Goal, goals
from bench.perf.outage import Cut, MassOutage, Mended, Told
from bench.perf.steady import Size, Start, Steady
from bench.perf.validity import Stretch

QUIET = Stretch(seconds=40.0, load=0.1, idle=0.7, lag=0.002, counts={})
LAG = Buckets({0.1: 99.0, 0.25: 100.0, math.inf: 100.0})
STEADY = Steady(
    probes=1000.0,
    cpu=0.001,
    cores=0.03,
    floor=0.0005,
    requests=2.0,
    sent=500.0,
    received=3500.0,
    handshakes=0.0,
    rss=100.0,
    peak=110.0,
    lag=LAG,
    loop_lag=LAG,
    errors=0.0,
    stretch=QUIET,
)
OUTAGE = MassOutage(
    shoots=2,
    cut=Cut(first=(0.5, 1.0), zero=(1.0, 2.0), missed=0, not_ready=0, deleted=0),
    mended=Mended(began=(5.0, 5.1), a_second=2, lost=0, unclean=0),
    told=Told(down=(0.5, 1.9), up=(3.0,), missing=0),
    cpu=0.5,
    down=QUIET,
    up=QUIET,
    peak=120.0,
)


def run(steady=STEADY, *, side="here", shoots=300, nodes=10, seconds=2.0):
    return Run(side, Size(shoots, nodes), Start(seconds, 100.0), steady=steady)


def missed(runs):
    """What is not reached, without the name of the case."""
    return {each.what.partition(": ")[2] for each in goals({"case": runs}) if not each.reached}


def test_all_goals_are_reached_by_a_program_that_is_just_good_enough():
    assert not missed([run(replace(STEADY, cpu=0.001, floor=0.0005, rss=100, peak=130))])


@pytest.mark.parametrize(
    ("worse", "goal"),
    [
        ({"cpu": 0.0011}, "CPU per probe, of the bare loop's"),
        ({"cpu": 0.0016, "floor": 0.001}, "CPU per probe, about"),
        ({"peak": 131.0}, "RSS peak, of the steady one"),
        ({"rss": 151.0, "peak": 151.0}, "RSS, peak at start included"),
    ],
)
def test_one_figure_that_is_worse_is_one_goal_missed(worse, goal):
    assert missed([run(replace(STEADY, **worse))]) == {goal}


def test_the_worst_start_of_several_counts():
    assert missed([run(), run(seconds=5.1)]) == {"first probe of every shoot"}


def test_a_thousand_shoots_have_goals_of_their_own():
    late = replace(STEADY, cores=0.26, peak=251.0, lag=Buckets({0.25: 90.0, 0.5: 100.0}))
    assert missed([run(late, shoots=1000)]) == {"cores", "RSS", "lag of probes, p99"}


def test_with_100_nodes_a_probe_may_cost_twice_as_much():
    heavy = replace(STEADY, cpu=0.0029, floor=0.0015)
    assert not missed([run(heavy, shoots=100, nodes=100)])


def outage(**changes):
    parts: dict[str, Any] = {"cut": OUTAGE.cut, "mended": OUTAGE.mended, "told": OUTAGE.told}
    for name, value in changes.items():
        (part,) = [each for each, of in parts.items() if hasattr(of, name)]
        parts[part] = replace(parts[part], **{name: value})
    return [Run("here", Size(2, 10), outage=replace(OUTAGE, **parts))]


def test_an_outage_in_which_all_goes_well():
    assert not missed(outage())


def test_where_nobody_may_write_events_none_is_late():
    (found,) = outage()
    assert not missed([replace(found, outage=replace(found.outage, told=None))])


def test_a_shoot_that_was_not_protected_is_later_than_any():
    assert missed(outage(missed=1)) == {"known to KCM at 0, p99", "known to KCM at 0, latest"}


@pytest.mark.parametrize(
    ("change", "goal"),
    [
        ({"first": (0.1, 3.1)}, "known to first write, p99"),
        ({"a_second": 11}, "scale-ups that begin within a second"),
        ({"down": (0.5, 2.1)}, "Events of scale-downs, p99"),
        ({"missing": 1}, "Events of scale-downs, p99"),
        ({"lost": 1}, "counts lost"),
        ({"began": (5.0,)}, "shoots that did not recover"),
    ],
)
def test_one_thing_that_goes_wrong_in_an_outage_is_one_goal_missed(change, goal):
    assert missed(outage(**change)) == {goal}


def test_a_figure_that_is_not_known_is_not_reached():
    assert not Goal("x", 1.0, math.nan, "s").reached
    assert Goal("x", 1.0, 1.0, "s").reached


@pytest.mark.parametrize(
    ("change", "said"),
    [({"load": 0.95}, "0.95 cores"), ({"lag": 0.2}, "200 ms late"), ({"idle": 0.01}, "1% of")],
)
def test_a_load_that_was_the_bottleneck_is_a_doubt(change, said):
    (doubt,) = replace(QUIET, **change).doubts()
    assert said in doubt


def test_doubts_and_missed_goals_are_in_the_report():
    runs = [run(replace(STEADY, cpu=0.002, stretch=replace(QUIET, load=0.95)))]
    text = table.report({"steady-300x10": runs}, goals({"steady-300x10": runs}))
    assert "steady-300x10, here: may be wrong, as the servers used 0.95 cores" in text
    assert "**not reached**" in text


def test_two_commits_are_compared_by_the_bare_loop_that_ran_beside_each():
    # on a machine that was twice as slow just then
    slower = replace(STEADY, cpu=0.004, floor=0.001)
    text = table.report({"case": [run(), run(slower, side="other")]}, [])
    assert "case: CPU per probe here is 50% of the other's" in text


def test_each_row_has_a_cell_for_each_head():
    runs = [run(), *outage()]
    for block in table.report({"case": runs}, goals({"case": runs})).split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1
