"""Which pauses and holds are in force, as a function of the objects and the time."""

from dataclasses import replace

import pytest

from app.core.model import overrides
from app.core.model.overrides import NOTHING, ObjectId, Pause, ScaleRequest, Scope
from app.core.model.scaling_runs import OperationPhase, ScaleSpec
from app.core.model.workloads import Direction

UP, DOWN = Direction.UP, Direction.DOWN
PENDING, RUNNING, DONE, FAILED, CANCELLED, REFUSED = OperationPhase


def pause(name="p", scope=Scope.ALL, until=100.0, where="shoot--a"):
    return Pause(scope, f"reason of {name}", "alice", 0.0, until, ObjectId(where, name))


def request(phase=PENDING, direction=DOWN, *, hold=30.0, name="r", **more):
    asked = ScaleSpec(direction, "a reason", "alice", hold)
    return ScaleRequest(ObjectId("shoot--a", name, f"uid of {name}"), asked, 10.0, phase, **more)


def names(*pauses, now=50.0):
    return [each.id.name for each in overrides.ordered(pauses, now)]


def test_without_objects_nothing_is_in_force():
    assert overrides.effective((), (), (), 0.0) is NOTHING


def test_a_pause_is_in_force_until_its_end():
    assert names(pause(until=100.0), now=99.9) == ["p"]
    assert names(pause(until=100.0), now=100.0) == []


def test_what_was_deleted_and_waits_for_a_finalizer_is_over():
    assert names(pause(until=100.0), replace(pause("gone"), deleting=True)) == ["p"]
    for phase in (PENDING, RUNNING, DONE):
        gone = replace(request(phase, ended=40.0), deleting=True)
        assert not gone.open
        assert overrides.hold_of(gone, 50.0) is None


def test_the_stricter_pause_acts_then_the_one_that_ends_last():
    narrow = pause("narrow", Scope.SCALE_DOWN, until=300.0)
    assert names(narrow, pause("short", until=60.0), pause("long", until=200.0)) == [
        "long",
        "short",
        "narrow",
    ]


def test_pauses_of_a_shoot_and_of_all_shoots_count_together():
    own, everywhere = pause("own", Scope.SCALE_DOWN), pause("all", where="garden")
    found = overrides.effective([own], [everywhere], (), 50.0)
    assert (found.pause, found.global_pause, found.covering) == (own, everywhere, everywhere)
    assert len(found.pauses) == 2


@pytest.mark.parametrize(
    ("scope", "up", "down"), [(Scope.ALL, True, True), (Scope.SCALE_DOWN, False, True)]
)
def test_a_scope_names_the_directions_that_a_pause_forbids(scope, up, down):
    found = overrides.effective([pause(scope=scope)], (), (), 50.0)
    assert (found.pause_against(UP) is not None) is up
    assert (found.pause_against(DOWN) is not None) is down


@pytest.mark.parametrize("phase", [PENDING, RUNNING])
def test_an_open_request_holds_however_long_it_takes(phase):
    hold = overrides.hold_of(request(phase, hold=0.0), 9_999.0)
    assert hold is not None
    assert not hold.done


@pytest.mark.parametrize(
    ("phase", "direction", "holds"),
    [
        (DONE, UP, True),
        (DONE, DOWN, True),
        (FAILED, DOWN, True),
        (CANCELLED, DOWN, True),
        (CANCELLED, UP, True),
        (FAILED, UP, False),
        (REFUSED, UP, False),
        (REFUSED, DOWN, False),
    ],
)
def test_after_its_end_a_request_holds_for_spec_hold_unless_nothing_came_of_it(
    phase, direction, holds
):
    ended = request(phase, direction, ended=20.0, hold=30.0)
    assert (overrides.hold_of(ended, 49.9) is not None) is holds
    assert overrides.hold_of(ended, 50.0) is None


def test_the_end_that_the_status_names_counts():
    assert overrides.hold_of(request(DONE, ended=20.0, hold_until=80.0), 79.0) is not None


def test_a_request_that_cannot_be_decoded_holds_nothing():
    assert overrides.hold_of(replace(request(), problem="?"), 11.0) is None


def test_of_several_holds_the_one_under_way_acts_then_the_one_that_ends_last():
    first, last = (request(DONE, name=n, ended=20.0, hold=h) for n, h in (("a", 60), ("b", 90)))
    acting = overrides.acting_hold([first, last], 50.0)
    assert acting is not None
    assert acting.operation == "uid of b"
    acting = overrides.acting_hold([first, last, request(name="c")], 50.0)
    assert acting is not None
    assert acting.operation == "uid of c"
