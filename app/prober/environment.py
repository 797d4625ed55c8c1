"""What everything in the prober shares: adapters to the clusters, clock, randomness, notice bus, and limits."""

import asyncio
import math
import random
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from app.core.clock import Clock
from app.core.errors import OperationGone
from app.core.fair_queue import TokenQueue
from app.core.model.policy import ProberPolicy
from app.core.model.scaling_runs import ScalingRunStatus
from app.core.model.workloads import ResourceRef, WorkloadView
from app.core.overrides.cache import OverrideCache
from app.core.overrides.service import OverrideService
from app.core.ports import CountRun, Handlers, Leadership
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks

if TYPE_CHECKING:
    from app.core.kube.pods import ProbedPods
    from app.core.kube.seed import SeedCluster
    from app.core.kube.shoot import ShootConnector

# How many ended automatic scaling runs are kept: a seed-wide outage of 1,000 shoots, down and up again.
_PAST: Final = 2_000
# How many ended scaling runs with an author (people's, and releases) are kept.
_BY_HAND: Final = 500
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9]{1,9}")


class OperationLog:
    """The scaling runs of this process, under way and ended; automatic ones never displace those with an author."""

    def __init__(self, process: str | None = None) -> None:
        """`process` is the prefix of all ids, which tells them from those of another process."""
        self._process = process or uuid4().hex[:8]
        self._last = 0
        self._running: dict[str, Callable[[], ScalingRunStatus]] = {}
        self._past: OrderedDict[str, ScalingRunStatus] = OrderedDict()
        self._manual: OrderedDict[str, ScalingRunStatus] = OrderedDict()

    def new_id(self) -> str:
        """Makes an id that no other scaling run has."""
        self._last += 1
        return f"{self._process}-{self._last}"

    def follow(self, name: str, snapshot: Callable[[], ScalingRunStatus]) -> None:
        """Registers a run that waits or is under way; `snapshot` returns its present state until `close`."""
        self._running[name] = snapshot

    def close(self, operation: ScalingRunStatus) -> None:
        """Replaces a registered run by its final state."""
        self._running.pop(operation.id, None)
        shelf, most = self._past, _PAST
        if operation.author is not None:
            shelf, most = self._manual, _BY_HAND
        shelf[operation.id] = operation
        while len(shelf) > most:
            shelf.popitem(last=False)

    def __iter__(self) -> Iterator[ScalingRunStatus]:
        """All known runs, in no order."""
        yield from [snapshot() for snapshot in self._running.values()]
        yield from self._manual.values()
        yield from self._past.values()

    def __contains__(self, name: str) -> bool:
        return name in self._running or name in self._manual or name in self._past

    def get(self, name: str) -> ScalingRunStatus | None:
        """The run with this id; None if there never was one.

        Raises:
            OperationGone: it is an earlier leader's, or so old that it was forgotten.
        """
        if (snapshot := self._running.get(name)) is not None:
            return snapshot()
        found = self._manual.get(name) or self._past.get(name)
        if found is None and _ID.fullmatch(name):
            # Of our own ids we know the last one; any other may have been given out by an earlier process.
            process, _, number = name.partition("-")
            if process != self._process or 0 < int(number) <= self._last:
                raise OperationGone(f"operation {name} is one of an earlier leader, or long over")
        return found


# Bounds on what all shoots do at once (threats T11; rules 4.3, budgets).

_SCALE_UPS_A_SECOND: Final = 10
"""For how many shoots a second automatic scale-ups may start (rules 4.3, budgets)."""
TOGETHER: Final = 0.1
"""Seconds of a time slot whose regular probes begin together: a probe on its own finds the CPU's caches cold."""
RUNS_TOGETHER: Final = 0.25
"""The same for the runs of endpoint probes."""

SLOW: Final = 1.0
"""Seconds after which a probe gives its fast slot to the next one."""
_FAST_SLOTS: Final = 64
# This process counts as busy if it uses more than this share of a core. A first probe then keeps its fast slot, for so
# many seconds at most.
_BUSY: Final = 0.5
_SECONDS_WHILE_BUSY: Final = 5
_SLOW_SLOTS: Final = 256
# Slow slots in endpoint mode: in the usual outage each probe waits 5 s for an answer that never comes, which costs
# nothing; with fewer slots the third failure of a thousand shoots would come a minute late.
_SLOW_PATHS: Final = 1024


