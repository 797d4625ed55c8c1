"""The seed's network to the outside, which probes of external hosts and the external routes to shoots pass.

The seed's own API server and pods are reached without it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class SeedNetwork:
    """The state of the network; while it is cut, packets are dropped and connections are not refused."""

    def __init__(self) -> None:
        self._cuts = 0
        self._listeners: list[Callable[[], None]] = []
        self._whole = asyncio.Event()
        self._whole.set()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each cut and each repair."""
        self._listeners.append(listener)

    @property
    def down(self) -> bool:
        """Whether the network is cut now."""
        return self._cuts > 0

    def cut(self) -> None:
        """Cuts the network; it works again when each cut has been mended."""
        self._cuts += 1
        self._whole.clear()
        self._tell()

    def mend(self) -> None:
        """Ends one cut."""
        self._cuts -= 1
        if not self._cuts:
            self._whole.set()
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    async def through(self) -> None:
        """Returns as soon as the network works, because lost packets are retransmitted."""
        await self._whole.wait()


# How targets of endpoint probes behave if faults override it.


class TargetAnswer(StrEnum):
    """The behaviour of a target that is probed."""

    WELL = "Well"
    UNWELL = "Unwell"
    """It answers with a failure."""
    REFUSES = "Refuses"
    """Connections are refused."""
    SWALLOWS = "Swallows"
    """It never answers."""
    ERRS = "Errs"
    """The run ends in an error, which says nothing about the target."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a target answers, and with what delay."""

    answer: TargetAnswer = TargetAnswer.WELL
    after: float = 0.0
    """Additional seconds until the answer."""


class Hosts:
    """The behaviour that faults set for targets: hosts, or pods by name."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], list[Manner]] = {}

    def begin(self, manner: Manner, host: str, namespace: str = "") -> None:
        """Sets the behaviour of a target for probes of one namespace, or of all; the latest setting applies."""
        self._said.setdefault((namespace, host), []).append(manner)

    def end(self, manner: Manner, host: str, namespace: str = "") -> None:
        """Removes a setting."""
        self._said[namespace, host].remove(manner)

    def manner(self, namespace: str, host: str) -> Manner | None:
        """Returns the behaviour set for a target and probes of a namespace; None if there is none."""
        for place in (namespace, ""):
            if said := self._said.get((place, host)):
                return said[-1]
        return None
