"""What there is to see at one instant."""

from dataclasses import dataclass

from app.simulation.scenarios.player import Performance
from app.simulation.demo.losses import Comparison
from app.simulation.demo.rows import Row
from app.simulation.demo.savings import NOTHING_SAVED, Saving


@dataclass(frozen=True, slots=True)
class Told:
    """A line of what has happened."""

    at: float
    """Seconds since the start."""
    text: str


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of all control planes."""

    waiting: int = 0
    """So many wait in CrashLoopBackOff."""
    waiting_without: int = 0
    """And so many where there is no watchdog."""
    saving: Saving = NOTHING_SAVED

    def __bool__(self) -> bool:
        """Whether there is anything to say of them."""
        return bool(self.waiting or self.waiting_without or self.saving)


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
    pods: Pods = Pods()
    trouble: str = ""
    """Why the rows are not of now; empty: they are."""
    over: bool = False
    """The scenario has been played."""

    @property
    def unsettled(self) -> int:
        """How many shoots are not as they are when nothing happens."""
        return sum(not row.settled for row in self.rows)
