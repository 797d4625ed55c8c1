"""All metrics of the process, declared in one place; names and labels are a contract (docs/metrics.md)."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily

# Families of metrics with thousands of series, which we render as text ourselves, in slices.
#
# prometheus_client blocks the event loop for 70 to 100 ms to render 12,000 series. Here a series is one string, and
# rendering gives up the loop after each slice (docs/performance.md).


_TOTAL: Final = "_total"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Format(StrEnum):
    """The format of an exposition."""

    TEXT = "text"
    """Prometheus's own, 0.0.4 and 1.0.0."""
    OPEN_METRICS = "openmetrics"


class FamilyKind(StrEnum):
    """The type of a family."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Family:
    """The name, type and labels of a family."""

    name: str
    """The name of its samples: that of a counter ends in `_total`."""
    kind: FamilyKind
    text: str
    """What is counted or measured, with the unit: one line without a backslash."""
    labels: tuple[str, ...]

    def head(self, written: Format) -> str:
        """Renders the lines before its samples; in OpenMetrics a counter's family has no `_total`."""
        name = self.name.removesuffix(_TOTAL) if written is Format.OPEN_METRICS else self.name
        return f"# HELP {name} {self.text}\n# TYPE {name} {self.kind}\n"

    def sample(self, values: tuple[str, ...], number: float) -> str:
        """Renders one sample; `values` are `escaped` already, in the order of the labels."""
        labels = ",".join([f'{label}="{value}"' for label, value in zip(self.labels, values)])  # noqa: B905 - as many, and this runs 12,000 times a scrape
        return f"{self.name}{{{labels}}} {float(number)!r}\n"


def escaped(value: str) -> str:
    """Escapes a label value for use between quotes."""
    return value.translate(_ESCAPES)


Slices = Generator[None, None, str]
"""Rendering in slices: a generator that pauses after each slice and finally returns the complete text."""


class SlicedSource(Protocol):
    """A source of families that are rendered in slices."""

    def render(self, written: Format) -> Slices:
        """Renders its families with their current samples."""
        ...

    def families(self) -> tuple[Family, ...]:
        """Returns the families that it renders."""
        ...


_FAST: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_DETECTION: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 25.0, 60.0)
_SCALING: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


NewGauge = Callable[[], GaugeMetricFamily]
"""Creates an empty family, for the few series that are computed at each scrape."""


