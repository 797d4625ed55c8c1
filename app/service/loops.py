"""What works in the service: overrides, prober and weeder, each with its start, its stop, its checks and metrics."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

from app.api.context import ProberView
from app.api.health import Check, contact_check, listed, seed_checks, synced_check
from app.core.config.settings import ProberOptions, WeederOptions, of_loop
from app.core.metrics import Metrics
from app.core.model.endpoints import CachedResult, ProbeType, Waiting
from app.core.model.policy import Loop, ProberPolicy
from app.core.model.probing import ProbeResult
from app.core.model.scaling_runs import StepResult, Trigger
from app.core.model.weeding import DeletionResult, WeederPolicy
from app.core.model.workloads import Direction, ResourceRef
from app.core.overrides.cache import OverrideCache, OverrideGauges
from app.core.overrides.reconciler import OverrideReconciler
from app.core.overrides.service import OverrideService
from app.core.ports import Watched
from app.core.reporting import metering
from app.core.reporting.history import History
from app.core.reporting.metering import EndpointMetering, Metering
from app.prober.controller import Prober
from app.prober.endpoints.worker import EndpointResultView
from app.prober.environment import RUNS_TOGETHER, TOGETHER, EndpointAdapters, ProberEnvironment
from app.prober.status import ShootSeries, ShootStatus, ShootSummary, StateCounts
from app.service.parts import Cluster, Configured, Core, ProberAdapters, WeederAdapters
from app.service.selfview import MeltdownScan
from app.weeder.controller import WeederRunner
from app.weeder.environment import WeederEnvironment

# Overrides: both loops read them, the API of any replica writes them, and the prober's leader maintains them (rules 7).


class OverrideFeature:
    """Builds and runs what a process needs for overrides.

    Args:
        core: Infrastructure that all parts share.
        cluster: Has the Pauses and ScaleRequests.
        dry_run: Refuse all writes.
    """

    def __init__(self, core: Core, cluster: Cluster, *, dry_run: bool) -> None:
        self._core, self._pauses, self._home = core, cluster.pauses, cluster.home
        self.identity = cluster.identity
        """Of this process, which ScaleRequests name as the one that carries them out."""
        self._reconciler: OverrideReconciler | None = None
        pauses, requests = cluster.pauses, cluster.requests
        self.view = OverrideCache(pauses, requests, cluster.home, core.clock)
        self.override_service = OverrideService(
            pauses, requests, self.view, cluster.home, core.clock, core.chance, dry_run=dry_run
        )

    def maintain(self, adapters: ProberAdapters, ignored: Callable[[], int]) -> None:
        """Report and maintain the Pauses, and show gauges, while this process leads the prober.

        Args:
            adapters: Those of the prober, which runs in this process.
            ignored: Returns the number of resources with ignore-scaling, for the gauge.
        """
        leadership, seed = adapters.leadership, adapters.seed

        def clusters() -> Collection[str] | None:
            """Names of all Clusters; None before they were listed once."""
            return seed.clusters().keys() if seed.watch_state(Watched.CLUSTERS).synced else None

        self._reconciler = OverrideReconciler(
            self.view,
            self.override_service,
            self._pauses,
            self._core.notice_bus,
            self._core.clock,
            home=self._home,
            leading=lambda: leadership.leading,
            clusters=clusters,
        )
        leadership.subscribe(self._reconciler.wake)
        OverrideGauges(
            self._core.metrics,
            self.view,
            self._core.clock,
            leading=lambda: leadership.leading,
            concerns_a_shoot=self._reconciler.concerns_a_shoot,
            ignored=ignored,
        )

    def start(self) -> None:
        """Start the tasks that follow and maintain the overrides."""
        tasks = self._core.tasks
        _ = tasks.shared(self.view.run, "overrides")
        if self._reconciler is not None:
            _ = tasks.shared(self._reconciler.run, "maintenance of the overrides")

    def checks(self) -> list[Check]:
        """Readiness checks: one fails until the overrides have been read, or count as none; one shows troubles."""
        cache = self.view
        return [
            Check("overrides-synced", lambda: None if cache.synced else "not listed yet"),
            Check("overrides", lambda: _troubles(cache), advisory=True),
        ]


# Objects that cannot be decoded and are named by the check; the log has the others.
_NAMED: Final = 5


def _troubles(cache: OverrideCache) -> str | None:
    troubles = list(cache.troubles().values())
    unreadable = sorted(cache.undecodable())
    if unreadable:
        more = f" and {len(unreadable) - _NAMED} more" if len(unreadable) > _NAMED else ""
        count = "1 object" if len(unreadable) == 1 else f"{len(unreadable)} objects"
        troubles.append(f"{count} cannot be decoded: {'; '.join(unreadable[:_NAMED])}{more}")
    return "; ".join(troubles) or None


# The results of endpoint probes as metrics show them; pure.


def succeeded(views: Iterable[EndpointResultView]) -> dict[str, bool]:
    """Whether all targets with a result succeed, by the name of the probe; a probe without any result is left out.

    Only counted results matter, with one exception: a container that is not running fails its readiness probe, though
    that counts nowhere else.
    """
    found: dict[str, bool] = {}
    for each in views:
        stopped = each.waiting is Waiting.NOT_RUNNING and each.type is ProbeType.READINESS
        if each.counted or stopped:
            well = each.counted and each.result is CachedResult.SUCCESS
            found[each.name] = found.get(each.name, True) and well
    return found


# Counters have to exist with the value 0 before they are first incremented: `rate` and `increase` do not see the first
# increment of a series that appears with it (docs/metrics.md).
#
# Here are the counters whose labels come from the configuration. Other modules initialise their own: the connections
# throttled requests and limits, the shoots' connector refused kubeconfigs, the API decisions about callers and the
# stream of events, their meter the runs of endpoint probes; counters for each shoot come into being at a scrape
# (`app.prober.status`).


def begin_prober(metrics: Metrics, policy: ProberPolicy, *, dry_run: bool) -> None:
    """Initialise the prober's counters for the dependents of `policy`."""
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
    """Initialise the weeder's counters for the services of `policy`."""
    metrics.runner_failures.labels(Loop.WEEDER)
    results = [each for each in DeletionResult if dry_run or each is not DeletionResult.DRY_RUN]
    for service in policy.services:
        metrics.weeder_recoveries.labels(service)
        for result in results:
            metrics.weeder_deletions.labels(service, result)


