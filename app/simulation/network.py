"""The seed's own way out: what probes of hosts and the external routes to shoots go through.

What is inside of the seed, its API server and its pods, is reached without it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class SeedNetwork:
    """Whether packets get out; one that is cut swallows them, and refuses nothing."""

    def __init__(self) -> None:
        self._cuts = 0
        self._listeners: list[Callable[[], None]] = []
        self._whole = asyncio.Event()
        self._whole.set()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each cut and each mending."""
        self._listeners.append(listener)

    @property
    def down(self) -> bool:
        """Whether it is cut now."""
        return self._cuts > 0

    def cut(self) -> None:
        """Nothing gets out, until each cut is mended."""
        self._cuts += 1
        self._whole.clear()
        self._tell()

    def mend(self) -> None:
        """One cut less."""
        self._cuts -= 1
        if not self._cuts:
            self._whole.set()
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    async def through(self) -> None:
        """Returns when packets get out: at once, or when it is mended, as they are sent again and again."""
        await self._whole.wait()


# How the targets of endpoint probes answer in a simulated world, where that is not what its pods say.


class TargetAnswer(StrEnum):
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

    answer: TargetAnswer = TargetAnswer.WELL
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
