"""The scaling runs of one shoot: at most one at a time, over all dependents in one direction.

`Scaler.advise` takes each verdict.  It begins a scaling run where there is something to write, lets the running one go
on, wait or end, and begins the opposite one as soon as the running one has ended.  The probe loop never waits for it.
`Scaler.order` takes a person's wish: it ends an automatic scaling run, and no verdict ends its own.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from app.core.model.operations import OperationPhase
from app.core.model.policy import DependentPolicy
from app.core.model.probing import Decision, Verdict, VerdictReason
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober import scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import protection, scaling
from app.prober.rules.consecutive import PendingWrites
from app.prober.saved_counts import SavedCounts
from app.prober.scaling_context import ScalingOrder, ScalingResult
from app.prober.scaling_run import ScalingRun

Ended = Callable[[ScalingResult], None]


class Scaler:
    """The scaling runs of one shoot."""

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        self._env = environment
        self._namespace = namespace
        self._listeners: list[Ended] = []
        self._ordered: ScalingOrder | None = None
        """A manual scaling run that waits for the end of the running one."""
        self._task: asyncio.Task[None] | None = None
        self._wanted: Direction | None = None
        self._why = ""
        """The message of the verdict that wants it."""
        self._rehearsed: Direction | None = None
        self._pending: tuple[dict[ResourceRef, WorkloadView | None], PendingWrites | None] = (
            {},
            None,
        )
        """What was last at stake, and of which dependents."""
        self.memory = SavedCounts()
        self.scaling_run: ScalingRun | None = None
        self.last: ScalingResult | None = None
        self.failed: tuple[str, ...] = ()
        """What failed in the last scaling run and might have been scaled, until all is where it should have left it."""

    def subscribe(self, ended: Ended) -> None:
        """`ended` is called after each scaling run."""
        self._listeners.append(ended)

    def unsubscribe(self, ended: Ended) -> None:
        """`ended` is not called any more."""
        self._listeners.remove(ended)

    @property
    def manual(self) -> ScalingOrder | None:
        """The manual scaling run that runs, or is about to."""
        if self._ordered is not None:
            return self._ordered
        return (
            self.scaling_run.order
            if self.scaling_run is not None and self.scaling_run.order.manual
            else None
        )

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing is about to."""
        return self.scaling_run is None and self._ordered is None

    @property
    def unavailable(self) -> tuple[str, ...]:
        """What the last run could not scale because its kind is not served or may not be listed, and still is not."""
        refs = () if self.last is None else self.last.unavailable
        return tuple(f"{ref}: {why}" for ref in refs if (why := self._env.seed.unavailable(ref)))

    def views(self) -> dict[ResourceRef, WorkloadView | None]:
        """The dependents as the watch shows them, with the replicas that only `scale` knows, where it was asked."""
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
            return known  # asked several times a probe, and the dependents change a few times a day
        found = protection.pending_writes(self._env.policy.dependents, views, self._env.clock.now())
        self._pending = views, found
        return found

    def advise(self, decision: Decision) -> None:
        """Takes a verdict: a scaling run begins, goes on, waits or ends."""
        self._remember_zeros(decision.verdict)
        direction = decision.verdict.direction
        if direction is not None and self.failed and self._complete(direction):
            self.failed = ()
        if direction is None:
            self._wanted = (
                None  # a scaling run begins on a verdict that is current, and this one is not
            )
        else:
            self.memory.turned(direction)
            # What there is to write only later is for a later verdict: this one may not have been confirmed.
            self._wanted = direction if self._something_to_write(direction) else None
            self._why = decision.message
            self._rehearsed = direction if self._rehearsed is direction else None
        if self.manual is not None:
            self._wanted = None
        elif self.scaling_run is not None:
            self.scaling_run.guard.tell(_said_to(self.scaling_run.direction, decision))
            if direction is self.scaling_run.direction:
                self.scaling_run.supersede()
        elif self._wanted is not None:
            self._begin_automatic(self._wanted)

    def poke(self) -> None:
        """A dependent has changed."""
        if self.scaling_run is not None:
            self.scaling_run.guard.poke()

    def order(self, order: ScalingOrder) -> None:
        """Takes a person's wish: its scaling run begins now, or as soon as the running one has ended.

        There is no other manual scaling run; who orders has seen to it.
        """
        self._wanted = None
        if self.scaling_run is None:
            self._begin(order)
            return
        self._ordered = order
        text = "it waits for the end of the one that is going on"
        self._env.operations.follow(
            order.operation,
            lambda: order.shown(self._namespace, OperationPhase.PENDING, text),
        )
        self.scaling_run.guard.end(f"somebody scales by hand ({order.operation})")

    def cancel(self, operation: str, reason: str) -> bool:
        """Ends the manual scaling run of this id, between two steps; False where it does not run or ends already."""
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
            ScalingResult(order.operation, order.direction, order.trigger, now, now, (), reason)
        )

    def end(self, reason: str) -> None:
        """Ends the running scaling run and all its waits; none follows until the next verdict."""
        self._drop_order(reason)
        self.end_automatic(reason)
        if self.scaling_run is not None:
            self.scaling_run.guard.end(reason)

    def end_automatic(self, reason: str) -> None:
        """Ends a scaling run that a verdict began; none follows until the next one."""
        self._wanted = None
        if self.scaling_run is not None and not self.scaling_run.order.manual:
            self.scaling_run.guard.end(reason)

    async def stop(self, reason: str, *, forced_too: bool = True) -> None:
        """Ends the running scaling run; returns when its last request has been answered.

        One that a person forced goes on, unless `forced_too`.
        """
        manual = self.manual
        if manual is not None and manual.forced and not forced_too:
            self._wanted = None
            return
        self.end(reason)
        if self._task is not None:
            await asyncio.wait([self._task])

    def _remember_zeros(self, verdict: Verdict) -> None:
        """Which resources are at 0 without our keys at a verdict SCALE UP (step 1)."""
        if verdict is Verdict.SCALE_UP:
            views = self.views().items()
            zeros = (ref for ref, view in views if scaling.at_zero_not_ours(view))
            self.memory.at_zero(zeros, self._env.clock.now())

    def _begin_automatic(self, direction: Direction) -> None:
        if self._rehearsed is direction:
            return
        self._rehearsed = direction if self._env.dry_run else None
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
            return False  # as almost always
        now, views = self._env.clock.now(), self.views()
        return any(
            scaling.decide(self._case(each, views[each.ref], direction), direction, now).writes
            for each in self._env.policy.dependents
        )

    def _complete(self, direction: Direction) -> bool:
        seed, now = self._env.seed, self._env.clock.now()
        known = (each for each in self._env.policy.dependents if not seed.unavailable(each.ref))
        return protection.complete(known, self.views(), direction, now)

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
        self.last, self.failed = result, result.failed
        scaling_messages.run_ended(self._env, self._namespace, result)
        self._tell(result)
        self._begin_next(scaling_run)

    def _tell(self, result: ScalingResult) -> None:
        for listener in tuple(self._listeners):
            listener(result)

    def _begin_next(self, before: ScalingRun) -> None:
        """What waited for the end of the scaling run: a person's wish, the other direction, or the same once more."""
        if self.scaling_run is not None:
            return  # who heard of the end has begun one
        order, self._ordered = self._ordered, None
        if order is not None:
            self._begin(order)
            return
        wanted = self._wanted
        if wanted is before.direction and not before.superseded:
            return  # what it could not do is for the next verdict
        if wanted is not None and self._something_to_write(wanted):
            self._begin_automatic(wanted)


def _said_to(scaling_run: Direction, decision: Decision) -> Verdict:
    """The verdict for a run in progress: a gate keeps a scale-down from starting, but neither ends nor delays one."""
    if decision.reason is VerdictReason.GATED and decision.would_be.direction is scaling_run:
        return decision.would_be
    return decision.verdict


# The scaler of each shoot: it outlives the runner where a person forced a scaling run.


class Scalers:
    """One for each shoot that is probed, or scaled by hand."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        self._of: dict[str, Scaler] = {}

    def of(self, namespace: str) -> Scaler:
        """The scaler of this shoot."""
        found = self._of.get(namespace)
        if found is None:
            found = self._of[namespace] = Scaler(self._env, namespace)
        return found

    def known(self, namespace: str) -> Scaler | None:
        """The scaler of this shoot, where it has one."""
        return self._of.get(namespace)

    def release(self, namespace: str) -> None:
        """The shoot is not probed: what the scaler remembers goes, unless a scaling run runs."""
        found = self._of.get(namespace)
        if found is not None and found.idle:
            del self._of[namespace]

    def all(self) -> tuple[Scaler, ...]:
        """All of them."""
        return tuple(self._of.values())