_SLICES: Final = "endpointslices"


class ProberLoop:
    """The prober with its metrics of shoots and the scan for forgotten meltdown keys."""

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
        settings = configured.settings
        begin_prober(core.metrics, policy, dry_run=settings.dry_run)
        environment = ProberEnvironment(
            policy=policy,
            seed=adapters.seed,
            connector=adapters.connector,
            leadership=adapters.leadership,
            clock=core.clock,
            tasks=core.tasks,
            notice_bus=core.notice_bus,
            chance=core.chance,
            dry_run=settings.dry_run,
            overrides=decisions.view,
            override_service=decisions.override_service,
            identity=decisions.identity,
            endpoints=self._endpoints(),
            together=TOGETHER,
            runs_together=RUNS_TOGETHER,
        )
        workers = of_loop(settings, ProberOptions).concurrent_reconciles
        self.prober = Prober(environment, workers=workers)
        adapters.leadership.prepare(self.prober.prepared)
        self.scan: MeltdownScan | None = None
        if adapters.scan is not None:
            self.scan = MeltdownScan(adapters.scan, core.clock, core.metrics)
        decisions.maintain(adapters, self.prober.registry.ignored)
        self._overrides = decisions.view

    def _endpoints(self) -> EndpointAdapters | None:
        """The adapters of endpoint probes, with a meter that counts their runs; None if none are configured."""
        adapters = self._adapters.endpoints
        if adapters is None:
            return None
        return replace(
            adapters, ran=EndpointMetering(self._core.metrics, self._metering.shoots).ran
        )

    def show(self) -> None:
        """Add the metrics of shoots and dependents to the registry."""

        def is_unavailable(resource: str) -> bool:
            return resource in map(str, self._unavailable())

        def summaries() -> Sequence[ShootSummary]:
            """None on a standby, so that two replicas do not count the same shoot twice."""
            return registry.summaries() if leadership.leading else ()

        def facts(namespace: str) -> ShootStatus | None:
            """Without the text for people: conditions and messages of a thousand shoots take 20 ms to render."""
            runner = registry.runner(namespace)
            return registry.status(namespace) if runner is None else runner.status_facts()

        registry, leadership = self.prober.registry, self._adapters.leadership
        metrics = self._core.metrics
        metrics.registry.register(StateCounts(metrics, summaries))
        series = ShootSeries(
            metrics,
            self._metering,
            summaries,
            facts,
            probes=metering.of_shoots(self._policy),
            endpoints=lambda namespace: succeeded(registry.endpoint_views(namespace)),
        )
        metrics.sliced.append(series)
        for resource in {str(each.ref) for each in self._policy.dependents}:
            unavailable = metrics.dependents_unavailable.labels(resource)
            unavailable.set_function(partial(is_unavailable, resource))

    def _unavailable(self) -> Mapping[ResourceRef, str]:
        """Dependents whose kind is not served or may not be listed, so that each scaling run fails, with the reason."""
        refs = (each.ref for each in self._policy.dependents)
        return {ref: why for ref in refs if (why := self._adapters.seed.unavailable(ref))}

    def uid_of(self, namespace: str, ref: ResourceRef) -> str | None:
        """The uid of a configured dependent; None for any other resource, and for one that does not exist."""
        if all(each.ref != ref for each in self._policy.dependents):
            return None
        view = self._adapters.seed.dependent(namespace, ref)
        return None if view is None else view.uid

    def view(self, history: History) -> ProberView:
        """The prober as the API sees it."""
        prober = self.prober
        return ProberView(
            prober.registry,
            history,
            self._policy,
            self._overrides,
            prober.scaling_runs,
            prober.dependents,
            endpoints=prober.registry.endpoints,
        )

    def follow_endpoints(self, changed: Callable[[str], None]) -> None:
        """Have `changed` called with a namespace when results of endpoint probes there change."""
        if self.prober.registry.endpoints is not None:
            self.prober.registry.endpoints.subscribe(changed)

    def start(self) -> None:
        if self.scan is not None:
            _ = self._core.tasks.once(self.scan.run, "meltdown scan")
        self.prober.start()

    async def stop(self, why: str) -> None:
        await self.prober.stop(why)

    def checks(self) -> Sequence[Check]:
        """Checks of each watch of the seed, and an advisory one of dependents that cannot be scaled."""

        def unavailable() -> str | None:
            found = [
                f"{ref} fails in each scaling run: {why}"
                for ref, why in self._unavailable().items()
            ]
            return listed(found)

        watches = seed_checks(self._adapters.seed, self._core.clock)
        return [*watches, Check("dependents-available", unavailable, advisory=True)]


