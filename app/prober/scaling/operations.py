"""Scaling runs that people ask for through the API: checks, plans, requests, shows and cancels them (rules 7)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from app.core import errors
from app.core.model import workloads
from app.core.model.overrides import ScaleRequest
from app.core.model.probing import ShootState
from app.core.model.scaling_runs import (
    OperationPhase,
    PlannedResource,
    ScaleSpec,
    ScalingPlan,
    ScalingRunStatus,
    Trigger,
)
from app.core.model.workloads import ResourceRef, WorkloadView
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.rules import manual
from app.prober.rules.manual import ManualContext
from app.prober.scaling.context import ScalingOrder, check_probed
from app.prober.scaling.manual import BEGIN_WITHIN, ScaleRequests

Live = Callable[[str], Awaitable[Mapping[ResourceRef, WorkloadView | None]]]
"""Reads the dependents of a shoot live."""
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
        live: Live,
    ) -> None:
        self._env, self._registry, self._requests, self._live = (
            environment,
            registry,
            requests,
            live,
        )
        self._operations = environment.operations
        self._shown: dict[str, tuple[ScaleRequest, ScalingRunStatus]] = {}
        """Requests that have ended, as operations, by uid."""

    # Requests of people.

    def operations(self) -> Sequence[ScalingRunStatus]:
        """All operations: ScaleRequests, and the automatic runs of this process; in no order."""
        requested = [self._of(each) for each in self._env.overrides.requests()]
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
        request = self._request(name)
        if request is not None:
            return self._of(request)
        found = self._operations.get(name)
        if found is None:
            self._check_known()
            return None
        return _alone(found)

    def _request(self, uid: str, namespace: str | None = None) -> ScaleRequest | None:
        requests = self._env.overrides.requests(namespace)
        return next((each for each in requests if each.id.uid == uid), None)

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
        order = ScalingOrder.of(request, carried_on=known is not None and known.carried_on)
        shown = replace(
            order.shown(request.id.namespace, request.phase, request.message),
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
            raise errors.Refused(f"{namespace} is not probed: {self._why_not(namespace)}")
        return runner.probe_now()

    def _why_not(self, namespace: str) -> str:
        status = self._registry.status(namespace)
        return "there is no such shoot" if status is None else status.message

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
        return await self._planned(namespace, spec, if_match)

    async def _planned(self, namespace: str, spec: ScaleSpec, if_match: str | None) -> ScalingPlan:
        views = await self._live(namespace)
        tag = workloads.list_etag(views)
        if if_match is not None and not workloads.matches(if_match, tag):
            raise errors.VersionChanged(
                "the resources are not what If-Match names; read them again"
            )
        now, direction = self._env.clock.now(), spec.direction
        tasks = manual.plan(self._env.policy.dependents, views, direction, now)
        steps = [
            PlannedResource(
                each.ref,
                each.scale(direction).level,
                task.step,
                task.why,
                task.before,
                task.after,
                each.scale(direction).initial_delay if task.writes else 0.0,
                None if (view := views.get(each.ref)) is None else workloads.resource_etag(view),
            )
            for each, task in tasks
        ]
        scaler = self._registry.scalers.known(namespace)
        running = None if scaler is None or scaler.scaling_run is None else scaler.scaling_run.order
        replaces = running.operation if running is not None and not running.manual else None
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
            await check_probed(self._env, namespace)
        _ = await self._planned(namespace, spec, if_match)
        # While the seed is read the verdict may turn, or probing end, so that the run would need `force`.
        request = await self._requests.begin(namespace, spec, lambda: self._check(namespace, spec))
        deadline = self._env.clock.now() + _BEGUN_WITHIN
        uid = request.id.uid
        found = self._request(uid, namespace)
        while found is not None and found.open and uid not in self._operations:
            if self._env.clock.now() >= deadline:
                break
            await self._env.clock.sleep(_LOOK_AGAIN)
            found = self._request(uid, namespace)
        if found is not None:
            return self._of(found)
        ended = self._operations.get(uid)
        return ended or self._of(replace(request, phase=OperationPhase.CANCELLED))

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
        if operation.trigger is not Trigger.MANUAL:
            text = "it is an automatic one: pause the shoot, or hold it by scaling it by hand"
            raise errors.Refused(f"operation {name} cannot be cancelled: {text}")
        request = self._request(name)
        if request is None or not request.open:
            raise errors.Refused(f"operation {name} has ended: {operation.phase}")
        _ = await self._env.override_service.delete_request(request, by=by)
        await self._until_ended(name)
        ended = self._operations.get(name)
        if ended is not None and not ended.running:
            return _alone(ended)
        text = f"it was cancelled by {by}"
        return replace(operation, phase=OperationPhase.CANCELLED, message=text, hold_until=None)

    async def _until_ended(self, name: str) -> None:
        """Waits for the end of the run, 2 s at most, as a request that was sent is finished first."""
        deadline = self._env.clock.now() + _CANCELLED_WITHIN
        while self._env.clock.now() < deadline:
            operation = self._operations.get(name)
            if operation is None or not operation.running:
                return
            await self._env.clock.sleep(_LOOK_AGAIN)

    # Checks.

    def _check(self, namespace: str, spec: ScaleSpec) -> None:
        self._check_sense(namespace, spec)
        self._check_known()
        if (other := self._requests.open(namespace)) is not None:
            raise errors.RunInProgress.of(other.id.uid, namespace)

    def _check_sense(self, namespace: str, spec: ScaleSpec) -> None:
        status = self._registry.status(namespace)
        if status is None:
            raise errors.NotFound(f"the seed has no Cluster {namespace}")
        probed = status.state is not ShootState.NOT_PROBED
        would_be = None if status.decision is None else status.decision.would_be
        text = manual.objection(spec.direction, ManualContext(probed, would_be))
        if text is not None and not spec.force:
            raise errors.Refused(text)

    def _check_known(self) -> None:
        if not self._env.overrides.synced:
            text = "the overrides have not been read yet; retry in a moment"
            raise errors.NotKnownYet(text)


def _alone(operation: ScalingRunStatus) -> ScalingRunStatus:
    """An operation without a ScaleRequest: its hold ended with that."""
    return operation if operation.running else replace(operation, hold_until=None)
