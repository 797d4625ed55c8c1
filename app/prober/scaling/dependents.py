"""Reads and marks the dependents of a shoot: for scaling runs (`DependentReader`), and for people (`Dependents`)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from app.core import errors, redaction
from app.core.errors import ClusterError, Conflict, NotFound, Refused, Throttled, VersionChanged
from app.core.model import workloads
from app.core.model import workloads as ann
from app.core.model.overrides import IgnoreRequest
from app.core.model.workloads import Direction, Patch, ResourceRef, WorkloadView
from app.core.ports import Watched
from app.core.reporting.notices import Notice, NoticeKind
from app.prober.environment import ProberEnvironment
from app.prober.rules import scaling
from app.prober.scaling.context import ScalingContext

TRANSIENT: Final = (errors.Unreachable, errors.ServerFault, errors.Throttled)
"""Errors after which another try may succeed."""
UNSETTLED: Final = (*errors.UNSURE, errors.Throttled)
"""Errors after which a write may have been carried out, or may succeed at another try."""


class DependentReader:
    """Reads one dependent for a scaling run: from the watch, live, and through its `scale` subresource.

    A read that is under way is cancelled when the run is ended.
    """

    def __init__(
        self, context: ScalingContext, ref: ResourceRef, asking: Callable[[], None]
    ) -> None:
        """`asking` is called before each request: the next level waits for a read no longer than for a write."""
        self._context = context
        self._seed = context.environment.seed
        self._ref = ref
        self._asking = asking
        self._urgent = context.direction is Direction.DOWN

    def watched(self) -> WorkloadView | None:
        """The dependent as the watch shows it, or as a newer write or live read has shown it."""
        watched = self._seed.dependent(self._context.namespace, self._ref)
        return self._context.memory.newest(watched)

    async def live(self) -> WorkloadView | None:
        """Reads the dependent live, and remembers what was read; None if it does not exist."""
        self._asking()
        watched = self._seed.dependent(self._context.namespace, self._ref)
        view = await self._context.guard.unless_ended(
            self._seed.read_dependent(self._context.namespace, self._ref, urgent=self._urgent)
        )
        self._context.memory.note(self._ref, view, watched)
        return await self.sized(view)

    async def sized(self, view: WorkloadView | None) -> WorkloadView | None:
        """Returns `view` with its replicas; reads `scale` for a kind whose replicas only that shows."""
        if view is None or view.replicas is not None:
            return view
        self._asking()
        scale = await self._context.guard.unless_ended(
            self._seed.read_scale(self._context.namespace, self._ref, urgent=self._urgent)
        )
        # The resourceVersion stays that of the view, so that a write decided on outdated annotations fails.
        sized = replace(view, replicas=scale.replicas)
        if scale.resource_version == view.resource_version:
            self._context.memory.note_size(sized)
        return sized

    async def freshest(self, view: WorkloadView, patience: float) -> WorkloadView | None:
        """The dependent as the watch shows it, or read live if the watch was silent for over `patience` seconds."""
        state = self._seed.watch_state(Watched.DEPENDENTS)
        if not state.stale(self._context.environment.clock.now(), after=patience):
            return self.watched()
        try:
            await self.live()
        except errors.ClusterError:
            return view
        return self.watched()  # the watch may have shown a newer version during the read

    async def settled(self, view: WorkloadView, written: WorkloadView | None) -> bool:
        """Whether the pods have followed the write that left the dependent as `written`."""
        if written is not None and view.generation < written.generation:
            return False
        if view.current is not None or view.ready is not None:
            return scaling.settled(view, self._context.direction)
        try:
            scale = await self._context.guard.unless_ended(
                self._seed.read_scale(self._context.namespace, self._ref)
            )
        except TRANSIENT:
            return False  # the caller asks again
        if scale.current is None:
            return True  # nothing shows the pods of this kind: the write is the end (rules 4.3, step 5)
        return scaling.settled(replace(view, current=scale.current), self._context.direction)


T = TypeVar("T")

Views = Mapping[ResourceRef, WorkloadView | None]

READS_IN_FLIGHT: Final = 2
"""Requests in flight for all callers that only read."""
PATIENCE: Final = 2.0
"""Seconds that a caller which only reads waits for something to be left of the request budget."""
_ASKED_AGAIN: Final = 0.1


class Dependents:
    """Reads and marks the configured dependents for the API, on the leader and on a standby alike."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        self._reads = asyncio.Semaphore(READS_IN_FLIGHT)

    async def live(self, namespace: str) -> dict[ResourceRef, WorkloadView | None]:
        """Reads each configured dependent, `scale` included where only that shows replicas; None if it does not exist.

        It uses only what all others leave of the request budget, so that no number of readers delays a write.

        Raises:
            Throttled: nothing is left for 2 s.
            ClusterError: one of them could not be read.
        """
        return await self._all(namespace, self._env.clock.now() + PATIENCE)

    async def current(self, namespace: str) -> dict[ResourceRef, WorkloadView | None]:
        """The same for a caller that is about to write: it does not queue behind those that only read.

        Raises:
            ClusterError: one of them could not be read.
        """
        return await self._all(namespace, None)

    async def _all(
        self, namespace: str, spare_until: float | None
    ) -> dict[ResourceRef, WorkloadView | None]:
        refs = [each.ref for each in self._env.policy.dependents]
        reads = (self._read(namespace, ref, spare_until=spare_until) for ref in refs)
        # All reads are awaited, so that none goes on after this has failed because of another.
        found = await asyncio.gather(*reads, return_exceptions=True)
        views: dict[ResourceRef, WorkloadView | None] = {}
        for ref, view in zip(refs, found, strict=True):
            unserved = isinstance(view, NotFound)
            if unserved or (isinstance(view, ClusterError) and self._env.seed.unavailable(ref)):
                # An unavailable dependent must not hide the others; it fails in each scaling run.
                views[ref] = None
            elif isinstance(view, BaseException):
                raise view
            else:
                views[ref] = view
        return views

    async def set_ignored(self, order: IgnoreRequest) -> tuple[WorkloadView, WorkloadView]:
        """Writes or removes ignore-scaling; returns the resource before and after, one object if nothing was to do.

        An order with `dry_run` goes through the same checks, and returns what the resource would be.

        If the resource changes between check and write, both are repeated once: status updates change it too, and the
        caller's `If-Match` does not mean those.

        Raises:
            NotFound: the resource does not exist, or is none of the configured dependents.
            Refused: it is at 0 and would stay there, and the order has no `force`.
            VersionChanged: it is not what the caller saw.
            Conflict: it changed a second time.
            ClusterError: the seed did not carry out the write.
        """
        try:
            before, after = await self._mark(order)
        except Conflict:
            before, after = await self._mark(order)
        if before is not after and not order.dry_run:
            self._tell(order, after)
        return before, after

    async def _mark(self, order: IgnoreRequest) -> tuple[WorkloadView, WorkloadView]:
        """Checks the order against a live read, and writes with the resourceVersion of that read."""
        before = await self._wanted(order)
        if _is_so(before, order):
            return before, before
        _check_not_stranded(before, order)
        value = "true" if order.ignored else None
        if order.dry_run:
            others = {k: v for k, v in before.annotations.items() if k != ann.IGNORE_SCALING}
            planned = others if value is None else {**others, ann.IGNORE_SCALING: value}
            return before, replace(before, annotations=planned)
        patch = Patch(before.resource_version, annotations={ann.IGNORE_SCALING: value})
        try:
            written = await self._env.seed.patch_dependent(order.namespace, order.ref, patch)
        except UNSETTLED as error:
            written = await self._done_all_the_same(order, error)
        return before, replace(written, replicas=before.replicas)

    async def _wanted(self, order: IgnoreRequest) -> WorkloadView:
        """Reads the resource live; raises if it is none of the dependents, or does not match `If-Match`."""
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

    async def _looked_at(self, order: IgnoreRequest) -> Views:
        """Reads all dependents if there is an `If-Match`, which may name the ETag of all; otherwise only the one."""
        if order.if_match is not None:
            return await self.current(order.namespace)
        return {order.ref: await self._read(order.namespace, order.ref)}

    async def _done_all_the_same(self, order: IgnoreRequest, lost: ClusterError) -> WorkloadView:
        """Returns the resource if the write whose answer was lost was carried out; raises `lost` if not."""
        try:
            view = await self._read(order.namespace, order.ref)
        except ClusterError as error:
            raise lost from error
        if view is None or not _is_so(view, order):
            raise lost
        return view

    def _tell(self, order: IgnoreRequest, after: WorkloadView) -> None:
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
        self._env.notice_bus.publish(notice)

    async def _read(
        self, namespace: str, ref: ResourceRef, *, spare_until: float | None = None
    ) -> WorkloadView | None:
        """Reads one dependent; with `spare_until`, on what is left of the budget, for which it waits until then."""
        seed, spare = self._env.seed, spare_until is not None
        ask = partial(self._ask, spare_until)
        view = await ask(lambda: seed.read_dependent(namespace, ref, spare=spare))
        if view is None or view.replicas is not None:
            return view
        scale = await ask(lambda: seed.read_scale(namespace, ref, spare=spare))
        # The resourceVersion stays that of the view, so that a write decided on outdated annotations fails.
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


def _is_so(view: WorkloadView, order: IgnoreRequest) -> bool:
    """Whether nothing is to do: setting keeps any value that counts as true, removing removes any value."""
    if order.ignored:
        return ann.ignore_scaling(view.annotations) is ann.Ignore.YES
    return ann.IGNORE_SCALING not in view.annotations


def _check_not_stranded(view: WorkloadView, order: IgnoreRequest) -> None:
    if order.ignored and view.replicas == 0 and not order.force:
        raise Refused(
            f"{order.ref} is at 0 and would stay there, as nothing scales it up any more; scale it up first, or use "
            "force"
        )
