"""Pods that the watchdog restarted, and how much sooner they were back; pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple


class Count(NamedTuple):
    """So many pods of a workload were Ready from an instant on."""

    at: float
    ready: int


History = Sequence[Count]
"""In their order; the first says how many there were in the beginning."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A pod that waited in CrashLoopBackOff and that the watchdog deleted."""

    shoot: str
    """Its short name."""
    pod: str
    workload: str
    at: float
    """When it was deleted."""
    since: float
    """When the service that it needs was ready again."""
    due: float | None
    """When its kubelet would have started it again; None where that is not known."""
    back: float | None = None
    """When the pod in its place became Ready."""
    ready: int = 0
    """How many pods of its workload were Ready then, this one too."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What the restarts have saved until now."""

    restarts: int = 0
    seconds: float = 0.0
    """Of all that are back, together."""
    most: float = 0.0
    """Of one pod."""

    def __bool__(self) -> bool:
        return self.restarts > 0


NOTHING_SAVED: Final = Saving()

Twin = Callable[[Restart], History]
"""The workload of a restart in the world that has no watchdog."""


def saving(restarts: Iterable[Restart], twin: Twin) -> Saving:
    """Adds up what was saved."""
    chosen = tuple(restarts)
    each = [seconds for one in chosen if (seconds := saved(one, twin(one))) is not None]
    return Saving(len(chosen), sum(each), max(each, default=0.0))


def saved(restart: Restart, twin: History) -> float | None:
    """Seconds by which a pod was back sooner than it would have been; None: it is not back, or nobody knows.

    It counts against the twin: until as many pods of the workload are Ready there.  Where that has not come yet, it is
    the instant at which the kubelet would have started the pod: it cannot have been Ready before.
    """
    if restart.back is None:
        return None
    otherwise = first_with(twin, restart.ready, restart.at)
    otherwise = restart.due if otherwise is None else otherwise
    return None if otherwise is None else otherwise - restart.back


def first_with(history: History, ready: int, since: float) -> float | None:
    """The first instant from `since` on at which so many pods are Ready; None: it has not come."""
    for count, after in pairwise((*history, Count(inf, 0))):
        if count.ready >= ready and after.at > since:
            return max(count.at, since)
    return None
