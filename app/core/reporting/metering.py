"""Counters and histograms that are made from notices; `app.prober.status` has what is computed at each scrape."""

import collections
from collections.abc import Container
from dataclasses import dataclass

from app.core.metrics import Metrics
from app.core.model.endpoints import ProbeOutcome
from app.core.model.policy import Loop, ProberPolicy
from app.core.model.probing import ProbeResult, RequestKind
from app.core.model.workloads import Direction
from app.core.reporting import notices

Series = tuple[str, str]
"""A namespace and the value of one more label."""


class ShootCounts:
    """Counters with a series for each shoot; those of shoots that are gone are dropped."""

    def __init__(self) -> None:
        self.probe_failures: collections.Counter[Series] = collections.Counter()
        self.scale_attempts: collections.Counter[Series] = collections.Counter()

    def keep(self, namespaces: Container[str]) -> None:
        """Drops the counts of all other namespaces."""
        for counts in (self.probe_failures, self.scale_attempts):
            for series in [each for each in counts if each[0] not in namespaces]:
                del counts[series]


@dataclass(slots=True)
class _Descent:
    """A scale-down that is under way."""

    looked: bool = False
    """Whether the notice of the probe that started it has arrived: it follows that of the start."""
    known_since: float | None = None
    """The instant at which the outage could be known."""
    first_request: float | None = None


class Metering:
    """Counts notices; `note` is a subscriber of the bus.

    The delay of detection is that from the instant at which an outage could be known to the first scale-down request.
    An outage counts once: if a HOLD ends the first scale-down, a second one of the same outage is not measured.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._descents: dict[str, _Descent] = {}
        self._detected: set[str] = set()
        """The shoots whose outage has been measured."""
        self.shoots = ShootCounts()

    def note(self, notice: notices.Notice) -> None:
        """Counts `notice`."""
        metrics = self._metrics
        match notice:
            case notices.Probed():
                self._count_probe(notice)
            case notices.ScalingRunBegan():
                self._run_began(notice)
            case notices.ScalingRunEnded():
                self._run_ended(notice)
            case notices.ResourceScaled():
                self._count_resource(notice)
            case notices.ProtectionBegan():
                metrics.meltdowns.inc()
            case notices.ProtectionAbandoned():
                metrics.abandoned.inc()
            case notices.RunnerFailed() | notices.EndpointWorkerFailed():
                metrics.runner_failures.labels(Loop.PROBER).inc()
            case notices.RecoveryFailed():
                metrics.runner_failures.labels(Loop.WEEDER).inc()
            case notices.PodJudged():
                metrics.weeder_deletions.labels(notice.service, notice.result).inc()
            case _:
                return

    def keep(self, namespaces: Container[str]) -> None:
        """Drops the counts of all other namespaces."""
        self.shoots.keep(namespaces)
        self._detected = {each for each in self._detected if each in namespaces}
        self._descents = {k: v for k, v in self._descents.items() if k in namespaces}

    def _count_probe(self, notice: notices.Probed) -> None:
        namespace = notice.namespace
        for probe, result in notice.probes.items():
            self._metrics.probes.labels(probe, result).inc()
            if result != ProbeResult.SUCCESS and self._metrics.per_shoot:
                self.shoots.probe_failures[namespace, probe] += 1
        for probe, seconds in notice.durations.items():
            self._metrics.probe_duration.labels(probe).observe(seconds)
        self._metrics.probe_lag.observe(notice.lag)
        if notice.postponed:
            self._metrics.probes_postponed.inc()
        if notice.failed:
            return
        if notice.known_since is None:  # its leases are below the limit: no outage
            self._detected.discard(namespace)
        descent = self._descents.get(namespace)
        if descent is not None and not descent.looked:
            descent.looked, descent.known_since = True, notice.known_since

    def _run_began(self, notice: notices.ScalingRunBegan) -> None:
        if notice.direction is Direction.DOWN:
            self._descents[notice.namespace] = _Descent()
        if self._metrics.per_shoot:
            self.shoots.scale_attempts[notice.namespace, notice.direction] += 1

    def _run_ended(self, notice: notices.ScalingRunEnded) -> None:
        self._metrics.scale_duration.labels(notice.direction).observe(notice.seconds)
        if notice.direction is not Direction.DOWN:
            return
        namespace = notice.namespace
        descent = self._descents.pop(namespace, _Descent())
        known, requested = descent.known_since, descent.first_request
        if known is not None and requested is not None and namespace not in self._detected:
            self._detected.add(namespace)
            self._metrics.detection.observe(max(requested - known, 0.0))

    def _count_resource(self, notice: notices.ResourceScaled) -> None:
        direction, resource = notice.direction, str(notice.resource)
        labels = direction, resource, notice.result, notice.trigger
        self._metrics.scale_operations.labels(*labels).inc()
        at, descent = notice.requested_at, self._descents.get(notice.namespace)
        if direction is Direction.DOWN and at is not None and descent is not None:
            first = descent.first_request
            descent.first_request = at if first is None else min(first, at)


class EndpointMetering:
    """Counts runs of endpoint probes; there may be hundreds a second, so each costs a few microseconds.

    Args:
        metrics: the counters; `per_shoot` says whether to count for each shoot, too.
        shoots: the counts by shoot (`Metering.shoots`), which drops shoots that are gone.
    """

    def __init__(self, metrics: Metrics, shoots: ShootCounts) -> None:
        self._shoots = shoots if metrics.per_shoot else None
        self._runs = {
            outcome: metrics.probes.labels(RequestKind.ENDPOINT, ProbeResult(outcome.lower()))
            for outcome in ProbeOutcome
        }
        self._seconds = metrics.probe_duration.labels(RequestKind.ENDPOINT)

    def ran(self, namespace: str, outcome: ProbeOutcome, seconds: float) -> None:
        """Counts a run on a target of this control plane, which took so many seconds."""
        self._runs[outcome].inc()
        self._seconds.observe(seconds)
        if outcome is not ProbeOutcome.SUCCESS and self._shoots is not None:
            self._shoots.probe_failures[namespace, RequestKind.ENDPOINT] += 1


# The values of the label `probe` that the configuration leads to.


LEASE_MODE = (RequestKind.API_SERVER, RequestKind.LEASE)
ENDPOINT_MODE = (RequestKind.INTERNAL, RequestKind.EXTERNAL)


def of_probes(policy: ProberPolicy) -> tuple[RequestKind, ...]:
    """Returns the kinds of request that one probe consists of."""
    return LEASE_MODE if not policy.endpoint_mode else ENDPOINT_MODE


def of_shoots(policy: ProberPolicy) -> tuple[RequestKind, ...]:
    """Returns the kinds of request that are sent for each shoot, including endpoint probes."""
    return (*of_probes(policy), *((RequestKind.ENDPOINT,) if policy.endpoint_probes else ()))
