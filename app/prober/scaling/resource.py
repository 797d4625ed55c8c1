"""One resource in one scaling run: wait, write, wait for its pods (rules 4.3, steps 1 to 5).

What is to be done is planned by the run, and decided on again right before each write, which carries the
resourceVersion that it was decided on. After a conflict the resource is read (a read that fails is the end of it, and
the next verdict tries again). After an error that may be transient the write is repeated, until the resource's
`timeout` is over, after a refusal (403) twice. A write whose answer was lost may have been carried out: if a later read
shows that nothing is left to do, it counts as done by this run. The run's guard is asked before each write, and once
more after the wait for the request budget.

The watch may lag behind: for a moment after a write or a live read it still shows the object as it was. `ScalingMemory`
keeps the newer view until the watch has caught up, the replicas that only a `scale` subresource shows, and the instants
from which delays and waits count.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from app.core import errors
from app.core.limits import AFTER_REFUSAL, RefusalCount
from app.core.model.policy import OnFailure
from app.core.model.scaling_runs import ScalingStep, StepResult
from app.core.model.workloads import Direction, Patch, ResourceRef, ScaleView, WorkloadView
from app.core.ports import Watched
from app.prober.environment import ProberEnvironment
from app.prober.rules import lifecycle, scaling
from app.prober.rules.scaling import Planned, Task, Views, Why

if TYPE_CHECKING:
    from app.prober.scaling.run import ScalingRun

T = TypeVar("T")

TRANSIENT: Final = (errors.Unreachable, errors.ServerFault, errors.Throttled)
"""Errors after which another try may succeed."""
UNSETTLED: Final = (*errors.UNSURE, errors.Throttled)
"""Errors after which a write may have been carried out, or may succeed at another try."""

# Seconds before the first, second and each later retry.
_RETRY: Final = (0.2, 0.5, 1.0)
_REDIRECTS: Final = range(300, 400)
# Seconds after which a refusal is not in a row with the one before: runs that fail follow each other more closely.
_IN_A_ROW: Final = 300.0
# Seconds between checks of a resource whose pods are awaited: not all replicas are shown by a watch.
_POLL: Final = 2.0


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
    refusals: dict[ResourceRef, RefusalCount] = field(
        default_factory=lambda: defaultdict(lambda: RefusalCount(_IN_A_ROW))
    )
    """Of writes (403)."""
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

    def all_newest(self, watched: Views) -> dict[ResourceRef, WorkloadView | None]:
        """Returns `newest` of each dependent."""
        return {ref: self.newest(view) for ref, view in watched.items()}

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


class RunAborted(Exception):
    """The scaling run was ended; `reason` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class _HeldBack(Exception):
    """A HOLD came while a write waited for the request budget."""