class ProbeSlots:
    """Limits how many probes run at once, such that slow shoots cannot take all slots (threat T11).

    A probe takes a fast slot. After a second it goes on, but gives the slot back. A shoot whose last probe was that
    slow takes a slow slot instead, from a separate set, and keeps it to the end.

    Where this process itself is what is slow, as thousands of first probes shake hands, these keep their fast slots for
    longer: more of them at once would only make each run into its time limit, and begin anew.
    """

    def __init__(self, clock: Clock, *, endpoint_mode: bool) -> None:
        self._clock = clock
        self._fast = asyncio.Semaphore(_FAST_SLOTS)
        self._slow = asyncio.Semaphore(_SLOW_PATHS if endpoint_mode else _SLOW_SLOTS)
        self._busy = False
        self._measured_at, self._used = -math.inf, 0.0
        """When the process's use of the CPU was last measured, and the seconds that it had used by then."""

    @asynccontextmanager
    async def place(self, *, first: bool, was_slow: bool) -> AsyncIterator[None]:
        """Holds a slot for one probe until the end of the block; a fast one for a second, or a few at most.

        Args:
            first: it is the first probe of this shoot, which costs ten times as much CPU as a later one.
            was_slow: the last probe of this shoot took longer than a second.
        """
        slots = self._slow if was_slow else self._fast
        await slots.acquire()
        if first:
            self._measure()
        with ExitStack() as held:
            held.callback(slots.release)
            if not was_slow:
                self._give_back_when_slow(held, _SECONDS_WHILE_BUSY if first else 1)
            yield

    def _give_back_when_slow(self, held: ExitStack, seconds: int) -> None:
        """Closes `held` in a second, or after so many seconds as long as this process is busy."""

        def second_over() -> None:
            self._measure()
            if seconds > 1 and self._busy:
                self._give_back_when_slow(held, seconds - 1)
            else:
                held.close()

        held.callback(asyncio.get_running_loop().call_later(SLOW, second_over).cancel)

    def _measure(self) -> None:
        """Notes once in a second whether this process has been busy; reading its use of the CPU is expensive."""
        now = self._clock.now()
        if (passed := now - self._measured_at) >= SLOW:
            used = self._clock.cpu_seconds()
            self._busy = used - self._used > _BUSY * passed
            self._measured_at, self._used = now, used


@dataclass(frozen=True, slots=True)
class EndpointAdapters:
    """The adapters that endpoint probes need."""

    handlers: Handlers
    pods: "ProbedPods"
    ran: CountRun = lambda *_: None


@dataclass(slots=True, kw_only=True)
class ProberEnvironment:
    """What everything in the prober that does IO is given; the limits are its own."""

    policy: ProberPolicy
    seed: "SeedCluster"
    connector: "ShootConnector"
    leadership: Leadership
    clock: Clock
    tasks: Tasks
    notice_bus: NoticeBus
    chance: random.Random
    overrides: OverrideCache
    override_service: OverrideService
    dry_run: bool = False
    identity: str = ""
    """Of this process, as in its Lease."""
    operations: OperationLog = field(default_factory=OperationLog)
    endpoints: EndpointAdapters | None = None
    """None if no endpoint probe is configured."""
    together: float = 0.0
    """Seconds of a time slot whose regular probes begin together (`rules.schedule.regular`); 0 for none."""
    runs_together: float = 0.0
    """The same for the runs of endpoint probes (`rules.probe_worker.first_tick`)."""
    slots: ProbeSlots = field(init=False)
    scale_ups: TokenQueue = field(init=False)
    """A token for each shoot that an automatic scale-up begins for, one by one."""

    def dependents(self, namespace: str) -> dict[ResourceRef, WorkloadView | None]:
        """The dependents of this shoot as the watch shows them; None for one that does not exist."""
        seed = self.seed
        return {each.ref: seed.dependent(namespace, each.ref) for each in self.policy.dependents}

    def __post_init__(self) -> None:
        self.slots = ProbeSlots(self.clock, endpoint_mode=self.policy.endpoint_mode)
        self.scale_ups = TokenQueue(_SCALE_UPS_A_SECOND, 1, self.clock)
