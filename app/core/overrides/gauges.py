"""The overrides as metrics, read off at each scrape."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from prometheus_client import Metric
from prometheus_client.registry import Collector

from app.core.model.overrides import ALL_SHOOTS
from app.core.overrides.cache import Overrides
from app.core.overrides.document import EntryKind, Place
from app.core.overrides.notices import Acting, InForce, in_force
from app.core.clock import Clock
from app.core.metrics import Metrics


class _Label(StrEnum):
    PAUSE = "pause"
    GLOBAL_PAUSE = "global-pause"
    HOLD = "hold"
    IGNORE_SCALING = "ignore-scaling"
    INVALID = "invalid"


def _label(place: Place, acting: Acting) -> _Label:
    if acting.problem is not None:
        return _Label.INVALID
    if place.kind is EntryKind.HOLD:
        return _Label.HOLD
    return _Label.GLOBAL_PAUSE if place.key == ALL_SHOOTS else _Label.PAUSE


class OverrideGauges(Collector):
    """Registers itself; tells nothing on a standby, so that two replicas do not tell the same twice.

    A key that cannot be read counts as `invalid` and as nothing else, also after it is ignored: it is to be mended.

    Args:
        metrics: where the families are declared, and whether there are series for each shoot.
        book: what is in force.
        clock: says what has ended.
        leading: whether this replica leads the prober.
        ignored: how many dependents carry ignore-scaling.
    """

    def __init__(
        self,
        metrics: Metrics,
        book: Overrides,
        clock: Clock,
        *,
        leading: Callable[[], bool],
        ignored: Callable[[], int],
    ) -> None:
        self._metrics, self._book, self._clock = metrics, book, clock
        self._leading, self._ignored = leading, ignored
        metrics.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """The families without samples: what names this collector takes."""
        return (self._metrics.overrides_active(), self._metrics.override_expiry())

    def collect(self) -> Iterator[Metric]:
        """The families as of now."""
        if not self._leading():
            yield from self.describe()
            return
        acting = in_force(self._book.knowledge, self._clock.now())
        yield self._active(acting)
        yield self._expiry(acting)

    def _active(self, acting: InForce) -> Metric:
        family, numbers = self._metrics.overrides_active(), self._counts(acting)
        for label in _Label:
            family.add_metric((label,), numbers.get(label, 0))
        return family

    def _counts(self, acting: InForce) -> Mapping[_Label, int]:
        found = Counter(_label(place, each) for place, each in acting.items())
        invalid = sum(known.problem is not None for known in self._book.knowledge.values())
        invalid += self._book.unread
        return {**found, _Label.INVALID: invalid, _Label.IGNORE_SCALING: self._ignored()}

    def _expiry(self, acting: InForce) -> Metric:
        family = self._metrics.override_expiry()
        for place, each in acting.items():
            if self._metrics.per_shoot or place.key == ALL_SHOOTS:
                family.add_metric((place.key, _label(place, each)), each.entry.until)
        return family
