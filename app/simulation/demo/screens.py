"""The screens: for a terminal, which redraws the picture in place, and for other outputs, line by line."""

import os
from collections.abc import Callable, Iterable, Sequence
from textwrap import TextWrapper
from typing import Final, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.core.model.probing import ShootState
from app.simulation.demo import wording
from app.simulation.demo.losses import Harm
from app.simulation.demo.wording import (
    CONTROLLERS,
    EventLine,
    Picture,
    Pods,
    Row,
    TrueReplicas,
    lost_words,
    pod_words,
    shoots,
    stamp,
)

_COLOURS: Final = {
    ShootState.UNPROTECTED: "bold white on red",
    ShootState.PROTECTED: "bold magenta",
    ShootState.PROTECTING: "bold red",
    ShootState.RECOVERING: "cyan",
    ShootState.UNREACHABLE: "red",
    ShootState.FAILING: "red",
    ShootState.SUSPECT: "yellow",
    ShootState.PENDING: "dim",
    ShootState.HEALTHY: "green",
    ShootState.NOT_PROBED: "dim",
}
# Lines for the scenes that play, at most.
_SCENES: Final = 5
# Lines for what has happened, before the shoots have more than a few.
_EVENTS: Final = 8
# Those where there is room.
_MOST_EVENTS: Final = 14
# Columns below which nothing is broken into lines any more.
_NARROW: Final = 20
# Columns on which every text is one line; it is cut where it is shown.
_ENDLESS: Final = 1 << 20
# Lines that the shoots have before there are any events.
_LEAST_ROWS: Final = 4


class LiveScreen:
    """Draws on the terminal's alternate screen, so that its previous contents return at the end."""

    stays = True
    """A person watches, and ends the demo with Ctrl-C."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # No thread of its own draws: every picture is drawn when it is made, in the event loop.
        self.live = Live(console=console, screen=True, auto_refresh=False)
        """Has the terminal while it is entered."""

    def show(self, picture: Picture) -> None:
        size = self._console.size
        self.live.update(draw(picture, size.width, size.height), refresh=True)

    def tell(self, told: EventLine) -> None:
        """Does nothing: the next picture contains the event."""


def draw(picture: Picture, width: int, height: int) -> Group:
    """The picture on so many columns and lines.

    Shoots to which nothing happens give way to what has happened: its lines are whole where there is room for them.
    """
    head = _above(picture, width)
    if len(head) + 1 + _LEAST_ROWS > height:
        head = _above(picture, _ENDLESS)
    room = height - len(head) - 1  # the table has a head too
    busy = min(picture.unsettled, len(picture.rows)) + 1  # and a line that counts the others
    spare = room - 1 - max(busy, _LEAST_ROWS)
    least = min(_EVENTS, max(room - _LEAST_ROWS - 1, 0))
    foot = _events(picture.latest, width, min(max(spare, least), _MOST_EVENTS))
    table = _table(picture.rows, room - (len(foot) + 1 if foot else 0))
    return Group(*head, table, *([Text(""), *foot] if foot else []))


def _above(picture: Picture, width: int) -> list[Text]:
    """What stands above the table."""
    return [*_head(picture, width), *_playing(picture, width), Text("")]


def _events(latest: Sequence[EventLine], width: int, room: int) -> list[Text]:
    """What has happened, the newest last, in so many lines; where even that is too long it is cut."""
    found: list[Text] = []
    for told in reversed(latest):
        lines = _wrapped(_line((_stamp(told), "dim")), told.text, width)
        if len(found) + len(lines) > room:
            return found or [_line((_stamp(told), "dim"), told.text)][:room]
        found = lines + found
    return found


def _head(picture: Picture, width: int) -> list[Text]:
    lost = picture.lost
    title = _line(("dependency watchdog", "bold"), f"  {wording.stamp(picture.elapsed)}  ")
    title.append(
        f"scenario {picture.scenario}, {wording.shoots(len(picture.rows))}. Ctrl-C ends it."
    )
    hints = [line for each in picture.hints for line in _wrapped(_line(), each, width, "dim")]
    columns = ((Harm.NODE, "nodes"), (Harm.MACHINE, "machines"))
    compared = [
        _compared(str(harm), getattr(lost.having, name), getattr(lost.lacking, name))
        for harm, name in columns
    ]
    if any(lost.below):
        below = f"{wording.BELOW_LIMIT}: too few to act: {wording.below_words(lost)}"
        compared.append(_line((below, "dim")))
    pods = [_pods(picture.pods)] if picture.pods else []
    state = (
        (picture.trouble, "bold red")
        if picture.trouble
        else (wording.counted(picture.rows), "bold")
    )
    return [title, *hints, _line(state), *compared, *pods]


def _compared(what: str, having: int, lacking: int) -> Text:
    with_it = (f"{having:>5} with the watchdog", "bold green" if not having else "bold yellow")
    without = (f"{lacking:>6} without it", "bold red" if lacking > having else "")
    return _line(f"{what:<22}", with_it, without)


def _pods(pods: Pods) -> Text:
    line = _compared("pods waiting", pods.waiting, pods.waiting_without)
    if pods.saving:
        line.append(f"    {wording.saved_words(pods.saving)}")
    return line


def _playing(picture: Picture, width: int) -> list[Text]:
    if not picture.running:
        return [_line((_between(picture), "italic"))]
    whole, lines = len(picture.rows), []
    for each in picture.running[:_SCENES]:
        left = _line((f"{max(each.ends - picture.now, 0):>4.0f} s ", "bold yellow"))
        who = wording.who(each, whole)
        first, *more = _wrapped(left, f"{who}  {each.scene.say}", width)
        first.stylize("bold", len(left), len(left) + len(who))
        lines += [first, *more]
    more_scenes = len(picture.running) - _SCENES
    if more_scenes > 0:
        lines.append(_line(f"       and {more_scenes} more scenes"))
    return lines


def _between(picture: Picture) -> str:
    """What is said where no scene plays."""
    begin = "The scenario is over; the watchdog goes on." if picture.over else ""
    if not picture.unsettled:
        return begin or "All is quiet."
    left = f"{wording.shoots(picture.unsettled)} not back to normal yet."
    return f"{begin or 'No scene plays;'} {left}"


def _table(rows: tuple[Row, ...], room: int) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="bold underline")
    table.add_column("shoot", no_wrap=True, max_width=14)
    table.add_column("state", no_wrap=True, width=11)
    table.add_column("reason", no_wrap=True, max_width=20)
    table.add_column("leases", no_wrap=True)
    for head in CONTROLLERS:
        table.add_column(head, no_wrap=True, justify="right", width=4)
    table.add_column("what happens", no_wrap=True, ratio=1, overflow="ellipsis")
    kept, rest = wording.shown(rows, room)
    for each in kept:
        table.add_row(*_cells(each))
    if rest:
        table.add_row(Text(f"+ {len(rest)}", style="dim"), Text("more", style="dim"))
    return table


def _cells(row: Row) -> Iterable[Text]:
    colour = "" if row.state is None else _COLOURS[row.state]
    yield Text(row.shoot, style="bold")
    yield Text(row.word, style=colour)
    yield Text(row.reason)
    yield Text(wording.leases(row.leases))
    for each in row.replicas:
        yield _replicas(each)
    yield Text(row.happens, style="yellow")


def _replicas(replicas: TrueReplicas | None) -> Text:
    if replicas is None:
        return Text("–", style="dim")
    return Text(str(replicas), style="" if replicas.wanted else "bold magenta")


def _stamp(told: EventLine) -> str:
    return f"{wording.stamp(told.at):>6}  "


def _wrapped(head: Text, text: str, width: int, style: str = "") -> list[Text]:
    """A text behind its head, on as many lines as it takes."""
    room = max(width - len(head), _NARROW)
    first, *more = TextWrapper(room, break_on_hyphens=False).wrap(text) or [""]
    begin = Text.assemble(head, (first, style), no_wrap=True, overflow="ellipsis")
    return [begin, *(_line((" " * len(head) + line, style)) for line in more)]


def _line(*parts: str | tuple[str, str]) -> Text:
    """One line, whatever it takes; what is too long ends in an ellipsis."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


