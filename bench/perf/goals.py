"""The figures that the program is to reach, and whether it does; pure."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bench.perf.cases import Run
from bench.perf.figures import mean, quantile
from bench.perf.outage import MassOutage, Told
from bench.perf.steady import Size

MOST_TIMES_FLOOR: Final = 2.0
_MANY: Final[Mapping[Size, tuple[float, float]]] = MappingProxyType(
    {Size(500, 100): (0.08, 200), Size(1000, 10): (0.25, 250), Size(3000, 10): (0.25, 300)}
)
"""Where there are many shoots: cores, and MiB of RSS, at most."""
_MS: Final = 1e3


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure."""

    what: str
    most: float
    value: float
    unit: str

    @property
    def reached(self) -> bool:
        """Whether the value is known, and not above the most that it may be."""
        return not math.isnan(self.value) and self.value <= self.most


def goals(results: Mapping[str, Sequence[Run]]) -> list[Goal]:
    """What there is to say of these runs of one side, by case."""
    return [goal for name, runs in results.items() for goal in _of(name, runs)]


def _of(name: str, runs: Sequence[Run]) -> Iterator[Goal]:
    yield from _steady(name, runs)
    yield from _start(name, runs)
    yield from _outage(name, runs)
    for run in runs:
        if run.odd is not None:
            lag = run.odd.lag.quantile(0.99) * _MS
            yield Goal(f"{name}: lag of probes beside two odd shoots, p99", 250, lag, "ms")


def _steady(name: str, runs: Sequence[Run]) -> Iterator[Goal]:
    found = [run.steady for run in runs if run.steady is not None]
    if not found:
        return
    size = runs[0].size
    times = mean([each.cpu / each.floor for each in found])
    yield Goal(f"{name}: CPU per probe, of the bare loop's", MOST_TIMES_FLOOR, times, "×")
    about = 3.0 if size.nodes >= 100 else 1.5
    cpu = mean([each.cpu for each in found]) * _MS
    yield Goal(f"{name}: CPU per probe, about", about, cpu, "ms")
    peak = max(each.peak for each in found)
    lag = max(each.lag.quantile(0.99) for each in found) * _MS
    if size in _MANY:
        cores, rss = _MANY[size]
        yield Goal(f"{name}: cores", cores, mean([each.cores for each in found]), "")
        yield Goal(f"{name}: RSS", rss, peak, "MiB")
        yield Goal(f"{name}: lag of probes, p99", 250, lag, "ms")
    elif size.shoots >= 300:
        yield Goal(f"{name}: RSS, peak at start included", 150, peak, "MiB")
        part = max(each.peak / each.rss for each in found)
        yield Goal(f"{name}: RSS peak, of the steady one", 1.3, part, "×")


def _start(name: str, runs: Sequence[Run]) -> Iterator[Goal]:
    found = [run.start.seconds for run in runs if run.start is not None]
    if found and runs[0].size.shoots == 300:
        yield Goal(f"{name}: first probe of every shoot", 5, max(found), "s")


def _not_back(found: MassOutage) -> float:
    return found.shoots - len(found.mended.began)


def _late(told: Told) -> float:
    """One that never came is later than any."""
    return quantile((*told.down, *[math.inf] * told.missing), 0.99)


def _outage(name: str, runs: Iterable[Run]) -> Iterator[Goal]:
    for run in runs:
        if (found := run.outage) is None:
            continue
        yield Goal(f"{name}: known to first write, p99", 3, quantile(found.cut.first, 0.99), "s")
        zero = found.cut.zero if not found.cut.missed else (*found.cut.zero, math.inf)
        yield Goal(f"{name}: known to KCM at 0, p99", 5, quantile(zero, 0.99), "s")
        yield Goal(f"{name}: known to KCM at 0, latest", 8, quantile(zero, 1.0), "s")
        if found.told is not None and found.shoots <= 100:
            yield Goal(f"{name}: Events of scale-downs, p99", 2, _late(found.told), "s")
        yield Goal(
            f"{name}: scale-ups that begin within a second", 10, found.mended.a_second, "shoots"
        )
        yield Goal(f"{name}: shoots that did not recover", 0, _not_back(found), "shoots")
        yield Goal(f"{name}: counts lost", 0, found.mended.lost, "shoots")
