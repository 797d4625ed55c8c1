"""Metrics that are computed from the shoots at each scrape, so that none outlives its shoot.

Families with a series for each shoot are rendered in slices, to keep the event loop free; the two that count shoots by
state are a collector of the registry.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.core.metrics import Family, Format, Metrics, Slices, escaped
from app.core.model.probing import RequestKind, ShootState
from app.core.model.workloads import Direction
from app.core.reporting.metering import LEASE_MODE, Metering
from app.prober.status import ShootStatus, ShootSummary

# Shoots that are rendered before the event loop gets a turn: 1 to 2 ms.
_SLICE: Final = 50
Sample = tuple[Family, tuple[str, ...], float]
"""A family, label values and the value."""


class StateCounts(Collector):
    """The number of shoots by state.

    Args:
        metrics: declares the families.
        summaries: returns a summary of each shoot of the seed, probed or not.
    """

    def __init__(self, metrics: Metrics, summaries: Callable[[], Sequence[ShootSummary]]) -> None:
        self._metrics, self._summaries = metrics, summaries

    def describe(self) -> Iterable[Metric]:
        """Returns the families without samples: the names that this collector uses."""
        return self._families(())

    def collect(self) -> Iterator[Metric]:
        """Yields the families with their current samples."""
        yield from self._families(self._summaries())

    def _families(self, shoots: Sequence[ShootSummary]) -> Iterator[GaugeMetricFamily]:
        found = Counter(each.state for each in shoots)
        active, states = self._metrics.probers_active(), self._metrics.shoots()
        active.add_metric((), len(shoots) - found[ShootState.NOT_PROBED])
        for state in ShootState:
            states.add_metric((state,), found[state])
        yield from (active, states)


class ShootSeries:
    """A dozen series for each shoot, or with `--per-shoot-metrics=false` the two that alerts need.

    Args:
        metrics: declares the families, and says whether there are series for each shoot.
        metering: the counters by shoot; those of shoots that are gone are dropped at a scrape.
        summaries: returns a summary of each shoot of the seed, probed or not; none on a standby, so that two replicas
            do not report the same shoot.
        facts: returns the current values of one shoot; None if it has gone meanwhile.
        probes: the kinds of request that the configuration leads to (`metering.of_shoots`).
        endpoints: returns whether each endpoint probe of a control plane has succeeded, by name, without those that
            have no result yet.
    """

    def __init__(
        self,
        metrics: Metrics,
        metering: Metering,
        summaries: Callable[[], Sequence[ShootSummary]],
        facts: Callable[[str], ShootStatus | None],
        *,
        probes: Sequence[RequestKind] = LEASE_MODE,
        endpoints: Callable[[str], Mapping[str, bool]] = lambda _: {},
    ) -> None:
        self._metrics, self._metering = metrics, metering
        self._summaries, self._facts = summaries, facts
        self._probes, self._endpoints = probes, endpoints

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
        shoots = self._summaries()
        self._metering.keep({each.namespace for each in shoots})
        yield
        for begin in range(0, len(shoots), _SLICE):
            for shoot in shoots[begin : begin + _SLICE]:
                if (facts := self._facts(shoot.namespace)) is not None:
                    for family, values, number in self._samples(shoot, facts):
                        lines[family.name].append(family.sample(values, number))
            yield
        return "".join([line for family in lines.values() for line in family])

    def _samples(self, shoot: ShootSummary, facts: ShootStatus) -> Iterator[Sample]:
        metrics, namespace = self._metrics, escaped(shoot.namespace)
        if number := len(facts.at_zero):
            yield metrics.shoot_at_zero, (namespace,), number
        if facts.protected_since is not None:
            yield metrics.shoot_protection_start, (namespace,), facts.protected_since
        if not metrics.per_shoot:
            return
        yield metrics.shoot_state, (namespace, shoot.state), 1
        if facts.last_probe is not None:
            yield metrics.shoot_last_probe, (namespace,), facts.last_probe
        if facts.tally is not None:
            for state, leases in facts.tally.leases.items():
                yield metrics.shoot_leases, (namespace, state), leases
        # Of a probed shoot counters begin at 0: `increase()` does not see the first count of a new series.
        counts, probed = self._metering.shoots, shoot.state is not ShootState.NOT_PROBED
        for probe in self._probes:
            if (number := counts.probe_failures[shoot.namespace, probe]) or probed:
                yield metrics.shoot_probe_failures, (namespace, probe), number
        for direction in Direction:
            if (number := counts.scale_attempts[shoot.namespace, direction]) or probed:
                yield metrics.shoot_scale_attempts, (namespace, direction), number
        for name, succeeded in self._endpoints(shoot.namespace).items():
            yield metrics.endpoint_success, (namespace, escaped(name)), int(succeeded)
