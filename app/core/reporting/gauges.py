"""Metrics that are computed from the shoots at each scrape, so that none outlives its shoot.

Families with a series for each shoot are rendered in slices, to keep the event loop free; the few others are a
collector of the registry.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.core.metrics import Family, Format, Metrics, Slices, escaped
from app.core.model.probing import LeaseState, RequestKind, ShootState, Tally
from app.core.model.workloads import Direction
from app.core.reporting import metering
from app.core.reporting.metering import Metering

# Shoots that are rendered before the event loop gets a turn: 1 to 2 ms.
_SLICE: Final = 50
_EXCLUDED: Final = "excluded"
Drawn = tuple[Family, tuple[str, ...], float]
"""One sample: its family, label values and value."""


class Summarized(Protocol):
    """What is needed of a shoot to count it by state."""

    @property
    def namespace(self) -> str:
        """The control-plane namespace."""
        ...

    @property
    def state(self) -> ShootState:
        """The state of the shoot."""
        ...


class ShootSample(Protocol):
    """The values of one shoot that a scrape shows."""

    @property
    def tally(self) -> Tally | None:
        """The counts of the last probe that ended in a reading."""
        ...

    @property
    def last_probe(self) -> float | None:
        """When the last probe ended."""
        ...

    @property
    def protected_since(self) -> float | None:
        """When the active protection began."""
        ...

    @property
    def at_zero(self) -> tuple[str, ...]:
        """The configured dependents that are at 0."""
        ...


class ShootSource(Protocol):
    """All shoots of the seed, probed or not; none on a standby, so that two replicas do not report the same shoot."""

    def summaries(self) -> Sequence[Summarized]:
        """Returns a summary of each shoot; cheap even for a thousand."""
        ...

    def facts(self, namespace: str) -> ShootSample | None:
        """Returns the current values of one shoot; None if it has gone meanwhile."""
        ...


def _without(_: str) -> Mapping[str, bool]:
    """The results of endpoint probes if none is configured."""
    return {}


@dataclass(frozen=True, slots=True)
class Probing:
    """Which probes are shown for each shoot."""

    words: Sequence[RequestKind] = metering.LEASE_MODE
    """The kinds of request that the configuration leads to (`metering.of_shoots`)."""
    endpoints: Callable[[str], Mapping[str, bool]] = _without
    """Returns whether each endpoint probe of a control plane has succeeded, by name, without those that have no result
    yet."""


def show_shoots(
    metrics: Metrics, metering: Metering, shoots: ShootSource, probing: Probing | None = None
) -> None:
    """Adds the metrics of the shoots to each scrape.

    Args:
        metrics: declares the families, and says whether there are series for each shoot.
        metering: the counters by shoot; those of shoots that are gone are dropped at a scrape.
        shoots: the shoots.
        probing: which probes there are; None stands for those of lease mode.
    """
    metrics.registry.register(StateCounts(metrics, shoots.summaries))
    metrics.sliced.append(ShootSeries(metrics, metering, shoots, probing or Probing()))


class StateCounts(Collector):
    """The number of shoots by state."""

    def __init__(self, metrics: Metrics, summaries: Callable[[], Sequence[Summarized]]) -> None:
        self._metrics, self._summaries = metrics, summaries

    def describe(self) -> Iterable[Metric]:
        """Returns the families without samples: the names that this collector uses."""
        return self._families(())

    def collect(self) -> Iterator[Metric]:
        """Yields the families with their current samples."""
        yield from self._families(self._summaries())

    def _families(self, shoots: Sequence[Summarized]) -> Iterator[GaugeMetricFamily]:
        found = Counter(each.state for each in shoots)
        active, states = self._metrics.probers_active(), self._metrics.shoots()
        active.add_metric((), len(shoots) - found[ShootState.NOT_PROBED])
        for state in ShootState:
            states.add_metric((state,), found[state])
        yield from (active, states)


class ShootSeries:
    """A dozen series for each shoot, or with `--per-shoot-metrics=false` the two that alerts need."""

    def __init__(
        self, metrics: Metrics, metering: Metering, shoots: ShootSource, probing: Probing
    ) -> None:
        self._metrics, self._metering, self._shoots = metrics, metering, shoots
        self._probing = probing

    def families(self) -> tuple[Family, ...]:
        """Returns the families that it renders."""
        metrics = self._metrics
        stranded = (metrics.shoot_at_zero, metrics.shoot_protection_start)
        if not metrics.per_shoot:
            return stranded
        return (
            *stranded,
            metrics.shoot_state,
            metrics.shoot_last_probe,
            metrics.shoot_leases,
            metrics.shoot_probe_failures,
            metrics.shoot_scale_attempts,
            metrics.endpoint_success,
        )

    def render(self, written: Format) -> Slices:
        """Renders its families with samples, in slices; the values of a shoot are read when its slice is rendered."""
        lines: dict[str, list[str]] = {each.name: [each.head(written)] for each in self.families()}
        shoots = self._shoots.summaries()
        self._metering.keep({each.namespace for each in shoots})
        yield
        for begin in range(0, len(shoots), _SLICE):
            for shoot in shoots[begin : begin + _SLICE]:
                self._write(shoot, lines)
            yield
        return "".join([line for family in lines.values() for line in family])

    def _write(self, shoot: Summarized, lines: dict[str, list[str]]) -> None:
        facts, namespace = self._shoots.facts(shoot.namespace), escaped(shoot.namespace)
        if facts is None:
            return
        samples = self._stranded(namespace, facts)
        if self._metrics.per_shoot:
            samples = chain(
                samples,
                self._known(namespace, shoot.state, facts),
                self._counted(shoot, namespace),
                self._endpoints(shoot.namespace, namespace),
            )
        for family, values, number in samples:
            lines[family.name].append(family.sample(values, number))

    def _stranded(self, namespace: str, facts: ShootSample) -> Iterator[Drawn]:
        if number := len(facts.at_zero):
            yield self._metrics.shoot_at_zero, (namespace,), number
        if facts.protected_since is not None:
            yield self._metrics.shoot_protection_start, (namespace,), facts.protected_since

    def _known(self, namespace: str, state: ShootState, facts: ShootSample) -> Iterator[Drawn]:
        metrics = self._metrics
        yield metrics.shoot_state, (namespace, state), 1
        if facts.last_probe is not None:
            yield metrics.shoot_last_probe, (namespace,), facts.last_probe
        if facts.tally is not None:
            for word, number in _leases(facts.tally):
                yield metrics.shoot_leases, (namespace, word), number

    def _counted(self, shoot: Summarized, namespace: str) -> Iterator[Drawn]:
        """Yields the counters, from 0 on for a probed shoot.

        `increase()` does not see the first count of a new series.
        """
        metrics, counts = self._metrics, self._metering.shoots
        probed = shoot.state is not ShootState.NOT_PROBED
        for probe in self._probing.words:
            if (number := counts.probe_failures[shoot.namespace, probe]) or probed:
                yield metrics.shoot_probe_failures, (namespace, probe), number
        for direction in Direction:
            if (number := counts.scale_attempts[shoot.namespace, direction]) or probed:
                yield metrics.shoot_scale_attempts, (namespace, direction), number

    def _endpoints(self, name: str, namespace: str) -> Iterator[Drawn]:
        for probe, succeeded in self._probing.endpoints(name).items():
            yield self._metrics.endpoint_success, (namespace, escaped(probe)), int(succeeded)


def _leases(tally: Tally) -> Iterator[tuple[str, int]]:
    found = tally.candidates
    yield LeaseState.FRESH.lower(), found.total - found.expired - found.unknown
    yield LeaseState.EXPIRED.lower(), found.expired
    yield LeaseState.UNKNOWN.lower(), found.unknown
    yield _EXCLUDED, sum(tally.excluded.values())
