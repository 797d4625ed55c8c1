"""One run over all dependents in one direction, level by level (rules 4.3).

All resources of a level start at once, each as a `ResourceRun` in a task of its own. On the way up the next level
starts when this one is ready. On the way down it starts as soon as this level's writes are accepted or have failed, at
the latest 1 s after they were sent: kube-controller-manager must not wait for machine-controller-manager's pods, nor
for a slow write. What is slow goes on beside the next level, and the run ends when all of it has ended.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from app.core.model.policy import DependentPolicy, OnFailure
from app.core.model.probing import Decision, VerdictReason
from app.core.model.scaling_runs import (
    OperationPhase,
    RunStep,
    ScalingRunStatus,
    StepPhase,
    Trigger,
)
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.core.tasks import happens
from app.prober import scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import scaling
from app.prober.rules.scaling import PendingWrites, Plan, Why
from app.prober.scaling.context import (
    RunAborted,
    RunGuard,
    ScalingContext,
    ScalingMemory,
    ScalingResult,
    StepResult,
)
from app.prober.scaling.resource import ResourceRun

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


class ScalingRun:
    """One run over all dependents in one direction; `guard` says whether it may go on, `result` how it ended."""

    def __init__(
        self, environment: ProberEnvironment, order: ScalingRunStatus, memory: ScalingMemory
    ) -> None:
        self._env = environment
        self.order = order
        self.started = environment.clock.now()
        patience = None if order.manual else 3 * environment.policy.suspect_interval
        self.guard = RunGuard(order.direction, environment.clock, patience)
        self.result: ScalingResult | None = None
        self.superseded = False
        """It was ended so that another run in the same direction can start."""
        self._begun = False
        """No further level will be started."""
        self._runs: dict[ResourceRef, ResourceRun] = {}
        self._context = ScalingContext(environment, order, self.guard, memory)

    @property
    def direction(self) -> Direction:
        return self.order.direction

    async def run(self) -> ScalingResult:
        """Scales all levels and waits for their ends; never raises, whatever the seed answers."""
        report = partial(
            scaling_messages.resource_ended, self._env, self.order.namespace, self._context
        )
        tasks: list[asyncio.Task[None]] = []
        to_come = self._env.policy.dependents
        if self.direction is Direction.UP and not self.order.manual:
            # After a mass outage, automatic scale-ups start for a few shoots a second (rules 4.3).
            with suppress(RunAborted):
                await self.guard.pause(self._env.scale_ups.turn(self._env.clock.now()))
            to_come = to_come if self.guard.ended is None else ()
        while to_come:
            # Each level is planned when it starts, as what is before it may have taken long.
            level, *later = self._plan(to_come)
            runs = [
                ResourceRun(self._context, each, report, later_writes=scaling.writes(later))
                for each in level
            ]
            self._runs |= {run.ref: run for run in runs}
            tasks += [self._env.tasks.once(run.run, f"scale {run.ref}") for run in runs]
            await asyncio.gather(*(self._level_passed(run) for run in runs))
            stops = self._env.policy.on_failure(self.direction) is OnFailure.STOP
            if self.guard.ended is not None or (stops and any(_failed(run) for run in runs)):
                break
            to_come = tuple(each.dependent for level in later for each in level)
        self._begun = True
        if tasks:
            await asyncio.wait(tasks)
        runs = list(self._runs.values())
        self.result = ScalingResult(
            self.order.id,
            self.direction,
            self.order.trigger,
            self.started,
            self._env.clock.now(),
            {run.ref: run.message for run in runs if _failed(run)},
            self.guard.ended,
            {run.ref: run.message for run in runs if run.unavailable},
        )
        return self.result

    def _plan(self, dependents: Iterable[DependentPolicy]) -> scaling.Plan:
        seed, namespace, memory = self._env.seed, self.order.namespace, self._context.memory
        return scaling.plan(
            dependents,
            lambda ref: memory.newest(seed.dependent(namespace, ref)),
            self.direction,
            self._env.clock.now(),
            found_at_zero=self._context.found_at_zero,
        )

    def supersede(self) -> None:
        """Ends a scale-down that only waits for pods, if a dependent that it has dealt with is up again.

        The wait for pods decides nothing but what is reported. So SCALE DOWN acts at once on what is up (rules 4.3),
        through another run that starts when this one has ended.
        """
        writing = not self._begun or any(not run.written.is_set() for run in self._runs.values())
        if self.direction is Direction.UP or writing or self.guard.ended is not None:
            return
        dealt_with = [each for each in self._env.policy.dependents if each.ref in self._runs]
        sized = self._context.memory.sized
        again = [
            str(each.dependent.ref)
            for level in self._plan(dealt_with)
            for each in level
            if each.task.writes and (view := sized(each.view)) is not None and view.replicas
        ]
        if again:
            self.superseded = True
            self.guard.end(f"{' and '.join(again)} must be scaled down again")

    async def _level_passed(self, run: ResourceRun) -> None:
        """Returns as soon as the next level may start, as far as this resource is concerned."""
        await run.sent.wait()
        if self.direction is Direction.UP:
            await run.ended.wait()
            return
        await happens(run.written, _LEVEL_GOES_ON)  # a slow write goes on beside the next level

    # What the API shows.

    def operation(self) -> ScalingRunStatus:
        """The run as an operation of the API, with the present state of each step."""
        result, direction = self.result, self.direction
        phase, message, ended = OperationPhase.RUNNING, "", None
        if result is not None:
            ended, message = result.ended, result.cancelled or "; ".join(result.failures)
            phase = OperationPhase.FAILED if result.failures else OperationPhase.DONE
            phase = phase if result.cancelled is None else OperationPhase.CANCELLED
        elif self.guard.ended is not None:
            message = f"it ends: {self.guard.ended}"
        levels = scaling.levels(self._env.policy.dependents, direction)
        return replace(
            self.order,
            phase=phase,
            started=self.started,
            ended=ended,
            message=message,
            steps=tuple(self._step(each) for level in levels for each in level),
        )

    def _step(self, dependent: DependentPolicy) -> RunStep:
        level = dependent.scale(self.direction).level
        run = self._runs.get(dependent.ref)
        if run is None:
            if self.result is None:
                return RunStep(dependent.ref, level)
            text = "the scaling run ended before its level"
            return RunStep(dependent.ref, level, StepPhase.CANCELLED, text)
        task = run.task
        return RunStep(
            dependent.ref,
            level,
            _PHASES[run.result],
            run.message,
            run.began_at,
            run.requested_at,
            run.ended_at,
            None if task is None else task.before,
            None if task is None else task.after,
        )


def _failed(run: ResourceRun) -> bool:
    """Whether it failed; not so if it was unavailable, as that ends no run and no hold (rules 4.3)."""
    return run.result is StepResult.FAILED and not run.unavailable


Ended = Callable[[ScalingResult], None]


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
        self._why = ""
        """The message of the verdict that set `_wanted`."""
        self._dry_run_direction: Direction | None = None
        """Dry run: the direction of the last run, which is not repeated until the verdict has turned."""
        self._pending: tuple[dict[ResourceRef, WorkloadView | None], PendingWrites] | None = None
        """The dependents as `pending` last saw them, and its answer for them."""
        self.memory = ScalingMemory()
        self.scaling_run: ScalingRun | None = None
        self.last: ScalingResult | None = None
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
        refs = () if self.last is None else self.last.unavailable
        return tuple(f"{ref}: {why}" for ref in refs if (why := self._env.seed.unavailable(ref)))

    def views(self) -> dict[ResourceRef, WorkloadView | None]:
        """The dependents as the watch shows them, with what newer writes and reads of `scale` have shown."""
        seed, namespace, shown = self._env.seed, self._namespace, self.memory.shown
        return {
            each.ref: shown(seed.dependent(namespace, each.ref))
            for each in self._env.policy.dependents
        }

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

    def on_verdict(self, decision: Decision, plan: Plan = ()) -> None:
        """Takes a verdict: starts a scaling run, or confirms, delays or ends the one under way.

        Args:
            decision: on the last probe.
            plan: what would be done on it now; empty for HOLD.
        """
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
            self._wanted = direction if self._writes(plan) else None
            self._why = decision.message
            self._dry_run_direction = direction if self._dry_run_direction is direction else None
        if self.manual is not None:
            self._wanted = None
        elif self.scaling_run is not None:
            under_way, told = self.scaling_run.direction, decision.verdict
            # A gate keeps a scale-down from starting, but neither ends nor delays one.
            if decision.reason is VerdictReason.GATED and decision.would_be.direction is under_way:
                told = decision.would_be
            self.scaling_run.guard.tell(told)
            if direction is under_way:
                self.scaling_run.supersede()
        elif self._wanted is not None:
            self._begin_automatic(self._wanted)

    def recheck(self) -> None:
        """Makes the run under way look at the dependents again, as one has changed."""
        if self.scaling_run is not None:
            self.scaling_run.guard.recheck()

    def order(self, order: ScalingRunStatus) -> None:
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
        self._env.operations.close(replace(order, phase=cancelled, message=reason, ended=now))
        self._tell(ScalingResult(order.id, order.direction, order.trigger, now, now, {}, reason))

    def end(self, reason: str) -> None:
        """Ends the run under way, and a manual one that waits; no run starts before the next verdict."""
        self._drop_order(reason)
        self.end_automatic(reason)
        if self.scaling_run is not None:
            self.scaling_run.guard.end(reason)

    def end_automatic(self, reason: str) -> None:
        """Ends the run under way if a verdict started it; no automatic run starts before the next verdict."""
        self._wanted = None
        if self.scaling_run is not None and not self.scaling_run.order.manual:
            self.scaling_run.guard.end(reason)

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
                self._env.operations.new_id(),
                self._namespace,
                direction,
                Trigger.AUTO,
                OperationPhase.PENDING,
                self._env.clock.now(),
                self._why,
            )
        )

    def _begin(self, order: ScalingRunStatus) -> None:
        self.memory.turned(order.direction)
        scaling_run = self.scaling_run = ScalingRun(self._env, order, self.memory)
        self._env.operations.follow(order.id, scaling_run.operation)
        scaling_messages.run_began(self._env, self._namespace, order)
        self._task = self._env.tasks.once(
            lambda: self._run(scaling_run), f"scaling run {self._namespace}"
        )

    def _writes(self, plan: Plan) -> bool:
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
            result = await scaling_run.run()
        finally:
            self.scaling_run = self._task = None
            self._env.operations.close(scaling_run.operation())
        if not result.failed and result.cancelled is None:
            self.memory.could_start.clear()
        self.last, self._failed = result, result.failed
        scaling_messages.run_ended(self._env, self._namespace, result)
        self._tell(result)
        self._begin_next(scaling_run)

    def _tell(self, result: ScalingResult) -> None:
        for listener in tuple(self._listeners):
            listener(result)

    def _begin_next(self, before: ScalingRun) -> None:
        """Starts what waited for the end of the run: a manual run, the other direction, or the same one again."""
        if self.scaling_run is not None:
            return  # a listener has started one
        order, self._ordered = self._ordered, None
        wanted = self._wanted
        if order is not None:
            self._begin(order)
        elif wanted is before.direction and not before.superseded:
            return  # whatever this run could not do waits for the next verdict
        elif wanted is not None and self._writes(self.pending().plans[wanted]):
            self._begin_automatic(wanted)
