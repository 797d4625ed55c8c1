"""What there is to see at one instant."""

from dataclasses import dataclass

from app.core.simulation.scenarios.player import Performance
from app.demo.losses import Comparison
from app.demo.rows import Row


@dataclass(frozen=True, slots=True)
class Told:
    """A line of what has happened."""

    at: float
    """Seconds since the start."""
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that a screen shows."""

    elapsed: float
    """Seconds since the start."""
    now: float
    scenario: str
    running: tuple[Performance, ...]
    rows: tuple[Row, ...]
    """Worst first."""
    lost: Comparison
    latest: tuple[Told, ...]
    """The newest last."""
    hints: tuple[str, ...]
    """Where to look closer."""
    trouble: str = ""
    """Why the rows are not of now; empty: they are."""
    over: bool = False
    """The scenario has been played."""
