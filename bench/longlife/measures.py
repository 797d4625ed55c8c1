"""What is measured at the end of an hour, and what has grown."""

import ctypes
import gc
import os
import re
import sys
import tempfile
import tracemalloc
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from statistics import linear_regression, median
from typing import Final, NamedTuple

MOST: Final = 1.05
"""At the end there may be so much more of a number, and of memory: a leak of 1 MiB in a week is 5.5 % of the 17.7 MiB
of 50 shoots."""
SPARE, SPARE_KEPT = 3, 20
"""A number may be so much greater in any case; what is kept depends on the last minutes before the calm."""
WINDOW: Final = 12
"""Hours that are compared: the first after the storm, and the last."""
MIB: Final = 1 << 20
FILLING: Final = frozenset(
    {
        "OperationLog._past",  # 2,000 scaling runs
        "OperationLog._manual",  # 500 by hand
        "_ShootHistory._entries",  # the history of a shoot: 520 entries, 86 kB
        "RecoveryRegistry._services",  # the recoveries of 1,000 services, gone ones included; with each:
        "_ServiceRecoveries.opened_at",  # 16
        "_ServiceRecoveries.past",  # 5, each with 500 pods at most
        "RecoveryLog.deletions",
        "RecoveryLog._spared",
        "FairRateLimiter._served",  # the last turns of 4,096 namespaces, gone ones included
        "ShootCounts.probe_failures",  # for each shoot that is there, one for each kind of request
        "WeederSeed._service_of",  # the slices that the seed has: people split services, into 3 at most
    }
)
"""What has a bound of its own, and may take days to reach it; its memory counts."""


class Hour(NamedTuple):
    """What there was at the end of an hour."""

    memory: int
    """Bytes that are allocated, less those before the seed was made."""
    numbers: Mapping[str, int]
    """Tasks, watches, connections, time series."""
    kept: Mapping[str, int]
    """How much all objects of a class keep in one of their attributes, together."""

    def __str__(self) -> str:
        numbers = ", ".join(f"{number:,} {what}" for what, number in self.numbers.items())
        most = ", ".join(f"{what} {n:,}" for what, n in Counter(self.kept).most_common(3))
        return f"{self.memory / MIB:.1f} MiB, {numbers}; most kept: {most}"


# Memory. `tracemalloc` makes a simulated hour take four times as long, so it only runs where a line is to be found.


class _Malloc(ctypes.Structure):
    """`struct mallinfo2` of glibc: what is allocated beside Python's own small blocks."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


_SMALL: Final = re.compile(rb"bytes in allocated blocks\s*=\s*([\d,]+)")


def allocated() -> int:
    """Bytes that this process has allocated, and not freed: exactly, whatever the allocators keep for later.

    While `tracemalloc` runs, which hides Python's allocator, those that it has seen.
    """
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[0]
    with tempfile.TemporaryFile() as told:
        stderr = os.dup(2)
        os.dup2(told.fileno(), 2)
        try:
            sys._debugmallocstats()  # noqa: SLF001  Python has no other word for it
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        told.seek(0)
        small = _SMALL.search(told.read())
    if small is None:
        raise RuntimeError("this Python has another allocator")
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Malloc
    others = ask()
    return int(small[1].replace(b",", b"")) + int(others.uordblks) + int(others.hblkhd)


_CONTAINERS: Final = (dict, list, set, deque)


def kept() -> Mapping[str, int]:
    """What objects of the program keep, by class and attribute."""
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        module = str(kind.__module__)
        if not module.startswith("app.") or module.startswith("app.simulation"):
            continue
        slots = (name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
        for name in (*getattr(each, "__dict__", ()), *slots):
            value = getattr(each, name, None)
            if isinstance(value, _CONTAINERS):
                found[f"{kind.__qualname__}.{name}"] += len(value)
    return found


def lines() -> Counter[str]:
    """Bytes that are allocated now, by the line that did, since `tracemalloc` was started."""
    found = tracemalloc.take_snapshot().statistics("lineno")
    return Counter({str(each.traceback): each.size for each in found})


def windows(hours: int) -> tuple[range, range]:
    """Which of so many hours are compared, counted from 0; that of the storm is not."""
    size = max(min(WINDOW, hours // 2), 1)
    return range(1, max(size, 2)), range(hours - size, hours)


def grown(hours: Sequence[Hour]) -> list[str]:
    """What has grown, in words."""
    early, late = ([hours[each] for each in window] for window in windows(len(hours)))
    found = []
    # The line through all hours after the storm: single ones differ by half of what may be more at the end.
    memory = [each.memory for each in hours[1:]]
    slope, before = linear_regression(range(len(memory)), memory) if len(memory) > 1 else (0, 0)
    after = before + slope * (len(memory) - 1)
    if after > before * MOST:
        found.append(f"memory: {before / MIB:.1f} MiB, then {after / MIB:.1f} MiB")
    names = sorted({name for hour in late for name in (*hour.numbers, *hour.kept)} - FILLING)
    for name in names:
        before, after = (
            median({**each.kept, **each.numbers}.get(name, 0) for each in some)
            for some in (early, late)
        )
        spare = SPARE_KEPT if "." in name else SPARE
        if after > before * MOST + spare:
            found.append(f"{name}: {before:,.0f}, then {after:,.0f}")
    return found


def verdict(found: Sequence[str], strays: Sequence[str]) -> int:
    for each in (*found, *(f"nobody took: {stray}" for stray in strays[:10])):
        print(each)
    print("something has grown, or failed" if found or strays else "nothing has grown")
    return 1 if found or strays else 0
