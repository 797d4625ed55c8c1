"""One run over all dependents in one direction, level by level (rules 4.3).

All resources of a level start at once, each as a `ResourceRun` in a task of its own. On the way up the next level
starts when this one is ready. On the way down it starts as soon as this level's writes are accepted or have failed, at
the latest 1 s after they were sent: kube-controller-manager must not wait for machine-controller-manager's pods, nor
for a slow write. What is slow goes on beside the next level, and the run ends when all of it has ended.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from app.core.model.policy import DependentPolicy, OnFailure
from app.core.model.probing import Decision, Verdict, VerdictReason
from app.core.model.scaling_runs import OperationPhase, RunStep, ScalingRunStatus, StepPhase
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober import scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import protection, scaling
from app.prober.rules.consecutive import PendingWrites
from app.prober.scaling.context import (
    ManualRunGuard,
    RunAborted,
    RunGuard,
    ScalingContext,
    ScalingMemory,
    ScalingOrder,
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
        self,
        environment: ProberEnvironment,
        namespace: str,
        order: ScalingOrder,
        memory: ScalingMemory,
    ) -> None:
        self._env = environment
        self._namespace = namespace
        self.order = order
        self.started = environment.clock.now()
        self.guard = self._new_guard()
        self.result: ScalingResult | None = None
        self.superseded = False
        """It was ended so that another run in the same direction can start."""
        self._begun = False
        """No further level will be started."""
        self._levels = scaling.levels(environment.policy.dependents, order.direction)
        self._runs: dict[ResourceRef, ResourceRun] = {}
        self._context = ScalingContext(environment, namespace, order, self.guard, memory)

    def _new_guard(self) -> RunGuard:
        direction, clock = self.order.direction, self._env.clock
        if self.order.manual:
            return ManualRunGuard(direction, clock)
        return RunGuard(direction, clock, 3 * self._env.policy.suspect_interval)

    @property
    def direction(self) -> Direction:
        return self.order.direction

    def _report(self, run: ResourceRun) -> None:
        scaling_messages.resource_ended(self._env, self._namespace, self._context, run)

    async def run(self) -> ScalingResult:
        """Scales all levels and waits for their ends; never raises, whatever the seed answers."""
        tasks: list[asyncio.Task[None]] = []
        if await self._may_begin():
            for number, level in enumerate(self._levels):
                runs = [self._resource(each, self._levels[number + 1 :]) for each in level]
                tasks += [self._env.tasks.once(run.run, f"scale {run.ref}") for run in runs]
                await asyncio.gather(*(self._level_passed(run) for run in runs))
                if self._over(runs):
                    break
        self._begun = True
        if tasks:
            await asyncio.wait(tasks)
        self.result = self._result()
        return self.result

    async def _may_begin(self) -> bool:
        """Waits for its turn: after a mass outage, automatic scale-ups start for a few shoots a second (rules 4.3)."""
        if self.direction is Direction.DOWN or self.order.manual:
            return True
        try:
            await self.guard.pause(self._env.scale_ups.turn(self._env.clock.now()))
        except RunAborted:
            return False
        return True

    def _resource(
        self, dependent: DependentPolicy, later: tuple[scaling.Level, ...]
    ) -> ResourceRun:
        def later_writes() -> bool:
            return any(self._would_write(each) for level in later for each in level)

        run = ResourceRun(self._context, dependent, later_writes, self._report)
        self._runs[dependent.ref] = run
        return run

    def _would_write(self, dependent: DependentPolicy) -> bool:
        memory = self._context.memory
        view = memory.newest(self._env.seed.dependent(self._namespace, dependent.ref))
        found = self._context.found_at_zero(dependent.ref)
        case = scaling.Case(view, dependent.optional, found)
        return scaling.decide(case, self.direction, self._env.clock.now()).writes

    def supersede(self) -> None:
        """Ends a scale-down that only waits for pods, if a dependent that it has dealt with is up again.

        The wait for pods decides nothing but what is reported. So SCALE DOWN acts at once on what is up (rules 4.3),
        through another run that starts when this one has ended.
        """
        writing = not self._begun or any(not run.written.is_set() for run in self._runs.values())
        if self.direction is Direction.UP or writing or self.guard.ended is not None:
            return
        if again := [str(ref) for ref in self._runs if self._up(ref)]:
            self.superseded = True
            self.guard.end(f"{' and '.join(again)} must be scaled down again")

    def _up(self, ref: ResourceRef) -> bool:
        """Whether the resource is up, and a scale-down would write it."""
        view = self._context.memory.shown(self._env.seed.dependent(self._namespace, ref))
        if view is None or not view.replicas:
            return False
        case = scaling.Case(view, self._env.policy.dependent(ref).optional)
        return scaling.decide(case, Direction.DOWN, self._env.clock.now()).writes

    async def _level_passed(self, run: ResourceRun) -> None:
        """Returns as soon as the next level may start, as far as this resource is concerned."""
        await run.sent.wait()
        if self.direction is Direction.UP:
            await run.ended.wait()
            return
        try:
            async with asyncio.timeout(_LEVEL_GOES_ON):
                await run.written.wait()
        except TimeoutError:
            return  # a slow write goes on beside the next level

    def _over(self, runs: list[ResourceRun]) -> bool:
        if self.guard.ended is not None:
            return True
        stops = self._env.policy.on_failure(self.direction) is OnFailure.STOP
        return stops and any(_failed(run) for run in runs)

    def _result(self) -> ScalingResult:
        runs = self._runs.values()
        return ScalingResult(
            self.order.operation,
            self.direction,
            self.order.trigger,
            self.started,
            self._env.clock.now(),
            {run.ref: run.message for run in runs if _failed(run)},
            self.guard.ended,
            {run.ref: run.message for run in runs if run.unavailable},
        )

    # What the API shows.

    def operation(self) -> ScalingRunStatus:
        """The run as an operation of the API, with the present state of each step."""
        result, order = self.result, self.order
        return ScalingRunStatus(
            order.operation,
            self._namespace,
            order.direction,
            order.trigger,
            _phase(result),
            order.created,
            order.reason,
            order.author,
            order.forced,
            order.carried_on,
            started=self.started,
            ended=None if result is None else result.ended,
            message=_message(result, self.guard.ended),
            hold_until=order.hold_until,
            steps=tuple(self._step(each) for level in self._levels for each in level),
            verified=order.verified,
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


def _phase(result: ScalingResult | None) -> OperationPhase:
    if result is None:
        return OperationPhase.RUNNING
    if result.cancelled is not None:
        return OperationPhase.CANCELLED
    return OperationPhase.FAILED if result.failures else OperationPhase.DONE


def _message(result: ScalingResult | None, ending: str | None) -> str:
    if result is None:
        return "" if ending is None else f"it ends: {ending}"
    if result.cancelled is not None:
        return result.cancelled
    return "; ".join(result.failures)


Ended = Callable[[ScalingResult], None]


class Scaler:
    """Starts, supervises and ends the scaling runs of one shoot."""

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        self._env = environment
        self._namespace = namespace
        self._listeners: list[Ended] = []
        self._ordered: ScalingOrder | None = None
        """A manual run that starts as soon as the running one has ended."""
        self._task: asyncio.Task[None] | None = None
        self._wanted: Direction | None = None
        self._why = ""
        """The message of the verdict that set `_wanted`."""
        self._dry_run_direction: Direction | None = None
        """Dry run: the direction of the last run, which is not repeated until the verdict has turned."""
        self._pending: tuple[dict[ResourceRef, WorkloadView | None], PendingWrites | None] = (
            {},
            None,
        )
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
    def manual(self) -> ScalingOrder | None:
        """The manual scaling run that is under way or about to start."""
        if self._ordered is not None:
            return self._ordered
        return (
            self.scaling_run.order
            if self.scaling_run is not None and self.scaling_run.order.manual
            else None
        )

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
        before, known = self._pending
        if known is not None and all(views[ref] is view for ref, view in before.items()):
            return known  # each probe asks several times, while the dependents change a few times a day
        found = protection.pending_writes(self._env.policy.dependents, views, self._env.clock.now())
        self._pending = views, found
        return found

    def on_verdict(self, decision: Decision) -> None:
        """Takes a verdict: starts a scaling run, or confirms, delays or ends the one under way."""
        self._remember_zeros(decision.verdict)
        direction = decision.verdict.direction
        if direction is not None and self._failed:
            self._failed = self._still_failed(direction)
        if direction is None:
            self._wanted = None  # after a HOLD no run may start on an earlier verdict
        else:
            self.memory.turned(direction)
            # A SCALE DOWN that would write nothing was not confirmed: it must not start a run later, when it would.
            self._wanted = direction if self._something_to_write(direction) else None
            self._why = decision.message
            self._dry_run_direction = direction if self._dry_run_direction is direction else None
        if self.manual is not None:
            self._wanted = None
        elif self.scaling_run is not None:
            self.scaling_run.guard.tell(_said_to(self.scaling_run.direction, decision))
            if direction is self.scaling_run.direction:
                self.scaling_run.supersede()
        elif self._wanted is not None:
            self._begin_automatic(self._wanted)

    def recheck(self) -> None:
        """Makes the run under way look at the dependents again, as one has changed."""
        if self.scaling_run is not None:
            self.scaling_run.guard.recheck()

    def order(self, order: ScalingOrder) -> None:
        """Starts a manual run now, or as soon as the one under way, which it ends, has ended.

        The caller makes sure that no other manual run is under way or waits.
        """
        self._wanted = None
        if self.scaling_run is None:
            self._begin(order)
            return
        self._ordered = order
        text = "it waits for the end of the current one"
        self._env.operations.follow(
            order.operation,
            lambda: order.shown(self._namespace, OperationPhase.PENDING, text),
        )
        self.scaling_run.guard.end(f"a manual scaling run begins ({order.operation})")

    def cancel(self, operation: str, reason: str) -> bool:
        """Ends the manual run with this id, between two steps; False if it does not run or is ending already."""
        if self._ordered is not None and self._ordered.operation == operation:
            self._drop_order(reason)
            return True
        scaling_run = self.scaling_run
        if (
            scaling_run is None
            or scaling_run.order.operation != operation
            or scaling_run.guard.ended is not None
        ):
            return False
        scaling_run.guard.end(reason)
        return True

    def _drop_order(self, reason: str) -> None:
        order, self._ordered = self._ordered, None
        if order is None:
            return
        now = self._env.clock.now()
        shown = order.shown(self._namespace, OperationPhase.CANCELLED, reason)
        self._env.operations.close(replace(shown, ended=now))
        self._tell(
            ScalingResult(order.operation, order.direction, order.trigger, now, now, {}, reason)
        )

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

    def _remember_zeros(self, verdict: Verdict) -> None:
        """At SCALE UP, notes which resources are at 0 without our keys (rules 4.3, step 1)."""
        if verdict is Verdict.SCALE_UP:
            views = self.views().items()
            zeros = (ref for ref, view in views if scaling.at_zero_not_ours(view))
            self.memory.at_zero(zeros, self._env.clock.now())

    def _begin_automatic(self, direction: Direction) -> None:
        if self._dry_run_direction is direction:
            return
        self._dry_run_direction = direction if self._env.dry_run else None
        now = self._env.clock.now()
        self._begin(ScalingOrder(self._env.operations.new_id(), direction, now, reason=self._why))

    def _begin(self, order: ScalingOrder) -> None:
        self.memory.turned(order.direction)
        scaling_run = self.scaling_run = ScalingRun(self._env, self._namespace, order, self.memory)
        self._env.operations.follow(order.operation, scaling_run.operation)
        scaling_messages.run_began(self._env, self._namespace, order)
        self._task = self._env.tasks.once(
            lambda: self._run(scaling_run), f"scaling run {self._namespace}"
        )

    def _something_to_write(self, direction: Direction) -> bool:
        pending = self.pending()
        if not (pending.down_writes if direction is Direction.DOWN else pending.up_writes):
            return False  # the usual case
        now, views = self._env.clock.now(), self.views()
        return any(
            scaling.decide(self._case(each, views[each.ref], direction), direction, now).writes
            for each in self._env.policy.dependents
        )

    def _still_failed(self, direction: Direction) -> Mapping[ResourceRef, str]:
        """Leaves out what has come to where a run in `direction` leaves it, by whatever hand."""
        views, now, policy = self.views(), self._env.clock.now(), self._env.policy
        return {
            ref: why
            for ref, why in self._failed.items()
            if not protection.complete(policy.dependent(ref), views[ref], direction, now)
        }

    def _case(
        self, dependent: DependentPolicy, view: WorkloadView | None, direction: Direction
    ) -> scaling.Case:
        found = self.memory.found_at_zero(dependent.ref)
        return scaling.Case(protection.assumed(view, direction), dependent.optional, found)

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
        if order is not None:
            self._begin(order)
            return
        wanted = self._wanted
        if wanted is before.direction and not before.superseded:
            return  # whatever this run could not do waits for the next verdict
        if wanted is not None and self._something_to_write(wanted):
            self._begin_automatic(wanted)


def _said_to(scaling_run: Direction, decision: Decision) -> Verdict:
    """The verdict for a run under way: a gate keeps a scale-down from starting, but neither ends nor delays one."""
    if decision.reason is VerdictReason.GATED and decision.would_be.direction is scaling_run:
        return decision.would_be
    return decision.verdict


class Scalers:
    """The scalers of all shoots that are probed or scaled by hand.

    A scaler outlives its shoot's runner while a forced manual run is under way.
    """

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        self._of: dict[str, Scaler] = {}

    def of(self, namespace: str) -> Scaler:
        """The scaler of this shoot, made if there is none yet."""
        found = self._of.get(namespace)
        if found is None:
            found = self._of[namespace] = Scaler(self._env, namespace)
        return found

    def known(self, namespace: str) -> Scaler | None:
        """The scaler of this shoot; None if there is none."""
        return self._of.get(namespace)

    def release(self, namespace: str) -> None:
        """Forgets the scaler of a shoot that is no longer probed, unless a run is under way."""
        found = self._of.get(namespace)
        if found is not None and found.idle:
            del self._of[namespace]

    def all(self) -> tuple[Scaler, ...]:
        return tuple(self._of.values())
