"""The screens: for a terminal, which redraws the picture in place, and for other outputs, line by line."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.segment import SegmentLines
from rich.table import Table
from rich.text import Text

from app.core.model.probing import ShootState

CONTROLLERS: Final = {
    "kcm": "kube-controller-manager",
    "mcm": "machine-controller-manager",
    "ca": "cluster-autoscaler",
}
"""The columns of replicas: their heads, and whose they are."""
EVERY: Final = 15.0
"""Seconds between summaries without a terminal."""
_COLOURS: Final = {
    ShootState.UNPROTECTED: "bold white on red",
    ShootState.PROTECTED: "bold magenta",
    ShootState.PROTECTING: "bold red",
    ShootState.RECOVERING: "cyan",
    ShootState.UNREACHABLE: "red",
    ShootState.FAILING: "red",
    ShootState.SUSPECT: "yellow",
    ShootState.HEALTHY: "green",
}
# Lines for the scenes that play, at most; and for what has happened.
_SCENES: Final = 5
_EVENTS: Final = 10
# Lines that the shoots have before there are any events.
_LEAST_ROWS: Final = 4


class Row(NamedTuple):
    """One row: a shoot."""

    shoot: str
    """Its short name."""
    state: ShootState | None
    """None before the first answer of the program."""
    reason: str
    leases: str
    replicas: tuple[str, ...]
    """One for each of CONTROLLERS."""
    happens: str
    """What happens to it: `etcd-outage, 5 waiting`."""

    @property
    def word(self) -> str:
        """Its state, as a word."""
        return "Starting" if self.state is None else str(self.state)


Compared = tuple[str, int, int]
"""What is counted, and how many with the watchdog and without it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a screen shows at one instant."""

    elapsed: float
    """Seconds since the start."""
    title: str
    hints: Sequence[str]
    """Commands for a closer look."""
    state: str
    """How many shoots are in which state, or why that is not known."""
    counts: Sequence[Compared]
    scenes: Sequence[tuple[float, str, str]]
    """Those that play: the seconds that are left, whom they happen to, what happens."""
    rows: Sequence[Row]
    unsettled: int
    """How many of them are not in a normal state."""
    latest: Sequence[tuple[str, str]]
    """What has happened, each with its time, the newest last."""
    over: bool = False
    """Whether the scenario has ended."""


def stamp(seconds: float) -> str:
    """Formats the time since the start: `+1:05`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"+{minutes}:{rest:02}"


def number_of_shoots(count: int) -> str:
    """Formats it: `1 shoot`, `30 shoots`."""
    return f"{count} shoot" + ("" if count == 1 else "s")


def in_words(counts: Sequence[Compared]) -> str:
    """Formats numbers in one line: `nodes marked NotReady: 0, without the watchdog 10; …`."""
    return "; ".join(
        f"{what}: {mine}, without the watchdog {theirs}" for what, mine, theirs in counts
    )


class LiveScreen:
    """Draws on the terminal's alternate screen, so that its previous contents return at the end."""

    stays = True
    """A person watches, and ends the demo with Ctrl-C."""

    def __init__(self, console: Console) -> None:
        # No thread of its own draws: every picture is drawn when it is made, in the event loop.
        self.live = Live(console=console, screen=True, auto_refresh=False)
        """Has the terminal while it is entered."""

    def show(self, picture: Picture) -> None:
        self.live.update(Drawing(picture), refresh=True)

    def tell(self, at: str, text: str) -> None:
        """Does nothing: the next picture contains it."""


