"""One run over all dependents in one direction, level by level (rules 4.3).

All resources of a level start at once, each as a `ResourceRun` in a task of its own. On the way up the next level
starts when this one is ready. On the way down it starts as soon as this level's writes are accepted or have failed, at
the latest 1 s after they were sent: kube-controller-manager must not wait for machine-controller-manager's pods, nor
for a slow write. What is slow goes on beside the next level, and the run ends when all of it has ended.
"""

import asyncio
from typing import Final

from app.core.model.policy import DependentPolicy, OnFailure
from app.core.model.scaling_runs import OperationPhase, RunStep, ScalingRunStatus, StepPhase
from app.core.model.workloads import Direction, ResourceRef
from app.prober import scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import scaling
from app.prober.scaling.context import ScalingContext, ScalingOrder, ScalingResult, StepResult
from app.prober.scaling.guard import ManualRunGuard, RunAborted, RunGuard
from app.prober.scaling.memory import ScalingMemory
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
