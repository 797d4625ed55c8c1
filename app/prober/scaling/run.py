"""One run over all dependents in one direction, level by level, and what begins and ends it (rules 4.3).

All resources of a level start at once, each as a `ResourceRun` in a task of its own. On the way up the next level
starts when this one is ready. On the way down it starts as soon as this level's writes are accepted or have failed, at
the latest 1 s after they were sent: kube-controller-manager must not wait for machine-controller-manager's pods, nor
for a slow write. What is slow goes on beside the next level, and the run ends when all of it has ended.

Verdicts arrive at `Scaler.on_verdict`, which begins a run, and go on arriving while it is under way. One of the same
direction confirms the run, one of the other direction ends it. HOLD makes the next write wait for a while (`patience`);
if the verdict is not confirmed by then, the run ends. When a run is ended, all its waits end at once, but a request
that was sent is finished first.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from app.core.clock import Clock
from app.core.model.policy import DependentPolicy, OnFailure
from app.core.model.probing import Decision, Verdict, VerdictReason
from app.core.model.scaling_runs import (
    OperationPhase,
    RunStep,
    ScalingRunStatus,
    StepPhase,
    StepResult,
    Trigger,
)
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.core.tasks import wait_until_set
from app.prober import messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import scaling
from app.prober.rules.scaling import PendingWrites, Plan, Why
from app.prober.scaling.resource import ResourceRun, RunAborted, ScalingMemory

log = structlog.get_logger(__name__)

T = TypeVar("T")

# On the way down, seconds after which a level starts though writes of the one before are not answered yet.
_LEVEL_GOES_ON: Final = 1.0
_PHASES: Final = {
    None: StepPhase.RUNNING,
    StepResult.DONE: StepPhase.DONE,
    StepResult.SKIPPED: StepPhase.SKIPPED,
    StepResult.DRY_RUN: StepPhase.SKIPPED,
    StepResult.FAILED: StepPhase.FAILED,
    StepResult.CANCELLED: StepPhase.CANCELLED,
}


class RunGuard:
    """Guards a scaling run by the verdicts of the probes; during a manual run every verdict is HOLD, and it goes on."""

    def __init__(
        self, direction: Direction, clock: Clock, as_of: float, patience: float | None
    ) -> None:
        """Guards a run that begins now.

        Args:
            direction: of the run.
            clock: for the age of a verdict.
            as_of: the instant that the verdict which the run begins on speaks of.
            patience: seconds that a write waits for a HOLD to pass, and after which a verdict is too old to write on;
                None for a manual run.
        """
        self._direction, self._clock, self._patience = direction, clock, patience
        self._confirmed = True
        self._as_of = as_of
        self.ended: str | None = None
        """Why the run must end; None while it may go on."""
        self._changed = asyncio.Event()

    def tell(self, verdict: Verdict, as_of: float) -> None:
        """Takes a verdict: the same direction confirms the run, the other ends it, HOLD makes the next write wait."""
        self._as_of = as_of
        self._confirmed = verdict.direction is self._direction
        if verdict.direction not in {self._direction, None}:
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
                self.check()
            await self.wait_for_change(left)

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
        return not self._confirmed or self._clock.now() - self._as_of > self._patience

    async def pause(self, seconds: float) -> None:
        """Waits for so many seconds.

        Raises:
            RunAborted: the run was ended before or meanwhile.
        """
        until = self._clock.now() + seconds
        self.check()
        while (left := until - self._clock.now()) > 0:
            await self.wait_for_change(left)

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
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait((task, changed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
                if not task.cancelled():
                    task.exception()  # retrieved, so that asyncio does not report it as never retrieved

    async def wait_for_change(self, seconds: float) -> None:
        """Returns at the next verdict or `recheck`, or after so many seconds.

        Raises:
            RunAborted: the run was ended meanwhile.
        """
        self._changed.clear()
        await wait_until_set(self._changed, seconds)
        self.check()


class ScalingRun:
    """One run over all dependents in one direction.

    `order` is what it was begun for, as its status was then; `guard` says whether it may go on. `as_of` is the instant
    that the verdict which began it speaks of.
    """

    def __init__(
        self,
        environment: ProberEnvironment,
        order: ScalingRunStatus,
        memory: ScalingMemory,
        as_of: float,
    ) -> None:
        self._env = environment
        self.order, self.memory = order, memory
        self.started = environment.clock.now()
        self._ended: float | None = None
        patience = None if order.manual else 3 * environment.policy.suspect_interval
        self.guard = RunGuard(order.direction, environment.clock, as_of, patience)
        self.superseded = False
        """It was ended so that another run in the same direction can start."""
        self._no_more_levels = False
        self._resources: dict[ResourceRef, ResourceRun] = {}

    @property
    def direction(self) -> Direction:
        return self.order.direction

    async def run(self) -> ScalingRunStatus:
        """Scales all levels and waits for their ends; an unexpected error ends it, and is logged."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._scale_levels(tasks)
        except Exception as error:
            # Those who wait for the end must be told: an open ScaleRequest holds verdicts back.
            self.guard.end(f"an unexpected error, see the log ({type(error).__name__})")
            log.exception("scaling run failed", namespace=self.order.namespace, exc_info=error)
        self._no_more_levels = True
        if tasks:
            await asyncio.wait(tasks)
        self._ended = self._env.clock.now()
        return self.operation()

    async def _scale_levels(self, tasks: list[asyncio.Task[None]]) -> None:
        """Starts one level after the other; the task of each resource is added to `tasks`."""
        to_come = self._env.policy.dependents
        if self.direction is Direction.UP and not self.order.manual:
            # After a mass outage, automatic scale-ups start for a few shoots a second (rules 4.3). A run that is ended
            # while it waits costs the others no turn.
            with suppress(RunAborted):
                await self.guard.unless_ended(self._env.scale_ups.take())
            to_come = to_come if self.guard.ended is None else ()
        while to_come:
            # Each level is planned when it starts, as what is before it may have taken long.
            level, *later = self._plan(to_come)
            later_writes = scaling.writes(later)
            begun = [
                ResourceRun(self._env, self, each, later_writes=later_writes) for each in level
            ]
            for each in begun:
                self._resources[each.ref] = each
                tasks.append(self._env.tasks.once(partial(self._scale, each), f"scale {each.ref}"))
            await asyncio.gather(*(self._level_passed(each) for each in begun))
            stops = self._env.policy.on_failure(self.direction) is OnFailure.STOP
            if self.guard.ended is not None or (stops and any(each.failed for each in begun)):
                break
            to_come = tuple(each.dependent for of_level in later for each in of_level)

    def _plan(self, dependents: Iterable[DependentPolicy]) -> scaling.Plan:
        return scaling.plan(
            dependents,
            self.memory.all_newest(self._env.dependents(self.order.namespace)).get,
            self.direction,
            self._env.clock.now(),
            found_at_zero=self.found_at_zero,
        )

    def found_at_zero(self, ref: ResourceRef) -> bool:
        """Whether a resource at 0 without our keys is to be scaled up; a manual run always does that."""
        return self.order.manual or self.memory.found_at_zero(ref)

    async def _scale(self, resource: ResourceRun) -> None:
        try:
            await resource.run()
        finally:
            messages.resource_ended(self._env, self.order, resource)

    async def _level_passed(self, resource: ResourceRun) -> None:
        """Returns as soon as the next level may start, as far as this resource is concerned."""
        await resource.sent.wait()
        if self.direction is Direction.UP:
            await resource.ended.wait()
            return
        # A slow write goes on beside the next level.
        await wait_until_set(resource.answered, _LEVEL_GOES_ON)

    def supersede(self) -> None:
        """Ends a scale-down that only waits for pods, if a dependent that it has dealt with is up again.

        The wait for pods decides nothing but what is reported. So SCALE DOWN acts at once on what is up (rules 4.3),
        through another run that starts when this one has ended.
        """
        writing = not self._no_more_levels or not all(
            each.answered.is_set() for each in self._resources.values()
        )
        if self.direction is Direction.UP or writing or self.guard.ended is not None:
            return
        dealt_with = [each for each in self._env.policy.dependents if each.ref in self._resources]
        sized = self.memory.sized
        again = [
            str(each.dependent.ref)
            for level in self._plan(dealt_with)
            for each in level
            if each.task.writes and (view := sized(each.view)) is not None and view.replicas
        ]
        if again:
            self.superseded = True
            self.guard.end(f"{' and '.join(again)} must be scaled down again")

    # What the API shows.

    def operation(self) -> ScalingRunStatus:
        """The run as an operation of the API, with the present state of each step."""
        levels = scaling.levels(self._env.policy.dependents, self.direction)
        steps = tuple(self._step(each) for level in levels for each in level)
        shown = replace(self.order, phase=OperationPhase.RUNNING, started=self.started, steps=steps)
        why = self.guard.ended
        if self._ended is None:
            return shown if why is None else replace(shown, message=f"it ends: {why}")
        # Unavailable resources last: they are no fault of this shoot's.
        failures = sorted(
            (each for each in steps if each.phase is StepPhase.FAILED),
            key=lambda each: each.unavailable,
        )
        phase = OperationPhase.FAILED if failures else OperationPhase.DONE
        return replace(
            shown,
            phase=phase if why is None else OperationPhase.CANCELLED,
            ended=self._ended,
            message=why or "; ".join(f"{each.resource}: {each.message}" for each in failures),
        )

    def _step(self, dependent: DependentPolicy) -> RunStep:
        level = dependent.scale(self.direction).level
        run = self._resources.get(dependent.ref)
        if run is None:
            if self._ended is None:
                return RunStep(dependent.ref, level)
            text = "the scaling run ended before its level"
            return RunStep(dependent.ref, level, StepPhase.CANCELLED, text)
        task = run.task
        return RunStep(
            dependent.ref,
            level,
            _PHASES[run.result],
            run.message,
            started=run.began_at,
            written=run.requested_at,
            ended=run.ended_at,
            before=None if task is None else task.before,
            after=None if task is None else task.after,
            unavailable=run.unavailable,
        )


