"""Whether a measurement says anything: the load must not have been the bottleneck, nor anybody else on the machine."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.perf import usage
from bench.perf.children import Child

MOST_LOAD: Final = 0.9
"""Of a core, that the servers may use."""
MOST_LAG: Final = 0.1
"""Seconds by which the servers' loop may be late, at worst."""
LEAST_IDLE: Final = 0.05
"""Of all cores."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A measured stretch of time, as the machine had it."""

    seconds: float
    load: float
    """Cores that the servers used."""
    idle: float
    """Share of all cores that was idle."""
    lag: float
    """Seconds by which the servers' loop was late, at worst."""
    counts: Mapping[str, Any]
    """What the servers counted."""

    def doubts(self) -> list[str]:
        """Why its figures may be wrong; empty where nothing speaks against them."""
        found = []
        if self.load > MOST_LOAD:
            found.append(f"the servers used {self.load:.2f} cores")
        if self.lag > MOST_LAG:
            found.append(f"the servers were {self.lag * 1e3:.0f} ms late at worst")
        if self.idle < LEAST_IDLE:
            found.append(f"only {self.idle:.0%} of the machine was idle")
        return found


class Watch:
    """Watches the machine and the servers for one stretch."""

    def __init__(self, load: Child) -> None:
        self._load = load
        load.ask("counts")
        self._cpu, self._idle = load.usage().cpu, usage.machine_idle()
        self._begun = time.monotonic()

    def end(self) -> Stretch:
        """What there was to see."""
        seconds = time.monotonic() - self._begun
        cores = os.cpu_count() or 1
        counts = self._load.ask("counts")
        return Stretch(
            seconds,
            (self._load.usage().cpu - self._cpu) / seconds,
            (usage.machine_idle() - self._idle) / seconds / cores,
            counts["lag"],
            counts,
        )
