"""What a scaling run is begun for, what its resources share, and what it results in (rules 4.3, what ends a run).

Verdicts go on arriving while a run is under way. One of the same direction confirms the run, one of the other
direction ends it. HOLD makes the next write wait for a while (`patience`); if the verdict is not confirmed by then,
the run ends. When a run is ended, all its waits end at once, but a request that was sent is finished first.

The watch may lag behind: for a moment after a write or a live read it still shows the object as it was. `ScalingMemory`
keeps the newer view until the watch has caught up, the replicas that only a `scale` subresource shows, and the instants
from which delays and waits count.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from app.core.clock import Clock
from app.core.errors import Refused
from app.core.model.overrides import ScaleRequest, hold_end
from app.core.model.probing import Verdict
from app.core.model.scaling_runs import OperationPhase, ScalingRunStatus, Trigger
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.core.ports import Watched
from app.core.tasks import happens
from app.prober.environment import ProberEnvironment
from app.prober.rules import lifecycle, scaling

T = TypeVar("T")


class RunAborted(Exception):
    """The scaling run was ended; `reason` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class RunGuard:
    """Guards a scaling run by the verdicts of the probes; a manual one goes on whatever they say."""

    def __init__(self, direction: Direction, clock: Clock, patience: float | None) -> None:
        """Guards a run that begins now.

        Args:
            direction: of the run.
            clock: for the age of a verdict.
            patience: seconds that a write waits for a HOLD to pass, and after which a verdict is too old to write on;
                None for a manual run.
        """
        self._direction, self._clock, self._patience = direction, clock, patience
        self._confirmed = True
        self._verdict_at = clock.now()
        self.ended: str | None = None
        """Why the run must end; None while it may go on."""
        self._changed = asyncio.Event()

    def tell(self, verdict: Verdict) -> None:
        """Takes a verdict: the same direction confirms the run, the other ends it, HOLD makes the next write wait."""
        self._verdict_at = self._clock.now()
        self._confirmed = verdict.direction is self._direction
        if self._patience is not None and verdict.direction not in {self._direction, None}:
            self.end(f"the verdict is {verdict}")
        self._changed.set()

    def recheck(self) -> None:
        """Wakes the waits of the run, as a dependent has changed."""
        self._changed.set()

    def end(self, reason: str) -> None:
        """Ends the run and all its waits; if called again, the first reason stays."""
        self.ended = self.ended or reason
        self._changed.set()

    async def wait_until_allowed(self) -> None:
        """Waits until a write may start.

        Raises:
            RunAborted: the run has ended, or a HOLD did not pass in time.
        """
        deadline = self._clock.now() + (self._patience or 0.0)
        self.check()
        while self.held:
            left = deadline - self._clock.now()
            if left <= 0:
                self.end("the verdict was not confirmed again in time")
            else:
                await self.change(left)
            self.check()

    def check(self) -> None:
        """Raises RunAborted if the run has been ended."""
        if self.ended is not None:
            raise RunAborted(self.ended)

    @property
    def held(self) -> bool:
        """Whether writes have to wait: for a HOLD to pass, or for a verdict that is recent.

        A process that was frozen wakes up with the verdict from before, which says nothing about now.
        """
        if self._patience is None:
            return False
        return not self._confirmed or self._clock.now() - self._verdict_at > self._patience

    async def pause(self, seconds: float) -> None:
        """Waits for so many seconds.

        Raises:
            RunAborted: the run was ended before or meanwhile.
        """
        until = self._clock.now() + seconds
        self.check()
        while (left := until - self._clock.now()) > 0:
            await self.change(left)
            self.check()

    async def unless_ended(
        self, work: Coroutine[Any, Any, T], may_leave: Callable[[], bool] = lambda: True
    ) -> T:
        """Awaits `work`, and cancels it as soon as the run is ended.

        Args:
            work: what to await.
            may_leave: returns whether `work` may be cancelled now; a request that was sent must not be.

        Raises:
            RunAborted: the run was ended, and `work` was cancelled.
        """
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if self.ended is not None and may_leave():
                    raise RunAborted(self.ended)
                self._changed.clear()
                word = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait((task, word), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    word.cancel()
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
                if not task.cancelled():
                    task.exception()  # retrieved, so that asyncio does not report it as never retrieved

    async def change(self, seconds: float) -> None:
        """Returns at the next verdict, `recheck` or `end`, or after so many seconds."""
        self._changed.clear()
        await happens(self._changed, seconds)


class AtZero(NamedTuple):
    """When a resource was found at 0 without our keys at SCALE UP: the instants of the first and the last verdict."""

    first: float
    last: float


class Size(NamedTuple):
    """The replicas that a `scale` subresource showed, and the object and generation that they belong to."""

    uid: str
    generation: int
    replicas: int


class Newer(NamedTuple):
    """An object as a write of ours left it or a live read showed it; `view` is None if it is gone."""

    view: WorkloadView | None
    shown: str | None
    """The resourceVersion that the watch showed before that."""


@dataclass(slots=True)
class ScalingMemory:
    """What the runs of one shoot remember, for as long as it is probed; the saved counts themselves are annotations."""

    could_start: dict[tuple[Direction, ResourceRef], float] = field(default_factory=dict)
    """When the level of a resource with something to do could first start: `initialDelay` counts from then."""
    waiting_since: dict[ResourceRef, float] = field(default_factory=dict)
    """When the wait for a resource that was scaled up began: its `timeout` counts from then, also in later runs."""
    _at_zero: dict[ResourceRef, AtZero] = field(default_factory=dict)
    _sizes: dict[ResourceRef, Size] = field(default_factory=dict)
    _newer: dict[ResourceRef, Newer] = field(default_factory=dict)

    def turned(self, direction: Direction) -> None:
        """Forgets what runs in the other direction remembered, as the verdict now asks for `direction`."""
        self.could_start = {key: at for key, at in self.could_start.items() if key[0] is direction}
        if direction is Direction.DOWN:
            self.waiting_since.clear()
            self._at_zero.clear()

    def at_zero(self, refs: Iterable[ResourceRef], now: float) -> None:
        """Notes that at a SCALE UP verdict exactly these resources are at 0 without our keys."""
        before = self._at_zero
        self._at_zero = {ref: AtZero(before.get(ref, AtZero(now, now)).first, now) for ref in refs}

    def found_at_zero(self, ref: ResourceRef) -> bool:
        """Whether the resource was at 0 without our keys at two verdicts far enough apart (rules 4.3, step 1)."""
        known = self._at_zero.get(ref)
        return known is not None and known.last - known.first >= scaling.FOUND_AT_ZERO_APART

    def shown(self, watched: WorkloadView | None) -> WorkloadView | None:
        """Returns `watched` or a newer view of the object (`newest`), with the replicas that only `scale` shows."""
        if not self._newer and (watched is None or watched.replicas is not None):
            return watched  # the usual case
        return self.sized(self.newest(watched))

    def note(
        self, ref: ResourceRef, view: WorkloadView | None, watched: WorkloadView | None
    ) -> None:
        """Remembers an object as a write of ours left it, or a live read showed it.

        Args:
            ref: the resource.
            view: the object; None if it is gone.
            watched: what the watch showed before the request was made.
        """
        self._newer[ref] = Newer(view, None if watched is None else watched.resource_version)

    def newest(self, watched: WorkloadView | None) -> WorkloadView | None:
        """Returns `watched`, or the newer view that was noted, as long as the watch does not show that yet.

        So after a conflict a run does not decide on the same old version again, which would be refused again.
        """
        if watched is None or (newer := self._newer.get(watched.ref)) is None:
            return watched
        view, shown = newer
        if watched.resource_version == shown:
            return view
        # Only a change of the spec increments the generation: after a write of annotations alone, any other version
        # that the watch shows counts as newer.
        if view is not None and view.uid == watched.uid and view.generation > watched.generation:
            return view
        del self._newer[watched.ref]
        return watched

    def note_size(self, view: WorkloadView) -> None:
        """Remembers the replicas of `view`, which come from its `scale` subresource."""
        if view.replicas is not None:
            self._sizes[view.ref] = Size(view.uid, view.generation, view.replicas)

    def sized(self, view: WorkloadView | None) -> WorkloadView | None:
        """Returns `view` with the replicas that its `scale` showed, if its spec has not changed since."""
        if view is None or view.replicas is not None:
            return view
        known = self._sizes.get(view.ref)
        if known is None or (known.uid, known.generation) != (view.uid, view.generation):
            return view
        return replace(view, replicas=known.replicas)


class StepResult(StrEnum):
    """How a scaling run ended for one resource, as metrics name it."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DRY_RUN = "dry-run"


def ordered(request: ScaleRequest, *, carried_on: bool) -> ScalingRunStatus:
    """The scaling run that a request asks for, which an earlier leader may have begun."""
    spec = request.spec
    return ScalingRunStatus(
        request.id.uid,
        request.id.namespace,
        spec.direction,
        Trigger.MANUAL,
        OperationPhase.PENDING,
        request.created_at,
        spec.reason,
        spec.author,
        request.outlives_probing,
        carried_on,
        hold_until=hold_end(request),
        verified=request.verified,
    )


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """What the resources of one scaling run share."""

    environment: ProberEnvironment
    order: ScalingRunStatus
    """What the run was begun for."""
    guard: RunGuard
    memory: ScalingMemory

    @property
    def namespace(self) -> str:
        return self.order.namespace

    @property
    def direction(self) -> Direction:
        return self.order.direction

    def found_at_zero(self, ref: ResourceRef) -> bool:
        """Whether a resource at 0 without our keys is to be scaled up; a manual run always does that."""
        return self.order.manual or self.memory.found_at_zero(ref)


async def check_probed(environment: ProberEnvironment, namespace: str) -> None:
    """Reads the Cluster live if its watch is stale, and checks that the shoot is still to be probed.

    Raises:
        Refused: the shoot is not to be probed any more.
        ClusterError: the watch is stale, and the Cluster could not be read.
    """
    if not environment.seed.watch_state(Watched.CLUSTERS).stale(environment.clock.now()):
        return
    found = lifecycle.decide(await environment.seed.read_cluster(namespace))
    if not found.runs(running=True, protected=True):
        raise Refused(f"the shoot is not probed: {found.message}")


def one_line_each(resources: Mapping[ResourceRef, str]) -> tuple[str, ...]:
    """Names each resource with what is to be said of it."""
    return tuple(f"{ref}: {why}" for ref, why in resources.items())


@dataclass(frozen=True, slots=True)
class ScalingResult:
    """How a scaling run ended."""

    operation: str
    direction: Direction
    trigger: Trigger
    started: float
    ended: float
    failed: Mapping[ResourceRef, str]
    """The resources that failed, unavailable ones left out, with the reason."""
    cancelled: str | None
    """Why the run was ended early; None if it was not."""
    unavailable: Mapping[ResourceRef, str] = field(default_factory=dict)
    """The resources that are unavailable (rules 4.3), with what the seed said."""

    @property
    def failures(self) -> tuple[str, ...]:
        """All resources that failed, unavailable ones included; one line each."""
        return one_line_each({**self.failed, **self.unavailable})
