"""How the targets of endpoint probes answer in a simulated world, where that is not what its pods say."""

from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """What a target does when it is asked."""

    WELL = "Well"
    UNWELL = "Unwell"
    """It answers that it is not well."""
    REFUSES = "Refuses"
    """It refuses connections."""
    SWALLOWS = "Swallows"
    """It says nothing."""
    ERRS = "Errs"
    """It could not even be asked, which says nothing about it."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How one target answers."""

    answer: Answer = Answer.WELL
    after: float = 0.0
    """Seconds that it takes longer than others."""


class Hosts:
    """What is said of targets: hosts, or pods by their names."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], list[Manner]] = {}

    def begin(self, manner: Manner, host: str, namespace: str = "") -> None:
        """From now on a target answers so, for probes of this namespace, or of all; what was said last holds."""
        self._said.setdefault((namespace, host), []).append(manner)

    def end(self, manner: Manner, host: str, namespace: str = "") -> None:
        """It does not any more."""
        self._said[namespace, host].remove(manner)

    def manner(self, namespace: str, host: str) -> Manner | None:
        """How a target answers probes of this namespace; None where nothing is said."""
        for place in (namespace, ""):
            if said := self._said.get((place, host)):
                return said[-1]
        return None
