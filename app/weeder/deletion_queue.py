"""When pods may be deleted: the rate that namespaces share fairly (`FairRateLimiter`), and a queue (`DeletionQueue`).

`FairRateLimiter` has a sliding window: in no window are there more turns than the rate allows. The namespace that was
served longest ago is served next; one that was never served goes first, and none has two turns in one instant.
So a namespace with hundreds of pods cannot keep the first pod of another waiting, even if it comes a little earlier.

`DeletionQueue` has the pods of one recovery that are to be deleted, and when each may be asked for (again).
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

# For how many namespaces the last turn is remembered; a seed has some hundreds.
_REMEMBERED: Final = 4096
NEVER: Final = float("-inf")
# Pause between two turns of one namespace, as a share of the time that the rate alone puts between two turns.
_REST: Final = 0.5
# Seconds by which instants may differ and count as the same.
_TICK: Final = 1e-6


class Turn(NamedTuple):
    """A turn that was handed out."""

    namespace: str
    at: float
    before: float | None
    """When the namespace had its turn before this one; None if it had none."""


class FairRateLimiter:
    """Hands out turns to namespaces, by a task that runs `run`."""

    def __init__(
        self,
        clock: Clock,
        per_second: float,
        *,
        before: Callable[[str], float] | None = None,
    ) -> None:
        """Sets the rate; `run` hands out the turns.

        Args:
            clock: the clock that the rate is measured by.
            per_second: turns a second, above 0.
            before: ranks namespaces before their last turn here does; the one with the lowest value is served first.
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
        """When this namespace had its last turn; `NEVER` if it had none."""
        return self._served.get(namespace, NEVER)

    @property
    def waiting(self) -> int:
        """How many callers wait for a turn."""
        return sum(len(each) for each in self._waiting.values())

    async def turn(self, namespace: str) -> Turn:
        """Waits for a turn of this namespace; a caller that is cancelled leaves the queue, and its turn is not lost."""
        mine: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(mine)
        self._more.set()
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                # The turn had come, but the caller was cancelled before it ran.
                self.give_back(mine.result())
            raise
        finally:
            self._leave(namespace, mine)

    def give_back(self, turn: Turn) -> None:
        """Returns a turn that was not used: it does not count to the rate, nor as the namespace's last turn."""
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
                # Lets the caller that was served run: it may give the turn back.
                await self._clock.sleep(0)

    async def _sleep(self, seconds: float) -> None:
        """Sleeps for so many seconds, or until a turn is given back or a new caller waits."""
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
        """Seconds until the namespace may have a turn again.

        Without that pause, the first namespace would take all turns before others that the same outage woke arrive.
        """
        return self.served(namespace) + self._rest - self._clock.now()

    def _next(self) -> str | None:
        """The namespace to serve next; None if all of them have to pause."""
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
            return  # the caller was cancelled, and has not left the queue yet
        first.set_result(Turn(namespace, now, self._served.get(namespace)))
        self._recent.append(now)
        self._remember(namespace, now)

    def _remember(self, namespace: str, at: float | None) -> None:
        self._served.pop(namespace, None)
        if at is not None:
            self._served[namespace] = at  # last in the order of insertion: the first is the oldest
        if len(self._served) > _REMEMBERED:
            del self._served[next(iter(self._served))]


_AGAIN: Final = Backoff(first=1.0, most=30.0)
# Seconds between two judgements of a pod whose deletion met a conflict.
_BETWEEN_JUDGEMENTS: Final = 1.0
_MOST_KEYS: Final = 10_000


@dataclass(frozen=True, slots=True)
class _RetryWait:
    """Until when, and after how many failures, a pod has to wait."""

    until: float
    failures: int = 0
    version: str | None = None
    """A resourceVersion that is outdated: only another one is asked for again."""


class RetryWaits:
    """The waits of pods, by uid; shared by all recoveries, as two of them may want to delete the same pod."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, _RetryWait] = OrderedDict()

    def of(self, pod: PodView) -> _RetryWait | None:
        """The wait of this pod; None if it need not wait."""
        return self._of.get(pod.uid)

    def put(self, pod: PodView, wait: _RetryWait) -> None:
        """Makes the pod wait; beyond `_MOST_KEYS` entries the oldest is forgotten."""
        self._of[pod.uid] = wait
        self._of.move_to_end(pod.uid)
        if len(self._of) > _MOST_KEYS:
            self._of.popitem(last=False)


class DeletionQueue:
    """The pods of one recovery that wait for their deletion."""

    def __init__(self, waits: RetryWaits | None = None) -> None:
        self._due: dict[str, tuple[float, float]] = {}
        self._waits = waits or RetryWaits()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, pod: PodView, delete: Delete, now: float) -> None:
        """Queues a pod, to be deleted as soon as its wait is over; not in a version that is known to be outdated."""
        wait = self._waits.of(pod)
        if wait is not None and wait.version == pod.resource_version:
            self._due.pop(pod.name, None)
            return
        at = now if wait is None else max(now, wait.until)
        longest = float("inf") if delete.remaining is None else delete.remaining
        known = self._due.get(pod.name)
        self._due[pod.name] = (at if known is None else max(known[0], at), longest)

    def names(self) -> AbstractSet[str]:
        """The names of all pods in the queue."""
        return self._due.keys()

    def drop(self, name: str) -> None:
        """Removes a pod that is not to be deleted any more, or whose deletion is being sent."""
        self._due.pop(name, None)

    def first(self, now: float) -> str | None:
        """The pod to delete next: of those that are due, the one with the longest back-off; None if none is due."""
        due = [(-longest, name) for name, (at, longest) in self._due.items() if at <= now]
        return min(due)[1] if due else None

    def due(self, name: str, now: float) -> bool:
        """Whether this pod is queued and due."""
        return name in self._due and self._due[name][0] <= now

    def next_at(self) -> float | None:
        """When the first pod is due; None if the queue is empty."""
        return min((at for at, _ in self._due.values()), default=None)

    def until_next_version(self, pod: PodView, now: float) -> None:
        """Makes the pod wait for its next version, as this one is outdated; for a second at least."""
        until = now + _BETWEEN_JUDGEMENTS
        self._waits.put(pod, _RetryWait(until, version=pod.resource_version))

    def failed(self, pod: PodView, now: float, retry_after: float | None) -> None:
        """Makes the pod wait for another try: as long as the server asks, otherwise 1 s, doubling to 30 s."""
        before = self._waits.of(pod)
        failures = 1 if before is None else before.failures + 1
        pause = retry_after or _AGAIN.delay(failures)
        self._waits.put(pod, _RetryWait(now + pause, failures))
