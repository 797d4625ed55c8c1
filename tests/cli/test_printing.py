"""Lines, JSON and YAML; colours on a terminal only; nothing that a terminal would obey."""

import io
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from app.cli.printing import Answer, OutputGone, Printer, as_json, as_yaml
from app.cli.problems import CommandFailed, Exit
from app.cli.tables import table
from app.core.config.client_settings import OutputFormat

NASTY = "a\x00\x1b[2J\x7f\x85\x9b\u2028\u202e\ud800\U000e0001\N{SNOWMAN}\nb"
SHOWN = Answer({"a": 1}, [Text.assemble(("word", "bold red"), "  ")])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def printed(shown, output=OutputFormat.TABLE, out=None, **environ):
    out = io.StringIO() if out is None else out
    Printer(out, io.StringIO(), output, {"TERM": "xterm", **environ}).show(shown)
    return out.getvalue()


def test_a_pipe_gets_plain_lines():
    assert printed(SHOWN) == printed(SHOWN, FORCE_COLOR="1") == "word\n"


def test_a_terminal_gets_colours():
    assert "\x1b[1;31mword" in printed(SHOWN, out=Terminal())


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_unless_nobody_wants_them(environ):
    assert "\x1b[31m" not in printed(SHOWN, out=Terminal(), **environ)
    assert "31" not in printed(SHOWN, out=Terminal(), **environ)


def test_an_empty_no_color_counts_as_none():
    assert "31m" in printed(SHOWN, out=Terminal(), NO_COLOR="")


def test_on_a_terminal_no_line_is_cut_unless_it_is_a_table_that_is_watched():
    long = "x" * 300
    shown = Answer({}, table(["HEAD"], [[long]]))
    environ = {"COLUMNS": "40", "LINES": "10"}
    assert f"{long}\n" in printed(shown, out=Terminal(), **environ)
    assert f"{long}\n" in printed(Answer({}, [Text(long)]), out=Terminal(), **environ)
    assert f"{long}\n" in printed(shown), "a pipe has no width"
    out = Terminal()
    with Printer(out, io.StringIO(), OutputFormat.TABLE, environ).watching() as screen:
        screen.show(shown, "the title")
    assert "x" * 39 + "…" in out.getvalue()


def test_data_is_what_the_api_said():
    data = {"b": [1, 2.5, None, True], "a": {"ä": "…"}}
    assert (
        printed(Answer(data, []), OutputFormat.JSON)
        == json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    )
    assert printed(Answer(data, []), OutputFormat.YAML) == (
        "b:\n- 1\n- 2.5\n- null\n- true\na:\n  ä: …\n"
    )


def test_one_of_many_is_a_line_or_a_document():
    out = io.StringIO()
    for output in (OutputFormat.JSON, OutputFormat.YAML, OutputFormat.TABLE):
        Printer(out, io.StringIO(), output, {}).show(SHOWN, one_of_many=True)
    assert out.getvalue() == '{"a": 1}\n---\na: 1\nword\n'


def obeyed(text):
    return [each for each in text if not each.isprintable() and each != "\n"]


@given(st.recursive(st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)))
def test_json_says_the_same_and_holds_nothing_that_a_terminal_obeys(data):
    assert json.loads(as_json(data)) == data
    assert json.loads(as_json(data, indent=2)) == data
    assert obeyed(as_json(data, indent=2)) == []


@given(
    st.recursive(
        st.text(st.characters(exclude_categories=["Cs"])),
        lambda each: st.lists(each) | st.dictionaries(st.text(st.characters(codec="utf-8")), each),
    )
)
def test_yaml_says_the_same_and_holds_nothing_that_a_terminal_obeys(data):
    assert yaml.safe_load(as_yaml(data)) == data
    assert obeyed(as_yaml(data)) == []


def test_what_is_nasty_is_escaped():
    assert obeyed(as_json(NASTY)) == []
    assert json.loads(as_json(NASTY)) == NASTY
    assert "\\u001b" in as_json(NASTY)
    assert "☃" in as_json(NASTY)


class Broken(io.StringIO):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def flush(self):
        raise self.error


def test_a_reader_that_is_gone_is_no_failure_of_the_server():
    with pytest.raises(OutputGone):
        printed(SHOWN, out=Broken(BrokenPipeError()))


def test_a_full_disk_is_said():
    with pytest.raises(CommandFailed, match="cannot be written: No space left") as caught:
        printed(SHOWN, out=Broken(OSError(28, "No space left on device")))
    assert caught.value.code is Exit.FAILED


def test_watching_a_pipe_writes_what_has_changed():
    out, err = io.StringIO(), io.StringIO()
    with Printer(out, err, OutputFormat.TABLE, {}).watching() as screen:
        screen.show(Answer(1, [Text("one")]), "title")
        screen.show(Answer(1, [Text("one")]), "title")
        screen.trouble("away")
        screen.trouble("away")
        screen.show(Answer(2, [Text("two")]), "title")
        screen.trouble("away")
    assert (out.getvalue(), err.getvalue()) == ("one\n\ntwo\n", "away\naway\n")


def test_watching_names_writes_them_when_they_are_others():
    out = io.StringIO()
    with Printer(out, io.StringIO(), OutputFormat.NAME, {}).watching() as screen:
        for data, names in ((1, ["a"]), (2, ["a"]), (3, ["a", "b"])):
            screen.show(Answer(data, [Text("one")], names), "title")
    assert out.getvalue() == "a\na\nb\n"


def test_watching_a_terminal_draws_in_place_and_counts_what_does_not_fit():
    out = Terminal()
    printer = Printer(out, io.StringIO(), OutputFormat.TABLE, {"COLUMNS": "40", "LINES": "6"})
    with printer.watching() as screen:
        screen.show(Answer({}, [Text(f"line {number}") for number in range(9)]), "the title")
        first = out.getvalue()
        screen.trouble("no answer")
    assert first.startswith("\x1b[?1049h"), "the alternate screen"
    assert "the title" in first
    assert [f"line {number}" in first for number in (2, 3)] == [True, False]
    assert "… 6 more lines" in first
    after = out.getvalue().removeprefix(first)
    assert "no answer" in after
    assert "line 0" in after, "the last answer stays"
    assert after.endswith("\x1b[?25h\x1b[?1049l"), "what was there before is back"
