"""The README of the chart has every value, as values.yaml documents it."""

import pytest

from hack.chart_readme import ALERTS, BEGIN, END, SIDE_BY_SIDE, Undocumented, renewed, rows, tables
from tests.chart.rendering import CHART

VALUES = (CHART / "values.yaml").read_text()
README = (CHART / "README.md").read_text()


def test_the_readme_is_that_of_the_values() -> None:
    assert renewed(README, VALUES) == README, "run python -m hack.chart_readme"


def shown(path: str) -> str:
    """What the README has of a value: a row of its own, one with its neighbours, or a part of its alert's."""
    for owner in (each for group in SIDE_BY_SIDE for each in group):
        if path.startswith(f"{owner}."):
            return f"| `….{path.removeprefix(f'{owner}.')}` |"
    if path.startswith(ALERTS):
        alert, _, key = path.removeprefix(ALERTS).partition(".")
        return f"| `{alert}` |" if key in {"enabled", "severity", "for"} else f"`{key}` "
    return f"| `{path}` |"


def test_every_value_is_in_the_readme() -> None:
    assert all(shown(row.path) in README for row in rows(VALUES))
    assert len(rows(VALUES)) > 150


def test_what_stands_side_by_side_needs_a_comment_where_it_differs() -> None:
    found = rows("prober:\n  # -- one\n  a: 1\nweeder:\n  a: 2\nserve:\n  # -- another\n  a: 3\n")
    assert [row.text for row in found] == ["one", "one", "another"]
    assert "| `….a` | `1` | `2` | `3` | one `serve`: another |" in tables(found)
    with pytest.raises(Undocumented, match=r"^weeder\.b$"):
        rows("prober:\n  # -- one\n  a: 1\nweeder:\n  b: 2\n")


def test_a_value_without_a_comment_is_refused_by_name() -> None:
    with pytest.raises(Undocumented, match=r"^a\.c$"):
        rows("a:\n  # -- known\n  b: 1\n  c: 2\n")


def test_a_remark_is_no_documentation() -> None:
    with pytest.raises(Undocumented):
        rows("# a remark\na: 1\n")


def test_what_is_written_by_hand_stays() -> None:
    found = renewed(f"before\n{BEGIN}old\n{END}after\n", "# -- one\na: 1\n")
    assert found.startswith(f"before\n{BEGIN}")
    assert found.endswith(f"{END}after\n")
    assert "old" not in found
