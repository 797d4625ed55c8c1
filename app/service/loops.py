"""The loops as the service sees them: each is started, stopped, looked at, and shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final, Protocol

from app.api.health import Check, contact_check, listed, seed_checks, synced_check
from app.api.views import NoEndpoints, ProberView
from app.core.metrics import Metrics
from app.core.model.endpoints import ProbeType
from app.core.model.operations import Trigger
from app.core.model.policy import Loop, ProberPolicy
from app.core.model.probing import ProbeResult
from app.core.model.weeding import DeletionResult, WeederPolicy
from app.core.model.workloads import Direction, ResourceRef
from app.core.ports import Leadership
from app.core.reporting import metering
from app.core.reporting.gauges import Probing, show_shoots
from app.core.reporting.history import History
from app.core.reporting.metering import EndpointMetering, Metering
from app.prober.controller import Prober
from app.prober.endpoints.results import EndpointResultView
from app.prober.environment import (
    RUNS_TOGETHER,
    TOGETHER,
    EndpointAdapters,
    ProberEnvironment,
    ProbeSlots,
    ScaleUpPace,
)
from app.prober.registry import ShootRegistry
from app.prober.rules.endpoints import CachedResult, Waiting
from app.prober.scaling_context import StepResult
from app.prober.status import ShootStatus, ShootSummary
from app.service.decisions import OverrideFeature
from app.service.parts import Configured, Core, ProberAdapters, WeederAdapters
from app.service.seed_checks import MeltdownScan
from app.service.selfview import ShootSeries
from app.weeder.controller import Weeder
from app.weeder.environment import WeederEnvironment

# What the metrics show of the results of endpoint probes; pure.


def succeeded(views: Iterable[EndpointResultView]) -> dict[str, bool]:
    """By the name of a probe: whether all its targets that say something are well; without those that say nothing.

    A container that is not running says that it is not ready, though that counts nowhere else.
    """
    found: dict[str, bool] = {}
    for each in views:
        stopped = each.waiting is Waiting.NOT_RUNNING and each.type is ProbeType.READINESS
        if each.counted or stopped:
            well = each.counted and each.result is CachedResult.SUCCESS
            found[each.name] = found.get(each.name, True) and well
    return found


# Counters that begin at 0: of one that appears with its first count no query sees that it has grown (docs/metrics.md).
#
# Here are those whose labels the configuration names.  The others begin where they are counted: throttled requests and
# limits with each `Wire`, refused kubeconfigs with the connector of the shoots, decisions about callers and the
# stream of
# events with theirs, runs of endpoint probes with their meter, and what is counted for each shoot at a scrape
# (`app.core.reporting.gauges`).


def begin_prober(metrics: Metrics, policy: ProberPolicy, *, dry_run: bool) -> None:
    """What the prober will count, with these dependents."""
    metrics.runner_failures.labels(Loop.PROBER)
    for probe, outcome in product(metering.of_probes(policy), ProbeResult):
        metrics.probes.labels(probe, outcome)
    resources = [str(each.ref) for each in policy.dependents]
    results = [each for each in StepResult if dry_run or each is not StepResult.DRY_RUN]
    for direction in Direction:
        metrics.scale_duration.labels(direction)
        for resource, result, trigger in product(resources, results, Trigger):
            metrics.scale_operations.labels(direction, resource, result, trigger)


def begin_weeder(metrics: Metrics, policy: WeederPolicy, *, dry_run: bool) -> None:
    """What the weeder will count, with these services."""
    metrics.runner_failures.labels(Loop.WEEDER)
    results = [each for each in DeletionResult if dry_run or each is not DeletionResult.DRY_RUN]
    for service in policy.services:
        metrics.weeder_recoveries.labels(service)
        for result in results:
            metrics.weeder_deletions.labels(service, result)


_SLICES: Final = "endpointslices"


class RunningLoop(Protocol):
    """One of the two."""

    @property
    def name(self) -> Loop:
        """Which one."""
        ...

    def start(self) -> None:
        """Begins to work; the cluster's watches have been opened."""
        ...

    async def stop(self, why: str) -> None:
        """Ends all work; a request that was sent is finished first."""
        ...

    def checks(self) -> Sequence[Check]:
        """What readiness looks at."""
        ...


class _Led:
    """What the metrics tell of shoots: nothing on a standby, so that two replicas do not tell the same twice."""

    def __init__(self, registry: ShootRegistry, leadership: Leadership) -> None:
        self._registry, self._leadership = registry, leadership

    def summaries(self) -> Sequence[ShootSummary]:
        return self._registry.summaries() if self._leadership.leading else ()

    def facts(self, namespace: str) -> ShootStatus | None:
        """Without what is only rendered for people: conditions and sentences of a thousand shoots cost 20 ms."""
        runner = self._registry.runner(namespace)
        return self._registry.status(namespace) if runner is None else runner.status_facts()


