"""What came of a world."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold."""

    at: float
    """Seconds from the begin of the world."""
    invariant: str
    detail: str

    def __str__(self) -> str:
        return f"at {self.at:.6f} s: {self.invariant}: {self.detail}"


@dataclass(slots=True)
class Story:
    """What came of a world."""

    violations: list[Violation] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """How often each fault, deed and strike came about."""
    requests: int = 0
    downs: int = 0
    ups: int = 0
    deletions: int = 0
    """Pods that the weeder deleted."""
    seconds: float = 0.0
    """For how long it lasted, in its own time."""
