"""The README of the chart has every value, as values.yaml documents it."""

import pytest

from hack.chart_readme import BEGIN, END, Row, Undocumented, renewed, rows, tables
from tests.chart.rendering import CHART

VALUES = (CHART / "values.yaml").read_text()
README = (CHART / "README.md").read_text()


def test_the_readme_is_that_of_the_values() -> None:
    assert renewed(README, VALUES) == README, "run python -m hack.chart_readme"


def test_every_value_is_in_the_readme() -> None:
    assert all(f"| `{row.path}` |" in README for row in rows(VALUES))
    assert len(rows(VALUES)) > 150


def test_a_value_without_a_comment_is_refused_by_name() -> None:
    with pytest.raises(Undocumented, match=r"^a\.c$"):
        rows("a:\n  # -- known\n  b: 1\n  c: 2\n")


def test_a_comment_documents_what_is_below_its_key() -> None:
    found = rows("## One\n\n# -- all of\n# it\na:\n  b: 1\n## Two\n# another\n# -- last\nc: x\n")
    assert found == [
        Row("One", "a", '`{"b": 1}`', "all of it"),
        Row("Two", "c", '`"x"`', "last"),
    ]


def test_a_remark_is_no_documentation() -> None:
    with pytest.raises(Undocumented):
        rows("# a remark\na: 1\n")


def test_a_long_default_is_looked_up() -> None:
    (row,) = rows(f"# -- long\na: {'x' * 80}\n")
    assert row.default == "[values.yaml](values.yaml)"


def test_a_bar_does_not_end_a_cell() -> None:
    assert "a \\| b" in tables([Row("One", "x", "`1`", "a | b")])


def test_what_is_written_by_hand_stays() -> None:
    found = renewed(f"before\n{BEGIN}old\n{END}after\n", "# -- one\na: 1\n")
    assert found.startswith(f"before\n{BEGIN}")
    assert found.endswith(f"{END}after\n")
    assert "old" not in found
