"""One key of the ConfigMap: what may stand there, and what makes it unreadable."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.overrides import (
    ALL_SHOOTS,
    LONGEST,
    Hold,
    OverrideEntry,
    Pause,
    Scope,
    Unreadable,
)
from app.core.model.workloads import Direction
from app.core.overrides.document import (
    CLOCKS,
    MOST_BYTES,
    Content,
    EntryKind,
    NotRead,
    encode,
    fields_of,
    parts_of,
    read_key,
    settled_hold,
    settled_pause,
)

NOW = 1_800_000_000.0
NS = "shoot--acme--prod"
PAUSE = {
    "scope": "scaleDown",
    "reason": "load test",
    "author": "alice",
    "createdAt": rfc3339(NOW - 60),
    "until": rfc3339(NOW + 3_540),
}
HOLD = {
    "reason": "scaled up by hand",
    "author": "bob",
    "createdAt": rfc3339(NOW),
    "until": rfc3339(NOW + 1_800),
    "direction": "up",
    "operation": "op-1.a_b",
    "force": True,
    "done": False,
}


def read(value, key=NS, seen=NOW):
    text = value if isinstance(value, str) else json.dumps(value)
    return read_key(key, text, seen)


def entry(value, key=NS, seen=NOW):
    found = read(value, key, seen)
    assert isinstance(found, Content), found
    return found.entry


def problem(value, key=NS, seen=NOW):
    found = read(value, key, seen)
    assert isinstance(found, Unreadable), found
    return found.problem


def with_field(base, **fields):
    return {**base, **fields}


def without(base, *names):
    return {name: value for name, value in base.items() if name not in names}


def test_a_complete_key_is_read_and_needs_no_completion():
    found = read({"pause": PAUSE, "hold": HOLD})
    assert found == Content(
        OverrideEntry(
            Pause(Scope.SCALE_DOWN, "load test", "alice", NOW - 60, NOW + 3_540),
            Hold(
                "scaled up by hand",
                "bob",
                NOW,
                NOW + 1_800,
                Direction.UP,
                "op-1.a_b",
                force=True,
                done=False,
            ),
        ),
        None,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("pause for an hour please", "is not JSON"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('"all"', "must be a JSON object"),
        ('{"pause": {}', "is not JSON"),
        ('{"pause": {"until": NaN}}', "NaN is no number"),
        ('{"pause": {}, "pause": {}}', 'has "pause" twice'),
        ('{"pause": {"scope": "all", "scope": "all"}}', 'has "scope" twice'),
        ('{"pause": ' + "[" * 5_000 + "]" * 5_000 + "}", "nested too deeply"),
        ('{"pause": ' + "9" * 5_000 + "}", "is not JSON"),
        (json.dumps({"pause": {"reason": "x" * MOST_BYTES}}), f"at most {MOST_BYTES} bytes"),
        ('{"pause": {"reason": "' + "ü" * (MOST_BYTES // 2) + '"}}', f"at most {MOST_BYTES} bytes"),
        ('{"hodl": {}}', "hodl: unknown field; shoot--acme--prod may have pause and hold"),
        ('{"pause": true}', "pause: must be an object"),
        ('{"hold": []}', "hold: must be an object"),
    ],
)
def test_text_that_is_no_key_cannot_be_read(text, says):
    assert says in problem(text)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"scope": "x"}, 'pause.scope: must be all or scaleDown, not "x"'),
        ({"scope": "ALL"}, 'pause.scope: must be all or scaleDown, not "ALL"'),
        ({"scope": True}, "pause.scope: must be all or scaleDown, not true"),
        ({"scope": ["all"]}, 'pause.scope: must be all or scaleDown, not ["all"]'),
        ({"reason": 5}, "pause.reason: must be text, not 5"),
        ({"reason": {"a": 1}}, 'pause.reason: must be text, not {"a": 1}'),
        ({"reason": "\ud800"}, "pause.reason: must be text of whole characters"),
        ({"author": False}, "pause.author: must be text, not false"),
        ({"until": 1_800_000_000}, "pause.until: must be a time in RFC 3339"),
        ({"until": "1h"}, 'such as 2026-11-20T14:02:11Z, not "1h"'),
        ({"until": "2027-01-15T08:00:00"}, "pause.until: must be a time in RFC 3339"),
        ({"until": "2027-01-15"}, "pause.until: must be a time in RFC 3339"),
        ({"until": "2027-W02-5T08:00:00Z"}, "pause.until: must be a time in RFC 3339"),
        ({"until": "2027-13-45T08:00:00Z"}, "pause.until: must be a time in RFC 3339"),
        ({"createdAt": "yesterday"}, "pause.createdAt: must be a time in RFC 3339"),
        ({"until": rfc3339(NOW - 61)}, "pause.until: must not be before createdAt"),
        ({"until": rfc3339(NOW + LONGEST)}, "pause.until: must be at most 24h after createdAt"),
        (
            {"createdAt": rfc3339(NOW + CLOCKS + 1), "until": None},
            "pause.createdAt: must not be in the future",
        ),
        ({"skope": "all"}, "pause.skope: unknown field; known are scope, reason, author"),
        ({"done": True}, "pause.done: unknown field"),
        ({"a\nb\x1b[31m": 1}, "pause.a b [31m: unknown field"),
    ],
)
def test_a_wrong_field_makes_the_key_unreadable_and_is_named(fields, says):
    assert says in problem({"pause": with_field(PAUSE, **fields)})


@pytest.mark.parametrize(("ahead", "lasts"), [(CLOCKS + 1, 3600), (86_400, 3600), (600, LONGEST)])
def test_written_by_a_clock_that_is_far_ahead_it_is_in_force_from_now_for_a_day_at_most(
    ahead, lasts
):
    until = NOW + ahead + lasts
    found = entry(
        {"pause": with_field(PAUSE, createdAt=rfc3339(NOW + ahead), until=rfc3339(until))}
    )
    assert found.pause is not None
    assert found.pause.created_at == NOW
    assert found.pause.until == min(until, NOW + LONGEST)
    content = read(
        {"pause": with_field(PAUSE, createdAt=rfc3339(NOW + ahead), until=rfc3339(until))}
    )
    assert read_key(NS, content.completed, NOW + 3000) == Content(found, None)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"done": "yes"}, 'hold.done: must be true or false, not "yes"'),
        ({"done": 0}, "hold.done: must be true or false, not 0"),
        ({"force": "true"}, 'hold.force: must be true or false, not "true"'),
        ({"direction": "sideways"}, 'hold.direction: must be up or down, not "sideways"'),
        ({"operation": "../secrets"}, "hold.operation: must be the id of an operation"),
        ({"operation": "x" * 101}, "hold.operation: must be the id of an operation"),
        ({"operation": 7}, "hold.operation: must be the id of an operation, not 7"),
        ({"scope": "all"}, "hold.scope: unknown field"),
        ({"until": rfc3339(NOW + LONGEST + 1)}, "hold.until: must be at most 24h after createdAt"),
    ],
)
def test_a_wrong_field_of_a_hold_makes_the_key_unreadable(fields, says):
    assert says in problem({"hold": with_field(HOLD, **fields)})


def test_all_problems_are_named_at_once():
    text = problem({"pause": {"scope": 1, "until": "soon"}, "hold": {"done": 1}})
    assert "pause.scope" in text
    assert "pause.until" in text
    assert "hold.done" in text


def test_a_problem_is_one_short_line_whatever_was_written():
    text = problem({"pause": {"scope": "\x1b]0;owned\x07\n" * 200, "x" * 5_000: 1}})
    assert text.isprintable()
    assert len(text) <= 300


def test_what_holds_for_every_shoot_can_have_no_hold():
    says = "hold: unknown field; _all may have pause"
    assert says in problem({"hold": HOLD}, ALL_SHOOTS)
    assert entry({"pause": PAUSE}, ALL_SHOOTS).pause is not None


def test_an_empty_pause_pauses_everything_for_a_day_from_when_it_was_seen():
    found = read({"pause": {}}, seen=NOW + 0.7)
    assert found.entry.pause == Pause(Scope.ALL, "no reason given", "unknown", NOW, NOW + LONGEST)
    assert json.loads(found.completed) == {
        "pause": {
            "scope": "all",
            "reason": "no reason given",
            "author": "unknown",
            "createdAt": rfc3339(NOW),
            "until": rfc3339(NOW + LONGEST),
        }
    }


@pytest.mark.parametrize("nothing", [None, "", "  \n"])
@pytest.mark.parametrize("name", ["scope", "reason", "author", "createdAt", "until"])
def test_null_and_blank_count_as_left_out(name, nothing):
    base = {"createdAt": rfc3339(NOW), "until": rfc3339(NOW + 60)}
    blank = read({"pause": {**base, name: nothing}})
    assert blank == read({"pause": without(base, name)})
    assert blank.completed is not None


def test_what_was_given_is_not_touched_by_the_completion():
    given = {"reason": "  two  spaces\tand\u200e a mark ", "until": "2027-01-15T10:00:00.5+02:00"}
    completed = json.loads(read({"pause": given}).completed)
    assert completed["pause"] | given == completed["pause"]


@pytest.mark.parametrize(
    ("until", "created"),
    [
        (NOW + 60, NOW),
        (NOW + LONGEST, NOW),
        (NOW + LONGEST + CLOCKS, NOW + CLOCKS),
        (NOW - 60, NOW - 60),
        (NOW - 7 * LONGEST, NOW - 7 * LONGEST),
    ],
)
def test_a_missing_start_is_the_instant_it_was_seen_as_far_as_the_end_allows(until, created):
    pause = entry({"pause": {"until": rfc3339(until)}}).pause
    assert (pause.created_at, pause.until) == (created, until)


def test_an_end_too_far_away_is_refused_without_a_start_as_well():
    until = rfc3339(NOW + LONGEST + CLOCKS + 1)
    assert "pause.until: must be at most 24h from now" in problem({"pause": {"until": until}})


def test_a_missing_end_is_a_day_after_the_start():
    pause = entry({"pause": {"createdAt": rfc3339(NOW - 7_200)}}).pause
    assert pause.until == NOW - 7_200 + LONGEST


def test_a_missing_end_that_would_have_passed_is_refused_and_not_taken_for_an_old_pause():
    says = "pause.until: is left out, and 24h after createdAt have passed"
    assert says in problem({"pause": {"createdAt": rfc3339(NOW - LONGEST)}})


def test_a_start_slightly_ahead_of_our_clock_is_accepted():
    ahead = {"createdAt": rfc3339(NOW + CLOCKS), "until": rfc3339(NOW + CLOCKS + LONGEST)}
    assert entry({"pause": ahead}).pause.until == NOW + CLOCKS + LONGEST


@pytest.mark.parametrize("left_out", [("operation",), ("direction",), ("done",)])
def test_a_hold_that_names_no_run_to_wait_for_counts_as_done(left_out):
    assert entry({"hold": without(HOLD, *left_out)}).hold.done


def test_a_hold_of_a_running_run_is_not_done():
    assert not entry({"hold": HOLD}).hold.done


def test_a_hold_without_a_run_needs_none_to_be_complete():
    plain = without(HOLD, "operation", "direction")
    assert read({"hold": plain}).completed is None


def test_reason_and_author_become_one_line_of_limited_length():
    pause = entry(
        {"pause": {"reason": "a\nb\x1b[31m" + "x" * 900, "author": "\u202ebob" * 200}}
    ).pause
    assert pause.reason.startswith("a b [31mxx")
    assert len(pause.reason) == 500
    assert len(pause.author) == 320
    assert pause.author.isprintable()


def test_entries_that_are_null_are_not_there():
    assert entry({"pause": None, "hold": None}).empty
    assert entry("{}").empty


def test_what_is_written_is_never_too_long_to_be_read():
    pause = Pause(Scope.ALL, "𝄞" * 9_999, "ü\n" * 9_999, NOW, NOW + 9 * LONGEST)
    hold = Hold("𝄞" * 9_999, "ü" * 9_999, NOW, NOW, Direction.UP, "x" * 100)
    settled = OverrideEntry(settled_pause(pause), settled_hold(hold))
    parts = {kind: fields_of(settled, kind) for kind in EntryKind}
    text = encode({kind: part for kind, part in parts.items() if part is not None})
    assert read(text) == Content(settled, None)


def test_parts_of_junk_are_an_error():
    with pytest.raises(NotRead):
        parts_of("{")


instants = st.floats(NOW - 3 * LONGEST, NOW + CLOCKS)
texts = st.text(max_size=600)
pauses = st.builds(
    Pause,
    st.sampled_from(Scope),
    texts,
    texts,
    instants,
    st.floats(NOW - LONGEST, NOW + 3 * LONGEST),
)
holds = st.builds(
    Hold,
    texts,
    texts,
    instants,
    st.floats(NOW - LONGEST, NOW + 3 * LONGEST),
    st.none() | st.sampled_from(Direction),
    st.none() | st.from_regex(r"\A[a-z0-9]{1,20}\Z"),
    force=st.booleans(),
    done=st.booleans(),
)


@given(st.none() | pauses, st.none() | holds)
def test_what_is_written_is_read_back_as_it_is_in_force(pause, hold):
    settled = OverrideEntry(pause and settled_pause(pause), hold and settled_hold(hold))
    parts = {kind: fields_of(settled, kind) for kind in EntryKind}
    text = encode({kind: part for kind, part in parts.items() if part is not None})
    assert read(text) == Content(settled, None)


@given(pauses)
def test_a_written_pause_ends_no_earlier_than_asked_for_and_within_a_day(pause):
    settled = settled_pause(pause)
    assert settled.created_at <= settled.until <= settled.created_at + LONGEST
    assert settled.until >= min(pause.until, settled.created_at + LONGEST)


times = st.none() | st.floats(NOW - 2 * LONGEST, NOW + 2 * LONGEST).map(rfc3339)
near = st.fixed_dictionaries(
    {},
    optional={
        "scope": st.sampled_from(["all", "scaleDown", None, ""]),
        "reason": texts | st.none(),
        "author": texts | st.none(),
        "createdAt": times,
        "until": times,
    },
)
of_a_flow = st.fixed_dictionaries(
    {},
    optional={
        "operation": st.sampled_from([None, "", "a", "b-1"]),
        "direction": st.sampled_from(["up", "down", None]),
        "done": st.booleans() | st.none(),
        "force": st.booleans() | st.none(),
    },
)


@given(near, near, of_a_flow, st.floats(NOW, NOW + 5))
def test_a_completion_means_what_it_completes_and_is_complete(pause, hold, flow, seen):
    found = read({"pause": pause, "hold": {**hold, **flow}}, seen=seen)
    if isinstance(found, Content) and found.completed is not None:
        assert read_key(NS, found.completed, seen + 60) == Content(found.entry, None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from([*PAUSE, *HOLD, "x"])


@given(
    st.dictionaries(
        st.sampled_from(["pause", "hold", "x"]),
        st.dictionaries(names, json_values | st.sampled_from([*PAUSE.values(), *HOLD.values()])),
    )
)
def test_whatever_is_there_is_read_or_has_a_problem_and_never_lasts_longer_than_a_day(value):
    found = read(value)
    if isinstance(found, Unreadable):
        assert found.problem
        return
    for each in (found.entry.pause, found.entry.hold):
        if each is not None:
            assert each.until <= NOW + LONGEST + CLOCKS
            assert each.until - each.created_at <= LONGEST


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
def test_no_text_breaks_the_reader(text):
    assert isinstance(read(text), Content | Unreadable)


def test_fractions_and_zones_of_people_are_understood():
    pause = entry({"pause": {"createdAt": "2027-01-15t09:00:00.25+01:00"}}).pause
    assert pause.created_at == parse_rfc3339("2027-01-15T08:00:00.250Z")
