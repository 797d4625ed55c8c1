"""The pods that the watchdog restarted, and how much earlier they were Ready again; pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple


class Count(NamedTuple):
    """The number of Ready pods of a workload from an instant on."""

    at: float
    ready: int


History = Sequence[Count]
"""All changes of the number of Ready pods, in order; the first is the initial number."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A pod in CrashLoopBackOff that the watchdog deleted."""

    shoot: str
    """The short name of the shoot."""
    pod: str
    workload: str
    at: float
    """When it was deleted."""
    since: float
    """When the service that the pod depends on became ready."""
    due: float | None
    """When its kubelet would have restarted it; None if unknown."""
    back: float | None = None
    """When its replacement became Ready."""
    ready: int = 0
    """The number of Ready pods of its workload then, including the replacement."""


@dataclass(frozen=True, slots=True)
class Saving:
    """The savings of all restarts so far."""

    restarts: int = 0
    seconds: float = 0.0
    """The sum over all replacements that are Ready, in seconds."""
    most: float = 0.0
    """The maximum for a single pod, in seconds."""

    def __bool__(self) -> bool:
        return self.restarts > 0


NOTHING_SAVED: Final = Saving()

Twin = Callable[[Restart], History]
"""Returns the history of the same workload in the world without a watchdog."""


def saving(restarts: Iterable[Restart], twin: Twin) -> Saving:
    """Adds up the savings of restarts."""
    chosen = tuple(restarts)
    each = [seconds for one in chosen if (seconds := saved(one, twin(one))) is not None]
    return Saving(len(chosen), sum(each), max(each, default=0.0))


def saved(restart: Restart, twin: History) -> float | None:
    """Returns by how many seconds a pod was Ready earlier; None if it is not Ready yet, or the gain is unknown.

    It counts against the twin: until as many pods of the workload are Ready there.  Where that has not come yet, it is
    the instant at which the kubelet would have started the pod: it cannot have been Ready before.
    """
    if restart.back is None:
        return None
    otherwise = first_with(twin, restart.ready, restart.at)
    otherwise = restart.due if otherwise is None else otherwise
    return None if otherwise is None else otherwise - restart.back


def first_with(history: History, ready: int, since: float) -> float | None:
    """Returns the first instant from `since` on at which that many pods are Ready; None if it has not been reached."""
    for count, after in pairwise((*history, Count(inf, 0))):
        if count.ready >= ready and after.at > since:
            return max(count.at, since)
    return None
