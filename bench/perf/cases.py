"""What is measured, by name; and how one of them is run for every side, in turn: A B A B."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bench.perf import children
from bench.perf.children import Child
from bench.perf.odd import Odd, measure_odd
from bench.perf.outage import GARDENERS, MassOutage, measure_outage
from bench.perf.sides import Side
from bench.perf.steady import Size, Start, Steady, measure_program

SECONDS: Final = 40.0
"""Of a steady state: four looks at each shoot."""


@dataclass(frozen=True, slots=True)
class Run:
    """One fresh process of one side; what of it was measured."""

    side: str
    size: Size
    start: Start | None = None
    steady: Steady | None = None
    outage: MassOutage | None = None
    odd: Odd | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table."""

    size: Size
    measure: Callable[[Side, Child, Path, Size, float], Run]
    odd: bool = field(default=False)
    """Whether the load has the two odd shoots."""
    events: bool = field(default=True)
    """Whether Events may be written."""


def _steady(side: Side, load: Child, folder: Path, size: Size, seconds: float) -> Run:
    start, found = measure_program(side, load, folder, size, seconds)
    return Run(side.name, size, start, steady=found)


def _outage(side: Side, load: Child, folder: Path, size: Size, _seconds: float) -> Run:
    start, found = measure_outage(side, load, folder, size)
    return Run(side.name, size, start, outage=found)


def _untold(side: Side, load: Child, folder: Path, size: Size, _seconds: float) -> Run:
    start, found = measure_outage(side, load, folder, size)
    return Run(side.name, size, start, outage=replace(found, told=None))


def _odd(side: Side, load: Child, folder: Path, size: Size, seconds: float) -> Run:
    return Run(side.name, size, odd=measure_odd(side, load, folder, size, seconds))


CASES: Final[Mapping[str, Case]] = MappingProxyType(
    {
        "steady-100x10": Case(Size(100, 10), _steady),
        "steady-100x100": Case(Size(100, 100), _steady),
        "steady-300x10": Case(Size(300, 10), _steady),
        "steady-500x100": Case(Size(500, 100), _steady),
        "steady-1000x10": Case(Size(1000, 10), _steady),
        "steady-3000x10": Case(Size(3000, 10), _steady),
        "outage-300x10": Case(Size(300, 10, GARDENERS), _outage),
        "outage-100x10": Case(Size(100, 10, GARDENERS), _outage),
        "outage-100x10-no-events": Case(Size(100, 10, GARDENERS), _untold, events=False),
        "odd-300x10": Case(Size(300, 10), _odd, odd=True),
    }
)


def run(case: Case, sides: Sequence[Side], rounds: int, seconds: float) -> list[Run]:
    """Every side in turn, so many times; each time a fresh process.

    The load goes on beside them; an outage leaves its traces there, so after one it is a fresh one, too.
    """
    found: list[Run] = []
    turns = [side for _ in range(rounds) for side in sides]
    while turns:
        with tempfile.TemporaryDirectory(prefix="dwd-bench-") as name:
            folder = Path(name)
            with children.load(
                folder, case.size.shoots, case.size.nodes, odd=case.odd, events=case.events
            ) as load:
                while turns:
                    found.append(case.measure(turns.pop(0), load, folder, case.size, seconds))
                    if found[-1].outage is not None:
                        break
    return found
