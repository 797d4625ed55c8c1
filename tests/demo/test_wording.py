"""What a screen shows: the table of shoots, and what happens, as lines."""

from dataclasses import replace

import pytest

from app.core.model.probing import ShootState, Verdict
from app.simulation.demo import wording
from app.simulation.demo.losses import Comparison, GateOutcome, Toll
from app.simulation.demo.pod_story import AllBack, Back, Deleted, Restart, Saving, ServiceBack
from app.simulation.demo.program_api import DemoLeases
from app.simulation.demo.wording import Row, TrueReplicas, counted, row, shown, worst_first
from tests.demo.scenes import leases, performance, said

LOST = Comparison(Toll(1, 2), Toll(30, 40))


def changes(before, after, whole=30):
    def named(states):
        return {f"shoot--demo--{name}": each for name, each in states.items()}

    return wording.changes(named(before), named(after), whole)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "+0:00"), (59.99, "+0:59"), (61, "+1:01"), (3600, "+60:00"), (-1, "+0:00")],
)
def test_the_time_is_that_since_the_start(seconds, shown):
    assert wording.stamp(seconds) == shown


@pytest.mark.parametrize(
    ("shoots", "whole", "shown"),
    [
        ("a", 30, "a"),
        ("abc", 30, "a, b, c"),
        ("abc", 3, "a, b, c"),
        ("abcde", 30, "a, b, c and 2 more"),
        ("abcde", 5, "all 5 shoots"),
    ],
)
def test_many_shoots_are_not_all_named(shoots, whole, shown):
    assert wording.names(list(shoots), whole) == shown


def test_a_scene_begins_with_its_shoots_its_words_and_how_long_it_lasts():
    assert wording.scene_begins(performance(3), 30) == (
        "scene 3 begins: a: The path-cut is on. (for 45s)"
    )
    assert wording.scene_begins(performance(3, times=4, every=60.0), 30).endswith(
        "(4 times for 45s)"
    )
    assert wording.scene_begins(performance(3, shoots=(), lasting=0.0), 30) == (
        "scene 3 begins: the seed: The path-cut is on."
    )


def test_a_scene_ends_with_what_was_lost_in_it():
    assert wording.scene_ends(performance(3), 30, LOST) == (
        "scene 3 is over: a; nodes marked NotReady: 1, without the watchdog 30; "
        "machines deleted: 2, without 40"
    )


BELOW = Comparison(below=(Toll(59, 0), Toll(60, 0)))


def test_what_was_lost_below_the_limit_is_told_apart():
    assert wording.lost_words(BELOW) == (
        "nodes marked NotReady: 0, without the watchdog 0; machines deleted: 0, without 0; "
        "below the limit: nodes 59, without the watchdog 60"
    )
    machines = Comparison(below=(Toll(2, 1), Toll(2, 3)))
    assert wording.lost_words(machines).endswith(
        "; below the limit: nodes 2, without the watchdog 2; machines 1, without 3"
    )


def test_the_summary_has_what_was_lost_below_the_limit_in_lines_of_its_own():
    seen = [performance(1), performance(2), performance(3, shoots=["a" * 40])]
    both = Comparison(Toll(1, 2), Toll(3, 4), BELOW.below)
    lost = {1: LOST, 2: both, 3: BELOW}
    lines = wording.summary(seen, lost, Comparison(Toll(2, 4), Toll(33, 44), BELOW.below), whole=30)
    assert [line[:46].rstrip() for line in lines[2:]] == [
        " 1 path-cut: a",
        " 2 path-cut: a",
        " 2 path-cut: a, below the limit",
        f" 3 path-cut: {'a' * 15}, below the limit",
        "all together",
        "below the limit, where nothing is scaled",
    ]
    assert [line.split()[-4:] for line in lines[4:]] == [
        ["59", "60", "0", "0"],
        ["59", "60", "0", "0"],
        ["2", "33", "4", "44"],
        ["59", "60", "0", "0"],
    ]


