"""Counters that begin at 0: of one that appears with its first count no query sees that it has grown (docs/metrics.md).

Here are those whose labels the configuration names.  The others begin where they are counted: throttled requests and
limits with each `Wire`, refused kubeconfigs with the connector of the shoots, decisions about callers and the stream of
events with theirs, runs of endpoint probes with their meter, and what is counted for each shoot at a scrape
(`app.core.reporting.gauges`).
"""

from itertools import product

from app.core.model.loops import Loop
from app.core.model.operations import Trigger
from app.core.model.policy import ProberPolicy
from app.core.model.probing import ProbeResult
from app.core.model.weeding import Result as WeedResult
from app.core.model.weeding import WeederPolicy
from app.core.model.workloads import Direction
from app.core.reporting import probewords
from app.core.metrics import Metrics
from app.prober.scaling_context import Result as ScaleResult


def begin_prober(metrics: Metrics, policy: ProberPolicy, *, dry_run: bool) -> None:
    """What the prober will count, with these dependents."""
    metrics.runner_failures.labels(Loop.PROBER)
    for probe, outcome in product(probewords.of_looks(policy), ProbeResult):
        metrics.probes.labels(probe, outcome)
    resources = [str(each.ref) for each in policy.dependents]
    results = [each for each in ScaleResult if dry_run or each is not ScaleResult.DRY_RUN]
    for direction in Direction:
        metrics.scale_duration.labels(direction)
        for resource, result, trigger in product(resources, results, Trigger):
            metrics.scale_operations.labels(direction, resource, result, trigger)


def begin_weeder(metrics: Metrics, policy: WeederPolicy, *, dry_run: bool) -> None:
    """What the weeder will count, with these services."""
    metrics.runner_failures.labels(Loop.WEEDER)
    results = [each for each in WeedResult if dry_run or each is not WeedResult.DRY_RUN]
    for service in policy.services:
        metrics.weeder_recoveries.labels(service)
        for result in results:
            metrics.weeder_deletions.labels(service, result)
