"""Metrics that are read off the shoots at each scrape, so that none outlives what it speaks of.

What has a series for each shoot is written in slices; the few others are a collector of the registry.
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

_SLICE: Final = 50
"""Shoots that are rendered and written before others in the loop have their turn: 1 to 2 ms."""
_EXCLUDED: Final = "excluded"
Drawn = tuple[Family, tuple[str, ...], float]
"""One series: its family, the values of its labels, its number."""


class Summarized(Protocol):
    """As much of a shoot as it takes to count it."""

    @property
    def namespace(self) -> str:
        """The control-plane namespace."""
        ...

    @property
    def state(self) -> ShootState:
        """The word that sums it up."""
        ...


class ShootFacts(Protocol):
    """What else a scrape shows of one shoot."""

    @property
    def tally(self) -> Tally | None:
        """Of the last probe that ended in a reading."""
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
        """Configured dependents that are at 0."""
        ...


class ShootSource(Protocol):
    """Every shoot of the seed, probed or not; none on a standby, so that two replicas do not tell the same twice."""

    def summaries(self) -> Sequence[Summarized]:
        """All of them, in brief: for a thousand that costs little."""
        ...

    def facts(self, namespace: str) -> ShootFacts | None:
        """What is known of one of them now; None where it has gone meanwhile."""
        ...


def _without(_: str) -> Mapping[str, bool]:
    """No endpoint probe is configured."""
    return {}


@dataclass(frozen=True, slots=True)
class Probing:
    """What is shown of the probes of a shoot."""

    words: Sequence[RequestKind] = metering.LEASE_MODE
    """Those that the configuration asks for (`probewords.of_shoots`)."""
    endpoints: Callable[[str], Mapping[str, bool]] = _without
    """Of a control plane, by name: whether the endpoint probe has succeeded; without those that have no result yet."""


def show_shoots(
    metrics: Metrics, metering: Metering, shoots: ShootSource, probing: Probing | None = None
) -> None:
    """From now on each scrape shows the shoots.

    Args:
        metrics: where the families are declared, and whether there are series for each shoot.
        metering: the counts by shoot; what it counts of shoots that are gone is forgotten at a scrape.
        shoots: what is read off.
        probing: which probes there are; None: those of lease mode.
    """
    metrics.registry.register(StateCounts(metrics, shoots.summaries))
    metrics.sliced.append(ShootSeries(metrics, metering, shoots, probing or Probing()))


class StateCounts(Collector):
    """How many shoots there are, by state."""

    def __init__(self, metrics: Metrics, summaries: Callable[[], Sequence[Summarized]]) -> None:
        self._metrics, self._outlines = metrics, summaries

    def describe(self) -> Iterable[Metric]:
        """The families without samples: what names this collector takes."""
        return self._families(())

    def collect(self) -> Iterator[Metric]:
        """The families as of now."""
        yield from self._families(self._outlines())

    def _families(self, shoots: Sequence[Summarized]) -> Iterator[GaugeMetricFamily]:
        found = Counter(each.state for each in shoots)
        active, states = self._metrics.probers_active(), self._metrics.shoots()
        active.add_metric((), len(shoots) - found[ShootState.NOT_PROBED])
        for state in ShootState:
            states.add_metric((state,), found[state])
        yield from (active, states)


class ShootSeries:
    """A dozen series for each shoot; with `--per-shoot-metrics=false` only those of stranded shoots."""

    def __init__(
        self, metrics: Metrics, metering: Metering, shoots: ShootSource, probing: Probing
    ) -> None:
        self._metrics, self._metering, self._shoots = metrics, metering, shoots
        self._probing = probing

    def families(self) -> tuple[Family, ...]:
        """What it writes."""
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
        """All of its families with their samples; the facts of each shoot as they are when its slice is written."""
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

    def _stranded(self, namespace: str, facts: ShootFacts) -> Iterator[Drawn]:
        if number := len(facts.at_zero):
            yield self._metrics.shoot_at_zero, (namespace,), number
        if facts.protected_since is not None:
            yield self._metrics.shoot_protection_start, (namespace,), facts.protected_since

    def _known(self, namespace: str, state: ShootState, facts: ShootFacts) -> Iterator[Drawn]:
        metrics = self._metrics
        yield metrics.shoot_state, (namespace, state), 1
        if facts.last_probe is not None:
            yield metrics.shoot_last_probe, (namespace,), facts.last_probe
        if facts.tally is not None:
            for word, number in _leases(facts.tally):
                yield metrics.shoot_leases, (namespace, word), number

    def _counted(self, shoot: Summarized, namespace: str) -> Iterator[Drawn]:
        """From 0 on where it is probed: of a series that begins with 1 nobody sees that it has grown."""
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
