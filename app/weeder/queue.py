"""The pods of one recovery that are to be deleted, and when each may be asked for (again)."""

from collections import OrderedDict
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from app.core.model.pods import PodView
from app.core.model.weeding import Cull
from app.core.runtime.backoff import Backoff

_AGAIN: Final = Backoff(first=1.0, most=30.0)
_BETWEEN_JUDGEMENTS: Final = 1.0
"""Seconds between two judgements of a pod whose deletion met a conflict."""
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Hold:
    """Why a pod has to wait."""

    until: float
    failures: int = 0
    version: str | None = None
    """The version that is no more: only another one is asked for again."""


class Holds:
    """What holds pods back, by uid: of all recoveries, as two of them may want the same pod."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, _Hold] = OrderedDict()

    def of(self, pod: PodView) -> _Hold | None:
        """What holds this one back; None where nothing does."""
        return self._of.get(pod.uid)

    def put(self, pod: PodView, hold: _Hold) -> None:
        """It is held back from now on; the oldest of thousands is forgotten."""
        self._of[pod.uid] = hold
        self._of.move_to_end(pod.uid)
        if len(self._of) > _REMEMBERED:
            self._of.popitem(last=False)


class DeletionQueue:
    """Pods that wait for their deletion; pure but for what it holds."""

    def __init__(self, holds: Holds | None = None) -> None:
        self._due: dict[str, tuple[float, float]] = {}
        self._holds = holds or Holds()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, pod: PodView, cull: Cull, now: float) -> None:
        """It is to be deleted, as soon as what holds it is over."""
        hold = self._holds.of(pod)
        if hold is not None and hold.version == pod.resource_version:
            self._due.pop(pod.name, None)
            return
        at = now if hold is None else max(now, hold.until)
        longest = float("inf") if cull.remaining is None else cull.remaining
        known = self._due.get(pod.name)
        self._due[pod.name] = (at if known is None else max(known[0], at), longest)

    def names(self) -> AbstractSet[str]:
        """Of all that wait."""
        return self._due.keys()

    def drop(self, name: str) -> None:
        """It is not to be deleted any more, or has been asked for."""
        self._due.pop(name, None)

    def first(self, now: float) -> str | None:
        """The one to delete now: of those that are due, the one that would wait longest; None where none is due."""
        due = [(-longest, name) for name, (at, longest) in self._due.items() if at <= now]
        return min(due)[1] if due else None

    def due(self, name: str, now: float) -> bool:
        """Whether this one may be deleted now."""
        return name in self._due and self._due[name][0] <= now

    def next_at(self) -> float | None:
        """When the first is due; None where there is none."""
        return min((at for at, _ in self._due.values()), default=None)

    def until_next_version(self, pod: PodView, now: float) -> None:
        """This version of it is no more: the next one is judged, a second from now at the earliest."""
        until = now + _BETWEEN_JUDGEMENTS
        self._holds.put(pod, _Hold(until, version=pod.resource_version))

    def failed(self, pod: PodView, now: float, retry_after: float | None) -> None:
        """The same again: when the server says, else (or where it says at once) after 1 s, doubling to 30 s."""
        before = self._holds.of(pod)
        failures = 1 if before is None else before.failures + 1
        pause = retry_after or _AGAIN.delay(failures)
        self._holds.put(pod, _Hold(now + pause, failures))
