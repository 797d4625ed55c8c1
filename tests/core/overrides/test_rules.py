"""What is in force, and what a key means that cannot be read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS, NOTHING, Pause, Scope
from app.core.model.workloads import Direction
from app.core.overrides import rules
from app.core.overrides.rules import MOST_KEYS, UNREADABLE_PAUSE, Knowledge, observed

NOW = 1_800_000_000.0
NS = "shoot--acme--prod"
OTHER = "shoot--acme--test"
JUNK = '{"pause": {"scope": "x"}}'
WHY = f'{NS}: pause.scope: must be all or scaleDown, not "x"'


def span(start, end):
    return {"reason": "r", "author": "a", "createdAt": rfc3339(start), "until": rfc3339(end)}


def pause(start=NOW, end=NOW + 60, scope="all"):
    return {"pause": {"scope": scope, **span(start, end)}}


def hold(start=NOW, end=NOW + 60, *, done=True, operation="op"):
    fields = {"direction": "up", "operation": operation, "force": False, "done": done}
    return {"hold": {**span(start, end), **fields}}


def known(*versions, key=NS):
    """Knowledge after a key had these (instant, value), one after the other."""
    found: Knowledge = {}
    for at, value in versions:
        text = value if isinstance(value, str) else json.dumps(value)
        found = observed(found, {key: text}, at)
    return found


def effective(knowledge, now=NOW, namespace=NS):
    return rules.effective(namespace, knowledge, now)


def test_nothing_known_is_nothing_in_force():
    assert effective({}) == NOTHING


def test_a_pause_is_in_force_until_its_end_and_not_at_it():
    found = known((NOW, pause()))
    assert effective(found, NOW + 59.999).pause is not None
    assert effective(found, NOW + 60).pause is None


def test_a_pause_of_another_shoot_is_none_of_ours():
    assert effective(known((NOW, pause()), key=OTHER)) == NOTHING


def test_the_pause_of_all_shoots_stands_beside_the_shoots_own():
    found = {**known((NOW, pause(scope="scaleDown"))), **known((NOW, pause()), key=ALL_SHOOTS)}
    at = effective(found)
    assert at.pause.scope is Scope.SCALE_DOWN
    assert at.global_pause.scope is Scope.ALL
    assert at.covering is at.global_pause
    assert effective(found, namespace=OTHER).global_pause == at.global_pause
    assert effective(found, namespace=OTHER).pause is None


def test_a_pause_of_scaling_down_lets_scaling_up_pass():
    at = effective(known((NOW, pause(scope="scaleDown"))))
    assert at.pause_against(Direction.DOWN) is not None
    assert at.pause_against(Direction.UP) is None


def test_of_two_alike_the_shoots_own_covers():
    found = {**known((NOW, pause())), **known((NOW, pause()), key=ALL_SHOOTS)}
    assert effective(found).covering is effective(found).pause


def test_a_hold_whose_run_has_ended_acts_until_its_end():
    found = known((NOW, hold()))
    assert effective(found, NOW + 59).hold is not None
    assert effective(found, NOW + 60).hold is None


def test_a_hold_whose_run_runs_acts_past_its_end_and_ends_by_nothing_of_its_own():
    found = known((NOW, hold(done=False)))
    assert effective(found, NOW + 86_400).hold is not None
    assert effective(found).changes_at is None


def test_a_hold_does_not_pause_and_a_pause_does_not_hold():
    assert effective(known((NOW, hold()))).covering is None
    assert effective(known((NOW, pause()))).hold is None


def test_holds_that_have_ended_are_still_listed_as_their_runs_may_have_to_be_ended():
    found = {**known((NOW, hold(done=False))), **known((NOW - 120, hold(NOW - 120)), key=OTHER)}
    assert set(rules.holds(found)) == {NS, OTHER}


def test_the_next_change_is_the_first_end_of_what_is_in_force():
    both = {**pause(end=NOW + 30), **hold(end=NOW + 20)}
    found = {**known((NOW, both)), **known((NOW, pause(end=NOW + 25)), key=ALL_SHOOTS)}
    assert effective(found).changes_at == NOW + 20
    assert effective(found, NOW + 20).changes_at == NOW + 25
    assert effective(found, NOW + 25).changes_at == NOW + 30
    assert effective(found, NOW + 30).changes_at is None


# A key that cannot be read.


def test_an_unreadable_key_pauses_its_shoot_in_both_directions_for_an_hour():
    found = known((NOW, JUNK))
    at = effective(found)
    assert at.pause == Pause(
        Scope.ALL,
        f"the key {NS} of the overrides cannot be read: "
        'pause.scope: must be all or scaleDown, not "x"',
        "unknown",
        NOW,
        NOW + UNREADABLE_PAUSE,
        stand_in=True,
    )
    assert at.unreadable == WHY
    assert at.changes_at == NOW + 3_600


def test_after_that_hour_an_unreadable_key_is_ignored_and_still_named():
    at = effective(known((NOW, JUNK)), NOW + 3_600)
    assert at.pause is None
    assert at.unreadable == WHY
    assert at.changes_at is None


def test_an_unreadable_key_of_all_shoots_pauses_every_shoot():
    at = effective(known((NOW, JUNK), key=ALL_SHOOTS))
    assert at.global_pause.scope is Scope.ALL
    assert at.pause is None
    assert at.unreadable.startswith("_all: ")


def test_an_unreadable_key_pauses_until_the_end_of_the_pause_that_it_had():
    short = known((NOW, pause(end=NOW + 60)), (NOW + 10, JUNK))
    assert effective(short, NOW + 59).pause is not None
    assert effective(short, NOW + 60).pause is None
    long = known((NOW, pause(end=NOW + 7_200)), (NOW + 10, JUNK))
    assert effective(long, NOW + 7_199).pause is not None
    assert effective(long, NOW + 7_200).pause is None


def test_a_pause_of_scaling_down_becomes_one_of_all_when_its_key_cannot_be_read_any_more():
    at = effective(known((NOW, pause(scope="scaleDown")), (NOW + 10, JUNK)), NOW + 10)
    assert at.pause.scope is Scope.ALL


def test_a_last_known_pause_that_has_passed_counts_as_none():
    found = known((NOW, pause(end=NOW + 60)), (NOW + 60, JUNK))
    assert effective(found, NOW + 60).changes_at == NOW + 60 + 3_600


def test_a_last_known_hold_goes_on():
    found = known((NOW, hold(done=False)), (NOW + 10, JUNK))
    assert effective(found, NOW + 86_400).hold.operation == "op"
    ended = known((NOW, hold()), (NOW + 10, JUNK))
    assert effective(ended, NOW + 59).hold is not None
    assert effective(ended, NOW + 60).hold is None


def test_the_same_junk_seen_again_does_not_begin_another_hour():
    found = known((NOW, JUNK), (NOW + 1_800, JUNK))
    assert effective(found, NOW + 3_600).pause is None


def test_other_junk_begins_an_hour_of_its_own_as_it_may_be_a_new_wish():
    found = known((NOW, JUNK), (NOW + 5_000, "{"))
    assert effective(found, NOW + 5_000).changes_at == NOW + 5_000 + 3_600


def test_what_was_known_before_two_kinds_of_junk_is_still_known():
    found = known((NOW, hold(done=False)), (NOW + 1, JUNK), (NOW + 2, "{"))
    assert effective(found, NOW + 2).hold is not None


def test_a_mended_key_means_what_it_says():
    at = effective(known((NOW, JUNK), (NOW + 1, pause(scope="scaleDown"))), NOW + 1)
    assert at.pause.scope is Scope.SCALE_DOWN
    assert at.unreadable is None


def test_a_key_that_was_removed_forgets_what_it_had():
    found = observed(known((NOW, hold(done=False)), (NOW, JUNK)), {}, NOW)
    assert effective(found) == NOTHING


def test_a_junk_neighbour_changes_nothing_for_others():
    data = {NS: json.dumps(pause()), OTHER: JUNK}
    found = observed({}, data, NOW)
    assert effective(found).unreadable is None
    assert effective(found).pause.author == "a"


# What always holds.

at_any = st.integers(-90_000, 90_000).map(lambda s: NOW + s)
values = st.one_of(
    st.just(JUNK),
    st.just("{}"),
    st.builds(
        lambda s, n, w: pause(s, s + n, w), at_any, st.integers(0, 86_400), st.sampled_from(Scope)
    ),
    st.builds(
        lambda s, n, d: hold(s, s + n, done=d), at_any, st.integers(0, 86_400), st.booleans()
    ),
    st.builds(
        lambda s, n, m, d: {**pause(s, s + n), **hold(s, s + m, done=d)},
        at_any,
        st.integers(0, 86_400),
        st.integers(0, 86_400),
        st.booleans(),
    ),
)
histories = st.lists(st.tuples(st.integers(0, 9_000), values), max_size=4).map(
    lambda steps: [(NOW + sum(s for s, _ in steps[: i + 1]), v) for i, (_, v) in enumerate(steps)]
)


def without_end(at):
    return (at.pause, at.global_pause, at.hold, at.unreadable)


@given(histories, histories, st.floats(0, 200_000))
def test_nothing_changes_before_it_is_said_to_and_something_does_then(own, everywhere, later):
    found = {**known(*own), **known(*everywhere, key=ALL_SHOOTS)}
    now = max([NOW, *(at for at, _ in own), *(at for at, _ in everywhere)])
    at = effective(found, now)
    if at.changes_at is None:
        assert without_end(effective(found, now + later)) == without_end(at)
        return
    assert at.changes_at > now
    before = now + (at.changes_at - now) * min(later / 200_001, 0.999)
    assert without_end(effective(found, before)) == without_end(at)
    assert without_end(effective(found, at.changes_at)) != without_end(at)


@given(histories)
def test_a_shoot_is_never_paused_by_one_key_for_longer_than_a_day_and_the_clocks_tolerance(own):
    found = known(*own)
    last = max([NOW, *(at for at, _ in own)])
    assert effective(found, last + 86_400 + 300).pause is None


@given(histories, histories)
def test_the_next_end_of_all_is_the_first_of_each(own, everywhere):
    found = {**known(*own), **known(*everywhere, key=ALL_SHOOTS)}
    now = max([NOW, *(at for at, _ in own), *(at for at, _ in everywhere)])
    ends = [effective(found, now, key).changes_at for key in (NS, OTHER)]
    assert rules.next_end(found, now) == min((e for e in ends if e is not None), default=None)


@pytest.mark.parametrize("instants", [(NOW, NOW + 1), (NOW + 1, NOW)])
def test_who_sees_a_text_later_does_not_change_a_complete_one(instants):
    first, second = (known((at, pause())) for at in instants)
    assert effective(first, NOW + 2) == effective(second, NOW + 2)


def keys(number, begin=0):
    return {f"shoot--{n:05}": "{}" for n in range(begin, begin + number)}


def test_as_many_keys_as_may_be_are_read_in_their_order_that_of_all_shoots_first():
    data = keys(MOST_KEYS - 1) | {ALL_SHOOTS: "{}"}
    assert rules.chosen(data, {}, {}) == [ALL_SHOOTS, *keys(MOST_KEYS - 1)]


def test_of_too_many_keys_none_is_crowded_out_that_is_relied_on():
    known = observed({}, keys(MOST_KEYS, 30_000), NOW)
    before = keys(20_000) | keys(MOST_KEYS, 30_000) | {ALL_SHOOTS: "{}"}
    found = rules.chosen(before | {"shoot--written": "{}"}, before, known)
    assert found[:2] == [ALL_SHOOTS, "shoot--written"]
    assert set(found) - {ALL_SHOOTS, "shoot--written"} < known.keys()
    assert len(found) == MOST_KEYS


def test_a_key_that_was_never_read_pauses_its_shoot_for_an_hour_and_is_ignored_then():
    unread = {NS: NOW}
    found = rules.effective(NS, {}, NOW + 10, unread)
    pausing = found.pause_against(Direction.UP)
    assert pausing is not None
    assert pausing.until == NOW + UNREADABLE_PAUSE
    assert "has not been read" in str(found.unreadable)
    assert rules.effective(NS, {}, NOW + UNREADABLE_PAUSE, unread).pause is None
    assert rules.effective(OTHER, {}, NOW + 10, unread) == NOTHING
    assert rules.next_end({}, NOW, unread) == NOW + UNREADABLE_PAUSE
    assert rules.next_end({}, NOW + UNREADABLE_PAUSE, unread) is None


def test_long_texts_are_read_a_few_at_a_time():
    data = {f"k{n}": "x" * 16_000 for n in range(60)}
    assert rules.some_of(list(data), data) == 5
    assert rules.some_of(list(keys(60)), keys(60)) == 50
    assert rules.some_of(["k1"], data) == 1
    assert rules.some_of([], data) == 0
