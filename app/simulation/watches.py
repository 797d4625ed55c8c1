"""The watches of the seed's API server that are open, and the faults that keep them from delivering."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from app.core.ports import Watched

_OF_OTHERS: Final = frozenset(
    {
        *("Pod", "EndpointSlice", "Service", "Lease", "Event"),
        *("Pause", "ScaleRequest"),
    }
)
"""Kinds that the prober does not watch: they belong to the weeder, to what people decide and to endpoint probes."""


class Stream(Protocol):
    """An open watch."""

    def cut(self) -> None:
        """Breaks the connection; pending events are lost."""
        ...

    def end(self) -> None:
        """Ends it, a while after the last pending event."""
        ...


def watched(kind: str) -> Watched | None:
    """Returns the prober's watch that delivers changes of a kind; None if there is none."""
    match kind:
        case "Cluster":
            return Watched.CLUSTERS
        case "Secret":
            return Watched.SECRETS
        case "Machine":
            return Watched.MACHINES
        case _:
            return None if kind in _OF_OTHERS else Watched.DEPENDENTS


class OpenWatches:
    """All open watches of the seed, counted by kind."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        """The maximum number of watches open at the same time, by kind."""
        self._stalled: set[str] = set()
        self._served: list[tuple[str, Stream]] = []

    def open_now(self, kind: str) -> int:
        """Returns the number of open watches of a kind."""
        return len(self._of(kind))

    @contextmanager
    def serving(self, kind: str, stream: Stream) -> Iterator[None]:
        """Counts a watch as long as it is open."""
        served = (kind, stream)
        self._served.append(served)
        self.most[kind] = max(self.most[kind], self.open_now(kind))
        try:
            yield
        finally:
            self._served.remove(served)

    def cut(self, kind: str) -> None:
        """Breaks the connections of all watches of a kind; pending events are lost."""
        for stream in self._of(kind):
            stream.cut()

    def end(self, kind: str) -> None:
        """Ends all watches of a kind, which is served no longer."""
        for stream in self._of(kind):
            stream.end()

    def _of(self, kind: str) -> list[Stream]:
        return [stream for each, stream in self._served if each == kind]

    def stall(self, what: str) -> None:
        """Stops delivery to the watches of a kind, or of all kinds of a `Watched`, while they stay open."""
        self._stalled.add(what)

    def go_on(self, what: str) -> None:
        """Ends `stall`; pending events are delivered."""
        self._stalled.discard(what)

    def stalled(self, kind: str) -> bool:
        """Returns whether watches of a kind deliver nothing."""
        return kind in self._stalled or watched(kind) in self._stalled
