"""What each process sees of the seed through watches of its own.

`Outlets` stands where a simulated world has its one set of watch caches: what happens to the watches of the seed
happens to those of every process, and to those of a process that starts meanwhile.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from app.core.clock import Clock
from app.core.errors import ClusterError
from app.core.limits import Backoff
from app.core.ports import SeedChange, Watched
from app.simulation.reflection import OpenWatches, SimulatedWatch
from app.simulation.store import Store, StoreEvent
from app.simulation.traffic import Host, SimulatedRequest
from app.simulation.watching import WatchCaches
from bench.exploration.line import LinedApi
from bench.exploration.timeline import Machine

_BACKOFF = Backoff(first=1.0, most=30.0)


class Tap:
    """A store whose subscribers can leave."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: dict[Callable[[StoreEvent], None], None] = {}
        store.subscribe(self._heard)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the store has
        return getattr(self._store, name)

    def subscribe(self, listener: Callable[[StoreEvent], None]) -> None:
        """`listener` is called with each change."""
        self._listeners[listener] = None

    def leave(self, listeners: "list[Callable[[StoreEvent], None]]") -> None:
        """These are called no more."""
        for listener in listeners:
            self._listeners.pop(listener, None)

    def _heard(self, event: StoreEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)


class _OwnTap:
    """A tap as one process has it: what subscribed through it leaves together."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self._mine: list[Callable[[StoreEvent], None]] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the store has
        return getattr(self._tap, name)

    def subscribe(self, listener: Callable[[StoreEvent], None]) -> None:
        self._mine.append(listener)
        self._tap.subscribe(listener)

    def close(self) -> None:
        self._tap.leave(self._mine)


class ProcessWatches:
    """The watches of one process: listed by requests of its own, then kept up to date."""

    def __init__(
        self, machine: Machine, clock: Clock, tap: Tap, api: LinedApi, delay: float
    ) -> None:
        self._machine = machine
        self._clock = clock
        self._api = api
        self._tap = _OwnTap(tap)
        self.caches = WatchCaches(clock, self._tap, delay=delay)  # type: ignore[arg-type]  # all that it asks of a store
        self._listing: set[Watched] = set()

    def subscribe(self, listener: Callable[[SeedChange], None]) -> None:
        """`listener` is called on the process's machine, whoever has caused the change."""

        def heard(change: SeedChange) -> None:
            self._machine.call_soon(listener, change)

        self.caches.subscribe(heard)

    def close(self) -> None:
        """Nothing comes any more."""
        self._tap.close()

    async def list(self, what: Watched) -> None:
        """Lists until it succeeds."""
        if what in self._listing:
            return
        self._listing.add(what)
        request = SimulatedRequest(Host.SEED, "list", f"all {what}")
        failures = 0
        while what in self._listing:
            try:
                await self._api.ask(request, lambda: self.caches.sync(what))
            except ClusterError:
                failures += 1
                await self._clock.sleep(_BACKOFF.delay(failures))
            else:
                self._listing.discard(what)


class ProcessStreams:
    """The open watches of one process: a server notices when nobody is at the other end."""

    def __init__(self, watches: OpenWatches, machine: Machine) -> None:
        self._watches, self._machine = watches, machine
        self._open: dict[SimulatedWatch, None] = {}
        self._left: set[SimulatedWatch] = set()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the watches have
        return getattr(self._watches, name)

    def open(self, stream: SimulatedWatch, missed: Iterable[StoreEvent]) -> None:
        """One more, unless who asked for it has left."""
        if stream in self._left or not self._machine.alive:
            self._left.discard(stream)
            return
        self._open[stream] = None
        self._watches.open(stream, missed)

    def close(self, stream: SimulatedWatch) -> None:
        """One fewer; one that is not open yet never will be."""
        if stream in self._open:
            del self._open[stream]
            self._watches.close(stream)
        else:
            self._left.add(stream)

    def of_pods(self, namespace: str) -> int:
        """How many watches of pods of this namespace are open."""
        return sum((each.kind, each.namespace) == ("Pod", namespace) for each in self._open)


@dataclass(slots=True, eq=False)
class Outlets:
    """The watches of all processes of a world."""

    start: Callable[[Any, Watched], None]
    """Lets a process list."""
    processes: list[Any] = field(default_factory=list)
    _frozen: dict[Watched, float] = field(default_factory=dict)
    _unsynced: dict[Watched, None] = field(default_factory=dict)

    @property
    def disturbed(self) -> bool:
        """Whether a watch of Clusters or Machines shows what was."""
        return bool({Watched.CLUSTERS, Watched.MACHINES} & (self._frozen.keys() | self._unsynced))

    def joined(self, process: Any) -> None:  # noqa: ANN401  a Process: it knows us
        """A process starts: it meets what is wrong now."""
        self.processes.append(process)
        for what in Watched:
            if what not in self._unsynced:
                self.start(process, what)
        for what, since in self._frozen.items():
            process.machine.call_soon(process.watches.caches.freeze, what, since)

    def left(self, process: Any) -> None:  # noqa: ANN401  a Process: it knows us
        """A process has ended."""
        self.processes.remove(process)

    # What can happen to watches, as `WatchCaches` has it.

    def freeze(self, what: Watched, since: float) -> None:
        """The watch stalls."""
        self._frozen[what] = since
        self._each(lambda caches: caches.freeze(what, since))

    def thaw(self, what: Watched) -> None:
        """The watch goes on."""
        self._frozen.pop(what, None)
        self._each(lambda caches: caches.thaw(what))

    def frozen(self, what: Watched) -> bool:
        """Whether the watch delivers nothing now."""
        return what in self._frozen

    def give_up(self, what: Watched) -> None:
        """The watch was silent for too long: every process lists anew, where it may."""
        if what not in self._unsynced:
            for process in self.processes:
                self.start(process, what)

    def unsync(self, what: Watched) -> None:
        """It cannot be listed: who has listed it once, keeps that; who starts meanwhile, waits."""
        self._unsynced[what] = None

    def sync(self, what: Watched) -> None:
        """It may be listed again."""
        self._unsynced.pop(what, None)
        for process in self.processes:
            if not process.watches.caches.state(what).synced:
                self.start(process, what)

    def catch_up(self) -> None:
        """Nothing is on its way: each process has its own."""

    def _each(self, what: Callable[[WatchCaches], None]) -> None:
        for process in self.processes:
            process.machine.call_soon(what, process.watches.caches)
