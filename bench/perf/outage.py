"""The mass outage: every path cut at once, and mended; when each shoot was protected, and how they came back."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.perf.children import Child
from bench.perf.figures import most_within
from bench.perf.program import program
from bench.perf.sides import Side
from bench.perf.steady import Size, Start, started
from bench.perf.validity import Stretch, Watch

SETTLE: Final = 70.0
"""Seconds: two probes and more, so that clocks and leases are learnt."""
PROTECT: Final = 60.0
"""Seconds from the cut: 30 s until the last lease has expired, and what comes after."""
RECOVER: Final = 100.0
"""Seconds from the mending, and a tenth for each shoot: they begin 10 a second, and the second level waits for 30 s."""
GARDENERS: Final = 30.0
"""Its interval, seconds."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What became of all shoots while they were cut off."""

    first: tuple[float, ...]
    """Seconds from the instant at which the outage could be known to the first write."""
    zero: tuple[float, ...]
    """The same to kube-controller-manager at 0."""
    missed: int
    """Shoots whose kube-controller-manager was not scaled down."""
    not_ready: int
    """Nodes that were marked NotReady."""
    deleted: int
    """Machines that were deleted."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of them when the paths were back."""

    began: tuple[float, ...]
    """Seconds from the mending to the first scale-up of each shoot."""
    a_second: int
    """The most shoots whose scale-up began within any second."""
    lost: int
    """Shoots with a count that did not come back."""
    unclean: int
    """Shoots on which an annotation was left."""


@dataclass(frozen=True, slots=True)
class Told:
    """The Events of scaling: seconds from what each tells of until it was there."""

    down: tuple[float, ...]
    up: tuple[float, ...]
    missing: int
    """Events of scale-downs that were not there when the paths were mended."""


@dataclass(frozen=True, slots=True)
class MassOutage:
    """Every path cut at once, and mended."""

    shoots: int
    cut: Cut
    mended: Mended
    told: Told | None
    """None where nobody may write Events."""
    cpu: float
    """Cores that the program used while they were cut off."""
    down: Stretch
    up: Stretch
    peak: float
    """MiB, of the program, from start to end."""


def measure_outage(side: Side, load: Child, folder: Path, size: Size) -> tuple[Start, MassOutage]:
    """A fresh process of one side, through an outage of every shoot."""
    load.ask("begin")
    with program(side, folder, size.interval) as running:
        start = started(load, running, size.shoots)
        time.sleep(SETTLE)
        watch, cpu = Watch(load), running.child.usage().cpu
        load.ask("cut")
        time.sleep(PROTECT)
        down, used = watch.end(), (running.child.usage().cpu - cpu) / PROTECT
        outages = load.ask("outage")
        told_down = load.ask("told")
        watch, mended_at = Watch(load), load.ask("mend")
        time.sleep(RECOVER + size.shoots / 10)
        up, recoveries, told_up = watch.end(), load.ask("recovery"), load.ask("told")
        peak = running.child.usage().peak
    found = MassOutage(
        shoots=size.shoots,
        cut=_cut(outages),
        mended=_mended(recoveries, mended_at),
        told=_told(told_down, told_up, 4 * size.shoots),
        cpu=used,
        down=down,
        up=up,
        peak=peak,
    )
    return start, found


def _cut(outages: Sequence[Mapping[str, Any]]) -> Cut:
    protected = [each for each in outages if each["known"] is not None and each["zero"] is not None]
    return Cut(
        first=tuple(each["first"] - each["known"] for each in protected),
        zero=tuple(each["zero"] - each["known"] for each in protected),
        missed=len(outages) - len(protected),
        not_ready=sum(each["not_ready"] for each in outages),
        deleted=sum(each["deleted"] for each in outages),
    )


def _told(down: Sequence[Mapping[str, Any]], up: Sequence[Mapping[str, Any]], wanted: int) -> Told:
    """`down` and `up`: all Events until then; `wanted`: how many those of the scale-downs are."""

    def late(told: Sequence[Mapping[str, Any]], *reasons: str) -> tuple[float, ...]:
        return tuple(each["there"] - each["at"] for each in told if each["reason"] in reasons)

    found = late(down, "MeltdownProtectionStarted", "ScaledDown")
    return Told(found, late(up, "ScaledUp"), wanted - len(found))


def _mended(recoveries: Sequence[Mapping[str, Any]], at: float) -> Mended:
    began = sorted(each["began"] - at for each in recoveries if each["began"] is not None)
    return Mended(
        began=tuple(began),
        a_second=most_within(began, 1.0),
        lost=sum(not each["whole"] for each in recoveries),
        unclean=sum(not each["clean"] for each in recoveries),
    )
