"""The metrics of all overrides, computed at each scrape."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from prometheus_client import Metric
from prometheus_client.registry import Collector

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model import overrides
from app.core.model.overrides import ALL_SHOOTS, Pause
from app.core.overrides.cache import OverrideCache


class _Label(StrEnum):
    PAUSE = "pause"
    GLOBAL_PAUSE = "global-pause"
    HOLD = "hold"
    IGNORE_SCALING = "ignore-scaling"
    INVALID = "invalid"


class OverrideGauges(Collector):
    """A collector that registers itself; only the leader exports samples, so that no override counts twice.

    An object that cannot be decoded counts as `invalid` and as nothing else, because somebody has to repair it.

    Args:
        metrics: declares the families, and says whether there are series for each shoot.
        cache: what is in force.
        clock: decides what has expired.
        leading: returns whether this replica leads the prober.
        ignored: returns how many dependents carry ignore-scaling.
    """

    def __init__(
        self,
        metrics: Metrics,
        cache: OverrideCache,
        clock: Clock,
        *,
        leading: Callable[[], bool],
        ignored: Callable[[], int],
    ) -> None:
        self._metrics, self._cache, self._clock = metrics, cache, clock
        self._leading, self._ignored = leading, ignored
        metrics.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Returns the families without samples: the names that this collector uses."""
        return (self._metrics.overrides_active(), self._metrics.override_expiry())

    def collect(self) -> Iterator[Metric]:
        """Yields the families with their current samples."""
        if not self._leading():
            yield from self.describe()
            return
        now = self._clock.now()
        pauses = [each for each in self._cache.all_pauses() if each.in_force(now)]
        holds: dict[str, float] = {}
        for each in self._cache.requests():
            if (hold := overrides.hold_of(each, now)) is not None:
                namespace = each.id.namespace
                holds[namespace] = max(hold.until, holds.get(namespace, hold.until))
        yield self._active(pauses, len(holds))
        yield self._expiry(pauses, holds)

    def _label(self, pause: Pause) -> _Label:
        if pause.problem is not None:
            return _Label.INVALID
        return _Label.GLOBAL_PAUSE if self._cache.covers_all(pause) else _Label.PAUSE

    def _active(self, pauses: Iterable[Pause], holds: int) -> Metric:
        family = self._metrics.overrides_active()
        numbers: Mapping[_Label, int] = {
            **Counter(self._label(each) for each in pauses),
            _Label.HOLD: holds,
            _Label.IGNORE_SCALING: self._ignored(),
            _Label.INVALID: len(self._cache.undecodable()),
        }
        for label in _Label:
            family.add_metric((label,), numbers.get(label, 0))
        return family

    def _expiry(self, pauses: Iterable[Pause], holds: Mapping[str, float]) -> Metric:
        """The last end of each kind for each shoot: several pauses of one would be one series twice."""
        found: dict[tuple[str, _Label], float] = {
            (namespace, _Label.HOLD): until for namespace, until in holds.items()
        }
        for each in pauses:
            where = ALL_SHOOTS if self._cache.covers_all(each) else each.id.namespace
            key = (where, self._label(each))
            found[key] = max(each.until, found.get(key, each.until))
        family = self._metrics.override_expiry()
        for (where, label), until in found.items():
            if self._metrics.per_shoot or where == ALL_SHOOTS:
                family.add_metric((where, label), until)
        return family