class ResourceRun:
    """Scales one resource in one scaling run.

    The events tell the run when the next level may start: `sent`, `answered` and `ended`, in this order.
    """

    def __init__(
        self,
        environment: ProberEnvironment,
        run: "ScalingRun",
        planned: Planned,
        *,
        later_writes: bool,
    ) -> None:
        """Prepares the resource; `run` scales it.

        Args:
            environment: the seed, and what else a write depends on.
            run: the scaling run that the resource is part of.
            planned: the resource, and what is to be done with it.
            later_writes: whether a later level has something to write.
        """
        self._env, self._run = environment, run
        self._guard, self._memory, self._namespace = run.guard, run.memory, run.order.namespace
        self._planned, self._later_writes = planned, later_writes
        self._policy = planned.dependent.scale(run.direction)
        self._down = run.direction is Direction.DOWN
        self.ref = planned.dependent.ref
        # Where a failure ends the run, a refusal does so at once: the next level would not wait until the last try.
        self._failure_stops = environment.policy.on_failure(run.direction) is OnFailure.STOP
        self._deadline: float | None = None
        self._unanswered: Task | None = None
        """The last write whose answer was lost: it may have been carried out."""
        self._in_flight = False
        """A write was sent and is not answered yet."""
        self.sent = asyncio.Event()
        """Set when the first write or live read was sent, or there will be none."""
        self.answered = asyncio.Event()
        """Set when the write was accepted or has failed, or there will be none."""
        self.ended = asyncio.Event()
        self.requested_at: float | None = None
        """When the first write was sent."""
        self.accepted = False
        """A write was carried out, whether or not its pods followed in time."""
        self.unavailable = False
        """It failed because its kind is not served, or may not be listed (rules 4.3)."""
        self.began_at: float | None = None
        self.ended_at: float | None = None
        self.task: Task | None = None
        """What was decided last; a write that was carried out stays."""
        self._scaled: Task | None = None
        """The write whose replicas `scale` has accepted: the removal of the keys is another request."""
        self.result: StepResult | None = None
        self.message = ""

    @property
    def failed(self) -> bool:
        """Whether it failed; not so if it was unavailable, as that ends no run and no hold (rules 4.3)."""
        return self.result is StepResult.FAILED and not self.unavailable

    async def run(self) -> None:
        """Scales the resource and waits for its pods; never raises, whatever the seed answers."""
        self.began_at = self._env.clock.now()
        try:
            await self._scale()
        except RunAborted as ended:
            self._end(StepResult.CANCELLED, ended.reason)
        except errors.ClusterError as error:
            self._end(StepResult.FAILED, str(error))
        except asyncio.CancelledError:
            self._end(StepResult.CANCELLED, "the process ends")
            raise
        finally:
            if self.result is None:
                self._end(StepResult.FAILED, "an unexpected error, see the log")
            self.ended_at = self._env.clock.now()
            self.sent.set()
            self.answered.set()
            self.ended.set()

    def _end(self, result: StepResult, message: str = "") -> None:
        self.result, self.message = result, message

    async def _scale(self) -> None:
        if (why := self._env.seed.unavailable(self.ref)) is not None:
            # Not written even if it could be read now: without a watch nobody would see it at 0 and bring it back.
            self.unavailable = True
            return self._end(StepResult.FAILED, why)
        _, view, task = self._planned
        # The watch may lag behind a creation, so the resource does not count as gone before a live read.
        if view is None and (view := await self._found()) is not None:
            task = self._decide(view)
        self.task = task
        if task.writes:
            await self._initial_delay()
            task, view = await self._write()
            if task.writes and self._env.dry_run:
                return self._end(StepResult.DRY_RUN, "nothing is written in a dry run")
        match task.step:
            case ScalingStep.FAILED:
                return self._end(StepResult.FAILED, "it does not exist and is not optional")
            case ScalingStep.SKIP:
                return self._end(StepResult.SKIPPED, task.why)
            case ScalingStep.WRITE:
                return await self._wait_for_pods(view)
            case ScalingStep.TIDY | ScalingStep.NOTHING:
                if task.why in {Why.IGNORED, Why.LEFT_AT_ZERO}:
                    return self._end(StepResult.SKIPPED, task.why)
                return await self._finish_unchanged(task, view)

    async def _found(self) -> WorkloadView | None:
        try:
            return await self._live()
        except errors.NotFound:  # the kind is not served
            if self._planned.dependent.optional:
                return None
            raise

    def _decide(self, view: WorkloadView | None) -> Task:
        """Decides anew, right before a write, as the plan was made."""
        return scaling.decide(
            view,
            self._run.direction,
            self._env.clock.now(),
            optional=self._planned.dependent.optional,
            found_at_zero=self._run.found_at_zero(self.ref),
        )

    # What is known of the resource. A read that is under way is cancelled when the run is ended.

    def _shown(self) -> WorkloadView | None:
        return self._env.seed.dependent(self._namespace, self.ref)

    def _watched(self) -> WorkloadView | None:
        """The resource as the watch shows it, or as a newer write or live read has shown it."""
        return self._memory.newest(self._shown())

    async def _live(self) -> WorkloadView | None:
        """Reads the resource live, and remembers what was read; None if it does not exist."""
        self.sent.set()  # the next level waits for a read no longer than for a write
        shown, namespace, seed = self._shown(), self._namespace, self._env.seed
        view = await self._guard.unless_ended(
            seed.read_dependent(namespace, self.ref, urgent=self._down)
        )
        self._memory.note(self.ref, view, shown)
        return await self._sized(view)

    async def _sized(self, view: WorkloadView | None) -> WorkloadView | None:
        """Returns `view` with its replicas; reads `scale` for a kind whose replicas only that shows."""
        if view is None or view.replicas is not None:
            return view
        self.sent.set()
        scale = await self._read_scale(urgent=self._down)
        # The resourceVersion stays that of the view, so that a write decided on outdated annotations fails.
        sized = replace(view, replicas=scale.replicas)
        if scale.resource_version == view.resource_version:
            self._memory.note_size(sized)
        return sized

    async def _read_scale(self, *, urgent: bool) -> ScaleView:
        seed, namespace = self._env.seed, self._namespace
        return await self._guard.unless_ended(seed.read_scale(namespace, self.ref, urgent=urgent))

    # Step 2: initialDelay, counted once per direction (rules 4.3).

    async def _initial_delay(self) -> None:
        self._guard.check()  # a run that has ended must not leave the begin of a delay behind
        now, key = self._env.clock.now(), (self._run.direction, self.ref)
        could_start = now
        if self._down:  # the seed tells when its level could first start; upwards nothing does
            views = self._memory.all_newest(self._env.dependents(self._namespace))
            level, dependents = self._policy.level, self._env.policy.dependents
            could_start = scaling.could_go_down(dependents, views, level, now)
        first = self._memory.could_start.setdefault(key, could_start)
        await self._guard.pause(first + self._policy.initial_delay - now)

    # Step 3: the write.

    async def _write(self) -> tuple[Task, WorkloadView | None]:
        """Writes once it may, what is decided then; returns that, and the resource as it has left it."""
        view = await self._sized(self._watched()) or await self._live()
        conflicts = retries = 0
        while True:
            await self._guard.wait_until_allowed()
            await self._check_request_stands()
            self._check_leads()
            task = self._decide(view)
            written = self._scaled or self._unanswered
            if written is not None and task.step is ScalingStep.NOTHING:
                self.accepted, self.task = True, written
                return written, view
            # Where the removal of the keys met a conflict, this run has scaled it up all the same.
            done = self._scaled if self._scaled and task.step is ScalingStep.TIDY else task
            self.task = done
            if not task.writes or self._env.dry_run:
                return task, view
            try:
                view = await self._apply(task, view)
            except _HeldBack:
                continue
            except (errors.Conflict, errors.NotFound) as error:
                if self._deadline is not None and self._env.clock.now() >= self._deadline:
                    text = f"conflicting writes did not end within {self._policy.timeout:g}s"
                    raise errors.ClusterError(text) from error
                if conflicts:  # somebody writes all the time
                    await self._guard.pause(_RETRY[min(conflicts, len(_RETRY)) - 1])
                conflicts += 1
                view = await self._live()
            except errors.Forbidden as refused:
                now = self._env.clock.now()
                if self._memory.refusals[self.ref].refused(now, now) or self._failure_stops:
                    raise
                await self._pause_before_retry(AFTER_REFUSAL, refused)
            except UNSETTLED as error:
                self._unanswered = task
                wait = max(error.retry_after or 0.0, _RETRY[min(retries, len(_RETRY) - 1)])
                await self._pause_before_retry(wait, error)
                retries += 1
            else:
                self._memory.refusals[self.ref].allowed()
                self.accepted = True
                self.answered.set()
                return done, view

    async def _pause_before_retry(self, seconds: float, error: errors.ClusterError) -> None:
        """Waits before a write that failed with `error` is sent again; raises that if there is no use, or no time."""
        until = self._env.clock.now() + seconds
        if error.status in _REDIRECTS or self._deadline is None or until >= self._deadline:
            raise error
        await self._guard.pause(seconds)

    async def _check_request_stands(self) -> None:
        """Ends a manual run whose request is gone, or whose shoot is no longer probed; waits until that is known.

        A stale watch shows neither, so both are read live.
        """
        order = self._run.order
        if not order.manual:
            return
        while True:
            try:
                # Of a request that is gone hears `cancel_if_over` of `scaling.manual` by the read; it ends this run.
                await self._env.overrides.refresh(order.namespace, urgent=False)
                if not order.forced:
                    await check_still_probed(self._env, order.namespace)
            except errors.Refused as gone:
                self._guard.end(str(gone))
            except errors.ClusterError:
                await self._guard.pause(_RETRY[-1])
                continue
            return

    def _check_leads(self) -> None:
        if not self._env.leadership.leading:
            self._guard.end("this instance is not the leader")
        self._guard.check()

    def _request_begins(self) -> None:
        """Called when the budget lets a write go (`ports.Starting`), as the wait for that may have been long.

        Raises:
            RunAborted: the run was ended meanwhile.
            _HeldBack: a HOLD came meanwhile.
        """
        self._check_leads()
        if self._guard.held:
            raise _HeldBack
        self._in_flight = True
        now = self._env.clock.now()
        if self._deadline is None:
            self.requested_at, self._deadline = now, now + self._policy.timeout
        if not self._down:
            self._memory.waiting_since[self.ref] = now
        self.sent.set()

    async def _apply(self, task: Task, view: WorkloadView | None) -> WorkloadView | None:
        """Sends the patch; returns the resource with the generation from which on its pods follow."""
        patch, seed = task.patch, self._env.seed
        if patch is None or view is None:
            return view
        if patch.replicas is None or self.ref.has_replicas:
            return await self._patch(patch)
        # Annotations first on the way down, last on the way up: a process that is killed in between leaves the saved
        # count behind (rules 4.3, step 3).
        if self._down:
            view = await self._patch(replace(patch, replicas=None))
            await self._send(seed.patch_scale, Patch(view.resource_version, patch.replicas))
            return view
        scaled = await self._send(seed.patch_scale, Patch(patch.resource_version, patch.replicas))
        self._scaled = task
        if not patch.annotations:
            return view
        return await self._patch(Patch(scaled.resource_version, None, patch.annotations))

    async def _patch(self, patch: Patch) -> WorkloadView:
        shown = self._shown()
        written = await self._send(self._env.seed.patch_dependent, patch)
        self._memory.note(self.ref, written, shown)
        return written

    async def _send(self, write: Callable[..., Coroutine[Any, Any, T]], patch: Patch) -> T:
        """Makes a write; the end of the run cuts its wait for the budget short, but not a request that was sent."""
        self._in_flight = False
        request = write(
            self._namespace,
            self.ref,
            patch,
            starting=self._request_begins,
            urgent=self._down,
            patient=self._unanswered is not None,
        )
        try:
            return await self._guard.unless_ended(request, lambda: not self._in_flight)
        finally:
            self._in_flight = False

    # Step 5: waiting for the pods.

    async def _finish_unchanged(self, task: Task, view: WorkloadView | None) -> None:
        """Ends a resource whose replicas are as they should be; if a later level writes, waits until it is ready."""
        ready = self._down or view is None or scaling.settled(view, Direction.UP)
        if ready:
            self._memory.waiting_since.pop(self.ref, None)
        elif self._later_writes:
            now = self._env.clock.now()
            since = self._memory.waiting_since.setdefault(self.ref, now)
            self._deadline = since + self._policy.timeout
            return await self._wait_for_pods(view)
        return self._end(StepResult.DONE if task.writes else StepResult.SKIPPED)

    async def _wait_for_pods(self, view: WorkloadView | None) -> None:
        written = view
        deadline = self._deadline or self._env.clock.now() + self._policy.timeout
        while not await self._settled(view, written):
            left = deadline - self._env.clock.now()
            if left <= 0:
                what = "pods were left" if self._down else "no pod was ready"
                text = f"{what} after {self._policy.timeout:g}s"
                return self._end(StepResult.FAILED, text)
            self._guard.check()
            await self._guard.wait_for_change(min(left, _POLL))
            watch = self._env.seed.watch_state(Watched.DEPENDENTS)
            if watch.stale(self._env.clock.now(), after=self._policy.timeout / 2):
                with suppress(errors.ClusterError):
                    await self._live()
                    view = self._watched()  # the watch may have shown a newer one during the read
            else:
                view = self._watched()
        self._memory.waiting_since.pop(self.ref, None)
        return self._end(StepResult.DONE)

    async def _settled(self, view: WorkloadView | None, written: WorkloadView | None) -> bool:
        """Whether the pods have followed the write that left the resource as `written`."""
        if view is None:  # it was deleted, and may be made again
            return self._down or self._planned.dependent.optional
        if written is not None and view.uid != written.uid:
            written = None  # it was deleted and made again, and counts its generations anew
        if written is not None and view.generation < written.generation:
            return False
        if view.current is not None or view.ready is not None:
            return scaling.settled(view, self._run.direction)
        try:
            scale = await self._read_scale(urgent=False)
        except TRANSIENT:
            return False  # the caller asks again
        if scale.current is None:
            return True  # nothing shows the pods of this kind: the write is the end (rules 4.3, step 5)
        return scaling.settled(replace(view, current=scale.current), self._run.direction)


async def check_still_probed(environment: ProberEnvironment, namespace: str) -> None:
    """Reads the Cluster live if its watch is stale, and checks that the shoot is still to be probed.

    Raises:
        Refused: the shoot is not to be probed any more.
        ClusterError: the watch is stale, and the Cluster could not be read.
    """
    if not environment.seed.watch_state(Watched.CLUSTERS).stale(environment.clock.now()):
        return
    found = lifecycle.decide(await environment.seed.read_cluster(namespace))
    if not found.runs(running=True, protected=True):
        raise errors.Refused(f"the shoot is not probed: {found.message}")
