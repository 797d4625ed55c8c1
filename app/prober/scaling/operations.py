"""What the API asks of scaling: the dependents live, ignore-scaling, and scaling runs by hand (rules 7)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from app.core import errors, redaction
from app.core.model import workloads
from app.core.model.overrides import IgnoreRequest, ScaleRequest
from app.core.model.policy import OnFailure
from app.core.model.scaling_runs import (
    OperationPhase,
    PlannedResource,
    ScaleSpec,
    ScalingPlan,
    ScalingRunStatus,
)
from app.core.model.workloads import Patch, ResourceRef, WorkloadView
from app.core.reporting.notices import OverrideChanged, report
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.rules import manual, scaling
from app.prober.scaling.manual import BEGIN_WITHIN, ScaleRequests, context_of
from app.prober.scaling.resource import UNSETTLED, check_still_probed

T = TypeVar("T")

# Seconds that a cancellation waits for the end of the scaling run.
_CANCELLED_WITHIN: Final = 2.0
_LOOK_AGAIN: Final = 0.02
# Seconds that a person waits for a scaling run to begin, or to be refused.
_BEGUN_WITHIN: Final = BEGIN_WITHIN + 0.5


class ManualScaling:
    """The scaling runs of all shoots as the API shows and starts them."""

    def __init__(
        self,
        environment: ProberEnvironment,
        registry: ShootRegistry,
        requests: ScaleRequests,
        dependents: "Dependents",
    ) -> None:
        self._env, self._registry = environment, registry
        self._requests, self._dependents = requests, dependents
        self._operations = environment.operations
        self._shown: dict[str, tuple[ScaleRequest, ScalingRunStatus]] = {}
        """Requests that have ended, as operations, by uid."""

    # Requests of people.

    def operations(self) -> Sequence[ScalingRunStatus]:
        """All operations: ScaleRequests that can be decoded, and the automatic runs of this process; in no order."""
        requests = self._env.overrides.requests()
        requested = [self._of(each) for each in requests if each.problem is None]
        names = {each.id for each in requested}
        for uid in self._shown.keys() - names:
            del self._shown[uid]
        return (*requested, *(_alone(each) for each in self._operations if each.id not in names))

    def operation(self, name: str) -> ScalingRunStatus | None:
        """The operation with this id; None if there never was one.

        Raises:
            OperationGone: it is an automatic one of an earlier leader, or was forgotten.
            NotKnownYet: the ScaleRequests have not been read yet.
        """
        request = self._env.overrides.request(name)
        if request is not None and request.problem is None:
            return self._of(request)
        found = self._operations.get(name)
        if found is None:
            self._check_known()
            return None
        return _alone(found)

    def _of(self, request: ScaleRequest) -> ScalingRunStatus:
        """A request as an operation; while it runs here, as the run is.

        What has ended is made once: there may be five for each of thousands of shoots.
        """
        before = self._shown.get(request.id.uid)
        if before is not None and before[0] is request:
            return before[1]
        known = self._operations.get(request.id.uid)
        if request.open and known is not None and known.running:
            return known
        shown = replace(
            manual.ordered(request, carried_on=known is not None and known.carried_on),
            phase=request.phase,
            message=request.message,
            started=request.started,
            ended=request.ended,
            steps=request.steps,
        )
        if not request.open:
            self._shown[request.id.uid] = (request, shown)
        return shown

    def probe_now(self, namespace: str) -> float:
        """Schedules a probe as soon as the rules allow; returns the instant of that probe.

        Raises:
            Refused: the shoot is not probed.
        """
        runner = self._registry.runner(namespace)
        if runner is None:
            status = self._registry.status(namespace)
            why = "there is no such shoot" if status is None else status.message
            raise errors.Refused(f"{namespace} is not probed: {why}")
        return runner.probe_now()

    async def plan(
        self, namespace: str, spec: ScaleSpec, *, if_match: str | None = None
    ) -> ScalingPlan:
        """What `begin` would do now; reads live, writes nothing.

        Raises:
            NotFound: there is no such shoot.
            NotKnownYet: the overrides have not been read yet.
            Refused: a rule forbids it; RunInProgress if another manual run is under way.
            VersionChanged: the resources are not what the caller saw (`If-Match`).
            ClusterError: the resources cannot be read.
        """
        self._check(namespace, spec)
        views = await self._dependents.current(namespace)
        tag = workloads.list_etag(views)
        if if_match is not None and not workloads.matches(if_match, tag):
            raise errors.VersionChanged(
                "the resources are not what If-Match names; read them again"
            )
        direction = spec.direction
        plan = scaling.plan(
            self._env.policy.dependents, views.get, direction, self._env.clock.now()
        )
        if self._env.policy.on_failure(direction) is OnFailure.STOP:
            plan = scaling.until_failure(plan)
        steps = [
            PlannedResource(
                each.ref,
                each.scale(direction).level,
                task.step,
                task.why,
                task.before,
                task.after,
                each.scale(direction).initial_delay if task.writes else 0.0,
                None if view is None else workloads.resource_etag(view),
            )
            for level in plan
            for each, view, task in level
        ]
        scaler = self._registry.scaler(namespace)
        running = None if scaler is None or scaler.scaling_run is None else scaler.scaling_run.order
        replaces = running.id if running is not None and not running.manual else None
        return ScalingPlan(namespace, direction, tuple(steps), tag, replaces)

    async def begin(
        self, namespace: str, spec: ScaleSpec, *, if_match: str | None = None
    ) -> ScalingRunStatus:
        """Creates a ScaleRequest, and returns it when its run has begun, or after 2.5 s; raises what `plan` raises.

        Raises:
            FeatureUnavailable: there are no ScaleRequests, or nothing is written in a dry run.
        """
        self._requests.check_may_write()
        self._check(namespace, spec)
        if not spec.force:
            await check_still_probed(self._env, namespace)
        _ = await self.plan(namespace, spec, if_match=if_match)
        # While the seed is read the verdict may turn, or probing end, so that the run would need `force`.
        request = await self._requests.create(namespace, spec, lambda: self._check(namespace, spec))
        uid, deadline = request.id.uid, self._env.clock.now() + _BEGUN_WITHIN
        while (found := self._env.overrides.request(uid, namespace)) is not None:
            if not found.open or uid in self._operations or self._env.clock.now() >= deadline:
                return self._of(found)
            await self._env.clock.sleep(_LOOK_AGAIN)
        gone = replace(request, phase=OperationPhase.CANCELLED, message="it was deleted")
        return _alone(self._operations.get(uid) or self._of(gone))

    async def cancel(self, name: str, *, by: str) -> ScalingRunStatus:
        """Deletes the ScaleRequest of an operation: its run ends between two steps, and its hold with it.

        Raises:
            Refused: the run is an automatic one, or has ended.
            OperationGone: it is an automatic one of an earlier leader.
            NotKnownYet: the ScaleRequests have not been read yet.
            NotFound: there never was one with this id.
        """
        operation = self.operation(name)
        if operation is None:
            raise errors.NotFound(f"there is no operation {name}")
        if not operation.manual:
            text = "it is an automatic one: pause the shoot, or hold it by scaling it by hand"
            raise errors.Refused(f"operation {name} cannot be cancelled: {text}")
        request = self._env.overrides.request(name)
        if request is None or not request.open:
            raise errors.Refused(f"operation {name} has ended: {operation.phase}")
        _ = await self._env.override_service.delete_request(request, by=by)
        # A request that was sent is finished first.
        deadline = self._env.clock.now() + _CANCELLED_WITHIN
        while (run := self._operations.get(name)) is not None:
            if not run.running:
                return _alone(run)
            if self._env.clock.now() >= deadline:
                break
            await self._env.clock.sleep(_LOOK_AGAIN)
        text = f"it was cancelled by {by}"
        return replace(operation, phase=OperationPhase.CANCELLED, message=text, hold_until=None)

    # Checks.

    def _check(self, namespace: str, spec: ScaleSpec) -> None:
        status = self._registry.status(namespace)
        if status is None:
            raise errors.NotFound(f"the seed has no Cluster {namespace}")
        text = manual.objection(spec.direction, context_of(status))
        if text is not None and not spec.force:
            raise errors.Refused(text)
        self._check_known()
        if (other := self._requests.first_open(namespace)) is not None:
            raise errors.RunInProgress.of(other.id.uid, namespace)

    def _check_known(self) -> None:
        if not self._env.overrides.synced:
            text = "the overrides have not been read yet; retry in a moment"
            raise errors.NotKnownYet(text)


def _alone(operation: ScalingRunStatus) -> ScalingRunStatus:
    """An operation without a ScaleRequest: its hold ended with that."""
    return operation if operation.running else replace(operation, hold_until=None)


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
            unserved = isinstance(view, errors.NotFound)
            if unserved or (
                isinstance(view, errors.ClusterError) and self._env.seed.unavailable(ref)
            ):
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
        except errors.Conflict:
            before, after = await self._mark(order)
        if before is not after and not order.dry_run:
            self._tell(order, after)
        return before, after

    async def _mark(self, order: IgnoreRequest) -> tuple[WorkloadView, WorkloadView]:
        """Checks the order against a live read, and writes with the resourceVersion of that read."""
        before = await self._wanted(order)
        if _is_so(before, order):
            return before, before
        if order.ignored and before.replicas == 0 and not order.force:
            raise errors.Refused(
                f"{order.ref} is at 0 and would stay there, as nothing scales it up any more; scale it up first, or "
                "use force"
            )
        value = "true" if order.ignored else None
        if order.dry_run:
            others = {k: v for k, v in before.annotations.items() if k != workloads.IGNORE_SCALING}
            planned = others if value is None else {**others, workloads.IGNORE_SCALING: value}
            return before, replace(before, annotations=planned)
        patch = Patch(before.resource_version, annotations={workloads.IGNORE_SCALING: value})
        try:
            written = await self._env.seed.patch_dependent(order.namespace, order.ref, patch)
        except UNSETTLED as error:
            written = await self._done_all_the_same(order, error)
        return before, replace(written, replicas=before.replicas)

    async def _wanted(self, order: IgnoreRequest) -> WorkloadView:
        """Reads the resource live; raises if it is none of the dependents, or does not match `If-Match`."""
        if all(each.ref != order.ref for each in self._env.policy.dependents):
            views: scaling.Views = {}
        elif order.if_match is None:
            views = {order.ref: await self._read(order.namespace, order.ref)}
        else:  # it may name the ETag of all
            views = await self.current(order.namespace)
        view = views.get(order.ref)
        if view is None:
            raise errors.NotFound(f"{order.namespace} has no dependent {order.ref}")
        current = (workloads.resource_etag(view), workloads.list_etag(views))
        if order.if_match is not None and not workloads.matches(order.if_match, *current):
            raise errors.VersionChanged(
                f"{order.ref} is not what If-Match names; read the resources again"
            )
        return view

    async def _done_all_the_same(
        self, order: IgnoreRequest, lost: errors.ClusterError
    ) -> WorkloadView:
        """Returns the resource if the write whose answer was lost was carried out; raises `lost` if not."""
        try:
            view = await self._read(order.namespace, order.ref)
        except errors.ClusterError as error:
            raise lost from error
        if view is None or not _is_so(view, order):
            raise lost
        return view

    def _tell(self, order: IgnoreRequest, after: WorkloadView) -> None:
        done = "set" if order.ignored else "removed"
        why = "" if order.reason is None else f": {order.reason}"
        text = redaction.clean(f"{order.author} {done} ignore-scaling of {order.ref}{why}")
        report(
            self._env,
            OverrideChanged,
            order.namespace,
            "OverrideSet" if order.ignored else "OverrideEnded",
            text,
            resource=order.ref,
            resource_uid=after.uid,
            event=text,
            action="SetOverride" if order.ignored else "EndOverride",
            override="ignore-scaling",
            author=order.author,
            replicas=after.replicas,
        )

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
                except errors.Throttled as error:
                    sent = error.status is not None
                    if sent or self._env.clock.now() >= spare_until:
                        raise
                await self._env.clock.sleep(_ASKED_AGAIN)


def _is_so(view: WorkloadView, order: IgnoreRequest) -> bool:
    """Whether nothing is to do: setting keeps any value that counts as true, removing removes any value."""
    if order.ignored:
        return workloads.ignore_scaling(view.annotations) is workloads.Ignore.YES
    return workloads.IGNORE_SCALING not in view.annotations