class Metrics:
    """The metrics of a process, in a registry of its own, so that tests do not share counts.

    Args:
        per_shoot: whether there are series for each shoot, apart from the two that alerts on stranded shoots need.
    """

    def __init__(self, *, per_shoot: bool = True) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._why_off: dict[str, set[str]] = {}
        """Who says of a feature that it is off."""
        self.sliced: list[SlicedSource] = []
        """Sources that are rendered after the registry, in slices."""
        self.per_shoot = per_shoot
        self._declare_process()
        self._declare_probing()
        self._declare_requests()
        self._declare_scaling()
        self._declare_weeding()
        self._declare_shoots()
        self._declare_overrides()

    def _declare_process(self) -> None:
        self.build_info = self._gauge(
            "dwd_build_info",
            "1; the labels say which version runs, and on which Python.",
            "version",
            "python",
        )
        self.master = self._gauge(
            "leader_election_master_status",
            "1 for the leader, 0 for a standby; name is that of the Lease.",
            "name",
        )
        self.loop_lag = self._histogram(
            "dwd_event_loop_lag_seconds",
            "Event loop lag: how many seconds late a timer fired.",
            _LAG,
        )
        self.runner_failures = self._counter(
            "dwd_runner_failures_total",
            "Runners and recoveries that failed unexpectedly and were started again.",
            "loop",
        )
        self.missing_permissions = self._gauge(
            "dwd_missing_permissions",
            "1 for each right that the configuration needs and the process lacks.",
            "verb",
            "resource",
        )
        self._feature_off = self._gauge(
            "dwd_feature_off",
            "1 for each feature that is off, because it is forbidden or lacks what it needs.",
            "feature",
        )
        self.events_lost = self._counter(
            "dwd_events_lost_total",
            "Kubernetes Events that were never written; cause: queue (too many waiting), seed (not accepted).",
            "cause",
        )
        self.config_warnings = self._gauge(
            "dwd_config_warnings", "Warnings about flags and configuration file."
        )
        self.clock_skew = self._gauge(
            "dwd_clock_skew_seconds",
            "Seconds by which the clock of this process is ahead of the Date of the seed's API server.",
        )
        self.watch_restarts = self._counter(
            "dwd_watch_restarts_total",
            "Watches of the seed that had to be opened again.",
            "kind",
            "reason",
        )
        self.watch_contact = self._gauge(
            "dwd_watch_last_contact_timestamp_seconds",
            "When the watch last heard of its server, in seconds since 1970.",
            "kind",
        )

    def feature(self, name: str, *, off: bool, by: str = "itself") -> None:
        """Says whether a feature is off, as far as `by` knows; it is shown as off while anybody says so."""
        why = self._why_off.setdefault(name, set())
        (why.add if off else why.discard)(by)
        self._feature_off.labels(name).set(1 if why else 0)

    def _declare_probing(self) -> None:
        self.probers_active = self._scraped("dwd_probers_active", "Probers running.")
        self.shoots = self._scraped("dwd_shoots", "Shoots in each state of the API.", "state")
        self.probes = self._counter(
            "dwd_probes_total", "Probes made, by result.", "probe", "result"
        )
        self.probe_duration = self._histogram(
            "dwd_probe_duration_seconds", "How many seconds a probe took.", _FAST, "probe"
        )
        self.probe_lag = self._histogram(
            "dwd_probe_lag_seconds", "Seconds from when a probe was due to its start.", _LAG
        )
        self.probes_postponed = self._counter(
            "dwd_probes_postponed_total",
            "Probes that were postponed, as answers had used up their shoot's share of time.",
        )
        self.detection = self._histogram(
            "dwd_detection_seconds",
            "Seconds from when an outage could be known to the first scale-down request.",
            _DETECTION,
        )

    def _declare_requests(self) -> None:
        self.requests = self._counter(
            "rest_client_requests_total",
            "Requests to API servers; code is <error> without an answer.",
            "host",
            "method",
            "code",
        )
        self.request_duration = self._histogram(
            "rest_client_request_duration_seconds",
            "How many seconds requests to API servers took.",
            _FAST,
            "host",
            "verb",
        )
        self.throttled = self._counter(
            "dwd_throttled_requests_total", "Answers of API servers with status 429.", "host"
        )
        self.auth_decisions = self._counter(
            "dwd_auth_decisions_total",
            "Calls of the API, by the decision about the caller.",
            "decision",
        )
        self.credentials_rejected = self._counter(
            "dwd_credentials_rejected_total", "Kubeconfigs that were refused.", "reason"
        )
        self.limit_hits = self._counter(
            "dwd_response_limit_hits_total",
            "Answers of API servers that were cut off, by the limit that they hit.",
            "limit",
        )

    def _declare_scaling(self) -> None:
        self.scale_operations = self._counter(
            "dwd_scale_operations_total",
            "Dependents that were to be scaled, by result.",
            "direction",
            "resource",
            "result",
            "trigger",
        )
        self.scale_duration = self._histogram(
            "dwd_scale_duration_seconds",
            "How many seconds a scaling run over all dependents of a shoot took.",
            _SCALING,
            "direction",
        )
        self.dependents_unavailable = self._gauge(
            "dwd_dependents_unavailable",
            "1 for a configured dependent whose kind the seed does not serve or the process may not list, else 0.",
            "resource",
        )
        self.meltdowns = self._counter(
            "dwd_meltdowns_total", "Times that the protection of a shoot began."
        )
        self.abandoned = self._counter(
            "dwd_dependents_abandoned_total",
            "Dependents that were left scaled down because probing ended.",
        )

    def _declare_weeding(self) -> None:
        self.weeder_recoveries = self._counter(
            "dwd_weeder_recoveries_total",
            "Recoveries begun: a service was ready again, and its dependants were checked.",
            "service",
        )
        self.weeder_deletions = self._counter(
            "dwd_weeder_pod_deletions_total",
            "Pods that were to be deleted, by result.",
            "service",
            "result",
        )
        self.weeder_watches = self._gauge(
            "dwd_weeder_watches_active", "Watches of pods that are open, one for each recovery."
        )
        self.weeder_selector_matches = self._gauge(
            "dwd_weeder_selector_matches",
            "Whether the selector matches a pod in any namespace: 1 or 0; checked hourly.",
            "service",
            "selector",
        )

    def _declare_shoots(self) -> None:
        """Declares the families that are computed from the shoots at each scrape (`app.prober.status`)."""
        self.shoot_state = Family(
            "dwd_shoot_state",
            FamilyKind.GAUGE,
            "1 for the state that the shoot is in; the others are absent.",
            ("namespace", "state"),
        )
        self.shoot_probe_failures = Family(
            "dwd_shoot_probe_failures_total",
            FamilyKind.COUNTER,
            "Probes of the shoot that did not succeed.",
            ("namespace", "probe"),
        )
        self.shoot_scale_attempts = Family(
            "dwd_shoot_scale_attempts_total",
            FamilyKind.COUNTER,
            "Scaling runs over the shoot's dependents that were begun.",
            ("namespace", "direction"),
        )
        self.shoot_leases = Family(
            "dwd_shoot_node_leases",
            FamilyKind.GAUGE,
            "Node leases of the shoot at its last reading; excluded: those of nodes that do not count.",
            ("namespace", "state"),
        )
        self.shoot_at_zero = Family(
            "dwd_shoot_dependents_at_zero",
            FamilyKind.GAUGE,
            "Configured dependents with spec.replicas 0, whatever the annotations; absent when none.",
            ("namespace",),
        )
        self.shoot_last_probe = Family(
            "dwd_shoot_last_probe_timestamp_seconds",
            FamilyKind.GAUGE,
            "When the last probe of the shoot ended, in seconds since 1970.",
            ("namespace",),
        )
        self.shoot_protection_start = Family(
            "dwd_shoot_protection_start_timestamp_seconds",
            FamilyKind.GAUGE,
            "When the active protection of the shoot began, in seconds since 1970; absent while none is.",
            ("namespace",),
        )
        self.endpoint_success = Family(
            "dwd_endpoint_probe_success",
            FamilyKind.GAUGE,
            "Whether the endpoint probe has succeeded on all targets with a result: 1 or 0; absent without a result.",
            ("namespace", "name"),
        )

    def _declare_overrides(self) -> None:
        self.overrides_active = self._scraped(
            "dwd_overrides_active",
            "Overrides in force; invalid: Pauses and ScaleRequests that cannot be decoded.",
            "kind",
        )
        self.override_expiry = self._scraped(
            "dwd_override_expiry_timestamp_seconds",
            "When an override ends by itself, in seconds since 1970; namespace _all: that of all shoots.",
            "namespace",
            "kind",
        )

    def _scraped(self, name: str, text: str, *labels: str) -> NewGauge:
        return partial(GaugeMetricFamily, name, text, labels=labels)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)