Ended = Callable[[ScalingRunStatus], None]


class Scaler:
    """Starts, supervises and ends the scaling runs of one shoot."""

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        self._env = environment
        self._namespace = namespace
        self._listeners: list[Ended] = []
        self._ordered: ScalingRunStatus | None = None
        """A manual run that starts as soon as the running one has ended."""
        self._task: asyncio.Task[None] | None = None
        self._wanted: Direction | None = None
        """The direction of the last verdict, if it may still start a run: now, or after the one under way."""
        self._why = ""
        """The message of the verdict that set `_wanted`."""
        self._as_of = environment.clock.now()
        """The instant that the last verdict speaks of."""
        self._dry_run_direction: Direction | None = None
        """Dry run: the direction of the last run, which is not repeated until the verdict has turned."""
        self._pending: tuple[dict[ResourceRef, WorkloadView | None], PendingWrites] | None = None
        """The dependents as `pending` last saw them, and its answer for them."""
        self.memory = ScalingMemory()
        self.scaling_run: ScalingRun | None = None
        self.last: ScalingRunStatus | None = None
        """How the last run ended."""
        self._failed: Mapping[ResourceRef, str] = {}
        """What the last run failed to scale and is not right yet, with the reason."""

    def subscribe(self, ended: Ended) -> None:
        """Calls `ended` after each scaling run."""
        self._listeners.append(ended)

    def unsubscribe(self, ended: Ended) -> None:
        self._listeners.remove(ended)

    @property
    def manual(self) -> ScalingRunStatus | None:
        """The manual scaling run that is under way or about to start, as it was asked for."""
        if self._ordered is None and self.scaling_run is not None and self.scaling_run.order.manual:
            return self.scaling_run.order
        return self._ordered

    @property
    def idle(self) -> bool:
        """Whether no scaling run is under way or about to start."""
        return self.scaling_run is None and self._ordered is None

    @property
    def failed(self) -> Mapping[ResourceRef, str]:
        """What the last run failed to scale and is not right yet, with the reason; without what is unavailable."""
        unavailable = self._env.seed.unavailable
        return {ref: why for ref, why in self._failed.items() if not unavailable(ref)}

    @property
    def unavailable(self) -> tuple[str, ...]:
        """Dependents that the last run found unavailable (rules 4.3) and that still are, with what the seed said."""
        steps = () if self.last is None else self.last.steps
        refs = [each.resource for each in steps if each.unavailable]
        return tuple(f"{ref}: {why}" for ref in refs if (why := self._env.seed.unavailable(ref)))

    def views(self) -> dict[ResourceRef, WorkloadView | None]:
        """The dependents as the watch shows them, with what newer writes and reads of `scale` have shown."""
        views, shown = self._env.dependents(self._namespace), self.memory.shown
        return {ref: shown(view) for ref, view in views.items()}

    def pending(self) -> PendingWrites:
        """What a scaling run of either direction would write now."""
        views = self.views()
        # Each probe asks several times, while the dependents change a few times a day.
        if self._pending is not None:
            before, known = self._pending
            if all(views[ref] is view for ref, view in before.items()):
                return known
        found = scaling.pending_writes(self._env.policy.dependents, views, self._env.clock.now())
        self._pending = views, found
        return found

    def on_verdict(self, decision: Decision, plan: Plan, as_of: float) -> None:
        """Takes a verdict: starts a scaling run, or confirms, delays or ends the one under way.

        Args:
            decision: on the last probe.
            plan: what would be done on it now; empty for HOLD.
            as_of: the instant that the verdict speaks of: writes wait where it is too old, as that of a process that
                was frozen while it judged the leases.
        """
        self._as_of = as_of
        direction = decision.verdict.direction
        planned = {each.dependent.ref: each for level in plan for each in level}
        if direction is Direction.UP:
            zeros = [ref for ref, it in planned.items() if it.task.why is Why.FOUND_AT_ZERO]
            self.memory.at_zero(zeros, self._env.clock.now())
        if direction is None:
            self._wanted = None  # after a HOLD no run may start on an earlier verdict
        else:
            # Without what has come to where a run leaves it, by whatever hand.
            self._failed = {
                ref: why
                for ref, why in self._failed.items()
                if not scaling.complete(planned[ref], direction)
            }
            self.memory.turned(direction)
            # A SCALE DOWN that would write nothing was not confirmed: it must not start a run later, when it would.
            self._wanted = direction if self._may_write(plan) else None
            self._why = decision.message
            self._dry_run_direction = direction if self._dry_run_direction is direction else None
        if self.scaling_run is not None:
            under_way, told = self.scaling_run.direction, decision.verdict
            # A gate keeps a scale-down from starting, but neither ends nor delays one.
            if decision.reason is VerdictReason.GATED and decision.would_be.direction is under_way:
                told = decision.would_be
            self.scaling_run.guard.tell(told, as_of)
            if direction is under_way:
                self.scaling_run.supersede()
        elif self._wanted is not None:
            self._begin_automatic(self._wanted)

    def recheck(self) -> None:
        """Makes the run under way look at the dependents again, as one has changed."""
        if self.scaling_run is not None:
            self.scaling_run.guard.recheck()

    def begin_manual(self, order: ScalingRunStatus) -> None:
        """Starts a manual run now, or as soon as the one under way, which it ends, has ended.

        The caller makes sure that no other manual run is under way or waits.
        """
        self._wanted = None
        if self.scaling_run is None:
            self._begin(order)
            return
        self._ordered = order
        shown = replace(order, message="it waits for the end of the current one")
        self._env.operations.follow(order.id, lambda: shown)
        self.scaling_run.guard.end(f"a manual scaling run begins ({order.id})")

    def cancel(self, operation: str, reason: str) -> bool:
        """Ends the manual run with this id, between two steps; False if it does not run or is ending already."""
        if self._ordered is not None and self._ordered.id == operation:
            self._drop_order(reason)
            return True
        run = self.scaling_run
        if run is None or run.order.id != operation or run.guard.ended is not None:
            return False
        run.guard.end(reason)
        return True

    def _drop_order(self, reason: str) -> None:
        order, self._ordered = self._ordered, None
        if order is None:
            return
        now, cancelled = self._env.clock.now(), OperationPhase.CANCELLED
        end = replace(order, phase=cancelled, message=reason, ended=now)
        self._env.operations.close(end)
        self._tell(end)

    def end(self, reason: str) -> None:
        """Ends the run under way, and a manual one that waits; no run starts before the next verdict."""
        self._drop_order(reason)
        self.forget_verdict()
        if self.scaling_run is not None:
            self.scaling_run.guard.end(reason)

    def end_automatic(self, reason: str) -> None:
        """Ends the run under way if a verdict started it; no automatic run starts before the next verdict."""
        self.forget_verdict()
        if self.scaling_run is not None and not self.scaling_run.order.manual:
            self.scaling_run.guard.end(reason)

    def forget_verdict(self, direction: Direction | None = None) -> None:
        """Called when what the last verdict was judged by has changed: no automatic run starts before the next one.

        One may wait for the end of the run under way, which has a request in flight. With `direction`, only one in that
        direction is not started.
        """
        if direction is None or self._wanted is direction:
            self._wanted = None

    async def stop(self, reason: str, *, forced_too: bool = True) -> None:
        """Ends the run under way; returns when its last request has been answered.

        Args:
            reason: why, for messages.
            forced_too: also end a manual run that was forced; otherwise that goes on.
        """
        manual = self.manual
        if manual is not None and manual.forced and not forced_too:
            self._wanted = None
            return
        self.end(reason)
        if self._task is not None:
            await asyncio.wait([self._task])

    def _begin_automatic(self, direction: Direction) -> None:
        if self._dry_run_direction is direction:
            return
        self._dry_run_direction = direction if self._env.dry_run else None
        self._begin(
            ScalingRunStatus(
                id=self._env.operations.new_id(),
                namespace=self._namespace,
                direction=direction,
                trigger=Trigger.AUTO,
                phase=OperationPhase.PENDING,
                created=self._env.clock.now(),
                reason=self._why,
            )
        )

    def _begin(self, order: ScalingRunStatus) -> None:
        self.memory.turned(order.direction)
        scaling_run = self.scaling_run = ScalingRun(self._env, order, self.memory, self._as_of)
        self._env.operations.follow(order.id, scaling_run.operation)
        messages.run_began(self._env, order)
        self._task = self._env.tasks.once(
            lambda: self._run(scaling_run), f"scaling run {self._namespace}"
        )

    def _may_write(self, plan: Plan) -> bool:
        """Whether a run would write; of what is at 0 without our keys, as far as verdicts have found it so."""
        return any(
            each.task.writes
            and (
                each.task.why is not Why.FOUND_AT_ZERO
                or self.memory.found_at_zero(each.dependent.ref)
            )
            for level in plan
            for each in level
        )

    async def _run(self, scaling_run: ScalingRun) -> None:
        try:
            end = await scaling_run.run()
        finally:
            self.scaling_run = self._task = None
            self._env.operations.close(scaling_run.operation())
        self.last, self._failed = end, end.failed
        if not end.failed and end.phase is not OperationPhase.CANCELLED:
            self.memory.could_start.clear()
        messages.run_ended(self._env, end)
        self._tell(end)
        self._begin_next(scaling_run)

    def _tell(self, end: ScalingRunStatus) -> None:
        for listener in tuple(self._listeners):
            listener(end)

    def _begin_next(self, before: ScalingRun) -> None:
        """Starts what waited for the end of the run: a manual run, the other direction, or the same one again."""
        order, self._ordered = self._ordered, None
        wanted = self._wanted
        if order is not None:
            self._begin(order)
        elif wanted is before.direction and not before.superseded:
            return  # whatever this run could not do waits for the next verdict
        elif wanted is not None and self._may_write(self.pending().plans[wanted]):
            self._begin_automatic(wanted)
