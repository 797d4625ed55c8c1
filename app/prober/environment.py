"""What all runners share: the adapters to the clusters, time, chance, and the board on which everything is told."""

import asyncio
import random
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

from app.core.clock import Clock
from app.core.errors import OperationGone
from app.core.model.operations import Operation
from app.core.model.policy import ProberPolicy
from app.core.ports import (
    EndpointMeter,
    Handlers,
    Leadership,
    NoOverrides,
    OverridesService,
    OverridesView,
    ProbedPods,
    SeedCluster,
    ShootConnector,
    Unmetered,
)
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks

# The scaling runs of this process by their ids, running and past, for whoever asks.


_PAST: Final = 2_000
"""Automatic scaling runs that are kept after their end: a seed-wide outage of 1,000 shoots, there and back."""
_BY_HAND: Final = 500
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9]{1,9}")


class OperationLog:
    """All scaling runs of one process; those that a person began are not pushed out by the others."""

    def __init__(self, process: str | None = None) -> None:
        """`process` tells ids of this process from those of an earlier one."""
        self._process = process or uuid4().hex[:8]
        self._last = 0
        self._running: dict[str, Callable[[], Operation]] = {}
        self._past: OrderedDict[str, Operation] = OrderedDict()
        self._by_hand: OrderedDict[str, Operation] = OrderedDict()

    def new_id(self) -> str:
        """An id that no other scaling run has."""
        self._last += 1
        return f"{self._process}-{self._last}"

    def follow(self, name: str, snapshot: Callable[[], Operation]) -> None:
        """A scaling run waits or runs; `snapshot` says how far it is, until its end."""
        self._running[name] = snapshot

    def close(self, operation: Operation) -> None:
        """A scaling run has ended like this."""
        self._running.pop(operation.id, None)
        shelf, most = self._past, _PAST
        if operation.author is not None:
            shelf, most = self._by_hand, _BY_HAND
        shelf[operation.id] = operation
        while len(shelf) > most:
            shelf.popitem(last=False)

    def __iter__(self) -> Iterator[Operation]:
        """All that are known, in no order."""
        yield from [snapshot() for snapshot in self._running.values()]
        yield from self._by_hand.values()
        yield from self._past.values()

    def __contains__(self, name: str) -> bool:
        """Whether it is known here."""
        return name in self._running or name in self._by_hand or name in self._past

    def get(self, name: str) -> Operation | None:
        """One of them; None where there never was one of this id.

        Raises:
            OperationGone: an earlier leader's, or one of so long ago that it was forgotten.
        """
        if (snapshot := self._running.get(name)) is not None:
            return snapshot()
        found = self._by_hand.get(name) or self._past.get(name)
        if found is None and self._may_have_been(name):
            raise OperationGone(f"operation {name} is one of an earlier leader, or long over")
        return found

    def _may_have_been(self, name: str) -> bool:
        """Whether some process gave out this id; of our own we know how far they go."""
        if not _ID.fullmatch(name):
            return False
        process, _, number = name.partition("-")
        return process != self._process or 0 < int(number) <= self._last


# Bounds on what all shoots do at once (threats T11; rules 4.3, budgets).


SLOW: Final = 1.0
"""A probe that takes longer, in seconds, gives its place among the fast ones to the next."""
SCALE_UPS_A_SECOND: Final = 10
TOGETHER: Final = 0.1
"""Seconds of a stretch of time whose regular probes begin with it: one that comes alone finds the caches cold."""
RUNS_TOGETHER: Final = 0.25
"""The same of the runs of endpoint probes."""


SLOW_PATHS: Final = 1024
"""Slow probes of endpoint mode at once: in the usual outage each waits 5 s for nobody, which costs nothing; with fewer
places the third failure of a thousand shoots would come a minute late."""


class ProbeSlots:
    """How many probes run at once; slow shoots cannot fill the places of the others.

    A probe begins among the fast ones.  One that is not done after a second goes on, but no longer counts; and a shoot
    whose last probe was that slow begins among the slow ones, which have places of their own.
    """

    def __init__(self, fast: int = 64, slow: int = 256) -> None:
        self._fast = asyncio.Semaphore(fast)
        self._slow = asyncio.Semaphore(slow)

    @classmethod
    def of(cls, policy: ProberPolicy) -> Self:
        """As many as the mode needs."""
        return cls() if policy.endpoint_mode is None else cls(slow=SLOW_PATHS)

    def place(self, *, was_slow: bool) -> "ProbeSlot":
        """A place for one probe, to be entered."""
        return ProbeSlot(self._slow) if was_slow else ProbeSlot(self._fast, SLOW)


class ProbeSlot:
    """A place in one lane, for as long as it is entered, or as long as a probe may keep it, in seconds."""

    __slots__ = ("_held", "_lane", "_most", "_timer")

    def __init__(self, lane: asyncio.Semaphore, most: float | None = None) -> None:
        self._lane, self._most = lane, most
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._lane.acquire()
        self._held = True
        if self._most is not None:
            self._timer = asyncio.get_running_loop().call_later(self._most, self._give_back)

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._lane.release()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._give_back()


class ScaleUpPace:
    """After a mass outage, scale-ups begin for at most so many shoots a second."""

    def __init__(self, a_second: float = SCALE_UPS_A_SECOND) -> None:
        self._apart = 1.0 / a_second
        self._free_at = 0.0

    def turn(self, now: float) -> float:
        """Takes the next turn; returns the seconds until it comes."""
        at = max(now, self._free_at)
        self._free_at = at + self._apart
        return at - now


NONE: Final = NoOverrides()
UNMETERED: Final = Unmetered()


@dataclass(frozen=True, slots=True)
class EndpointAdapters:
    """What endpoint probes need of the outside."""

    handlers: Handlers
    pods: ProbedPods
    meter: EndpointMeter = UNMETERED


@dataclass(frozen=True, slots=True)
class ProberEnvironment:
    """Handed to everything in the prober that does IO."""

    policy: ProberPolicy
    seed: SeedCluster
    connector: ShootConnector
    leadership: Leadership
    clock: Clock
    tasks: Tasks
    board: NoticeBus
    chance: random.Random
    slots: ProbeSlots
    scale_ups: ScaleUpPace
    dry_run: bool = False
    overrides: OverridesView = NONE
    override_service: OverridesService = NONE
    operations: OperationLog = field(default_factory=OperationLog)
    endpoints: EndpointAdapters | None = None
    """None where no endpoint probe is configured."""
    together: float = 0.0
    """Seconds of a stretch of time whose regular probes begin with it (`rules.schedule.Pace`)."""
    runs_together: float = 0.0
    """The same of the runs of endpoint probes (`rules.endpoints.first_tick`)."""
