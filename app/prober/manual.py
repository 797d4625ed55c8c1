"""Flows that people ask for: what forbids one, what it would do, its begin and its end (spec 7; api.md)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from app.core import errors
from app.core.model import etags
from app.core.model.operations import Operation, Plan, PlannedStep, ScaleOrder, Trigger
from app.core.model.probing import ShootState
from app.core.model.workloads import ResourceRef, WorkloadView
from app.prober import telling
from app.prober.environment import Environment
from app.prober.flowcontext import FlowOrder
from app.prober.heldflows import HeldFlows
from app.prober.registry import Registry
from app.prober.rules import byhand
from app.prober.rules.byhand import Position

Live = Callable[[str], Awaitable[Mapping[ResourceRef, WorkloadView | None]]]
"""Reads the dependents of a shoot live."""
_CANCELLED_WITHIN: Final = 2.0
"""Seconds that a cancellation waits for the end of the flow."""
_LOOK_AGAIN: Final = 0.02
_AUTHOR: Final = 120
"""Characters of a name that are told: what he says must fit beside it."""


class ManualFlows:
    """The flows of all shoots as people see them (`FlowsView` of the API)."""

    def __init__(
        self, environment: Environment, registry: Registry, held: HeldFlows, live: Live
    ) -> None:
        self._env, self._registry, self._held, self._live = environment, registry, held, live
        self._book = environment.operations

    # What is asked for.

    def operations(self) -> Sequence[Operation]:
        """Running and past ones, in no order."""
        return tuple(self._book)

    def operation(self, name: str) -> Operation | None:
        """One of them; None where there never was one of this id.

        Raises:
            OperationGone: it is one of an earlier leader.
        """
        return self._book.get(name)

    def probe_now(self, namespace: str) -> float:
        """Has the shoot looked at as soon as that may be; returns the instant of the look.

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

    async def plan(self, order: ScaleOrder) -> Plan:
        """What `begin` would do now; reads live, writes nothing.

        Raises:
            NotFound: there is no such shoot.
            Refused: a rule forbids it; FlowRunning where another manual flow runs.
            VersionChanged: the resources are not what the caller saw.
            ClusterError: they cannot be read.
        """
        self._check(order)
        return await self._planned(order)

    async def _planned(self, order: ScaleOrder) -> Plan:
        views = await self._live(order.namespace)
        tag = etags.list_etag(views)
        if order.if_match is not None and not etags.matches(order.if_match, tag):
            raise errors.VersionChanged(
                "the resources are not what If-Match names; read them again"
            )
        tasks = byhand.plan(
            self._env.policy.dependents, views, order.direction, self._env.clock.now()
        )
        steps = [
            PlannedStep(
                each.ref,
                each.scale(order.direction).level,
                task.step,
                task.why,
                task.before,
                task.after,
                each.scale(order.direction).initial_delay if task.writes else 0.0,
                None if (view := views.get(each.ref)) is None else etags.resource_etag(view),
            )
            for each, task in tasks
        ]
        scaler = self._registry.scalers.known(order.namespace)
        running = None if scaler is None or scaler.flow is None else scaler.flow.order
        replaces = running.operation if running is not None and not running.manual else None
        return Plan(order, tuple(steps), tag, replaces)

    async def begin(self, order: ScaleOrder) -> Operation:
        """Writes the hold, ends an automatic flow, and begins; raises what `plan` raises.

        Raises:
            FeatureOff: holds cannot be written, or nothing is written in a dry run.
            EntryChanged: somebody else changed the hold meanwhile.
        """
        self._held.check_may_write()
        self._check(order)
        name = self._book.new_id()
        with self._held.reserved(order.namespace, name):
            await self._planned(order)
            now = self._env.clock.now()
            flow = FlowOrder(
                name,
                order.direction,
                now,
                Trigger.MANUAL,
                order.reason,
                errors.trimmed(order.author, _AUTHOR),
                order.force,
                hold_until=now + order.hold,
            )
            await self._held.begin(order.namespace, flow)
        return self._shown(name)

    async def cancel(self, name: str, *, by: str) -> Operation:
        """Cancels a manual flow between two steps; its hold stays, with `done: true`.

        Raises:
            Refused: it is an automatic one, or has ended.
            OperationGone: it is one of an earlier leader.
            NotFound: there never was one of this id.
        """
        operation = self._book.get(name)
        if operation is None:
            raise errors.NotFound(f"there is no operation {name}")
        if operation.trigger is not Trigger.MANUAL:
            text = "it is an automatic one: pause the shoot, or hold it by scaling it by hand"
            raise errors.Refused(f"operation {name} cannot be cancelled: {text}")
        if not operation.running:
            raise errors.Refused(f"operation {name} has ended: {operation.phase}")
        author = errors.trimmed(by, _AUTHOR)
        scaler = self._registry.scalers.of(operation.namespace)
        scaler.cancel(name, f"it was cancelled by {author}")
        telling.cancelled(self._env, operation, author)
        await self._until_ended(name)
        return self._shown(name)

    async def _until_ended(self, name: str) -> None:
        """Returns when the flow has ended, or after a while: a request that was sent is finished first."""
        deadline = self._env.clock.now() + _CANCELLED_WITHIN
        while self._env.clock.now() < deadline:
            operation = self._book.get(name)
            if operation is None or not operation.running:
                return
            await self._env.clock.sleep(_LOOK_AGAIN)

    def _shown(self, name: str) -> Operation:
        found = self._book.get(name)
        assert found is not None  # noqa: S101 - it was entered before, and is kept far longer than this
        return found

    # What forbids it.

    def _check(self, order: ScaleOrder) -> None:
        status = self._registry.status(order.namespace)
        if status is None:
            raise errors.NotFound(f"the seed has no Cluster {order.namespace}")
        self._check_alone(order.namespace)
        probed = status.state is not ShootState.NOT_PROBED
        would_be = None if status.decision is None else status.decision.would_be
        text = byhand.objection(order.direction, Position(probed, would_be))
        if text is not None and not order.force:
            raise errors.Refused(text)

    def _check_alone(self, namespace: str) -> None:
        name = self._held.running(namespace)
        if name is not None:
            text = f"operation {name} is running for {namespace}; cancel it, or wait for its end"
            raise errors.FlowRunning(name, text)
