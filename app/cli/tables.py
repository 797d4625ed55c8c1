"""Lines, tables and fields, with styles that show on a terminal only; pure.

Everything that a server said passes `said`, so that no control character of it reaches a terminal (threat T13).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from app.core.errors import trimmed
from app.core.model.instants import format_duration, parse_rfc3339

_LONGEST: Final = 1_000
# Columns of the terminal in which a last column says what matters: `paused scaleDown, 59m left, …`.
_ENOUGH: Final = 28
_GAP: Final = "  "
_NOTHING: Final = "-"
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_FEW_MINUTES: Final = 10
_FEW_HOURS: Final = 8


LOUD: Final = "yellow"
"""The style of what deserves a look."""


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    style: str = ""


Content = Cell | str | int | None
"""What a cell or a field has; None for nothing."""


def word(text: str, styles: Mapping[str, str]) -> Cell:
    """A word of the API, in the colour that `styles` has for it."""
    return Cell(text, styles.get(text, ""))


def said(text: str | None) -> str:
    """A server's text as one printable line of limited length; `-` for an empty one."""
    return trimmed(text or "", _LONGEST) or _NOTHING


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Content]],
    none: str = "",
    indent: str = "",
    *,
    width: int | None = None,
    give_way: Sequence[str] = (),
) -> list[Text]:
    """A table with columns as wide as their content; a screen that is narrower (`--watch`) cuts its lines.

    Args:
        heads: The heads of the columns.
        rows: The cells below them.
        none: A line instead of the table if there are no rows.
        indent: What each line begins with.
        width: Columns of the terminal; None: any number.
        give_way: The heads of what is left out of a narrower table, the first one first, until its last column has
            room enough.
    """
    if none and not rows:
        return [Text(none)]
    lines = [
        [Cell(head, "bold") for head in heads],
        *([_cell(each) for each in row] for row in rows),
    ]
    widths = [max(cell_len(each.text) for each in column) for column in zip(*lines, strict=True)]
    for head in give_way:
        others = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        if width is None or others + min(widths[-1], _ENOUGH) <= width:
            break
        place = [each.text for each in lines[0]].index(head)
        del widths[place]
        for line in lines:
            del line[place]
    return [_line(line, widths, indent) for line in lines]


def fields(rows: Iterable[tuple[str, Content]]) -> list[Text]:
    """Names and values, one pair on each line; what has no value (None) is left out."""
    found = [(name, _cell(value)) for name, value in rows if value is not None]
    width = max((len(name) for name, _ in found), default=0)
    return [
        Text.assemble("  ", (name.ljust(width), "dim"), _GAP, (value.text, value.style))
        for name, value in found
    ]


def _cell(of: Content) -> Cell:
    found = of if isinstance(of, Cell) else Cell("" if of is None else str(of))
    return Cell(said(found.text), found.style)


def _line(cells: Sequence[Cell], widths: Sequence[int], indent: str) -> Text:
    line = Text(indent, no_wrap=True, overflow="ellipsis")
    for cell, width in zip(cells[:-1], widths, strict=False):
        line.append(cell.text, cell.style)
        line.append(" " * (width - cell_len(cell.text)) + _GAP)
    line.append(cells[-1].text, cells[-1].style)
    return line


def count(number: int | None) -> str:
    """A number; `-` for None."""
    return _NOTHING if number is None else str(number)


def change(before: int | None, after: int | None) -> str:
    """Replicas before and after, such as `1 → 0`; a single number if they are equal."""
    return f"{count(before)} → {count(after)}" if before != after else count(after)


def since(time: str | None, now: float) -> str:
    """The time since an RFC 3339 instant: `42s`, `5m10s`, `8h`, `2d`; `-` if it is not one."""
    instant = parse_rfc3339(time)
    return _NOTHING if instant is None else span(max(now - instant, 0.0))


def until(time: str | None, now: float) -> str:
    """A time with what is left until then; without that if it has passed."""
    instant = parse_rfc3339(time)
    if instant is None or instant <= now:
        return said(time)
    return f"{said(time)} ({span(instant - now)} left)"


def span(seconds: float) -> str:
    """A duration, the less exact the longer it is."""
    whole = int(seconds)
    if whole >= _DAY:
        return f"{whole // _DAY}d"
    if whole >= _FEW_HOURS * _HOUR:
        return f"{whole // _HOUR}h"
    if whole >= _HOUR:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE}m"
    if whole >= _FEW_MINUTES * _MINUTE:
        return f"{whole // _MINUTE}m"
    return format_duration(whole)


def clock(time: str | None) -> str:
    """The time of day in UTC; `-` if the text is not RFC 3339."""
    return (time or "")[11:19] if parse_rfc3339(time) is not None else _NOTHING