class Drawing:
    """A picture on a terminal: as many shoots as there is room for, and below them the latest that has happened."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draws it, on no more lines than the terminal has."""
        free = options.update(height=None)
        head = console.render_lines(self._head(), free, pad=False)
        head = head[: max(options.max_height - _LEAST_ROWS - 2, 1)]
        foot = console.render_lines(_grid(self._picture.latest, "dim"), free, pad=False)
        room = (
            options.max_height - len(head) - 2
        )  # the table has a head, too, and an empty line follows it
        least = min(_EVENTS, room - _LEAST_ROWS)
        foot = foot[-max(least, room - len(self._picture.rows), 1) :]
        yield SegmentLines(head, new_lines=True)
        yield self._table(room - len(foot))
        yield Text()
        yield SegmentLines(foot, new_lines=True)

    def _head(self) -> Group:
        shown = self._picture
        title = Text.assemble(
            ("dependency watchdog", "bold"), f"  {stamp(shown.elapsed)}  {shown.title}. "
        )
        counts = Table.grid(padding=(0, 2))
        for what, mine, theirs in shown.counts:
            counts.add_row(
                what,
                Text(f"{mine:>5} with the watchdog", "bold yellow" if mine else "bold green"),
                Text(f"{theirs:>5} without it", "bold red" if theirs > mine else ""),
            )
        scenes = [
            (f"{max(left, 0):>4.0f} s", f"{who}: {say}")
            for left, who, say in shown.scenes[:_SCENES]
        ]
        if more := len(shown.scenes[_SCENES:]):
            scenes.append(("", f"and {more} more scenes"))
        if not scenes:
            scenes = [("", self._between())]
        return Group(
            title.append("Ctrl-C ends it."),
            *(Text(hint, "dim") for hint in shown.hints),
            Text(shown.state, "bold"),
            counts,
            _grid(scenes, "bold yellow"),
            Text(),
        )

    def _between(self) -> str:
        """What is said where no scene plays."""
        begin = "The scenario is over; the watchdog goes on." if self._picture.over else ""
        if not self._picture.unsettled:
            return begin or "All is quiet."
        left = f"{number_of_shoots(self._picture.unsettled)} not back to normal yet."
        return f"{begin or 'No scene plays;'} {left}"

    def _table(self, room: int) -> Table:
        table = Table(box=None, expand=True, pad_edge=False, header_style="bold underline")
        for head in ("shoot", "state", "reason", "fresh leases"):
            table.add_column(head, no_wrap=True)
        for head in CONTROLLERS:
            table.add_column(head, no_wrap=True, justify="right")
        table.add_column("what happens", no_wrap=True, ratio=1)
        rows = self._picture.rows
        kept = rows if len(rows) <= room else rows[: max(room - 1, 0)]
        for row in kept:
            state = Text(row.word, "" if row.state is None else _COLOURS.get(row.state, "dim"))
            happens = Text(row.happens, "yellow")
            table.add_row(row.shoot, state, row.reason, row.leases, *row.replicas, happens)
        if len(kept) < len(rows):
            table.add_row(f"+ {len(rows) - len(kept)}", "more", style="dim")
        return table


def _grid(lines: Sequence[tuple[str, str]], style: str) -> Table:
    """Texts behind their heads, each on as many lines as it takes."""
    grid = Table.grid(padding=(0, 2))
    for head, text in lines:
        grid.add_row(Text(head, style, justify="right", no_wrap=True), Text(text))
    return grid


class PlainScreen:
    """Writes lines: one for each thing that happens, and a summary every 15 s."""

    stays = False
    """There may be no person to end the demo."""

    def __init__(self, out: TextIO, gone: Callable[[], None]) -> None:
        """Writes to `out`; calls `gone` when its reader has closed it."""
        self._out, self._gone = out, gone
        self._due = 0.0

    def show(self, picture: Picture) -> None:
        """Writes what the demo is, once; then a summary whenever one is due."""
        if not self._due:
            self._write(f"{picture.title}; Ctrl-C ends it early")
            for hint in picture.hints:
                self._write(f"    {hint}")
            self._due = EVERY
        if picture.elapsed >= self._due:
            self._due = picture.elapsed + EVERY
            self.tell(stamp(picture.elapsed), f"= {picture.state}; {in_words(picture.counts)}")

    def tell(self, at: str, text: str) -> None:
        """Writes what has happened."""
        self._write(f"{at:>6}  {text}")

    def _write(self, line: str) -> None:
        if not write(self._out, line):
            self._gone()


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
