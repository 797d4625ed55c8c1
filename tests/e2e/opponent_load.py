"""How busy the machine was: what came late because of it is not the program's fault, and the other way round."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TICK = 0.02
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Load:
    """What was measured."""

    busy: float
    """The part of all processors that was in use, 0 … 1; 0 where the system does not tell."""
    late: float
    """By how many seconds a timer of this process was late at worst."""


class LoadMeter:
    """Measures from its beginning to its end; a context manager."""

    def __init__(self) -> None:
        self._late = 0.0
        self._began = _jiffies()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def read(self) -> Load:
        """The load from the beginning until now."""
        busy, total = (now - then for now, then in zip(_jiffies(), self._began, strict=True))
        return Load(busy / total if total else 0.0, self._late)

    async def _tick(self) -> None:
        while True:
            due = time.monotonic() + _TICK
            await asyncio.sleep(_TICK)
            self._late = max(self._late, time.monotonic() - due)


def _jiffies() -> tuple[float, float]:
    """Busy time and all time of all processors since the machine started."""
    if not _STAT.exists():
        return 0.0, 0.0
    times = [float(each) for each in _STAT.read_text().splitlines()[0].split()[1:9]]
    idle = times[3] + times[4]  # idle, and waiting for a disk
    return sum(times) - idle, sum(times)
