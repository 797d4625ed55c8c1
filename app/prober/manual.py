"""Scaling runs that people ask for: checks and plans them, starts them with a hold, and cancels them (rules 7)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from app.core import errors
from app.core.model import workloads
from app.core.model.probing import ShootState
from app.core.model.scaling_runs import (
    PlannedResource,
    ScaleRequest,
    ScalingPlan,
    ScalingRunStatus,
    Trigger,
)
from app.core.model.workloads import ResourceRef, WorkloadView
from app.prober import scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.held_runs import HeldRuns
from app.prober.registry import ShootRegistry
from app.prober.rules import manual
from app.prober.rules.manual import ManualContext
from app.prober.scaling_context import ScalingOrder

Live = Callable[[str], Awaitable[Mapping[ResourceRef, WorkloadView | None]]]
"""Reads the dependents of a shoot live."""
# Seconds that a cancellation waits for the end of the scaling run.
_CANCELLED_WITHIN: Final = 2.0
_LOOK_AGAIN: Final = 0.02
# How many characters of a person's name are kept: the reason must fit beside it.
_AUTHOR: Final = 120


class ManualScaling:
    """The scaling runs of all shoots as the API shows and starts them."""

    def __init__(
        self, environment: ProberEnvironment, registry: ShootRegistry, held: HeldRuns, live: Live
    ) -> None:
        self._env, self._registry, self._held, self._live = environment, registry, held, live
        self._operations = environment.operations

    # Requests of people.

    def operations(self) -> Sequence[ScalingRunStatus]:
        """All operations, those to be carried on and past ones included, in no order."""
        return (*self._held.pending(), *self._operations)

    def operation(self, name: str) -> ScalingRunStatus | None:
        """The operation with this id; None if there never was one.

        Raises:
            OperationGone: it is an earlier leader's, and was not carried on; or it was forgotten.
            NotKnownYet: it is an earlier leader's, and may have to be carried on.
        """
        try:
            return self._operations.get(name)
        except errors.OperationGone:
            pending = (each for each in self._held.pending() if each.id == name)
            if (found := next(pending, None)) is not None:
                return found
            self._check_known()
            if self._held.is_left(name):
                text = f"operation {name} is to be carried on; its shoot is not known yet"
                raise errors.NotKnownYet(text) from None
            raise

    def probe_now(self, namespace: str) -> float:
        """Schedules a probe as soon as the rules allow; returns the instant of that probe.

        Raises:
            Refused: the shoot is not probed.
        """
        runner = self._registry.runner(namespace)
        if runner is None:
            raise errors.Refused(f"{namespace} is not probed: {self._why_not(namespace)}")
        return runner.probe_now()

    def _why_not(self, namespace: str) -> str:
        status = self._registry.status(namespace)
        return "there is no such shoot" if status is None else status.message

    async def plan(self, order: ScaleRequest) -> ScalingPlan:
        """What `begin` would do now; reads live, writes nothing.

        Raises:
            NotFound: there is no such shoot.
            NotKnownYet: the overrides have not been read yet.
            Refused: a rule forbids it; RunInProgress if another manual run is under way.
            VersionChanged: the resources are not what the caller saw (`If-Match`).
            ClusterError: the resources cannot be read.
        """
        self._check(order)
        return await self._planned(order)

    async def _planned(self, order: ScaleRequest) -> ScalingPlan:
        views = await self._live(order.namespace)
        tag = workloads.list_etag(views)
        if order.if_match is not None and not workloads.matches(order.if_match, tag):
            raise errors.VersionChanged(
                "the resources are not what If-Match names; read them again"
            )
        tasks = manual.plan(
            self._env.policy.dependents, views, order.direction, self._env.clock.now()
        )
        steps = [
            PlannedResource(
                each.ref,
                each.scale(order.direction).level,
                task.step,
                task.why,
                task.before,
                task.after,
                each.scale(order.direction).initial_delay if task.writes else 0.0,
                None if (view := views.get(each.ref)) is None else workloads.resource_etag(view),
            )
            for each, task in tasks
        ]
        scaler = self._registry.scalers.known(order.namespace)
        running = None if scaler is None or scaler.scaling_run is None else scaler.scaling_run.order
        replaces = running.operation if running is not None and not running.manual else None
        return ScalingPlan(order, tuple(steps), tag, replaces)

    async def begin(self, order: ScaleRequest) -> ScalingRunStatus:
        """Writes the hold, ends an automatic run, and starts the manual one; raises what `plan` raises, and more.

        Raises:
            FeatureOff: holds cannot be written, or nothing is written in a dry run.
            EntryChanged: somebody else changed the hold meanwhile.
        """
        self._held.check_may_write()
        self._check(order)
        now = self._env.clock.now()
        run = ScalingOrder(
            self._operations.new_id(),
            order.direction,
            now,
            Trigger.MANUAL,
            order.reason,
            errors.trimmed(order.author, _AUTHOR),
            order.force,
            hold_until=now + order.hold,
        )
        with self._held.reserved(order.namespace, run):
            await self._planned(order)
            # While the seed is read the verdict may turn, or probing end, so that the run would need `force`.
            await self._held.begin(order.namespace, run, lambda: self._check_sense(order))
        return self._shown(run.operation)

    async def cancel(self, name: str, *, by: str) -> ScalingRunStatus:
        """Cancels a manual scaling run between two steps; its hold stays, with `done: true`.

        Raises:
            Refused: the run is an automatic one, or has ended.
            OperationGone: it is an earlier leader's, and was not carried on.
            NotKnownYet: it is about to start, or to be carried on.
            NotFound: there never was one with this id.
        """
        operation = self.operation(name)
        if operation is None:
            raise errors.NotFound(f"there is no operation {name}")
        if operation.trigger is not Trigger.MANUAL:
            text = "it is an automatic one: pause the shoot, or hold it by scaling it by hand"
            raise errors.Refused(f"operation {name} cannot be cancelled: {text}")
        if not operation.running:
            raise errors.Refused(f"operation {name} has ended: {operation.phase}")
        if operation.id not in self._operations:
            raise errors.NotKnownYet(f"operation {name} is about to begin")
        author = errors.trimmed(by, _AUTHOR)
        scaler = self._registry.scalers.of(operation.namespace)
        if scaler.cancel(name, f"it was cancelled by {author}"):
            scaling_messages.cancelled(self._env, operation, author)
        await self._until_ended(name)
        return self._shown(name)

    async def _until_ended(self, name: str) -> None:
        """Waits for the end of the run, 2 s at most, as a request that was sent is finished first."""
        deadline = self._env.clock.now() + _CANCELLED_WITHIN
        while self._env.clock.now() < deadline:
            operation = self._operations.get(name)
            if operation is None or not operation.running:
                return
            await self._env.clock.sleep(_LOOK_AGAIN)

    def _shown(self, name: str) -> ScalingRunStatus:
        found = self._operations.get(name)
        assert found is not None  # noqa: S101 - it was entered before, and is kept far longer than this
        return found

    # Checks.

    def _check(self, order: ScaleRequest) -> None:
        self._check_sense(order)
        self._check_known()
        self._check_alone(order.namespace)

    def _check_sense(self, order: ScaleRequest) -> None:
        status = self._registry.status(order.namespace)
        if status is None:
            raise errors.NotFound(f"the seed has no Cluster {order.namespace}")
        probed = status.state is not ShootState.NOT_PROBED
        would_be = None if status.decision is None else status.decision.would_be
        text = manual.objection(order.direction, ManualContext(probed, would_be))
        if text is not None and not order.force:
            raise errors.Refused(text)

    def _check_known(self) -> None:
        if not self._env.overrides.synced:
            text = "the overrides have not been read yet; retry in a moment"
            raise errors.NotKnownYet(text)

    def _check_alone(self, namespace: str) -> None:
        name = self._held.running(namespace)
        if name is not None:
            raise errors.RunInProgress.of(name, namespace)
