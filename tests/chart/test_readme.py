"""The README of the chart has every value, as values.yaml documents it."""

import pytest

from hack.chart_readme import (
    ALERTS,
    BEGIN,
    END,
    SIDE_BY_SIDE,
    Row,
    Undocumented,
    renewed,
    rows,
    tables,
)
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


def test_an_alert_is_one_row() -> None:
    alert = (
        "alerts:\n  rules:\n    A:\n      # -- Bad.\n      enabled: null\n      severity: warning\n"
    )
    found = tables(rows(f"{alert}      for: 1m\n      # -- At most.\n      limit: 3\n"))
    assert '| `A` | Bad. | `"warning"` | `"1m"` | `limit` `3` (At most) |' in found


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
