"""Reflectors of the simulated seed: list, watch, and list again after Expired, with a delay of delivery.

Weeder, overrides and probed pods use them; they send their requests through `ApiServer`, so that troubles affect them.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from app.core.clock import Clock
from app.core.errors import ClusterError, Expired, Forbidden, Unreachable
from app.core.limits import Backoff
from app.core.ports import Admission, WatchState
from app.simulation.store import Object, Store, StoreEvent
from app.simulation.traffic import ApiServer, Host, SimulatedRequest

SILENCE: Final = 70.0
"""Seconds of silence after which a client gives up a watch and lists again."""
_PAUSE: Final = Backoff(first=1.0, most=30.0)
# The number of consecutive 403s that may come from a server that is still starting.
_REFUSED_IN_PASSING: Final = 2
_PLURALS: Final = {
    "ConfigMap": "configmaps",
    "EndpointSlice": "endpointslices",
    "Pod": "pods",
}


class Silent(Unreachable):
    """A watch delivered nothing for too long."""


class SimulatedWatch:
    """One open watch of one kind, in one namespace or in all."""

    def __init__(self, kind: str, namespace: str) -> None:
        self.kind, self.namespace = kind, namespace
        self.due: deque[tuple[float, StoreEvent]] = deque()
        """Pending events with the instants of their delivery."""
        self.cut = False
        self.news = asyncio.Event()


class OpenWatches:
    """All open watches of the seed, and the faults that affect them."""

    def __init__(self, clock: Clock, seed: Store, delay: float) -> None:
        self.delay = delay
        """Seconds from a change to its delivery."""
        self.most: Counter[str] = Counter()
        """The maximum number of watches open at the same time, by kind."""
        self.stalled: dict[str, float] = {}
        """Kinds whose watches deliver nothing, with the instant of the last contact."""
        self.muted: dict[str, float] = {}
        """Kinds whose watches open but deliver nothing, with the instant at which this began."""
        self._clock = clock
        self._streams: dict[tuple[str, str], list[SimulatedWatch]] = {}
        self._open: Counter[str] = Counter()
        self._served: list[tuple[str, Callable[[], None]]] = []
        """The open watches of the API servers: their kinds, and what cuts them."""
        seed.subscribe(self._heard)

    def open_now(self, kind: str) -> int:
        """Returns the number of open watches of a kind."""
        return self._open[kind]

    @contextmanager
    def serving(self, kind: str, cut: Callable[[], None]) -> Iterator[None]:
        """Counts a watch of an API server as long as it is open; `cut` breaks its connection."""
        served = (kind, cut)
        self._served.append(served)
        self._count(kind, 1)
        try:
            yield
        finally:
            self._served.remove(served)
            self._count(kind, -1)

    def _count(self, kind: str, by: int) -> None:
        self._open[kind] += by
        self.most[kind] = max(self.most[kind], self._open[kind])

    def open(self, stream: SimulatedWatch, missed: Iterable[StoreEvent]) -> None:
        """Opens a watch and sends it the changes in `missed`."""
        for event in missed:
            self._send(stream, event)
        self._streams.setdefault((stream.kind, stream.namespace), []).append(stream)
        self._count(stream.kind, 1)

    def close(self, stream: SimulatedWatch) -> None:
        """Closes a watch if it is open."""
        streams = self._streams.get((stream.kind, stream.namespace), [])
        if stream in streams:
            streams.remove(stream)
            self._count(stream.kind, -1)

    def cut(self, kind: str) -> None:
        """Breaks the connections of all watches of a kind; pending events are lost."""
        for (each, _), streams in self._streams.items():
            for stream in streams if each == kind else ():
                stream.cut = True
                stream.news.set()
        for each, cut in self._served:
            if each == kind:
                cut()

    def stall(self, kind: str, *, contact_ago: float = 0.0) -> None:
        """Stops delivery for a kind; the last contact was `contact_ago` seconds before now."""
        self.stalled[kind] = self._clock.now() - contact_ago

    def mute(self, kind: str) -> None:
        """Lets watches of a kind open but deliver nothing, while other requests work."""
        self.muted[kind] = self._clock.now()
        self._stir(kind)

    def go_on(self, kind: str) -> None:
        """Ends `stall` and `mute`; pending events are delivered."""
        self.stalled.pop(kind, None)
        self.muted.pop(kind, None)
        self._stir(kind)

    def _stir(self, kind: str) -> None:
        for (each, _), streams in self._streams.items():
            for stream in streams if each == kind else ():
                stream.news.set()

    def _heard(self, event: StoreEvent) -> None:
        for namespace in ("", event.key.namespace):
            for stream in self._streams.get((event.key.kind, namespace), ()):
                self._send(stream, event)

    def _send(self, stream: SimulatedWatch, event: StoreEvent) -> None:
        stream.due.append((self._clock.now() + self.delay, event))
        stream.news.set()


class Copy(Protocol):
    """The receiver of a reflector's objects."""

    def listed(self, objects: Iterable[Object], since: float | None) -> None:
        """Receives a list; `since` is the last instant up to which nothing had been missed before."""
        ...

    def happened(self, event: StoreEvent) -> None:
        """Receives one change."""
        ...


class WatchedKind(NamedTuple):
    """The server, and the kind and namespace to watch."""

    seed: Store
    api: ApiServer
    watches: OpenWatches
    kind: str
    namespace: str = ""
    """The namespace; empty for all."""
    where: Callable[[Object], bool] = lambda _: True
    """The selection that the server applies to its list."""