HEALTHY, COUNTING = said(ShootState.HEALTHY), said(ShootState.SUSPECT, "Counting")
GATED = said(ShootState.SUSPECT, "Gated", "not scaled.", would_be=Verdict.SCALE_DOWN)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (HEALTHY, said(ShootState.PROTECTED), "a: Healthy → Protected (Because): Some words."),
        # Another reason or message is no change, and the start is no news unless it is bad.
        (COUNTING, said(ShootState.SUSPECT, "Two", "2 of 10"), None),
        (None, said(ShootState.PENDING), None),
        (None, HEALTHY, None),
        (said(ShootState.PENDING), HEALTHY, None),
        (HEALTHY, said(ShootState.PENDING), None),
        (None, said(ShootState.UNREACHABLE), "a: Unreachable (Because): Some words."),
        # A gate that holds back is told though the state stays, and its end when the state changes.
        (COUNTING, GATED, "a: Suspect (Gated): not scaled."),
        (HEALTHY, GATED, "a: Healthy → Suspect (Gated): not scaled."),
        (GATED, GATED, None),
        (GATED, COUNTING, None),
    ],
)
def test_a_change_is_told_where_it_is_news(before, after, line):
    earlier = {} if before is None else {"a": before}
    assert changes(earlier, {"a": after}) == ([] if line is None else [line])


def test_what_happens_to_many_shoots_alike_is_one_line():
    names = ["s9", "s10", "b", "a", "c"]
    before = dict.fromkeys(names, said(ShootState.HEALTHY)) | {"x": said(ShootState.SUSPECT)}
    after = {name: said(ShootState.PROTECTED, "E", f"of {name}") for name in names}
    after |= {"x": said(ShootState.PROTECTED, "E", "of x")}
    assert changes(before, after) == [
        "a, b, c and 2 more: Healthy → Protected (E): of a",
        "x: Suspect → Protected (E): of x",
    ]


def test_a_message_cannot_make_a_line_of_its_own():
    found = changes({}, {"a": said(ShootState.FAILING, "R", "one\n\x1b[31mtwo" + "x" * 999)})
    assert len(found[0]) <= 300
    assert found[0].startswith("a: Failing (R): one [31mtwo")


def test_the_summary_has_a_line_for_each_scene_and_one_for_all():
    seen = [performance(1), performance(12, shoots=list("bcdef"), action="api-down")]
    lines = wording.summary(seen, {1: Comparison(), 12: LOST}, LOST, whole=30)
    assert [line.split() for line in lines[2:]] == [
        ["1", "path-cut:", "a", "0", "0", "0", "0"],
        ["12", "api-down:", "b,", "c,", "d", "and", "2", "more", "1", "30", "2", "40"],
        ["all", "together", "1", "30", "2", "40"],
    ]
    assert len({len(line) for line in lines[1:]}) == 1, "in columns"


# Pods.


RESTART = Restart(
    shoot="c",
    pod="kube-scheduler-6d9-x2",
    workload="kube-scheduler",
    at=101.0,
    since=100.0,
    due=261.0,
    back=109.2,
    ready=1,
)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "0 s"),
        (59.6, "1 min 0 s"),
        (161, "2 min 41 s"),
        (3600, "1 h 0 min"),
        (7384, "2 h 3 min"),
        (-6.0, "-6 s"),
        (-75.0, "-1 min 15 s"),
    ],
)
def test_durations_are_spoken(seconds, said):
    assert wording.spoken(seconds) == said


@pytest.mark.parametrize(
    ("happening", "said"),
    [
        (ServiceBack("c", "kube-apiserver", 0), "c: kube-apiserver is ready again"),
        (
            ServiceBack("c", "kube-apiserver", 1),
            "c: kube-apiserver is ready again; 1 pod in CrashLoopBackOff",
        ),
        (
            Deleted(RESTART),
            "c: kube-scheduler-6d9-x2 is deleted, 2 min 40 s before its start",
        ),
        (Deleted(replace(RESTART, due=None)), "c: kube-scheduler-6d9-x2 is deleted"),
        (Back(RESTART, 9.2, 1), "c: kube-scheduler is back after 9 s instead of 2 min 41 s"),
        (Back(replace(RESTART, due=None), 9.2, 1), "c: kube-scheduler is back after 9 s"),
        (
            Back(replace(RESTART, ready=2), 9.2, 3),
            "c: kube-scheduler (2 of 3) is back after 9 s instead of 2 min 41 s",
        ),
        (
            AllBack("c", 10, "etcd-main-client", 14.6),
            "c: all 10 pods are ready, 15 s after etcd-main-client",
        ),
    ],
)
def test_what_happens_to_pods_is_a_line(happening, said):
    assert wording.pods_changed(happening) == said


def test_what_happens_without_the_watchdog_says_so_first():
    assert wording.without_us(AllBack("c", 10, "etcd-main-client", 193.0)) == (
        "without the watchdog, c: all 10 pods are ready, 3 min 13 s after etcd-main-client there"
    )


