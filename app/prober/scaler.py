"""The flows of one shoot: at most one at a time, over all dependents in one direction.

`Scaler.advise` takes each verdict.  It begins a flow where there is something to write, lets the running one go on,
wait or end, and begins the opposite one as soon as the running one has ended.  The probe loop never waits for it.
`Scaler.order` takes a person's wish: it ends an automatic flow, and no verdict ends its own.
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
    """The flows of one shoot."""

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        self._env = environment
        self._namespace = namespace
        self._listeners: list[Ended] = []
        self._ordered: ScalingOrder | None = None
        """A manual flow that waits for the end of the running one."""
        self._task: asyncio.Task[None] | None = None
        self._wanted: Direction | None = None
        self._why = ""
        """The message of the verdict that wants it."""
        self._rehearsed: Direction | None = None
        self._stakes: tuple[dict[ResourceRef, WorkloadView | None], PendingWrites | None] = (
            {},
            None,
        )
        """What was last at stake, and of which dependents."""
        self.memory = SavedCounts()
        self.flow: ScalingRun | None = None
        self.last: ScalingResult | None = None
        self.failed: tuple[str, ...] = ()
        """What failed in the last flow and might have been scaled, until all is where it should have left it."""

    def subscribe(self, ended: Ended) -> None:
        """`ended` is called after each flow."""
        self._listeners.append(ended)

    def unsubscribe(self, ended: Ended) -> None:
        """`ended` is not called any more."""
        self._listeners.remove(ended)

    @property
    def manual(self) -> ScalingOrder | None:
        """The manual flow that runs, or is about to."""
        if self._ordered is not None:
            return self._ordered
        return self.flow.order if self.flow is not None and self.flow.order.manual else None

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing is about to."""
        return self.flow is None and self._ordered is None

    @property
    def unavailable(self) -> tuple[str, ...]:
        """What the last flow could not scale as its kind is not served or may not be listed, while that is so."""
        refs = () if self.last is None else self.last.unavailable
        return tuple(f"{ref}: {why}" for ref in refs if (why := self._env.seed.unavailable(ref)))

    def views(self) -> dict[ResourceRef, WorkloadView | None]:
        """The dependents as the watch shows them, with the replicas that only `scale` knows, where it was asked."""
        seed, namespace, shown = self._env.seed, self._namespace, self.memory.shown
        return {
            each.ref: shown(seed.dependent(namespace, each.ref))
            for each in self._env.policy.dependents
        }

    def stakes(self) -> PendingWrites:
        """What a flow of either direction would write now."""
        views = self.views()
        before, known = self._stakes
        if known is not None and all(views[ref] is view for ref, view in before.items()):
            return known  # asked several times a look, and the dependents change a few times a day
        found = protection.pending_writes(self._env.policy.dependents, views, self._env.clock.now())
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
            self._why = decision.message
            self._rehearsed = direction if self._rehearsed is direction else None
        if self.manual is not None:
            self._wanted = None
        elif self.flow is not None:
            self.flow.consent.tell(_said_to(self.flow.direction, decision))
            if direction is self.flow.direction:
                self.flow.supersede()
        elif self._wanted is not None:
            self._begin_automatic(self._wanted)

    def poke(self) -> None:
        """A dependent has changed."""
        if self.flow is not None:
            self.flow.consent.poke()

    def order(self, order: ScalingOrder) -> None:
        """Takes a person's wish: its flow begins now, or as soon as the running one has ended.

        There is no other manual flow; who orders has seen to it.
        """
        self._wanted = None
        if self.flow is None:
            self._begin(order)
            return
        self._ordered = order
        text = "it waits for the end of the running flow"
        self._env.operations.follow(
            order.operation,
            lambda: order.shown(self._namespace, OperationPhase.PENDING, text),
        )
        self.flow.consent.end(f"somebody scales by hand ({order.operation})")

    def cancel(self, operation: str, reason: str) -> bool:
        """Ends the manual flow of this id, between two steps; False where it does not run or ends already."""
        if self._ordered is not None and self._ordered.operation == operation:
            self._drop_order(reason)
            return True
        flow = self.flow
        if flow is None or flow.order.operation != operation or flow.consent.ended is not None:
            return False
        flow.consent.end(reason)
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
        """Ends the running flow and all its waits; none follows until the next verdict."""
        self._drop_order(reason)
        self.end_automatic(reason)
        if self.flow is not None:
            self.flow.consent.end(reason)

    def end_automatic(self, reason: str) -> None:
        """Ends a flow that a verdict began; none follows until the next one."""
        self._wanted = None
        if self.flow is not None and not self.flow.order.manual:
            self.flow.consent.end(reason)

    async def stop(self, reason: str, *, forced_too: bool = True) -> None:
        """Ends the running flow; returns when its last request has been answered.

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
        flow = self.flow = ScalingRun(self._env, self._namespace, order, self.memory)
        self._env.operations.follow(order.operation, flow.operation)
        scaling_messages.flow_began(self._env, self._namespace, order)
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
        seed, now = self._env.seed, self._env.clock.now()
        known = (each for each in self._env.policy.dependents if not seed.unavailable(each.ref))
        return protection.complete(known, self.views(), direction, now)

    def _case(
        self, dependent: DependentPolicy, view: WorkloadView | None, direction: Direction
    ) -> scaling.Case:
        found = self.memory.found_at_zero(dependent.ref)
        return scaling.Case(protection.assumed(view, direction), dependent.optional, found)

    async def _run(self, flow: ScalingRun) -> None:
        try:
            result = await flow.run()
        finally:
            self.flow = self._task = None
            self._env.operations.close(flow.operation())
        if not result.failed and result.cancelled is None:
            self.memory.could_start.clear()
        self.last, self.failed = result, result.failed
        scaling_messages.flow_ended(self._env, self._namespace, result)
        self._tell(result)
        self._begin_next(flow)

    def _tell(self, result: ScalingResult) -> None:
        for listener in tuple(self._listeners):
            listener(result)

    def _begin_next(self, before: ScalingRun) -> None:
        """What waited for the end of the flow: a person's wish, the other direction, or the same once more."""
        if self.flow is not None:
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


def _said_to(flow: Direction, decision: Decision) -> Verdict:
    """What a verdict says to a running flow: a gate keeps a scale-down from starting, and ends or delays none."""
    if decision.reason is VerdictReason.GATED and decision.would_be.direction is flow:
        return decision.would_be
    return decision.verdict


# The scaler of each shoot: it outlives the runner where a person forced a flow.


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
        """The shoot is not probed: what the scaler remembers goes, unless a flow runs."""
        found = self._of.get(namespace)
        if found is not None and found.idle:
            del self._of[namespace]

    def all(self) -> tuple[Scaler, ...]:
        """All of them."""
        return tuple(self._of.values())
