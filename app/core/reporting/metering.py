"""Counters and histograms that are made from notices; `gauges` has what is computed at each scrape."""

import collections
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from prometheus_client import Counter, Histogram

from app.core.metrics import Metrics
from app.core.model.endpoints import ProbeOutcome
from app.core.model.policy import Loop, ProberPolicy
from app.core.model.probing import NoticeKind, ProbeResult, RequestKind
from app.core.model.workloads import Direction
from app.core.reporting.notices import Notice

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
    """A scale-down that is under way, for the delay from outage to first request."""

    looked: bool = False
    """Whether the notice of the probe that started it has arrived: it follows that of the start."""
    known_since: float | None = None
    first_request: float | None = None

    def requested(self, at: float) -> None:
        self.first_request = at if self.first_request is None else min(self.first_request, at)


class Detection:
    """Measures the delay from the instant at which an outage could be known to the first scale-down request.

    An outage counts once: if a HOLD ends the first scale-down, a second one of the same outage is not measured.
    """

    def __init__(self) -> None:
        self._descents: dict[str, _Descent] = {}
        self._detected: set[str] = set()

    def began(self, namespace: str) -> None:
        """Records that a scale-down begins."""
        self._descents[namespace] = _Descent()

    def record_reading(self, namespace: str, known_since: float | None) -> None:
        """Records a reading; `known_since` is None if its leases are below the limit, so there is no outage."""
        if known_since is None:
            self._detected.discard(namespace)
        descent = self._descents.get(namespace)
        if descent is not None and not descent.looked:
            descent.looked, descent.known_since = True, known_since

    def requested(self, namespace: str, at: float) -> None:
        """Records when a resource of the run was first written."""
        if (descent := self._descents.get(namespace)) is not None:
            descent.requested(at)

    def ended(self, namespace: str) -> float | None:
        """Records the end of the run; returns the delay in seconds if it reacted to a new outage."""
        descent = self._descents.pop(namespace, None)
        if descent is None or descent.known_since is None or descent.first_request is None:
            return None
        if namespace in self._detected:
            return None
        self._detected.add(namespace)
        return max(descent.first_request - descent.known_since, 0.0)

    def keep(self, namespaces: Container[str]) -> None:
        """Drops all other namespaces."""
        self._detected = {each for each in self._detected if each in namespaces}
        self._descents = {k: v for k, v in self._descents.items() if k in namespaces}