# Without a terminal: a line for each event, and a summary every 15 s.


EVERY: Final = 15.0
"""Seconds between summaries."""


class PlainScreen:
    """Writes lines."""

    stays = False
    """There may be no person to end the demo."""

    def __init__(self, out: TextIO, gone: Callable[[], None]) -> None:
        """Writes to `out`; calls `gone` when its reader has closed it."""
        self._out, self._gone = out, gone
        self._due = EVERY
        self._begun = False

    def show(self, picture: Picture) -> None:
        """Writes what the demo is, once; then a summary whenever one is due."""
        if not self._begun:
            self._begun = True
            self._write(
                f"scenario {picture.scenario}, {shoots(len(picture.rows))}; Ctrl-C ends it early"
            )
            for hint in picture.hints:
                self._write(f"    {hint}")
        if picture.elapsed >= self._due:
            self._due = picture.elapsed + EVERY
            self._write(f"{stamp(picture.elapsed):>6}  {summary(picture)}")

    def tell(self, told: EventLine) -> None:
        """Writes what has happened."""
        self._write(f"{stamp(told.at):>6}  {told.text}")

    def _write(self, line: str) -> None:
        if not write(self._out, line):
            self._gone()


def summary(picture: Picture) -> str:
    """States, losses and pods in one line."""
    parts = [picture.trouble or wording.counted(picture.rows), lost_words(picture.lost)]
    if picture.pods:
        parts.append(pod_words(picture.pods))
    return f"= {'; '.join(parts)}"


def write(out: TextIO, *lines: str) -> bool:
    """Writes lines; returns False if the reader has gone, after which all output is discarded."""
    try:
        out.writelines(f"{line}\n" for line in lines)
        out.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)
        return False
    return True
