"""The dependents of a shoot as people see and mark them: live reads, and ignore-scaling."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from app.core import errors, redaction
from app.core.errors import ClusterError, Conflict, NotFound, Refused, Throttled, VersionChanged
from app.core.model import workloads
from app.core.model import workloads as ann
from app.core.model.overrides import IgnoreOrder
from app.core.model.workloads import Direction, Patch, ResourceRef, WorkloadView
from app.core.ports import Watched
from app.core.reporting.notices import Notice, NoticeKind
from app.prober.environment import ProberEnvironment
from app.prober.rules import scaling
from app.prober.scaling_context import ScalingContext

# What the seed shows of one dependent: by its watch, live, and by its `scale` subresource.


TRANSIENT: Final = (errors.Unreachable, errors.ServerFault, errors.Throttled)
"""Errors that may be gone at the next try."""


class DependentReader:
    """Looks at one dependent for a scaling run; a read that waits for its answer ends with the scaling run."""

    def __init__(
        self, context: ScalingContext, ref: ResourceRef, asking: Callable[[], None]
    ) -> None:
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
        view = await self._context.guard.unless_ended(
            self._seed.read_dependent(self._context.namespace, self._ref, urgent=self._urgent)
        )
        self._context.memory.note(self._ref, view, watched)
        return await self.sized(view)

    async def sized(self, view: WorkloadView | None) -> WorkloadView | None:
        """`view` with the replicas that only its `scale` subresource knows."""
        if view is None or view.replicas is not None:
            return view
        self._asking()
        scale = await self._context.guard.unless_ended(
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
            scale = await self._context.guard.unless_ended(
                self._seed.read_scale(self._context.namespace, self._ref)
            )
        except TRANSIENT:
            return False  # asked again
        if scale.current is None:
            return True  # nothing shows its pods: the write is the end
        return scaling.settled(replace(view, current=scale.current), self._context.direction)


T = TypeVar("T")

Views = Mapping[ResourceRef, WorkloadView | None]

READS_IN_FLIGHT: Final = 2
"""Requests at once for all who only want to see."""
PATIENCE: Final = 2.0
"""Seconds in which something has to be left of the request budget for one who wants to see."""
_ASKED_AGAIN: Final = 0.1


class Dependents:
    """Reads and marks the configured dependents, on the leader and on a standby alike."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        self._reads = asyncio.Semaphore(READS_IN_FLIGHT)

    async def live(self, namespace: str) -> dict[ResourceRef, WorkloadView | None]:
        """Each configured dependent, with the replicas that only `scale` knows; None where it does not exist.

        However many want to see it, writes do not wait: it takes what all others leave of the request budget.

        Raises:
            Throttled: nothing is left for 2 s.
            ClusterError: one of them could not be read.
        """
        return await self._all(namespace, self._env.clock.now() + PATIENCE)

    async def current(self, namespace: str) -> dict[ResourceRef, WorkloadView | None]:
        """The same for who is about to write: it waits for none of those who only look.

        Raises:
            ClusterError: one of them could not be read.
        """
        return await self._all(namespace, None)

    async def _all(
        self, namespace: str, spare_until: float | None
    ) -> dict[ResourceRef, WorkloadView | None]:
        refs = [each.ref for each in self._env.policy.dependents]
        reads = (self._read(namespace, ref, spare_until=spare_until) for ref in refs)
        # All are awaited, so that no read goes on behind an answer that says there is none.
        found = await asyncio.gather(*reads, return_exceptions=True)
        views: dict[ResourceRef, WorkloadView | None] = {}
        for ref, view in zip(refs, found, strict=True):
            unserved = isinstance(view, NotFound)
            if unserved or (isinstance(view, ClusterError) and self._env.seed.unavailable(ref)):
                views[ref] = None  # it fails in each scaling run, and hides no other
            elif isinstance(view, BaseException):
                raise view
            else:
                views[ref] = view
        return views

    async def set_ignored(self, order: IgnoreOrder) -> tuple[WorkloadView, WorkloadView]:
        """Writes or removes ignore-scaling; returns the resource before and after, alike where nothing was to do.

        Where it changed between check and write it is judged anew, once, on another read: status changes it too, and
        that is nothing which the caller asked for with `If-Match`.

        Raises:
            NotFound: it does not exist, or is none of the configured dependents.
            Refused: it is at 0 and would stay there, and there is no `force`.
            VersionChanged: it is not what the caller saw.
            Conflict: it changed again meanwhile.
            ClusterError: the seed did not do it.
        """
        try:
            before, after = await self._mark(order)
        except Conflict:
            before, after = await self._mark(order)
        if before is not after:
            self._tell(order, after)
        return before, after

    async def _mark(self, order: IgnoreOrder) -> tuple[WorkloadView, WorkloadView]:
        """Judges one live read, and writes on its resourceVersion."""
        before = await self._wanted(order)
        if _is_so(before, order):
            return before, before
        _check_not_stranded(before, order)
        value = "true" if order.ignored else None
        patch = Patch(before.resource_version, annotations={ann.IGNORE_SCALING: value})
        try:
            written = await self._env.seed.patch_dependent(order.namespace, order.ref, patch)
        except TRANSIENT as error:
            written = await self._done_all_the_same(order, error)
        return before, replace(written, replicas=before.replicas)

    async def _wanted(self, order: IgnoreOrder) -> WorkloadView:
        """The resource as it is now; raises where the order is not about it as it is."""
        views: Views = {}
        if any(each.ref == order.ref for each in self._env.policy.dependents):
            views = await self._looked_at(order)
        view = views.get(order.ref)
        if view is None:
            raise NotFound(f"{order.namespace} has no dependent {order.ref}")
        current = (workloads.resource_etag(view), workloads.list_etag(views))
        if order.if_match is not None and not workloads.matches(order.if_match, *current):
            raise VersionChanged(
                f"{order.ref} is not what If-Match names; read the resources again"
            )
        return view

    async def _looked_at(self, order: IgnoreOrder) -> Views:
        """All dependents where the ETag of all may be meant, else only the one that the order is about."""
        if order.if_match is not None:
            return await self.current(order.namespace)
        return {order.ref: await self._read(order.namespace, order.ref)}

    async def _done_all_the_same(self, order: IgnoreOrder, lost: ClusterError) -> WorkloadView:
        """The resource, where the write whose answer was lost has been carried out; raises `lost` where not."""
        try:
            view = await self._read(order.namespace, order.ref)
        except ClusterError as error:
            raise lost from error
        if view is None or not _is_so(view, order):
            raise lost
        return view

    def _tell(self, order: IgnoreOrder, after: WorkloadView) -> None:
        done = "set" if order.ignored else "removed"
        why = "" if order.reason is None else f": {order.reason}"
        notice = Notice(
            NoticeKind.OVERRIDE,
            order.namespace,
            self._env.clock.now(),
            "OverrideSet" if order.ignored else "OverrideEnded",
            redaction.clean(f"{order.author} {done} ignore-scaling of {order.ref}{why}"),
            resource=order.ref,
            resource_uid=after.uid,
            event=True,
            numbers={
                "action": "SetOverride" if order.ignored else "EndOverride",
                "override": "ignore-scaling",
                "author": order.author,
                "replicas": after.replicas,
            },
        )
        self._env.board.publish(notice)

    async def _read(
        self, namespace: str, ref: ResourceRef, *, spare_until: float | None = None
    ) -> WorkloadView | None:
        """With `spare_until` on what is left of the budget, and for want of that not at all after this instant."""
        seed, spare = self._env.seed, spare_until is not None
        ask = partial(self._ask, spare_until)
        view = await ask(lambda: seed.read_dependent(namespace, ref, spare=spare))
        if view is None or view.replicas is not None:
            return view
        scale = await ask(lambda: seed.read_scale(namespace, ref, spare=spare))
        # The version stays that of the view: a write on annotations that are not the newest has to fail.
        return replace(view, replicas=scale.replicas)

    async def _ask(self, spare_until: float | None, read: Callable[[], Awaitable[T]]) -> T:
        if spare_until is None:
            return await read()
        async with self._reads:
            while True:
                try:
                    return await read()
                except Throttled as error:
                    sent = error.status is not None
                    if sent or self._env.clock.now() >= spare_until:
                        raise
                await self._env.clock.sleep(_ASKED_AGAIN)


def _is_so(view: WorkloadView, order: IgnoreOrder) -> bool:
    """Whether there is nothing to do; a value that is heeded stays as it is, any value goes."""
    if order.ignored:
        return ann.ignore_scaling(view.annotations) is ann.Ignore.YES
    return ann.IGNORE_SCALING not in view.annotations


def _check_not_stranded(view: WorkloadView, order: IgnoreOrder) -> None:
    if order.ignored and view.replicas == 0 and not order.force:
        raise Refused(
            f"{order.ref} is at 0 and would stay there, as nobody scales it up any more; scale it up first, or use "
            "force"
        )
