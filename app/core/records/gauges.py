"""Metrics that are read off the shoots at each scrape, so that none outlives what it speaks of."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from prometheus_client import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from app.core.model.probing import LeaseState, ShootState, Tally
from app.core.records.metering import Metering, Series
from app.core.runtime.metrics import Metrics, NewCounter


class Shown(Protocol):
    """What a scrape shows of one shoot."""

    @property
    def namespace(self) -> str:
        """The control-plane namespace."""
        ...

    @property
    def state(self) -> ShootState:
        """The word that sums it up."""
        ...

    @property
    def tally(self) -> Tally | None:
        """Of the last look that ended in a reading."""
        ...

    @property
    def last_look(self) -> float | None:
        """When the last look ended."""
        ...

    @property
    def protected_since(self) -> float | None:
        """When the active protection began."""
        ...

    @property
    def at_zero(self) -> tuple[str, ...]:
        """Configured dependents that are at 0."""
        ...


class ShootGauges(Collector):
    """Registers itself; each scrape asks `shoots` once.

    Args:
        metrics: where the families are declared, and whether there are series for each shoot.
        metering: the counts by shoot; what it counts of shoots that are gone is forgotten at a scrape.
        shoots: every shoot as it is now; none on a standby, so that two replicas do not tell the same twice.
    """

    def __init__(
        self, metrics: Metrics, metering: Metering, shoots: Callable[[], Sequence[Shown]]
    ) -> None:
        self._metrics = metrics
        self._metering = metering
        self._shoots = shoots
        metrics.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """The families without samples: what names this collector takes."""
        return self._families(())

    def collect(self) -> Iterator[Metric]:
        """The families as of now."""
        shoots = self._shoots()
        self._metering.keep({each.namespace for each in shoots})
        yield from self._families(shoots)

    def _families(self, shoots: Sequence[Shown]) -> Iterator[Metric]:
        yield self._probers(shoots)
        yield self._states(shoots)
        yield self._at_zero(shoots)
        yield self._protection(shoots)
        if self._metrics.per_shoot:
            yield from self._by_shoot(shoots)

    def _probers(self, shoots: Sequence[Shown]) -> GaugeMetricFamily:
        family = self._metrics.probers_active()
        family.add_metric((), sum(each.state is not ShootState.NOT_PROBED for each in shoots))
        return family

    def _states(self, shoots: Sequence[Shown]) -> GaugeMetricFamily:
        family, found = self._metrics.shoots(), Counter(each.state for each in shoots)
        for state in ShootState:
            family.add_metric((state,), found[state])
        return family

    def _at_zero(self, shoots: Sequence[Shown]) -> GaugeMetricFamily:
        family = self._metrics.shoot_at_zero()
        for each in shoots:
            if number := len(each.at_zero):
                family.add_metric((each.namespace,), number)
        return family

    def _protection(self, shoots: Sequence[Shown]) -> GaugeMetricFamily:
        family = self._metrics.shoot_protection_start()
        for each in shoots:
            if each.protected_since is not None:
                family.add_metric((each.namespace,), each.protected_since)
        return family

    def _by_shoot(self, shoots: Sequence[Shown]) -> Iterator[Metric]:
        state, last = self._metrics.shoot_state(), self._metrics.shoot_last_probe()
        leases = self._metrics.shoot_leases()
        for each in shoots:
            state.add_metric((each.namespace, each.state), 1)
            if each.last_look is not None:
                last.add_metric((each.namespace,), each.last_look)
            if each.tally is not None:
                _add_leases(leases, each.namespace, each.tally)
        counts = self._metering.shoots
        yield from (state, last, leases)
        yield _counted(self._metrics.shoot_probe_failures, counts.probe_failures)
        yield _counted(self._metrics.shoot_scale_attempts, counts.scale_attempts)


def _add_leases(family: GaugeMetricFamily, namespace: str, tally: Tally) -> None:
    found = tally.candidates
    family.add_metric(
        (namespace, LeaseState.FRESH.lower()), found.total - found.expired - found.unknown
    )
    family.add_metric((namespace, LeaseState.EXPIRED.lower()), found.expired)
    family.add_metric((namespace, LeaseState.UNKNOWN.lower()), found.unknown)
    family.add_metric((namespace, "excluded"), sum(tally.excluded.values()))


def _counted(new: NewCounter, counts: Counter[Series]) -> CounterMetricFamily:
    family = new()
    for series, number in counts.items():
        family.add_metric(series, number)
    return family
