"""What happens, as lines."""

from dataclasses import replace

import pytest

from app.core.model.probing import ShootState, Verdict
from app.simulation.demo import wording
from app.simulation.demo.losses import Comparison, GateOutcome, Toll
from app.simulation.demo.pod_story import AllBack, Back, Deleted, Restart, Saving, ServiceBack
from app.simulation.demo.program_api import ShootReport
from tests.demo.scenes import performance

LOST = Comparison(Toll(1, 2), Toll(30, 40))


def said(state, reason="Because", message="Some words."):
    return ShootReport(state, reason, message)


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


def test_one_shoot_is_no_plural():
    assert (wording.shoots(1), wording.shoots(2)) == ("1 shoot", "2 shoots")


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


def test_a_change_of_state_is_told_with_its_message():
    before, after = {"a": said(ShootState.HEALTHY)}, {"a": said(ShootState.PROTECTED, "Expired")}
    assert changes(before, after) == ["a: Healthy → Protected (Expired): Some words."]


def test_another_reason_or_message_is_no_change():
    before = {"a": said(ShootState.FAILING, "One", "1 of 10")}
    assert changes(before, {"a": said(ShootState.FAILING, "Two", "2 of 10")}) == []


def test_the_start_is_no_news_unless_it_is_bad():
    seen = {"a": said(ShootState.PENDING), "b": said(ShootState.HEALTHY)}
    assert changes({}, seen) == []
    assert changes(seen, {"a": said(ShootState.HEALTHY), "b": said(ShootState.PENDING)}) == []
    assert changes({}, {"a": said(ShootState.UNREACHABLE)}) == [
        "a: Unreachable (Because): Some words."
    ]


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


def gated(state=ShootState.SUSPECT):
    return ShootReport(state, "Gated", "not scaled.", None, Verdict.SCALE_DOWN)


def test_a_gate_that_holds_back_is_told_though_the_state_stays():
    counting = said(ShootState.SUSPECT, "Counting")
    assert changes({"a": counting}, {"a": gated()}) == ["a: Suspect (Gated): not scaled."]
    assert changes({"a": gated()}, {"a": gated()}) == []
    assert changes({"a": gated()}, {"a": counting}) == [], "it is told when the state changes"


def test_a_shoot_that_is_gated_as_it_becomes_suspect_is_told_with_both_states():
    healthy = said(ShootState.HEALTHY)
    assert changes({"a": healthy}, {"a": gated()}) == ["a: Healthy → Suspect (Gated): not scaled."]


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
