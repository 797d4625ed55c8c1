"""What is remembered for the plots, how much it takes, and what is drawn of it."""

import sys
from functools import partial

import pytest

from app.api.page.plots import BUCKETS, STEP, Column, Mark, Plots, Series, drawn
from app.core.model.probing import ProbeResult, RequestKind
from app.core.model.scaling_runs import Trigger
from app.core.model.workloads import Direction
from app.core.reporting.notices import ScalingRunBegan, ScalingRunEnded, ShootForgotten
from tests.api.facts import NAMESPACE, NOW
from tests.support.notices import A_PROBE

NOTHING = Column(None, Mark(0))


def probe(at=NOW, expired=0, total=10, reason="LeasesRenewed", **facts):
    leases = {"fresh": total - expired, "expired": expired, "unknown": 0, "excluded": 0}
    return A_PROBE(NAMESPACE, at, reason, "", **{"leases": leases, **facts})


def scaling(at, direction, what):
    of = ScalingRunBegan if what == "started" else partial(ScalingRunEnded, seconds=1.0)
    run = {"direction": direction, "operation": "op-1", "trigger": Trigger.AUTO}
    return of(NAMESPACE, at, "Flow", "", **run)


def columns_of(*notices, now=NOW, count=4):
    plots = Plots()
    for each in notices:
        plots.note(each)
    return plots.of(NAMESPACE).columns(now, count)


def test_the_share_of_expired_leases_is_kept_in_half_percents():
    assert columns_of(probe(expired=3), count=1)[0].share == pytest.approx(0.3, abs=0.0025)


def test_of_two_probes_in_one_bucket_the_worse_is_shown():
    assert columns_of(probe(expired=6), probe(expired=1), count=1)[0].share == 0.6


def test_a_probe_that_failed_is_marked_and_says_nothing_of_leases():
    (found,) = columns_of(probe(failed=True, leases=None, reason="Unreachable"), count=1)
    assert found == Column(None, Mark.PROBED | Mark.FAILED)


def test_in_endpoint_mode_a_way_that_leads_nowhere_is_marked():
    results = {RequestKind.INTERNAL: ProbeResult.SUCCESS, RequestKind.EXTERNAL: ProbeResult.FAILURE}
    (found,) = columns_of(probe(leases=None, probes=results, reason="Counting"), count=1)
    assert found.marks & Mark.FAILED


@pytest.mark.parametrize(
    ("reason", "mark"), [("Paused", Mark.PAUSED), ("Held", Mark.HELD), ("Gated", Mark.GATED)]
)
def test_what_kept_a_verdict_back_is_marked(reason, mark):
    assert columns_of(probe(reason=reason), count=1)[0].marks & mark


def test_a_scaling_run_is_marked_from_its_begin_to_its_end():
    found = columns_of(
        scaling(NOW - 3 * STEP, Direction.DOWN, "started"),
        scaling(NOW - STEP, Direction.DOWN, "ended"),
        probe(),
    )
    assert [bool(each.marks & Mark.DOWN) for each in found] == [True, True, True, False]


def test_silence_is_a_gap():
    found = columns_of(probe(NOW - 3 * STEP, expired=10), probe(NOW))
    assert [each.share for each in found] == [1.0, None, None, 0.0]


def test_what_is_older_than_the_ring_is_forgotten():
    length = BUCKETS * STEP
    assert columns_of(probe(NOW - length, expired=10), probe(NOW), count=BUCKETS)[0] == NOTHING
    assert columns_of(probe(NOW - 10 * length, expired=10), now=NOW) == [NOTHING] * 4
    assert Series().columns(NOW, 2) == [NOTHING, NOTHING]


def test_columns_of_several_buckets_keep_their_buckets_while_time_goes_on():
    series = Series()
    start = NOW - NOW % (4 * STEP)
    series.probed(start, 1.0, Mark(0))
    places = []
    for step in range(8):
        columns = series.columns(start + step * STEP, 3, 4)
        places.append([each.share for each in columns].index(1.0))
    assert places == [2, 2, 2, 2, 1, 1, 1, 1]


def test_a_shoot_takes_less_than_twelve_kilobytes():
    series = Series()
    for step in range(BUCKETS):
        series.probed(NOW + step * STEP, 0.5, Mark.FAILED)
    parts = [series, *(getattr(series, name) for name in Series.__slots__)]
    assert sum(map(sys.getsizeof, parts)) < 4_000


def test_a_shoot_that_is_gone_takes_its_series_with_it():
    plots = Plots()
    plots.note(probe(expired=10))
    plots.note(ShootForgotten(NAMESPACE, NOW, "ShootForgotten", ""))
    assert plots.of(NAMESPACE).columns(NOW, 1) == [NOTHING]


def test_a_healthy_hour_is_a_short_path():
    plot = drawn([Column(0.0, Mark.PROBED)] * 60, 0.6)
    assert plot.area == ""
    assert plot.known == [(0, 60)]
    assert plot.limit == 8.0
    assert plot.words == "expired leases at most 0%"


def test_a_plot_has_steps_bands_and_the_same_in_words():
    columns = [Column(0.0, Mark.PROBED), Column(0.5, Mark.DOWN), Column(None, Mark.FAILED)]
    plot = drawn(columns, 0.6)
    assert plot.area == "M0 20V20H1V10H2V20Z"
    assert plot.known == [(0, 2)]
    assert plot.down == [(1, 1)]
    assert plot.failed == [(2, 1)]
    assert plot.words == (
        "expired leases at most 50%, probes failed in 1 of 3 columns, scaled down once"
    )


def shares(*found):
    return [Column(each, Mark(0) if each is None else Mark.PROBED) for each in found]


def test_what_no_probe_covers_is_a_gap_and_not_a_share_of_zero():
    plot = drawn(shares(0.5, None, None, None, 0.5, 0.0), 0.6, carry=1)
    assert plot.area == "M0 20V10H2V20ZM4 20V10H5V20H6V20Z"
    assert plot.known == [(0, 2), (4, 2)]


def test_a_reading_stands_until_the_next_probe_is_due_so_that_a_plot_is_no_comb():
    plot = drawn(shares(0.5, None, 0.5, None, 0.5, None), 0.6, carry=1)
    assert plot.area == "M0 20V10H6V20Z"


def test_after_a_failed_probe_the_reading_before_it_stands_no_longer():
    failed = Column(None, Mark.PROBED | Mark.FAILED)
    assert drawn([*shares(0.5), failed, *shares(None)], 0.6, carry=3).known == [(0, 1)]


def test_before_the_first_probe_nothing_is_known():
    plot = drawn(shares(None, None), 0.6, carry=4)
    assert (plot.known, plot.area, plot.words) == ([], "", "nothing read")


def test_in_endpoint_mode_there_is_no_share_and_a_probe_is_what_is_known():
    plot = drawn([Column(None, Mark.PROBED), *shares(None, None)], 0.6, carry=1, leases=False)
    assert (plot.area, plot.known, plot.words) == (None, [(0, 2)], "probed")


def test_whether_the_beginning_of_a_state_was_seen_depends_on_the_probes_before_it():
    plots = Plots()
    plots.note(probe(NOW))
    series = plots.of(NAMESPACE)
    assert not series.probed_before(NOW)
    assert series.probed_before(NOW + 2 * STEP)
    assert not series.probed_before(NOW + 600)
    assert series.probed_before(NOW - BUCKETS * STEP)
