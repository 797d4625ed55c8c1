"""The flows of one shoot: at most one at a time, over all dependents in one direction (spec 4.3).

`Scaler.advise` takes each verdict.  It begins a flow where there is something to write, lets the running one go on,
wait or end, and begins the opposite one as soon as the running one has ended.  The probe loop never waits for it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from app.core.model.policy import DependentPolicy, OnFailure
from app.core.model.probing import Decision, Verdict
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober import telling
from app.prober.consent import Consent, FlowEnded
from app.prober.environment import Environment
from app.prober.flowcontext import FlowContext, FlowResult, Result
from app.prober.resource import ResourceRun
from app.prober.rules import planning, protection, scaling
from app.prober.rules.tally import Stakes
from app.prober.scalememory import ScaleMemory

_LEVEL_GOES_ON: Final = 1.0
"""On the way down a level starts so long after the writes of the one before were sent, in seconds."""


class Flow:
    """One run over all dependents in one direction."""

    def __init__(
        self, environment: Environment, namespace: str, direction: Direction, memory: ScaleMemory
    ) -> None:
        self._env = environment
        self._namespace = namespace
        self.direction = direction
        self.started = environment.clock.now()
        patience = 3 * environment.policy.suspect_interval
        self.consent = Consent(direction, environment.clock, patience)
        self._runs: list[ResourceRun] = []
        self._context = FlowContext(environment, namespace, direction, self.consent, memory)

    def _report(self, run: ResourceRun) -> None:
        telling.resource_ended(self._env, self._namespace, self.direction, run)

    async def run(self) -> FlowResult:
        """Sees all levels through; never raises for anything that a cluster may do."""
        levels = planning.levels(self._env.policy.dependents, self.direction)
        tasks: list[asyncio.Task[None]] = []
        if await self._may_begin():
            for number, level in enumerate(levels):
                runs = [self._resource(each, levels[number + 1 :]) for each in level]
                tasks += [self._env.tasks.once(run.run, f"scale {run.ref}") for run in runs]
                await asyncio.gather(*(self._level_passed(run) for run in runs))
                if self._over(runs):
                    break
        if tasks:
            await asyncio.wait(tasks)
        return self._result()

    async def _may_begin(self) -> bool:
        """After a mass outage, scale-ups take turns."""
        if self.direction is Direction.DOWN:
            return True
        try:
            await self.consent.pause(self._env.scale_ups.turn(self._env.clock.now()))
        except FlowEnded:
            return False
        return True

    def _resource(
        self, dependent: DependentPolicy, later: tuple[planning.Level, ...]
    ) -> ResourceRun:
        def later_writes() -> bool:
            return any(self._would_write(each) for level in later for each in level)

        run = ResourceRun(self._context, dependent, later_writes, self._report)
        self._runs.append(run)
        return run

    def _would_write(self, dependent: DependentPolicy) -> bool:
        memory = self._context.memory
        view = memory.newest(self._env.seed.dependent(self._namespace, dependent.ref))
        found = memory.found_at_zero(dependent.ref)
        case = scaling.Case(view, dependent.optional, found)
        return scaling.decide(case, self.direction, self._env.clock.now()).writes

    async def _level_passed(self, run: ResourceRun) -> None:
        """Returns when the next level need not wait for this resource any more."""
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
        if self.consent.ended is not None:
            return True
        stops = self._env.policy.on_failure(self.direction) is OnFailure.STOP
        return stops and any(run.result is Result.FAILED for run in runs)

    def _result(self) -> FlowResult:
        failed = tuple(
            f"{run.ref}: {run.message}" for run in self._runs if run.result is Result.FAILED
        )
        return FlowResult(
            self.direction, self.started, self._env.clock.now(), failed, self.consent.ended
        )


class Scaler:
    """The flows of one shoot."""

    def __init__(
        self, environment: Environment, namespace: str, ended: Callable[[FlowResult], None]
    ) -> None:
        self._env = environment
        self._namespace = namespace
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self._wanted: Direction | None = None
        self._rehearsed: Direction | None = None
        self._stakes: tuple[dict[ResourceRef, WorkloadView | None], Stakes | None] = ({}, None)
        """What was last at stake, and of which dependents."""
        self.memory = ScaleMemory()
        self.flow: Flow | None = None
        self.last: FlowResult | None = None
        self.failed: tuple[str, ...] = ()
        """What failed in the last flow, until all is where it should have left it."""

    def views(self) -> dict[ResourceRef, WorkloadView | None]:
        """The dependents as the watch shows them, with the replicas that only `scale` knows, where it was asked."""
        seed, namespace, shown = self._env.seed, self._namespace, self.memory.shown
        return {
            each.ref: shown(seed.dependent(namespace, each.ref))
            for each in self._env.policy.dependents
        }

    def stakes(self) -> Stakes:
        """What a flow of either direction would write now."""
        views = self.views()
        before, known = self._stakes
        if known is not None and all(views[ref] is view for ref, view in before.items()):
            return known  # asked several times a look, and the dependents change a few times a day
        found = protection.stakes(self._env.policy.dependents, views, self._env.clock.now())
        self._stakes = views, found
        return found

    def advise(self, decision: Decision) -> None:
        """Takes a verdict: a flow begins, goes on, waits or ends."""
        self._remember_zeros(decision.verdict)
        direction = decision.verdict.direction
        if direction is not None and self.failed and self._complete(direction):
            self.failed = ()
        if direction is None:
            self._wanted = None  # a flow begins on a verdict that is current, and this one is not
        else:
            self.memory.turned(direction)
            # What there is to write only later is for a later verdict: this one may not have been confirmed.
            self._wanted = direction if self._something_to_write(direction) else None
            self._rehearsed = direction if self._rehearsed is direction else None
        if self.flow is not None:
            self.flow.consent.tell(decision.verdict)
        elif self._wanted is not None:
            self._begin(self._wanted)

    def poke(self) -> None:
        """A dependent has changed."""
        if self.flow is not None:
            self.flow.consent.poke()

    def end(self, reason: str) -> None:
        """Ends the running flow and all its waits; none follows until the next verdict."""
        self._wanted = None
        if self.flow is not None:
            self.flow.consent.end(reason)

    async def stop(self, reason: str) -> None:
        """Ends the running flow; returns when its last request has been answered."""
        self.end(reason)
        if self._task is not None:
            await asyncio.wait([self._task])

    def _remember_zeros(self, verdict: Verdict) -> None:
        """Which resources are at 0 without our keys at a verdict SCALE UP (step 1)."""
        if verdict is Verdict.SCALE_UP:
            views = self.views().items()
            zeros = (ref for ref, view in views if scaling.at_zero_not_ours(view))
            self.memory.at_zero(zeros, self._env.clock.now())

    def _begin(self, direction: Direction) -> None:
        if self._rehearsed is direction:
            return
        self._rehearsed = direction if self._env.dry_run else None
        flow = self.flow = Flow(self._env, self._namespace, direction, self.memory)
        telling.flow_began(self._env, self._namespace, flow.direction)
        self._task = self._env.tasks.once(lambda: self._run(flow), f"flow {self._namespace}")

    def _something_to_write(self, direction: Direction) -> bool:
        stakes = self.stakes()
        if not (stakes.down_writes if direction is Direction.DOWN else stakes.up_writes):
            return False  # as almost always
        now, views = self._env.clock.now(), self.views()
        return any(
            scaling.decide(self._case(each, views[each.ref], direction), direction, now).writes
            for each in self._env.policy.dependents
        )

    def _complete(self, direction: Direction) -> bool:
        dependents, now = self._env.policy.dependents, self._env.clock.now()
        return protection.complete(dependents, self.views(), direction, now)

    def _case(
        self, dependent: DependentPolicy, view: WorkloadView | None, direction: Direction
    ) -> scaling.Case:
        found = self.memory.found_at_zero(dependent.ref)
        return scaling.Case(protection.assumed(view, direction), dependent.optional, found)

    async def _run(self, flow: Flow) -> None:
        try:
            result = await flow.run()
        finally:
            self.flow = self._task = None
        if not result.failed and result.cancelled is None:
            self.memory.could_start.clear()
        self.last, self.failed = result, result.failed
        telling.flow_ended(self._env, self._namespace, result)
        self._ended(result)
        wanted = self._wanted
        if wanted is not None and wanted is not flow.direction and self._something_to_write(wanted):
            self._begin(wanted)