class Reflection:
    """Keeps one copy up to date while `run` runs."""

    def __init__(
        self,
        clock: Clock,
        asked: WatchedKind,
        copy: Copy,
        *,
        admitted: Admission | None = None,
        gives_up: bool = False,
    ) -> None:
        """Sends no request before `run`.

        Args:
            clock: the time line.
            asked: what is watched.
            copy: what is kept of it.
            admitted: waited for before each request.
            gives_up: whether it ends with Forbidden when it is refused and that is no passing refusal.
        """
        self.trouble: str | None = None
        """The current error; None if there is none."""
        self.forbidden: str | None = None
        """Why access is forbidden, if that is not just temporary; None if it is permitted or unknown."""
        self.synced = False
        self._refusal_changed: Callable[[], None] = lambda: None
        self._clock, self._asked, self._copy = clock, asked, copy
        self._admitted, self._gives_up = admitted, gives_up
        self._version: int | None = None
        self._contact: float | None = None
        self._nothing_missed: float | None = None
        """When the last change arrived or the last list was requested; later changes may have been missed."""
        self._open = False
        self._failures = self._refusals = 0
        self._kinds: set[type[ClusterError]] = set()
        """The types of the errors since the last success; as in a real client, a new type restarts the count."""

    @property
    def state(self) -> WatchState:
        """The state of the watch; its last contact is now while it is open and delivers."""
        watches, kind = self._asked.watches, self._asked.kind
        if self._open and kind in watches.stalled:
            self._contact = watches.stalled[kind]
        elif self._open and kind in watches.muted:
            self._contact = max(self._contact or 0.0, watches.muted[kind])
        elif self._open:
            self._contact = self._clock.now()
        return WatchState(self.synced, self._contact)

    def tell_refusals(self, changed: Callable[[], None]) -> None:
        """Calls `changed` after each change of `forbidden`."""
        self._refusal_changed = changed

    async def run(self) -> None:
        """Lists and watches until it is cancelled.

        Raises:
            Forbidden: access is forbidden, and the reflector gives up.
        """
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch(self._version or 0)
            except ClusterError as error:
                self._suffer(error)
                pause = _PAUSE.delay(self._failures)
                await self._clock.sleep(max(pause, error.retry_after or 0.0))

    def _suffer(self, error: ClusterError) -> None:
        self.trouble = str(error)
        self._failures = self._failures + 1 if type(error) in self._kinds else 1
        self._kinds.add(type(error))
        if isinstance(error, Expired | Silent):
            self._version = None
        self._refusals = self._refusals + 1 if isinstance(error, Forbidden) else 0
        if self._refusals > _REFUSED_IN_PASSING:
            if self._gives_up:
                raise error
            self._forbid(self.forbidden or str(error))

    def _forbid(self, why: str | None) -> None:
        if self.forbidden != why:
            self.forbidden = why
            self._refusal_changed()

    async def _ask(self, verb: str, serve: Callable[[], None]) -> None:
        if self._admitted is not None:
            await self._admitted()
        request = SimulatedRequest(
            Host.SEED, verb, _PLURALS[self._asked.kind], self._asked.namespace
        )
        await self._asked.api.ask(request, serve)

    async def _list(self) -> None:
        kind, namespace = self._asked.kind, self._asked.namespace or None
        found: list[Object] = []
        version = 0

        def serve() -> None:
            nonlocal version
            found.extend(filter(self._asked.where, self._asked.seed.list(kind, namespace)))
            version = self._asked.seed.version

        asked_at = self._clock.now()
        await self._ask("list", serve)
        self._version, self._contact, self.synced = version, self._clock.now(), True
        since, self._nothing_missed = self._nothing_missed, asked_at
        self._copy.listed(found, since)

    async def _watch(self, version: int) -> None:
        stream = SimulatedWatch(self._asked.kind, self._asked.namespace)
        watches = self._asked.watches

        def serve() -> None:
            missed = self._asked.seed.since(version, [stream.kind])
            space = stream.namespace
            watches.open(stream, [each for each in missed if space in ("", each.key.namespace)])

        try:
            await self._ask("watch", serve)
            self._open, self.trouble, self._failures, self._refusals = True, None, 0, 0
            self._kinds.clear()
            self._forbid(None)
            await self._deliver(stream)
        finally:
            _ = self.state  # the last contact, while it is still open
            self._open = False
            watches.close(stream)

    async def _deliver(self, stream: SimulatedWatch) -> None:
        """Delivers events until the connection breaks.

        Raises:
            Unreachable: the connection broke.
            Silent: nothing arrived for too long.
        """
        watches, opened = self._asked.watches, self._clock.now()
        while True:
            if stream.cut:
                raise Unreachable("the connection of the watch was cut")
            if stream.kind in watches.muted:
                heard = max(opened, watches.muted[stream.kind])
                await self._news(stream, heard + SILENCE)
            elif stream.kind in watches.stalled or not stream.due:
                await self._news(stream, None)
            elif (wait := stream.due[0][0] - self._clock.now()) > 0:
                await self._clock.sleep(wait)
            else:
                _, event = stream.due.popleft()
                self._version, self._nothing_missed = event.version, self._clock.now()
                self._copy.happened(event)

    async def _news(self, stream: SimulatedWatch, until: float | None) -> None:
        """Returns when there are new events or the state has changed."""
        stream.news.clear()
        seconds = None if until is None else max(until - self._clock.now(), 0.0)
        try:
            async with asyncio.timeout(seconds):
                await stream.news.wait()
        except TimeoutError as error:
            raise Silent("nothing was heard of the watch") from error
