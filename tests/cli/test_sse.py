"""The format of server-sent events, line by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.client import MAX_EVENT
from app.cli.events import Event, EventReader
from app.cli.problems import CommandFailed


def read(*lines):
    reader = EventReader()
    return [event for event in map(reader.feed, lines) if event is not None], reader


def test_an_event_is_complete_with_an_empty_line():
    events, reader = read(b"event: shoot", b"data: {}", b"")
    assert events == [Event("shoot", b"{}")]
    assert read(b"event: shoot", b"data: {}")[0] == []
    assert reader.last_id is None


def test_data_of_several_lines_is_joined_and_the_name_is_that_of_its_event_alone():
    events, _ = read(b"event: a", b"data: 1", b"data:2", b"data", b"", b"data: 3", b"")
    assert events == [Event("a", b"1\n2\n"), Event("message", b"3")]


def test_without_data_there_is_no_event_but_its_id_counts():
    events, reader = read(b"event: a", b"id: p-7", b"", b"data: 1", b"")
    assert events == [Event("message", b"1")]
    assert reader.last_id == "p-7"


@pytest.mark.parametrize(
    "line", [b": a comment", b"colour: red", b"retry: soon", b"retry: -1", b"x"]
)
def test_what_is_unknown_or_makes_no_sense_is_passed_over(line):
    events, reader = read(line, b"data: 1", b"")
    assert events == [Event("message", b"1")]
    assert reader.retry is None


@pytest.mark.parametrize("value", [b"a\x00b", b"\xff", b"a\x1bb", b"x" * 201])
def test_an_id_that_could_not_be_sent_back_is_none(value):
    assert read(b"id: " + value, b"")[1].last_id is None


def test_how_long_to_wait_is_in_milliseconds():
    assert read(b"retry: 2500")[1].retry == 2.5


def test_what_was_cut_off_is_forgotten_with_its_id():
    reader = EventReader()
    for line in (b"id: p-1", b"data: 1", b"", b"id: p-2", b"event: a", b"data: 2"):
        reader.feed(line)
    reader.broken()
    assert reader.last_id == "p-1"
    assert reader.feed(b"") is None


def test_an_event_without_end_is_given_up():
    reader = EventReader()
    reader.feed(b"data: " + b"x" * MAX_EVENT)
    with pytest.raises(CommandFailed):
        reader.feed(b"data: x")


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line)))
def test_no_line_breaks_it(lines):
    events, reader = read(*lines)
    assert all(event.data is not None for event in events)
    assert reader.last_id is None or reader.last_id.isprintable()
