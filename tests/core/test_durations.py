"""Go's duration strings, read and written as Go does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.instants import format_duration, parse_duration

READ = {
    "0": 0.0,
    "5s": 5.0,
    "+5s": 5.0,
    "-5s": -5.0,
    "5.s": 5.0,
    ".5s": 0.5,
    "-.5s": -0.5,
    "1us": 1e-6,
    "1\u00b5s": 1e-6,
    "1\u03bcs": 1e-6,
    "100ms": 0.1,
    "1.5h": 5400.0,
    "1h2m3.5s": 3723.5,
    "10.5s4m": 250.5,
    "0.3333333333333333333h": 1200.0,
    "0.9999999999999999999999s": 1.0,
    "9223372036854775807ns": 9223372036.854776,
    "-9223372036854775808ns": -9223372036.854776,
}
REFUSED = [
    "",
    "15",
    "-",
    "s",
    "-.",
    "1d",
    "1h 2m",
    " 1s",
    "1s ",
    "1S",
    "--1s",
    "+-1s",
    "1..5s",
    "1,5s",
    "1e3s",
    "1m2",
    "\u0661s",
    "P1D",
    "9223372036854775808ns",
    "-9223372036854775809ns",
    "9" * 10_000 + "s",
]
WRITTEN = {
    0.0: "0s",
    1e-9: "1ns",
    1.1e-6: "1.1\u00b5s",
    0.0022: "2.2ms",
    100.0: "1m40s",
    245.001: "4m5.001s",
    3600.0: "1h0m0s",
    18367.001: "5h6m7.001s",
    -90.0: "-1m30s",
}


@pytest.mark.parametrize(("text", "seconds"), READ.items())
def test_a_duration_is_read_as_go_reads_it(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", REFUSED)
def test_what_go_refuses_is_refused(text):
    with pytest.raises(ValueError, match=r"^must be a duration"):
        parse_duration(text)


@pytest.mark.parametrize(("seconds", "text"), WRITTEN.items())
def test_a_duration_is_written_as_go_writes_it(seconds, text):
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
