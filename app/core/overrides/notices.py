"""Notices about overrides that begin, change and end (for log, history and Events), and their metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.registry import Collector

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS, OVERRIDES, Hold, Pause
from app.core.model.workloads import ResourceRef
from app.core.overrides import rules
from app.core.overrides.cache import OverrideCache
from app.core.overrides.document import EntryKey, EntryKind
from app.core.overrides.rules import Knowledge
from app.core.reporting.notices import Notice, NoticeKind, Severity

CONFIG_MAP: Final = ResourceRef("v1", "ConfigMap", OVERRIDES)
SET: Final = "OverrideSet"
ENDED: Final = "OverrideEnded"


@dataclass(frozen=True, slots=True)
class ActiveOverride:
    """A pause or hold that is in force."""

    entry: Pause | Hold
    problem: str | None = None
    """Why its key cannot be read; the entry is then the pause that stands in for it."""


EndedBy = Mapping[EntryKey, str]
"""Who ended which entry, if known."""
InForce = Mapping[EntryKey, ActiveOverride]


@dataclass(frozen=True, slots=True)
class NoticeSource:
    """The ConfigMap, as the object of Events."""

    namespace: str
    uid: str | None


def in_force(knowledge: Knowledge, now: float) -> InForce:
    """Returns everything that is in force at `now`."""
    found: dict[EntryKey, ActiveOverride] = {}
    for key, known in knowledge.items():
        pause, hold = rules.pause_of(key, known, now), rules.hold_of(known, now)
        if pause is not None:
            found[EntryKey(key, EntryKind.PAUSE)] = ActiveOverride(pause, known.problem)
        if hold is not None:
            # Compared without `done`: the end of a scaling run is reported by the run itself.
            found[EntryKey(key, EntryKind.HOLD)] = ActiveOverride(replace(hold, done=True))
    return found


def notices(
    before: InForce, after: InForce, now: float, home: NoticeSource, endings: EndedBy
) -> Iterator[Notice]:
    """Yields one notice for each override that began, changed or ended."""
    for place, acting in after.items():
        if before.get(place) != acting:
            told = _OverrideTransition(SET, began(place, acting), acting.entry.author)
            yield _notice(place, acting, told, now, home)
    for place, acting in before.items():
        if place not in after:
            by = None if now >= acting.entry.until else endings.get(place)
            told = _OverrideTransition(ENDED, ended(place, acting, now, by), by)
            yield _notice(place, acting, told, now, home)


def began(place: EntryKey, acting: ActiveOverride) -> str:
    """Returns the message that says what is in force from now on, why, and until when."""
    entry, until = acting.entry, rfc3339(acting.entry.until)
    if isinstance(entry, Hold):
        run = "" if entry.operation is None else f" (operation {entry.operation})"
        return f"verdicts of {place.key} are not acted on until {until}: hold of {entry.author}{run}: {entry.reason}"
    paused = _paused(place, entry)
    if acting.problem is not None:
        return f"{paused} until {until}, as the entry cannot be read: {entry.reason}"
    return f"{paused} by {entry.author} until {until}: {entry.reason}"


def _paused(place: EntryKey, pause: Pause) -> str:
    who = "all shoots are" if place.key == ALL_SHOOTS else f"{place.key} is"
    return f"{who} paused, scope {pause.scope},"


def ended(place: EntryKey, acting: ActiveOverride, now: float, by: str | None) -> str:
    """Returns the message that says what is no longer in force, and why; `by` ended it, if known."""
    entry, until = acting.entry, rfc3339(acting.entry.until)
    over = now >= entry.until
    if acting.problem is not None:
        if over:
            return f"the key {place.key} of the overrides is ignored from now on: {acting.problem}"
        who = "" if by is None else f" by {by}"
        return f"the key {place.key} of the overrides was fixed or removed{who}: it no longer pauses anything"
    whose = "all shoots" if place.key == ALL_SHOOTS else place.key
    removed = "was removed" if by is None else f"was ended by {by}"
    how = f"ended at {until}" if over else f"{removed} before its end at {until}"
    return f"the {place.kind} of {whose} by {entry.author} {how}: {entry.reason}"


@dataclass(frozen=True, slots=True)
class _OverrideTransition:
    """What happened, and who did it; None if it expired, or nobody knows."""

    reason: str
    message: str
    author: str | None


def _notice(
    place: EntryKey,
    acting: ActiveOverride,
    told: _OverrideTransition,
    now: float,
    home: NoticeSource,
) -> Notice:
    return Notice(
        NoticeKind.OVERRIDE,
        place.key,
        now,
        told.reason,
        told.message,
        severity=_severity(place, acting),
        resource=CONFIG_MAP,
        resource_uid=home.uid,
        about_namespace=home.namespace,
        event=True,
        numbers=_numbers(place, acting, told),
    )


def _severity(place: EntryKey, acting: ActiveOverride) -> Severity:
    if acting.problem is None:
        return Severity.INFO
    return Severity.ERROR if place.key == ALL_SHOOTS else Severity.WARNING


def _numbers(place: EntryKey, acting: ActiveOverride, told: _OverrideTransition) -> dict[str, Any]:
    entry = acting.entry
    found = {
        "action": "SetOverride" if told.reason == SET else "EndOverride",
        "override": str(place.kind),
        "until": rfc3339(entry.until),
    }
    if told.author is not None:
        found["author"] = told.author
    if isinstance(entry, Pause):
        return {**found, "scope": str(entry.scope)}
    return found if entry.operation is None else {**found, "operation": entry.operation}


# Metrics of the overrides, computed at each scrape.


class _Label(StrEnum):
    PAUSE = "pause"
    GLOBAL_PAUSE = "global-pause"
    HOLD = "hold"
    IGNORE_SCALING = "ignore-scaling"
    INVALID = "invalid"


def _label(place: EntryKey, acting: ActiveOverride) -> _Label:
    if acting.problem is not None:
        return _Label.INVALID
    if place.kind is EntryKind.HOLD:
        return _Label.HOLD
    return _Label.GLOBAL_PAUSE if place.key == ALL_SHOOTS else _Label.PAUSE


class OverrideGauges(Collector):
    """A collector that registers itself; only the leader exports samples, so that no override counts twice.

    An unreadable key counts as `invalid` and as nothing else, even after it is ignored, because it needs to be
    repaired.

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
        acting = in_force(self._cache.knowledge, self._clock.now())
        yield self._active(acting)
        yield self._expiry(acting)

    def _active(self, acting: InForce) -> Metric:
        family, numbers = self._metrics.overrides_active(), self._counts(acting)
        for label in _Label:
            family.add_metric((label,), numbers.get(label, 0))
        return family

    def _counts(self, acting: InForce) -> Mapping[_Label, int]:
        found = Counter(_label(place, each) for place, each in acting.items())
        invalid = sum(known.problem is not None for known in self._cache.knowledge.values())
        invalid += self._cache.unread
        return {**found, _Label.INVALID: invalid, _Label.IGNORE_SCALING: self._ignored()}

    def _expiry(self, acting: InForce) -> Metric:
        family = self._metrics.override_expiry()
        for place, each in acting.items():
            if self._metrics.per_shoot or place.key == ALL_SHOOTS:
                family.add_metric((place.key, _label(place, each)), each.entry.until)
        return family
