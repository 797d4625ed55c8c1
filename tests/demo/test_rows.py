"""The rows of the table: what is in them, and which come first."""

import pytest

from app.core.model.probing import ShootState
from app.simulation.demo.program_api import DemoLeases, ShootReport
from app.simulation.demo.wording import Row, TrueReplicas, counted, leases, row, shown, worst_first

RUNNING = (TrueReplicas(1, 1), TrueReplicas(1, 1), None)


def of(state, shoot="a", *scenes):
    return Row(shoot, state, "Because", None, RUNNING, scenes)


def test_a_row_has_what_is_said_of_the_shoot_what_is_true_and_what_happens_to_it():
    said = ShootReport(ShootState.PROTECTED, "LeasesExpired", "…", DemoLeases(3, 7, 0))
    found = row("b", said, RUNNING, {"a": ["api-down"], "b": ["path-cut", "storage-away"]})
    assert found == Row(
        "b",
        ShootState.PROTECTED,
        "LeasesExpired",
        DemoLeases(3, 7, 0),
        RUNNING,
        ("path-cut", "storage-away"),
    )
    assert found.word == "Protected"


def test_leases_that_the_last_probe_could_not_read_are_not_shown_as_if_they_were_of_now():
    said = ShootReport(
        ShootState.UNREACHABLE, "Unreachable", "…", DemoLeases(10, 0, 0), None, old=True
    )
    assert row("b", said, RUNNING, {}).leases is None


def test_pods_that_wait_stand_behind_what_happens():
    assert row("b", None, RUNNING, {"b": ["etcd-outage"]}, 5).happens == "etcd-outage, 5 waiting"
    assert row("b", None, RUNNING, {}, 1).happens == "1 waiting"
    assert row("b", None, RUNNING, {"b": ["path-cut"]}).happens == "path-cut"


def test_of_equals_those_whose_pods_wait_come_first_too():
    waiting = row("z", None, RUNNING, {}, 3)
    assert worst_first([of(None), waiting])[0] == waiting


def test_a_shoot_of_which_nothing_was_said_is_starting():
    assert row("b", None, RUNNING, {}).word == "Starting"


def test_the_worst_come_first_those_of_which_nothing_is_known_last():
    states = [None, ShootState.NOT_PROBED, *reversed(ShootState)]
    found = worst_first([of(state) for state in states])
    assert [each.state for each in found] == [*ShootState, ShootState.NOT_PROBED, None]


def test_of_equals_those_come_first_to_which_something_happens_and_the_others_keep_their_order():
    rows = [of(ShootState.HEALTHY, name) for name in "abc"]
    rows.append(of(ShootState.HEALTHY, "d", "token-rotated"))
    assert [each.shoot for each in worst_first(rows)] == ["d", "a", "b", "c"]


def test_states_are_counted_worst_first():
    rows = [of(ShootState.HEALTHY)] * 3 + [of(ShootState.PROTECTED), of(None)]
    assert counted(rows) == "1 Protected, 3 Healthy, 1 Starting"


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (None, "-"),
        (DemoLeases(10, 0, 0), "10 fresh"),
        (DemoLeases(0, 0, 0), "none"),
        (DemoLeases(3, 7, 0), "3 fresh, 7 expired of 10"),
        (DemoLeases(0, 10, 0), "10 expired"),
        (DemoLeases(1, 2, 3), "1 fresh, 2 expired, 3 unknown of 6"),
    ],
)
def test_leases_are_told_by_what_there_is_of_them(seen, said):
    assert leases(seen) == said


@pytest.mark.parametrize(
    ("rows", "room", "kept"), [(3, 3, 3), (4, 3, 2), (100, 1, 0), (2, 0, 0), (0, 5, 0)]
)
def test_the_rows_fit_and_a_line_is_kept_to_say_how_many_do_not(rows, room, kept):
    fitting, rest = shown([of(ShootState.HEALTHY)] * rows, room)
    assert (len(fitting), len(rest)) == (kept, rows - kept)


def test_replicas_are_those_that_are_ready_of_those_that_are_wanted():
    assert str(TrueReplicas(wanted=1, ready=0)) == "0/1"
