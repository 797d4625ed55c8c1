"""Notices about Pauses that begin, change and end (for log, history and Events), and the metrics of all overrides."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.registry import Collector

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import (
    ALL_SHOOTS,
    API_VERSION,
    LONGEST,
    Hold,
    Pause,
    ScaleRequest,
)
from app.core.model.probing import NoticeKind
from app.core.model.workloads import ResourceRef
from app.core.overrides import rules
from app.core.overrides.cache import OverrideCache
from app.core.reporting.notices import Notice, Severity

STARTED: Final = "PauseStarted"
ENDED: Final = "PauseEnded"
IGNORED: Final = "PauseIgnored"
HOLD_ENDED: Final = "HoldEnded"
OFF: Final = "OverridesOff"
# Seconds by which an end may be later than a day from now: it is a whole second, by the clock of another process.
_LEEWAY: Final = 5.0


def began(pause: Pause, now: float, *, of_all: bool) -> Notice:
    """Reports that a Pause is in force from now on, or another way than before."""
    what = "all shoots are" if of_all else f"{pause.id.namespace} is"
    by = f"by {pause.author} until {rfc3339(pause.until)}"
    text = f"{what} paused, scope {pause.scope}, {by} ({pause.id.name}): {pause.reason}"
    severity = Severity.INFO
    if pause.problem is not None:
        severity = Severity.ERROR if of_all else Severity.WARNING
    elif pause.until - now > LONGEST + _LEEWAY:
        text, severity = f"{text}; it ends more than 24 h from now", Severity.WARNING
    return _notice(pause, STARTED, text, pause.author, now, severity, of_all=of_all)


def ended(pause: Pause, now: float, by: str | None, *, of_all: bool) -> Notice:
    """Reports that a Pause is no longer in force; `by` deleted it, if that is known."""
    whose, until = "all shoots" if of_all else pause.id.namespace, rfc3339(pause.until)
    gone = "was deleted" if by is None else f"was ended by {by}"
    over = not pause.in_force(now)
    how = f"ended at {until}" if over else f"{gone} before its end at {until}"
    text = f"the pause of {whose} by {pause.author} ({pause.id.name}) {how}: {pause.reason}"
    return _notice(pause, ENDED, text, None if over else by, now, Severity.INFO, of_all=of_all)


def ignored(pause: Pause, now: float) -> Notice:
    """Reports that a Pause has no effect, as its namespace is not that of a shoot."""
    text = (
        f"Pause {pause.id.name} has no effect: {pause.id.namespace} is not the namespace of a shoot"
    )
    return _notice(pause, IGNORED, text, pause.author, now, Severity.WARNING, of_all=False)


def lost(home: str, kind: str, why: str, now: float) -> Notice:
    """Reports that a kind is no longer there, or must not be read any more, so that none of it is in force."""
    return Notice(
        NoticeKind.OVERRIDE,
        ALL_SHOOTS,
        now,
        OFF,
        f"there are no {kind} any more: {why}",
        Severity.ERROR,
        resource=ResourceRef("v1", "Namespace", home),
        about_namespace=home,
        event=True,
    )


def hold_ended(namespace: str, hold: Hold, now: float, by: str | None) -> Notice:
    """Reports that verdicts of a shoot act again; `by` deleted the ScaleRequest, if that is known."""
    over = hold.done and now >= hold.until
    how = f"ended at {rfc3339(hold.until)}" if over else "was ended"
    who = "" if over or by is None else f" by {by}"
    text = f"the hold of {namespace} by {hold.author} {how}{who}: {hold.reason}"
    numbers = {"action": "EndOverride", "override": "hold", "operation": hold.operation}
    if who and by is not None:
        numbers["author"] = by
    return Notice(NoticeKind.OVERRIDE, namespace, now, HOLD_ENDED, text, numbers=numbers)


def _notice(
    pause: Pause,
    reason: str,
    text: str,
    author: str | None,
    now: float,
    severity: Severity,
    *,
    of_all: bool,
) -> Notice:
    numbers: dict[str, Any] = {
        "action": "EndOverride" if reason == ENDED else "SetOverride",
        "override": "pause",
        "until": rfc3339(pause.until),
        "scope": str(pause.scope),
    }
    if author is not None:
        numbers["author"] = author
    return Notice(
        NoticeKind.OVERRIDE,
        ALL_SHOOTS if of_all else pause.id.namespace,
        now,
        reason,
        text,
        severity=severity,
        resource=ResourceRef(API_VERSION, "Pause", pause.id.name),
        resource_uid=pause.id.uid,
        about_namespace=pause.id.namespace,
        event=True,
        numbers=numbers,
    )


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
        holds = _holds(self._cache.requests(), now)
        yield self._active(pauses, holds)
        yield self._expiry(pauses, holds)

    def _label(self, pause: Pause) -> _Label:
        if pause.problem is not None:
            return _Label.INVALID
        return _Label.GLOBAL_PAUSE if self._cache.covers_all(pause) else _Label.PAUSE

    def _active(self, pauses: Iterable[Pause], holds: Mapping[str, float]) -> Metric:
        family = self._metrics.overrides_active()
        numbers: Mapping[_Label, int] = {
            **Counter(self._label(each) for each in pauses),
            _Label.HOLD: len(holds),
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


def _holds(requests: Iterable[ScaleRequest], now: float) -> Mapping[str, float]:
    """Returns when the hold of each shoot that has one ends."""
    found: dict[str, float] = {}
    for each in requests:
        if (hold := rules.hold_of(each, now)) is not None:
            namespace = each.id.namespace
            found[namespace] = max(hold.until, found.get(namespace, hold.until))
    return found
