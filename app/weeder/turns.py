"""A budget that namespaces share: so many turns a second, and the one that was served longest ago is served next.

Never more than the rate in any stretch of time that it is counted over; a namespace that was never served goes before
all others, and none has two turns in one instant, so that one with hundreds of pods cannot keep the first pod of
another waiting, even where it comes a little earlier.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.core.clock import Clock
from app.core.limits import Backoff
from app.core.model.pods import PodView
from app.core.model.weeding import Delete

_REMEMBERED: Final = 4096
"""Namespaces whose last turn is remembered; a seed has some hundreds."""
NEVER: Final = float("-inf")
_REST: Final = 0.5
"""Between two turns of one namespace, as a part of what the rate alone would put between them."""
_TICK: Final = 1e-6
"""Instants are no finer."""


class Turn(NamedTuple):
    """A turn that was handed out."""

    namespace: str
    at: float
    before: float | None
    """When the namespace had its last turn before this one; None where it had none."""


class DeletionTurns:
    """Hands out turns; `run` does the handing out."""

    def __init__(
        self,
        clock: Clock,
        per_second: float,
        *,
        before: Callable[[str], float] | None = None,
    ) -> None:
        """Hands out nothing yet.

        Args:
            clock: what the rate is counted by.
            per_second: turns a second, above 0.
            before: what decides before the last turn here does: of two namespaces the one with the lower value is
                served first.
        """
        self._clock = clock
        self._most = max(int(per_second), 1)
        self._window = self._most / per_second
        self._rest = _REST / per_second
        self._before = before or (lambda _: 0.0)
        self._recent: deque[float] = deque()
        self._waiting: dict[str, deque[asyncio.Future[Turn]]] = {}
        self._served: dict[str, float] = {}
        self._more = asyncio.Event()

    def served(self, namespace: str) -> float:
        """When this namespace had its last turn."""
        return self._served.get(namespace, NEVER)

    @property
    def waiting(self) -> int:
        """How many wait for their turn now."""
        return sum(len(each) for each in self._waiting.values())

    async def turn(self, namespace: str) -> Turn:
        """Returns when it is the turn of this namespace; who is cancelled meanwhile leaves the queue."""
        mine: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(mine)
        self._more.set()
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.give_back(mine.result())  # its turn had come, and it was told no more
            raise
        finally:
            self._leave(namespace, mine)

    def give_back(self, turn: Turn) -> None:
        """This turn was not used: another may have it, and it counts for nothing."""
        if turn.at in self._recent:
            self._recent.remove(turn.at)
            self._more.set()
        if self._served.get(turn.namespace) == turn.at:
            self._remember(turn.namespace, turn.before)

    def _leave(self, namespace: str, mine: asyncio.Future[Turn]) -> None:
        queue = self._waiting.get(namespace)
        if queue is not None and mine in queue:
            queue.remove(mine)
            if not queue:
                del self._waiting[namespace]

    async def run(self) -> None:
        """Hands out turns for ever."""
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            if (wait := self._free_in()) > _TICK:
                await self._sleep(wait)
            elif (namespace := self._next()) is None:
                await self._sleep(min(map(self._rests_for, self._waiting)))
            else:
                self._serve(namespace)
                await self._clock.sleep(0)  # who was served may want to leave, or to come again

    async def _sleep(self, seconds: float) -> None:
        """Until there is a turn again, or one was given back; who comes meanwhile wakes it for nothing."""
        self._more.clear()
        alarm = asyncio.get_running_loop().call_later(seconds, self._more.set)
        try:
            await self._more.wait()
        finally:
            alarm.cancel()

    def _free_in(self) -> float:
        now = self._clock.now()
        while self._recent and self._recent[0] + self._window - now <= _TICK:
            self._recent.popleft()
        return 0.0 if len(self._recent) < self._most else self._recent[0] + self._window - now

    def _rests_for(self, namespace: str) -> float:
        """Who comes first must not have it all before the others come that the same outage woke."""
        return self.served(namespace) + self._rest - self._clock.now()

    def _next(self) -> str | None:
        """Whose turn it is; None where all of them have to rest."""
        first = min(self._waiting, key=self._rank)
        if self._rests_for(first) <= _TICK:
            return first
        rested = (each for each in self._waiting if self._rests_for(each) <= _TICK)
        return min(rested, key=self._rank, default=None)

    def _rank(self, namespace: str) -> tuple[float, float]:
        return (self._before(namespace), self.served(namespace))

    def _serve(self, namespace: str) -> None:
        queue = self._waiting[namespace]
        first, now = queue.popleft(), self._clock.now()
        if not queue:
            del self._waiting[namespace]
        if first.cancelled():
            return  # who waited for it has not yet had the time to leave
        first.set_result(Turn(namespace, now, self._served.get(namespace)))
        self._recent.append(now)
        self._remember(namespace, now)

    def _remember(self, namespace: str, at: float | None) -> None:
        self._served.pop(namespace, None)
        if at is not None:
            self._served[namespace] = at  # last in the order of insertion: the first is the oldest
        if len(self._served) > _REMEMBERED:
            del self._served[next(iter(self._served))]


# The pods of one recovery that are to be deleted, and when each may be asked for (again).


_AGAIN: Final = Backoff(first=1.0, most=30.0)
_BETWEEN_JUDGEMENTS: Final = 1.0
"""Seconds between two judgements of a pod whose deletion met a conflict."""
_MOST_KEYS: Final = 10_000


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
        if len(self._of) > _MOST_KEYS:
            self._of.popitem(last=False)


class DeletionQueue:
    """Pods that wait for their deletion; pure but for what it holds."""

    def __init__(self, holds: Holds | None = None) -> None:
        self._due: dict[str, tuple[float, float]] = {}
        self._holds = holds or Holds()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, pod: PodView, delete: Delete, now: float) -> None:
        """It is to be deleted, as soon as what holds it is over."""
        hold = self._holds.of(pod)
        if hold is not None and hold.version == pod.resource_version:
            self._due.pop(pod.name, None)
            return
        at = now if hold is None else max(now, hold.until)
        longest = float("inf") if delete.remaining is None else delete.remaining
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