def test_the_table_of_pods_has_a_line_for_each_scene_that_had_any_and_one_for_all():
    seen = [performance(1), performance(2, action="etcd-outage"), performance(3)]
    some = Saving(8, 657.0, 89.0)
    lines = wording.summary_of_pods(seen, {1: Saving(), 2: some, 3: Saving()}, some, whole=30)
    figures = ["8", "10", "min", "57", "s", "1", "min", "29", "s"]
    assert [line.split() for line in lines[1:]] == [
        ["2", "etcd-outage:", "a", *figures],
        ["all", "together", *figures],
    ]
    assert len({len(line) for line in lines}) == 1, "in columns"


def test_what_a_gate_has_held_back_is_a_table_scene_by_scene():
    scenes = [performance(1, (), action="seed-network-cut"), performance(2, ("a",))]
    fates = {
        1: {GateOutcome.SCALED: 0, GateOutcome.HELD_BACK: 30},
        2: {GateOutcome.SCALED: 1, GateOutcome.HELD_BACK: 0},
    }
    head, first, second, last = wording.summary_of_gate(scenes, fates, 30)
    assert head.split("  ")[-1].strip() == "held back by the gate"
    assert first.split() == ["1", "seed-network-cut:", "the", "seed", "0", "shoots", "30", "shoots"]
    assert second.split() == ["2", "path-cut:", "a", "1", "shoot", "0", "shoots"]
    assert last.split() == ["all", "together", "1", "shoot", "30", "shoots"]
    assert len({len(each) for each in (head, first, second, last)}) == 1


# The table of shoots.


RUNNING = (TrueReplicas(1, 1), TrueReplicas(1, 1), None)


def of(state, shoot="a", *scenes):
    return Row(shoot, state, "Because", None, RUNNING, scenes)


def test_a_row_has_what_is_said_of_the_shoot_what_is_true_and_what_happens_to_it():
    scenes = {"a": ["api-down"], "b": ["path-cut", "storage-away"]}
    found = row("b", said(ShootState.PROTECTED, read=leases(3, 7)), RUNNING, scenes, 5)
    happens = ("path-cut", "storage-away")
    expected = Row("b", ShootState.PROTECTED, "Because", leases(3, 7), RUNNING, happens, 5)
    assert found == expected
    assert (found.word, found.happens) == ("Protected", "path-cut, storage-away, 5 waiting")
    assert row("b", None, RUNNING, {}).word == "Starting"


def test_leases_that_the_last_probe_could_not_read_are_not_shown_as_if_they_were_of_now():
    old = said(ShootState.UNREACHABLE, read=DemoLeases(10, 0, 0, as_of="before"))
    assert row("b", old, RUNNING, {}).leases is None


def test_the_worst_come_first_those_of_which_nothing_is_known_last():
    states = [None, ShootState.NOT_PROBED, *reversed(ShootState)]
    found = worst_first([of(state) for state in states])
    assert [each.state for each in found] == [*ShootState, ShootState.NOT_PROBED, None]


def test_of_equals_those_come_first_to_which_something_happens_and_the_others_keep_their_order():
    rows = [of(ShootState.HEALTHY, name) for name in "abc"]
    rows += [of(ShootState.HEALTHY, "d", "token-rotated"), replace(rows[0], shoot="e", waiting=3)]
    assert [each.shoot for each in worst_first(rows)] == ["d", "e", "a", "b", "c"]


def test_states_are_counted_worst_first():
    rows = [of(ShootState.HEALTHY)] * 3 + [of(ShootState.PROTECTED), of(None)]
    assert counted(rows) == "1 Protected, 3 Healthy, 1 Starting"


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (None, "-"),
        (leases(10, 0, 0), "10 fresh"),
        (leases(0, 0, 0), "none"),
        (leases(3, 7, 0), "3 fresh, 7 expired of 10"),
        (leases(0, 10, 0), "10 expired"),
        (leases(1, 2, 3), "1 fresh, 2 expired, 3 unknown of 6"),
    ],
)
def test_leases_are_told_by_what_there_is_of_them(seen, shown):
    assert wording.leases(seen) == shown


@pytest.mark.parametrize(
    ("rows", "room", "kept"), [(3, 3, 3), (4, 3, 2), (100, 1, 0), (2, 0, 0), (0, 5, 0)]
)
def test_the_rows_fit_and_a_line_is_kept_to_say_how_many_do_not(rows, room, kept):
    fitting, rest = shown([of(ShootState.HEALTHY)] * rows, room)
    assert (len(fitting), len(rest)) == (kept, rows - kept)
