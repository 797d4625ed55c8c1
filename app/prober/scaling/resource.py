"""One resource in one scaling run: decide, wait, write, wait for its pods (rules 4.3, steps 1 to 5).

Each write carries the resourceVersion that it was decided on. After a conflict the resource is read and decided on
again, after an error that may be transient the write is repeated, until the resource's `timeout` is over. A write
whose answer was lost may have been carried out: if a later read shows that nothing is left to do, it counts as done by
this run. The run's guard is asked before each write, and once more after the wait for the request budget.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final, TypeVar

from app.core import errors
from app.core.model.policy import DependentPolicy
from app.core.model.scaling_runs import ScalingStep
from app.core.model.workloads import Direction, Patch, ResourceRef, WorkloadView
from app.core.ports import Watched
from app.prober.rules import protection, scaling
from app.prober.rules.scaling import Case, Task, Why
from app.prober.scaling.context import RunAborted, ScalingContext, StepResult, check_probed

T = TypeVar("T")

TRANSIENT: Final = (errors.Unreachable, errors.ServerFault, errors.Throttled)
"""Errors after which another try may succeed."""
UNSETTLED: Final = (*errors.UNSURE, errors.Throttled)
"""Errors after which a write may have been carried out, or may succeed at another try."""


class DependentReader:
    """Reads one dependent for a scaling run: from the watch, live, and through its `scale` subresource.

    A read that is under way is cancelled when the run is ended.
    """

    def __init__(
        self, context: ScalingContext, ref: ResourceRef, asking: Callable[[], None]
    ) -> None:
        """`asking` is called before each request: the next level waits for a read no longer than for a write."""
        self._context = context
        self._seed = context.environment.seed
        self._ref = ref
        self._asking = asking
        self._urgent = context.direction is Direction.DOWN

    def watched(self) -> WorkloadView | None:
        """The dependent as the watch shows it, or as a newer write or live read has shown it."""
        watched = self._seed.dependent(self._context.namespace, self._ref)
        return self._context.memory.newest(watched)

    async def live(self) -> WorkloadView | None:
        """Reads the dependent live, and remembers what was read; None if it does not exist."""
        self._asking()
        watched = self._seed.dependent(self._context.namespace, self._ref)
        view = await self._context.guard.unless_ended(
            self._seed.read_dependent(self._context.namespace, self._ref, urgent=self._urgent)
        )
        self._context.memory.note(self._ref, view, watched)
        return await self.sized(view)

    async def sized(self, view: WorkloadView | None) -> WorkloadView | None:
        """Returns `view` with its replicas; reads `scale` for a kind whose replicas only that shows."""
        if view is None or view.replicas is not None:
            return view
        self._asking()
        scale = await self._context.guard.unless_ended(
            self._seed.read_scale(self._context.namespace, self._ref, urgent=self._urgent)
        )
        # The resourceVersion stays that of the view, so that a write decided on outdated annotations fails.
        sized = replace(view, replicas=scale.replicas)
        if scale.resource_version == view.resource_version:
            self._context.memory.note_size(sized)
        return sized

    async def freshest(self, view: WorkloadView, patience: float) -> WorkloadView | None:
        """The dependent as the watch shows it, or read live if the watch was silent for over `patience` seconds."""
        state = self._seed.watch_state(Watched.DEPENDENTS)
        if not state.stale(self._context.environment.clock.now(), after=patience):
            return self.watched()
        try:
            await self.live()
        except errors.ClusterError:
            return view
        return self.watched()  # the watch may have shown a newer version during the read

    async def settled(self, view: WorkloadView, written: WorkloadView | None) -> bool:
        """Whether the pods have followed the write that left the dependent as `written`."""
        if written is not None and view.generation < written.generation:
            return False
        if view.current is not None or view.ready is not None:
            return scaling.settled(view, self._context.direction)
        try:
            scale = await self._context.guard.unless_ended(
                self._seed.read_scale(self._context.namespace, self._ref)
            )
        except TRANSIENT:
            return False  # the caller asks again
        if scale.current is None:
            return True  # nothing shows the pods of this kind: the write is the end (rules 4.3, step 5)
        return scaling.settled(replace(view, current=scale.current), self._context.direction)


# Seconds before the first, second and each later retry.
_RETRY: Final = (0.2, 0.5, 1.0)
_REDIRECTS: Final = range(300, 400)
# Seconds between checks of a resource whose pods are awaited: not all replicas are shown by a watch.
_POLL: Final = 2.0


class _HeldBack(Exception):
    """A HOLD came while a write waited for the request budget."""


class ResourceRun:
    """Scales one resource in one scaling run.

    The events tell the run when the next level may start: `sent`, `written` and `ended`, in this order.
    """

    def __init__(
        self,
        context: ScalingContext,
        dependent: DependentPolicy,
        later_writes: Callable[[], bool],
        report: Callable[["ResourceRun"], None],
    ) -> None:
        """Prepares the resource; `run` scales it.

        Args:
            context: what the resources of the run share.
            dependent: the configuration of the resource.
            later_writes: returns whether a later level has something to write.
            report: called with this object when it has ended.
        """
        self._context, self._env = context, context.environment
        self._policy = dependent.scale(context.direction)
        self._optional = dependent.optional
        self._later_writes = later_writes
        self._deadline: float | None = None
        self.ref = dependent.ref
        self._conflicts = 0
        self._in_flight = False
        """A write was sent and is not answered yet."""
        self._report = report
        self.sent = asyncio.Event()
        """Set when the first request was sent, or there will be none."""
        self.written = asyncio.Event()
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
        self._unanswered: Task | None = None
        """The last write whose answer was lost: it may have been carried out."""
        self.result: StepResult | None = None
        self.message = ""
        self._reader = DependentReader(context, dependent.ref, asking=self.sent.set)

    async def run(self) -> None:
        """Scales the resource and waits for its pods; never raises, whatever the seed answers."""
        self.began_at = self._env.clock.now()
        try:
            self.result = await self._scale()
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
            self.written.set()
            self.ended.set()
            self._report(self)

    def _end(self, result: StepResult, message: str) -> StepResult:
        self.result, self.message = result, message
        return result

    async def _scale(self) -> StepResult:
        if (why := self._env.seed.unavailable(self.ref)) is not None:
            # Not written even if it could be read now: without a watch nobody would see it at 0 and bring it back.
            self.unavailable = True
            return self._end(StepResult.FAILED, why)
        view = self._reader.watched()
        # The watch may lag behind a creation, so the resource does not count as gone before a live read.
        if view is None:
            view = await self._read()
        task = self.task = self._decide(view)
        if task.writes:
            await self._initial_delay()
            task, view = await self._write()
        if self._env.dry_run and task.writes:
            return self._end(StepResult.DRY_RUN, "nothing is written in a dry run")
        return await self._conclude(task, view)

    async def _read(self) -> WorkloadView | None:
        try:
            return await self._reader.live()
        except errors.NotFound:  # the kind is not served
            if self._optional:
                return None
            raise

    async def _conclude(self, task: Task, view: WorkloadView | None) -> StepResult:
        match task.step:
            case ScalingStep.FAILED:
                return self._end(
                    StepResult.FAILED, f"{self.ref} does not exist and is not optional"
                )
            case ScalingStep.SKIP:
                return self._end(StepResult.SKIPPED, task.why)
            case ScalingStep.WRITE:
                return await self._wait_for_pods(view)
            case ScalingStep.TIDY | ScalingStep.NOTHING:
                if task.why in {Why.IGNORED, Why.LEFT_AT_ZERO}:
                    return self._end(StepResult.SKIPPED, task.why)
                return await self._finish_unchanged(view)

    def _decide(self, view: WorkloadView | None) -> Task:
        found = self._context.found_at_zero(self.ref)
        case = Case(view, self._optional, found)
        return scaling.decide(case, self._context.direction, self._env.clock.now())

    # Step 2: initialDelay, counted once per direction (rules 4.3).

    async def _initial_delay(self) -> None:
        self._context.guard.check()  # a run that has ended must not leave the begin of a delay behind
        now = self._env.clock.now()
        key = (self._context.direction, self.ref)
        first = self._context.memory.could_start.setdefault(key, self._could_start(now))
        await self._context.guard.pause(first + self._policy.initial_delay - now)

    def _could_start(self, now: float) -> float:
        """When the resource's level could first start: down, what the seed tells; up, now, as nothing tells it."""
        if not self._down:
            return now
        dependents, memory = self._env.policy.dependents, self._context.memory
        seed, namespace = self._env.seed, self._context.namespace
        views = {
            each.ref: memory.newest(seed.dependent(namespace, each.ref)) for each in dependents
        }
        return protection.could_go_down(dependents, views, self._policy.level, now)

    # Step 3: the write.

    async def _write(self) -> tuple[Task, WorkloadView | None]:
        view, tries = (
            await self._reader.sized(self._reader.watched()) or await self._reader.live(),
            0,
        )
        while True:
            await self._context.guard.wait_until_allowed()
            await self._check_asked()
            self._check_leads()
            task = self.task = self._decide(view)
            if not task.writes or self._env.dry_run:
                return self._done_before(task), view
            try:
                view = await self._apply(task, view)
            except _HeldBack:
                continue
            except (errors.Conflict, errors.NotFound):
                self._check_deadline("conflicting writes did not end")
                await self._after_conflict()
                view = await self._reader.live()
            except UNSETTLED as error:
                if error.status in _REDIRECTS:
                    raise
                self._unanswered = task
                await self._before_retry(error, tries)
                tries += 1
            else:
                self.accepted = True
                self.written.set()
                return task, view

    def _done_before(self, task: Task) -> Task:
        """Returns `task`, or the write whose answer was lost, if that has left nothing to do."""
        if self._unanswered is None or task.step is not ScalingStep.NOTHING:
            return task
        self.accepted, self.task = True, self._unanswered
        return self._unanswered

    async def _check_asked(self) -> None:
        """Ends a manual run whose request is gone, or whose shoot is no longer probed; waits until that is known.

        A stale watch shows neither, so both are read live.
        """
        order = self._context.order
        while order.manual:
            try:
                await self._env.overrides.refresh(self._context.namespace, urgent=False)
                if not order.forced:
                    await check_probed(self._env, self._context.namespace)
            except errors.Refused as gone:
                self._context.guard.end(str(gone))
            except errors.ClusterError:
                await self._context.guard.pause(_RETRY[-1])
                continue
            return

    def _check_leads(self) -> None:
        if not self._env.leadership.leading:
            self._context.guard.end("this instance is not the leader")
        self._context.guard.check()

    def _request_begins(self) -> None:
        """Called right before a write is sent, as the wait for the request budget may have been long.

        Raises:
            RunAborted: the run was ended meanwhile.
            _HeldBack: a HOLD came meanwhile.
        """
        self._check_leads()
        if self._context.guard.held:
            raise _HeldBack
        self._in_flight = True
        if self._deadline is None:
            self.requested_at = self._env.clock.now()
            self._deadline = self._env.clock.now() + self._policy.timeout
        if not self._down:
            self._context.memory.waiting_since[self.ref] = self._env.clock.now()
        self.sent.set()

    async def _after_conflict(self) -> None:
        """Waits before another try: not after the first conflict, longer and longer if somebody writes all the time."""
        if self._conflicts:
            await self._context.guard.pause(_RETRY[min(self._conflicts, len(_RETRY)) - 1])
        self._conflicts += 1

    def _check_deadline(self, why: str) -> None:
        if self._deadline is not None and self._env.clock.now() >= self._deadline:
            raise errors.ClusterError(f"{why} within {self._policy.timeout:g}s")

    async def _before_retry(self, error: errors.ClusterError, tries: int) -> None:
        pause = max(error.retry_after or 0.0, _RETRY[min(tries, len(_RETRY) - 1)])
        if self._deadline is None or self._env.clock.now() + pause >= self._deadline:
            raise error
        await self._context.guard.pause(pause)

    async def _apply(self, task: Task, view: WorkloadView | None) -> WorkloadView | None:
        patch = task.patch
        if patch is None or view is None:
            return view
        if patch.replicas is None or self.ref.has_replicas:
            return await self._patch(patch)
        # Annotations first on the way down, last on the way up: a process that is killed in between leaves the saved
        # count behind (rules 4.3, step 3).
        if self._context.direction is Direction.DOWN:
            noted = await self._patch(replace(patch, replicas=None))
            return await self._patch_scale(noted, noted.resource_version, patch.replicas)
        scaled = await self._patch_scale(view, patch.resource_version, patch.replicas)
        if not patch.annotations:
            return scaled
        tidy = Patch(scaled.resource_version, None, patch.annotations)
        return replace(await self._patch(tidy), replicas=patch.replicas)

    async def _patch(self, patch: Patch) -> WorkloadView:
        watched = self._env.seed.dependent(self._context.namespace, self.ref)
        written = await self._sent(
            self._env.seed.patch_dependent(
                self._context.namespace,
                self.ref,
                patch,
                starting=self._request_begins,
                urgent=self._down,
            )
        )
        self._context.memory.note(self.ref, written, watched)
        return written

    async def _sent(self, request: Coroutine[Any, Any, T]) -> T:
        """Awaits a write; the end of the run cuts its wait for the budget short, but not a request that was sent."""
        self._in_flight = False
        try:
            return await self._context.guard.unless_ended(request, lambda: not self._in_flight)
        finally:
            self._in_flight = False

    async def _patch_scale(self, view: WorkloadView, version: str, count: int) -> WorkloadView:
        scaled = await self._sent(
            self._env.seed.patch_scale(
                self._context.namespace,
                self.ref,
                Patch(version, count),
                starting=self._request_begins,
                urgent=self._down,
            )
        )
        return replace(view, resource_version=scaled.resource_version, replicas=scaled.replicas)

    @property
    def _down(self) -> bool:
        return self._context.direction is Direction.DOWN

    # Step 5: waiting for the pods.

    async def _finish_unchanged(self, view: WorkloadView | None) -> StepResult:
        """Ends a resource whose replicas are as they should be; if a later level writes, waits until it is ready."""
        waits = self._context.direction is Direction.UP and view is not None
        if not waits or view is None or scaling.settled(view, Direction.UP):
            self._context.memory.waiting_since.pop(self.ref, None)
            return self._end(StepResult.DONE if self._wrote else StepResult.SKIPPED, "")
        if not self._later_writes():
            return self._end(StepResult.DONE if self._wrote else StepResult.SKIPPED, "")
        now = self._env.clock.now()
        since = self._context.memory.waiting_since.setdefault(self.ref, now)
        self._deadline = since + self._policy.timeout
        return await self._wait_for_pods(view)

    @property
    def _wrote(self) -> bool:
        return self.task is not None and self.task.writes

    async def _wait_for_pods(self, view: WorkloadView | None) -> StepResult:
        written = view
        deadline = self._deadline or self._env.clock.now() + self._policy.timeout
        while view is not None and not await self._reader.settled(view, written):
            left = deadline - self._env.clock.now()
            if left <= 0:
                return self._end(StepResult.FAILED, self._not_settled())
            self._context.guard.check()
            await self._context.guard.change(min(left, _POLL))
            self._context.guard.check()
            view = await self._reader.freshest(view, self._policy.timeout / 2)
        self._context.memory.waiting_since.pop(self.ref, None)
        return self._end(StepResult.DONE, "")

    def _not_settled(self) -> str:
        wanted = "no pod is left" if self._down else "a pod is ready"
        return f"{self.ref} was scaled, but not until {wanted} within {self._policy.timeout:g}s"
