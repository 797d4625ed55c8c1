"""What the leader makes of the ConfigMap."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS
from app.core.overrides.reconciler import KEPT, tidied
from app.core.overrides.rules import effective, observed

NOW = 1_800_000_000.0
NS = "shoot--acme--prod"


def entry(end, start=None, **fields):
    start = end - 60 if start is None else start
    span = {"createdAt": rfc3339(start), "until": rfc3339(end)}
    return {"reason": "r", "author": "a", **span, **fields}


def pause(end):
    return {"pause": entry(end, scope="all")}


def hold(end, *, done):
    flow = {"operation": "op", "direction": "up", "force": False}
    return {"hold": entry(end, done=done, **flow)}


def tidy(value, *, now=NOW, seen=NOW, gone=(), key=NS):
    data = {key: value if isinstance(value, str) else json.dumps(value)}
    found = tidied(data, observed({}, data, seen), now, gone)
    return found.get(key)


def test_what_is_complete_and_in_force_stays_to_the_byte():
    text = f'{{ "pause" : {json.dumps(entry(NOW + 60, scope="all"))} }}'
    assert tidy(text) == text


def test_what_was_left_out_is_filled_in():
    assert json.loads(tidy({"pause": {"reason": "x"}}))["pause"] == {
        "scope": "all",
        "reason": "x",
        "author": "unknown",
        "createdAt": rfc3339(NOW),
        "until": rfc3339(NOW + 86_400),
    }


def test_a_pause_stays_for_an_hour_after_its_end_and_then_goes_with_its_key():
    assert tidy(pause(NOW - KEPT + 1)) is not None
    assert tidy(pause(NOW - KEPT)) is None


def test_a_hold_goes_an_hour_after_its_end_unless_its_run_runs():
    assert tidy(hold(NOW - KEPT + 1, done=True)) is not None
    assert tidy(hold(NOW - KEPT, done=True)) is None
    assert tidy(hold(NOW - KEPT, done=False)) is not None


def test_one_entry_goes_and_the_other_stays_as_it_was():
    both = {**pause(NOW - KEPT), **hold(NOW + 60, done=True)}
    assert json.loads(tidy(both)) == hold(NOW + 60, done=True)
    both = {**pause(NOW + 60), **hold(NOW - KEPT, done=True)}
    assert json.loads(tidy(both)) == pause(NOW + 60)


def test_what_cannot_be_read_is_nobodys_to_touch():
    assert tidy("{", now=NOW + 90_000) == "{"


def test_a_key_without_entries_goes_an_hour_after_it_was_seen():
    assert tidy("{}", now=NOW + KEPT - 1) == "{}"
    assert tidy("{}", now=NOW + KEPT) is None
    assert tidy({"pause": None}, now=NOW + KEPT) is None


@pytest.mark.parametrize("value", [pause(NOW + 60), hold(NOW + 60, done=False), "{"])
def test_a_key_of_a_cluster_that_is_gone_goes_whatever_it_says(value):
    assert tidy(value, gone=[NS]) is None
    assert tidy(value, gone=["shoot--other"]) is not None


def test_the_pause_of_all_goes_an_hour_after_its_end_as_well():
    assert tidy(pause(NOW - KEPT), key=ALL_SHOOTS) is None


def test_a_key_that_is_not_as_it_was_seen_is_left_alone():
    old = observed({}, {NS: json.dumps(pause(NOW - KEPT))}, NOW)
    newer = {NS: json.dumps(pause(NOW + 60)), "shoot--unseen": json.dumps(pause(NOW - KEPT))}
    assert tidied(newer, old, NOW, [NS]) == newer


instants = st.integers(-9_000, 9_000).map(lambda seconds: NOW + seconds)
values = st.one_of(
    st.builds(pause, instants),
    st.builds(lambda end, done: hold(end, done=done), instants, st.booleans()),
    st.builds(
        lambda a, b, done: {**pause(a), **hold(b, done=done)}, instants, instants, st.booleans()
    ),
    st.sampled_from([{}, {"pause": {}}, {"hold": {"reason": "x"}}, {"pause": {"scope": 1}}]),
)


@given(st.dictionaries(st.sampled_from([NS, "shoot--b", ALL_SHOOTS]), values.map(json.dumps)))
def test_tidying_changes_nothing_that_is_in_force_and_is_done_at_once(data):
    knowledge = observed({}, data, NOW)
    found = tidied(data, knowledge, NOW, ())
    after = observed(knowledge, found, NOW)
    for namespace in (NS, "shoot--b", "shoot--c"):
        assert effective(namespace, after, NOW) == effective(namespace, knowledge, NOW)
    assert tidied(found, after, NOW, ()) == found
