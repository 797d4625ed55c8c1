"""The metrics of all overrides, computed at each scrape."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from prometheus_client import Metric
from prometheus_client.registry import Collector

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model import overrides
from app.core.model.overrides import ALL_SHOOTS, Pause, ScaleRequest
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
        concerns_a_shoot: returns whether a Pause or ScaleRequest has an effect.
        ignored: returns how many dependents carry ignore-scaling.
    """

    def __init__(
        self,
        metrics: Metrics,
        cache: OverrideCache,
        clock: Clock,
        *,
        leading: Callable[[], bool],
        concerns_a_shoot: Callable[[Pause | ScaleRequest], bool],
        ignored: Callable[[], int],
    ) -> None:
        self._metrics, self._cache, self._clock = metrics, cache, clock
        self._leading, self._concerns_a_shoot, self._ignored = leading, concerns_a_shoot, ignored
        metrics.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Returns the families without samples: the names that this collector uses."""
        return (self._metrics.overrides_active(), self._metrics.override_expiry())

    def collect(self) -> Iterator[Metric]:
        """Yields the families with their current samples."""
        active, expiry = self._metrics.overrides_active(), self._metrics.override_expiry()
        if self._leading():
            now, cache = self._clock.now(), self._cache
            # The last end of each kind for each shoot: several pauses of one would be one series twice.
            ends: dict[tuple[str, _Label], float] = {}
            numbers: Counter[_Label] = Counter()
            for request in filter(self._concerns_a_shoot, cache.requests()):
                if (hold := overrides.hold_of(request, now)) is not None:
                    key = (request.id.namespace, _Label.HOLD)
                    ends[key] = max(hold.until, ends.get(key, hold.until))
            numbers[_Label.HOLD] = len(ends)
            for pause in cache.all_pauses():
                if pause.in_force(now) and self._concerns_a_shoot(pause):
                    of_all = cache.covers_all(pause)
                    label = _Label.GLOBAL_PAUSE if of_all else _Label.PAUSE
                    label = label if pause.problem is None else _Label.INVALID
                    key = (ALL_SHOOTS if of_all else pause.id.namespace, label)
                    ends[key] = max(pause.until, ends.get(key, pause.until))
                    numbers[label] += 1
            numbers[_Label.IGNORE_SCALING] = self._ignored()
            numbers[_Label.INVALID] = len(cache.undecodable())
            for label in _Label:
                active.add_metric((label,), numbers[label])
            for (where, label), until in ends.items():
                if self._metrics.per_shoot or where == ALL_SHOOTS:
                    expiry.add_metric((where, label), until)
        yield from (active, expiry)