class Metering:
    """Counts notices; `note` is a subscriber of the bus."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._detection = Detection()
        self._probes: dict[Series, Counter] = {}
        self._durations: dict[str, Histogram] = {}
        self.shoots = ShootCounts()
        self._by_reason: Mapping[str, Callable[[Notice], None]] = {
            "MeltdownProtectionStarted": lambda _: metrics.meltdowns.inc(),
            "ProtectionAbandoned": lambda _: metrics.abandoned.inc(),
            "RunnerFailed": self._runner_failed,
            "PodWeeded": self._pod,
            "PodNotWeeded": self._pod,
            "WeedingCapped": self._pod,
        }

    def note(self, notice: Notice) -> None:
        """Counts `notice`."""
        match notice.kind:
            case NoticeKind.LOOK:
                self._count_probe(notice)
            case NoticeKind.SCALE if "flow" in notice.numbers:
                self._count_run(notice)
            case NoticeKind.SCALE if "result" in notice.numbers:
                self._resource(notice)
            case NoticeKind.LIFECYCLE | NoticeKind.WEED if notice.reason in self._by_reason:
                self._by_reason[notice.reason](notice)
            case (
                NoticeKind.SCALE
                | NoticeKind.LIFECYCLE
                | NoticeKind.WEED
                | NoticeKind.VERDICT
                | NoticeKind.OVERRIDE
            ):
                return
            case _:
                assert_never(notice.kind)

    def keep(self, namespaces: Container[str]) -> None:
        """Drops the counts of all other namespaces."""
        self.shoots.keep(namespaces)
        self._detection.keep(namespaces)

    def _count_probe(self, notice: Notice) -> None:
        numbers = notice.numbers
        for probe, result in numbers["probes"].items():
            self._probe_counter(probe, result).inc()
            if result != ProbeResult.SUCCESS and self._metrics.per_shoot:
                self.shoots.probe_failures[notice.namespace, probe] += 1
        for probe, seconds in numbers["durations"].items():
            self._probe_durations(probe).observe(seconds)
        self._metrics.probe_lag.observe(numbers["lag"])
        if numbers.get("postponed"):
            self._metrics.probes_postponed.inc()
        if not numbers["failed"]:
            self._detection.record_reading(notice.namespace, numbers["known_since"])

    def _probe_counter(self, probe: str, result: str) -> Counter:
        """Cached, because there are hundreds of probes a second."""
        found = self._probes.get((probe, result))
        if found is None:
            found = self._probes[probe, result] = self._metrics.probes.labels(probe, result)
        return found

    def _probe_durations(self, probe: str) -> Histogram:
        found = self._durations.get(probe)
        if found is None:
            found = self._durations[probe] = self._metrics.probe_duration.labels(probe)
        return found

    def _count_run(self, notice: Notice) -> None:
        direction, namespace = notice.numbers["direction"], notice.namespace
        if notice.numbers["flow"] == "ended":
            self._metrics.scale_duration.labels(direction).observe(notice.numbers["seconds"])
            delay = self._detection.ended(namespace) if direction == Direction.DOWN else None
            if delay is not None:
                self._metrics.detection.observe(delay)
            return
        if direction == Direction.DOWN:
            self._detection.began(namespace)
        if self._metrics.per_shoot:
            self.shoots.scale_attempts[namespace, direction] += 1

    def _runner_failed(self, notice: Notice) -> None:
        self._metrics.runner_failures.labels(notice.numbers.get("loop", Loop.PROBER)).inc()

    def _pod(self, notice: Notice) -> None:
        """Counts what became of a pod that the weeder wanted to delete."""
        service, result = notice.numbers["service"], notice.numbers["result"]
        self._metrics.weeder_deletions.labels(service, result).inc()

    def _resource(self, notice: Notice) -> None:
        numbers, resource = notice.numbers, str(notice.resource)
        direction, result, trigger = numbers["direction"], numbers["result"], numbers["trigger"]
        self._metrics.scale_operations.labels(direction, resource, result, trigger).inc()
        if direction == Direction.DOWN and numbers.get("requested_at") is not None:
            self._detection.requested(notice.namespace, numbers["requested_at"])


# Counters of endpoint probes; there may be hundreds of runs a second, so each costs a few microseconds.


_RESULTS: Final = {
    ProbeOutcome.SUCCESS: ProbeResult.SUCCESS,
    ProbeOutcome.FAILURE: ProbeResult.FAILURE,
    ProbeOutcome.ERROR: ProbeResult.ERROR,
}


class EndpointMetering:
    """Counts runs of endpoint probes (an `EndpointMeter`).

    Args:
        metrics: the counters; `per_shoot` says whether to count for each shoot, too.
        shoots: the counts by shoot (`Metering.shoots`), which drops shoots that are gone.
    """

    def __init__(self, metrics: Metrics, shoots: ShootCounts) -> None:
        self._shoots = shoots if metrics.per_shoot else None
        self._runs = {
            outcome: metrics.probes.labels(RequestKind.ENDPOINT, result)
            for outcome, result in _RESULTS.items()
        }
        self._seconds = metrics.probe_duration.labels(RequestKind.ENDPOINT)

    def ran(self, namespace: str, name: str, outcome: ProbeOutcome, seconds: float) -> None:  # noqa: ARG002 - the protocol's signature: no series has the name of a probe and counts
        """Counts a run of the probe `name` on a target of this control plane, which took so many seconds."""
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
