"""Go's duration strings, read and written as Go does."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.instants import format_duration, parse_duration

DURATIONS = yaml.safe_load((Path(__file__).parent / "durations.yaml").read_text())


@pytest.mark.parametrize(("text", "seconds"), DURATIONS["read"].items())
def test_a_duration_is_read_as_go_reads_it(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", [*DURATIONS["refused"], "9" * 10_000 + "s"])
def test_what_go_refuses_is_refused(text):
    with pytest.raises(ValueError, match=r"^must be a duration"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "seconds"), DURATIONS["written"].items())
def test_a_duration_is_written_as_go_writes_it(text, seconds):
    assert format_duration(seconds) == text


@given(st.integers(min_value=-(2**51), max_value=2**51))
def test_what_was_written_is_read_back_to_the_nanosecond_up_to_26_days(nanoseconds):
    text = format_duration(nanoseconds / 1e9)
    assert round(parse_duration(text) * 1e9) == nanoseconds
    assert format_duration(parse_duration(text)) == text


@given(st.text(alphabet="0123456789.+-hmsunµ \n", max_size=12))
def test_any_text_is_a_number_of_seconds_or_a_value_error(text):
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)