class WeederLoop:
    """The weeder, as the service runs it."""

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
        settings = configured.settings
        begin_weeder(core.metrics, policy, dry_run=settings.dry_run)
        self.weeder = WeederRunner(
            WeederEnvironment(
                policy,
                adapters.seed,
                adapters.leadership,
                pauses=decisions.view,
                clock=core.clock,
                tasks=core.tasks,
                notice_bus=core.notice_bus,
                metrics=core.metrics,
                deletions_a_second=of_loop(settings, WeederOptions).max_deletions_per_second,
                dry_run=settings.dry_run,
            )
        )
        adapters.leadership.prepare(self.weeder.prepared)

    def start(self) -> None:
        self.weeder.start()

    async def stop(self, why: str) -> None:  # noqa: ARG002 - the protocol's signature: recoveries say Stopped
        await self.weeder.stop()

    def checks(self) -> Sequence[Check]:
        """Checks of the watch of EndpointSlices, and an advisory one of selectors that match no pod."""
        seed, clock = self._adapters.seed, self._core.clock

        def selectors() -> str | None:
            return "; ".join(self.weeder.selectors.troubles()) or None

        return [
            synced_check(_SLICES, seed.watch_state),
            contact_check(_SLICES, seed.watch_state, clock),
            Check("selectors", selectors, advisory=True),
        ]


RunningLoop = ProberLoop | WeederLoop
"""The prober or the weeder, as the service runs it."""
