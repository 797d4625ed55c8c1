"""The screen of a terminal: one picture in the place of the one before."""

from collections.abc import Iterable
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.core.model.probing import ShootState
from app.demo import rows as pure
from app.demo import telling
from app.demo.losses import Harm
from app.demo.picture import Picture, Pods, Told
from app.demo.rows import CONTROLLERS, Replicas, Row

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
_SCENES: Final = 5
"""Lines for the scenes that play, at most."""
_EVENTS: Final = 8
"""Lines for what has happened, where there is room."""
_LEAST_ROWS: Final = 4
"""Lines that the shoots have before there are any events."""


class LiveScreen:
    """Draws pictures over each other; what was on the terminal before is back in the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # No thread of its own draws: every picture is drawn when it is made, in the event loop.
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def open(self) -> None:
        """Takes the terminal."""
        self._live.start()

    def show(self, picture: Picture) -> None:
        """Draws a picture."""
        size = self._console.size
        self._live.update(draw(picture, size.height), refresh=True)

    def tell(self, told: Told) -> None:
        """Does nothing: the next picture has it."""

    def close(self) -> None:
        """Gives the terminal back."""
        self._live.stop()


def draw(picture: Picture, height: int) -> Group:
    """The picture in so many lines."""
    head = [*_head(picture), *_playing(picture), Text("")]
    room = height - len(head) - 1  # the table has a head too
    events = min(_EVENTS, len(picture.latest), max(room - _LEAST_ROWS - 1, 0))
    table = _table(picture.rows, room - (events + 1 if events else 0))
    latest = picture.latest[len(picture.latest) - events :]
    foot = [Text(""), *(_event(each) for each in latest)] if events else []
    return Group(*head, table, *foot)


def _head(picture: Picture) -> list[Text]:
    lost = picture.lost
    title = _line(("dependency watchdog", "bold"), f"  {telling.stamp(picture.elapsed)}  ")
    title.append(
        f"scenario {picture.scenario}, {telling.shoots(len(picture.rows))}. Ctrl-C ends it."
    )
    hints = [_line((each, "dim")) for each in picture.hints]
    columns = ((Harm.NODE, "nodes"), (Harm.MACHINE, "machines"))
    compared = [
        _compared(str(harm), getattr(lost.having, name), getattr(lost.lacking, name))
        for harm, name in columns
    ]
    pods = [_pods(picture.pods)] if picture.pods else []
    return [title, *hints, _state(picture), *compared, *pods]


def _state(picture: Picture) -> Text:
    if picture.trouble:
        return _line((picture.trouble, "bold red"))
    return _line((pure.counted(picture.rows), "bold"))


def _compared(what: str, having: int, lacking: int) -> Text:
    with_it = (f"{having:>5} with the watchdog", "bold green" if not having else "bold yellow")
    without = (f"{lacking:>6} without it", "bold red" if lacking > having else "")
    return _line(f"{what:<22}", with_it, without)


def _pods(pods: Pods) -> Text:
    line = _compared("pods waiting", pods.waiting, pods.waiting_without)
    if pods.saving:
        line.append(f"    {telling.saved_words(pods.saving)}")
    return line


def _playing(picture: Picture) -> list[Text]:
    if not picture.running:
        over = "The scenario is over; the watchdog goes on." if picture.over else "All is quiet."
        return [_line((over, "italic"))]
    whole = len(picture.rows)
    lines = [
        _line(
            (f"{max(each.ends - picture.now, 0):>4.0f} s ", "bold yellow"),
            (telling.who(each, whole), "bold"),
            f"  {each.scene.say}",
        )
        for each in picture.running[:_SCENES]
    ]
    more = len(picture.running) - _SCENES
    return [*lines, _line(f"       and {more} more scenes")] if more > 0 else lines


def _table(rows: tuple[Row, ...], room: int) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="bold underline")
    table.add_column("shoot", no_wrap=True, max_width=14)
    table.add_column("state", no_wrap=True, width=11)
    table.add_column("reason", no_wrap=True, max_width=20)
    table.add_column("leases", no_wrap=True, max_width=26)
    for head in CONTROLLERS:
        table.add_column(head, no_wrap=True, justify="right", width=4)
    table.add_column("what happens", no_wrap=True, ratio=1, overflow="ellipsis")
    kept, rest = pure.shown(rows, room)
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
    yield Text(pure.leases(row.leases))
    for each in row.replicas:
        yield _replicas(each)
    yield Text(row.happens, style="yellow")


def _replicas(replicas: Replicas | None) -> Text:
    if replicas is None:
        return Text("–", style="dim")
    return Text(str(replicas), style="" if replicas.wanted else "bold magenta")


def _event(told: Told) -> Text:
    return _line((f"{telling.stamp(told.at):>6}  ", "dim"), told.text)


def _line(*parts: str | tuple[str, str]) -> Text:
    """One line, whatever it takes; what is too long ends in an ellipsis."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
