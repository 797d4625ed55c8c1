"""The overrides as they are now (rules 7): from the watches of Pauses and ScaleRequests, our own writes, and the clock.

If the objects cannot be read any more, the last content applies. If they never could, there are none after a minute. If
the seed does not serve their kind, or does not let us read it, there are none.

`OverrideGauges` computes their metrics at each scrape.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import Metric
from prometheus_client.registry import Collector

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model import overrides
from app.core.model.instants import rfc3339
from app.core.model.overrides import (
    ALL_SHOOTS,
    EffectiveOverrides,
    Pause,
    PauseDecision,
    ScaleRequest,
    Scope,
)
from app.core.tasks import tell, wait_until_set

if TYPE_CHECKING:
    from app.core.kube.custom_objects import CustomObjects

log = structlog.get_logger(__name__)

PAUSES: Final = "pauses"
REQUESTS: Final = "scalerequests"
"""The two features, each of which may be off by itself."""
WAITED_FOR: Final = 60.0
"""Seconds after the seed's first answer from which overrides that cannot be read count as none (rules 4.1, Synced)."""
# Seconds between two checks of the watches, for the log.
_LOOKED_AT: Final = 10.0
# The same before the first lists, which the loops wait for.
_UNSYNCED: Final = 1.0


class OverrideCache:
    """The overrides that are known now; `run` is a loop for all shoots.

    Args:
        pauses: all Pauses.
        requests: all ScaleRequests; None in a process without the prober, which has no right to them.
        home: the watchdog's own namespace; a Pause in it is of all shoots.
        clock: decides what has expired.
    """

    def __init__(
        self,
        pauses: "CustomObjects[Pause]",
        requests: "CustomObjects[ScaleRequest] | None",
        home: str,
        clock: Clock,
    ) -> None:
        self._pauses, self._requests, self._home, self._clock = pauses, requests, home, clock
        self._features: dict[str, CustomObjects[Any]] = {PAUSES: pauses}
        if requests is not None:
            self._features[REQUESTS] = requests
        self._ends: dict[tuple[str, str, str], float] = {}
        """When what is in force ends by itself, by feature, namespace and name."""
        self._listed: set[str] = set()
        """The features that were read once."""
        self._reported: Mapping[str, str] = {}
        self._listeners: list[Callable[[str | None], None]] = []
        self._woken = asyncio.Event()
        for feature, objects in self._features.items():
            objects.subscribe(partial(self._changed, feature))
            self._changed(feature, None, "")
        self._was_synced = self.synced

    # Reading.

    @property
    def synced(self) -> bool:
        """Whether the overrides were read, or count as none: they are off, or failing for a minute."""
        return self._waited or all(
            feature in self._listed or objects.off is not None
            for feature, objects in self._features.items()
        )

    @property
    def _waited(self) -> bool:
        # While the seed is away nothing is known. When it is back, whatever is listed before the Pauses would otherwise
        # act as if there were none.
        answered_at = self._pauses.answered_at
        return answered_at is not None and self._clock.now() >= answered_at + WAITED_FOR

    def off(self, feature: str) -> str | None:
        """Why this process has no `pauses` or no `scalerequests`; None while it has."""
        objects = self._features.get(feature)
        return "the prober does not run here" if objects is None else objects.off

    def features_off(self) -> Mapping[str, str]:
        """The features that are off, or could not be read in the first minute, each with the reason."""
        unread = f"could not be read for {WAITED_FOR:.0f} s: there are none"
        waited = self._waited
        return {
            feature: f"the {feature} {unread}" if objects.off is None else objects.off
            for feature, objects in self._features.items()
            if objects.off is not None or (waited and feature not in self._listed)
        }

    def gone(self) -> Mapping[str, str]:
        """The features whose objects are not there any more, with the reason: not those that are only forbidden now."""
        return {
            feature: objects.off
            for feature, objects in self._features.items()
            if objects.off is not None and not objects.watch_state().synced
        }

    def troubles(self) -> Mapping[str, str]:
        """Why the overrides cannot be read properly, by feature; empty if they can, and in the first minute."""
        found: dict[str, str] = {}
        for feature in self._features.keys() & self._listed:
            state = self._features[feature].watch_state()
            if state.stale(self._clock.now()):
                at = state.last_contact
                since = "" if at is None else f" since {rfc3339(at)}"
                no_contact = f"the watch of the {feature} has had no contact{since}"
                found[feature] = f"{no_contact}: the last content applies"
        return {**found, **self.features_off()}

    def undecodable(self) -> Sequence[str]:
        """Returns the objects that this version cannot decode, each with the reason."""
        objects: Iterable[Pause | ScaleRequest] = chain(self._pauses.everything(), self.requests())
        return tuple(
            f"{each.id.namespace}/{each.id.name}: {each.problem}"
            for each in objects
            if each.problem is not None
        )

    def effective(self, namespace: str) -> EffectiveOverrides:
        """Returns the overrides that are in force for this shoot now."""
        home = self._home
        own = self._pauses.of(namespace).values() if namespace != home else ()
        everywhere = self._pauses.of(home).values()
        return overrides.effective(own, everywhere, self.requests(namespace), self._clock.now())

    def paused(
        self, namespace: str, *, despite: Collection[PauseDecision] = frozenset()
    ) -> str | None:
        """Returns who keeps the weeder off the shoot or all shoots, until when and why; None if it may delete pods.

        Pauses that still are as one of `despite` says are left out.
        """
        found = (each for each in self._keep_off(namespace) if each.decision not in despite)
        if (pause := next(found, None)) is None:
            return None
        what = "all shoots are paused" if self.covers_all(pause) else "the shoot is paused"
        return f"{what} by {pause.author} until {rfc3339(pause.until)}: {pause.reason}"

    def keeping_off(self, namespace: str) -> frozenset[PauseDecision]:
        """Returns what keeps the weeder off the shoot now, each for itself."""
        return frozenset(each.decision for each in self._keep_off(namespace))

    def _keep_off(self, namespace: str) -> Iterable[Pause]:
        return (each for each in self.effective(namespace).pauses if each.scope is Scope.ALL)

    def global_pause(self) -> Pause | None:
        """Returns the pause of all shoots that acts now, if any."""
        found = overrides.ordered(self._pauses.of(self._home).values(), self._clock.now())
        return next(iter(found), None)

    def pauses(self, namespace: str | None) -> Sequence[Pause]:
        """Returns all Pauses in this control plane (None: of all shoots), those that have ended included."""
        where = self._home if namespace is None else namespace
        return tuple(self._pauses.of(where).values())

    def all_pauses(self) -> Iterable[Pause]:
        """Returns all Pauses, those that have ended included."""
        return self._pauses.everything()

    def requests(self, namespace: str | None = None) -> Iterable[ScaleRequest]:
        """Returns the ScaleRequests of this shoot, or of all shoots."""
        if self._requests is None:
            return ()
        if namespace is None:
            return self._requests.everything()
        return self._requests.of(namespace).values()

    def request(self, uid: str, namespace: str | None = None) -> ScaleRequest | None:
        """Returns the ScaleRequest with this uid, of this shoot or of any; None if there is none."""
        return next((each for each in self.requests(namespace) if each.id.uid == uid), None)

    def with_requests(self) -> Collection[str]:
        """Returns the namespaces that have ScaleRequests."""
        return {each.id.namespace for each in self.requests()}

    async def refresh(self, namespace: str, *, urgent: bool = True) -> None:
        """Reads what concerns this shoot live, if a watch is stale."""
        await self._pauses.refresh(self._home, urgent=urgent)
        await self._pauses.refresh(namespace, urgent=urgent)
        if self._requests is not None:
            await self._requests.refresh(namespace, urgent=urgent)

    async def confirm(self, request: ScaleRequest) -> None:
        """Reads this ScaleRequest live, whatever its watch shows: afterwards it is among `requests`, or gone."""
        if self._requests is not None:
            _ = await self._requests.read(request.id.namespace, request.id.name, urgent=True)

    def covers_all(self, pause: Pause) -> bool:
        """Whether this is a pause of all shoots."""
        return pause.id.namespace == self._home

    def subscribe(self, listener: Callable[[str | None], None]) -> None:
        """Calls `listener` after each change of what is in force, including pauses and holds that expire.

        Its argument is the namespace of the shoot; None if more than one may be concerned.
        """
        self._listeners.append(listener)

    # What changes.

    def _changed(self, feature: str, namespace: str | None, name: str) -> None:
        objects = self._features[feature]
        if objects.off is None and objects.watch_state().synced:
            self._listed.add(feature)
        if namespace is not None:
            match objects.of(namespace).get(name):
                case Pause(until=until):
                    end: float | None = until
                case ScaleRequest(open=False) as request:
                    end = overrides.hold_end(request)
                case _:
                    end = None
            if end is not None and end > self._clock.now():
                self._ends[feature, namespace, name] = end
            else:
                self._ends.pop((feature, namespace, name), None)
        self._tell(namespace)

    def _tell(self, namespace: str | None) -> None:
        self._woken.set()
        concerned = None if namespace == self._home else namespace
        tell(self._listeners, {"change": "overrides"}, concerned)

    async def run(self) -> None:
        """Notifies when something expires and reports problems of the watches, until cancelled."""
        while True:
            self._woken.clear()
            self._expire()
            self._report()
            now = self._clock.now()
            look = now + (_LOOKED_AT if self.synced else _UNSYNCED)
            until = min([*self._ends.values(), look])
            await wait_until_set(self._woken, max(until - now, 0.0))

    def _expire(self) -> None:
        """Notifies if something has expired, or if overrides that cannot be read count as none from now on."""
        now = self._clock.now()
        over = [key for key, end in self._ends.items() if end <= now]
        for key in over:
            del self._ends[key]
        for namespace in {namespace for _, namespace, _ in over}:
            self._tell(namespace)
        synced, self._was_synced = self._was_synced, self.synced
        if synced != self._was_synced:
            self._tell(None)

    def _report(self) -> None:
        """Logs each problem once."""
        troubles, before = self.troubles(), self._reported
        self._reported = troubles
        for feature in troubles.keys() - before.keys():
            log.warning("overrides cannot be followed", feature=feature, error=troubles[feature])
        for feature in before.keys() - troubles.keys():
            log.info("overrides are followed again", feature=feature)


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
