"""The scaling runs of one shoot: at most one at a time, over all dependents in one direction.

`Scaler.on_verdict` takes each verdict. It starts a scaling run if there is something to write, tells the running one to
go on, wait or end, and starts the opposite one as soon as the running one has ended. It returns at once: runs are
tasks, and the probe loop never waits for them. `Scaler.order` starts a manual run, which ends an automatic one, and
which no verdict ends.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from app.core.model.policy import DependentPolicy
from app.core.model.probing import Decision, Verdict, VerdictReason
from app.core.model.scaling_runs import OperationPhase
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober import scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import protection, scaling
from app.prober.rules.consecutive import PendingWrites
from app.prober.scaling.context import ScalingOrder, ScalingResult
from app.prober.scaling.memory import ScalingMemory
from app.prober.scaling.run import ScalingRun

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
