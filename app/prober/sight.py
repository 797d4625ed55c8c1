"""What the seed shows of one dependent: by its watch, live, and by its `scale` subresource."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from app.core import errors
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.core.ports import Watched
from app.prober.scaling_context import FlowContext
from app.prober.rules import scaling

TRANSIENT: Final = (errors.Unreachable, errors.ServerFault, errors.Throttled)
"""Errors that may be gone at the next try."""


class Sight:
    """Looks at one dependent for a flow; a read that waits for its answer ends with the flow."""

    def __init__(self, context: FlowContext, ref: ResourceRef, asking: Callable[[], None]) -> None:
        """`asking` is called when a request is about to be made: other levels wait no longer than for a write."""
        self._context = context
        self._seed = context.environment.seed
        self._ref = ref
        self._asking = asking
        self._urgent = context.direction is Direction.DOWN

    def watched(self) -> WorkloadView | None:
        """As the watch shows it, or as a write of ours or a live read did where the watch is behind that."""
        watched = self._seed.dependent(self._context.namespace, self._ref)
        return self._context.memory.newest(watched)

    async def live(self) -> WorkloadView | None:
        """As it is now; None where there is none.  It is remembered where the watch is behind that."""
        self._asking()
        watched = self._seed.dependent(self._context.namespace, self._ref)
        view = await self._context.consent.unless_ended(
            self._seed.read_dependent(self._context.namespace, self._ref, urgent=self._urgent)
        )
        self._context.memory.note(self._ref, view, watched)
        return await self.sized(view)

    async def sized(self, view: WorkloadView | None) -> WorkloadView | None:
        """`view` with the replicas that only its `scale` subresource knows."""
        if view is None or view.replicas is not None:
            return view
        self._asking()
        scale = await self._context.consent.unless_ended(
            self._seed.read_scale(self._context.namespace, self._ref, urgent=self._urgent)
        )
        # The version stays that of the view: a write on annotations that are not the newest has to fail.
        sized = replace(view, replicas=scale.replicas)
        if scale.resource_version == view.resource_version:
            self._context.memory.note_size(sized)
        return sized

    async def freshest(self, view: WorkloadView, patience: float) -> WorkloadView | None:
        """What the watch shows; one that was silent for longer than `patience`, in seconds, is not waited for."""
        state = self._seed.watch_state(Watched.DEPENDENTS)
        if not state.stale(self._context.environment.clock.now(), after=patience):
            return self.watched()
        try:
            return await self.live()
        except errors.ClusterError:
            return view

    async def settled(self, view: WorkloadView, written: WorkloadView | None) -> bool:
        """Whether the pods are where the write, which left `written`, wanted them."""
        if written is not None and view.generation < written.generation:
            return False
        if view.current is not None or view.ready is not None:
            return scaling.settled(view, self._context.direction)
        try:
            scale = await self._context.consent.unless_ended(
                self._seed.read_scale(self._context.namespace, self._ref)
            )
        except TRANSIENT:
            return False  # asked again
        if scale.current is None:
            return True  # nothing shows its pods: the write is the end
        return scaling.settled(replace(view, current=scale.current), self._context.direction)
