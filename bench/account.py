"""What came of simulated time: figures, and what must not be."""

from dataclasses import dataclass, field
from enum import StrEnum


class Circumstance(StrEnum):
    """What an outage came together with; the first that fits."""

    FAILING = "a fifth of the probes failing, 429, slow answers"
    STARTED = "a start of the process in it, or just before"
    AWAY = "server or storage away in it"
    OTHERS = "right clocks, other nodes that do not count"
    STEPPED = "a clock step within 5 min"
    OFF = "clocks off by a constant or drifting"
    RIGHT = "right clocks"


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that must not be, told so that it can be looked into."""

    what: str
    at: float
    detail: str


@dataclass(slots=True)
class Account:
    """What came of some simulated time."""

    hours: float = 0.0
    looks: int = 0
    nodes: int = 0
    outages: int = 0
    knowable: int = 0
    downs: int = 0
    early: int = 0
    """Scale-downs by less than the offset tolerance before an outage could be known, clocks being off."""
    early_at_start: int = 0
    """Scale-downs on leases that had not moved for long enough since the process started, clocks being off."""
    delays: dict[str, list[float]] = field(default_factory=dict)
    endings: dict[str, list[float]] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)

    def add(self, other: "Account") -> None:
        """Adds the other's figures to these."""
        self.hours += other.hours
        self.looks += other.looks
        self.nodes += other.nodes
        self.outages += other.outages
        self.knowable += other.knowable
        self.downs += other.downs
        self.early += other.early
        self.early_at_start += other.early_at_start
        for mine, others in ((self.delays, other.delays), (self.endings, other.endings)):
            for key, values in others.items():
                mine.setdefault(key, []).extend(values)
        self.incidents.extend(other.incidents)

    def count(self, what: str) -> int:
        """How many incidents of this kind there are."""
        return sum(1 for incident in self.incidents if incident.what == what)