class ProberLoop:
    """The prober, with what only it has: metrics of shoots, and the scan for forgotten dependents."""

    name = Loop.PROBER

    def __init__(
        self,
        configured: Configured,
        policy: ProberPolicy,
        core: Core,
        adapters: ProberAdapters,
        decisions: OverrideFeature,
        metering: Metering,
    ) -> None:
        self._core, self._adapters, self._policy = core, adapters, policy
        self._metering = metering
        begin_prober(core.metrics, policy, dry_run=configured.dry_run)
        environment = ProberEnvironment(
            policy,
            adapters.seed,
            adapters.connector,
            adapters.leadership,
            core.clock,
            core.tasks,
            core.board,
            core.chance,
            ProbeSlots.of(policy),
            ScaleUpPace(),
            dry_run=configured.dry_run,
            overrides=decisions.view,
            override_service=decisions.override_service,
            endpoints=self._endpoints(),
            together=TOGETHER,
            runs_together=RUNS_TOGETHER,
        )
        self.prober = Prober(environment, workers=configured.workers)
        adapters.leadership.prepare(self.prober.prepared)
        self.scan: MeltdownScan | None = None
        if adapters.scan is not None:
            self.scan = MeltdownScan(adapters.scan, core.clock, core.metrics)
        decisions.look_after(adapters, self.prober.registry.ignored)
        self._overrides = decisions.view

    def _endpoints(self) -> EndpointAdapters | None:
        """What endpoint probes need, with a meter for their runs."""
        adapters = self._adapters.endpoints
        if adapters is None:
            return None
        return replace(adapters, meter=EndpointMetering(self._core.metrics, self._metering.shoots))

    def show(self) -> None:
        """Its shoots are part of the metrics from now on."""
        registry = self.prober.registry
        led = _Led(registry, self._adapters.leadership)
        probing = Probing(
            metering.of_shoots(self._policy),
            lambda namespace: succeeded(registry.endpoint_views(namespace)),
        )
        show_shoots(self._core.metrics, self._metering, led, probing)
        for resource in {str(each.ref) for each in self._policy.dependents}:
            series = self._core.metrics.dependents_unavailable.labels(resource)
            series.set_function(partial(self._is_unavailable, resource))

    def _unavailable(self) -> Mapping[ResourceRef, str]:
        """The dependents that fail in each scaling run, as their kind is not served or may not be listed, and why."""
        refs = (each.ref for each in self._policy.dependents)
        return {ref: why for ref in refs if (why := self._adapters.seed.unavailable(ref))}

    def _is_unavailable(self, resource: str) -> bool:
        return any(str(ref) == resource for ref in self._unavailable())

    def uid_of(self, namespace: str, ref: ResourceRef) -> str | None:
        """The uid of a configured dependent."""
        if all(each.ref != ref for each in self._policy.dependents):
            return None
        view = self._adapters.seed.dependent(namespace, ref)
        return None if view is None else view.uid

    def view(self, history: History) -> ProberView:
        """What the API is given."""
        prober = self.prober
        shoots = ShootSeries(prober.registry, history)
        return ProberView(
            shoots,
            self._policy,
            self._overrides,
            prober.scaling_runs,
            prober.dependents,
            endpoints=prober.registry.endpoints or NoEndpoints(),
        )

    def follow_endpoints(self, changed: Callable[[str], None]) -> None:
        """`changed` is called with the namespace when what its endpoint probes say does."""
        if self.prober.registry.endpoints is not None:
            self.prober.registry.endpoints.subscribe(changed)

    def start(self) -> None:
        """Begins to follow the Clusters."""
        if self.scan is not None:
            _ = self._core.tasks.once(self.scan.run, "meltdown scan")
        self.prober.start()

    async def stop(self, why: str) -> None:
        """Ends all probing."""
        await self.prober.stop(why)

    def checks(self) -> Sequence[Check]:
        """Each watch of the seed, and dependents that cannot be scaled."""

        def unavailable() -> str | None:
            found = [
                f"{ref} fails in each scaling run: {why}"
                for ref, why in self._unavailable().items()
            ]
            return listed(found)

        watches = seed_checks(self._adapters.seed, self._core.clock)
        return [*watches, Check("dependents-available", unavailable, advisory=True)]


class WeederLoop:
    """The weeder."""

    name = Loop.WEEDER

    def __init__(
        self,
        configured: Configured,
        policy: WeederPolicy,
        core: Core,
        adapters: WeederAdapters,
        decisions: OverrideFeature,
    ) -> None:
        self._core, self._adapters = core, adapters
        begin_weeder(core.metrics, policy, dry_run=configured.dry_run)
        self.weeder = Weeder(
            WeederEnvironment.create(
                policy,
                adapters.seed,
                adapters.leadership,
                pauses=decisions.pauses() if adapters.pauses is None else adapters.pauses,
                clock=core.clock,
                tasks=core.tasks,
                board=core.board,
                metrics=core.metrics,
                deletions_a_second=configured.deletions_a_second,
                dry_run=configured.dry_run,
            )
        )
        adapters.leadership.prepare(self.weeder.prepared)

    def start(self) -> None:
        """Begins to follow the services."""
        self.weeder.start()

    async def stop(self, why: str) -> None:  # noqa: ARG002 - the protocol's signature: recoveries say Stopped
        """Ends all recoveries."""
        await self.weeder.stop()

    def checks(self) -> Sequence[Check]:
        """The watch of the slices, and selectors that match nothing."""
        seed, clock = self._adapters.seed, self._core.clock

        def selectors() -> str | None:
            return "; ".join(self.weeder.selectors.troubles()) or None

        return [
            synced_check(_SLICES, seed.watch_state),
            contact_check(_SLICES, seed.watch_state, clock),
            Check("selectors", selectors, advisory=True),
        ]
