"""Reports Pauses, shows when they end, and deletes what is long over, in the replica that leads the prober."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import structlog

from app.core.clock import Clock
from app.core.errors import ClusterError, Conflict, FeatureUnavailable, LeadershipLost
from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.overrides import Hold, Pause, ScaleRequest
from app.core.overrides import notices, rules
from app.core.overrides.cache import PAUSES, OverrideCache
from app.core.overrides.service import OverrideService
from app.core.reporting.notices import Notice, NoticeBus
from app.core.tasks import happens

if TYPE_CHECKING:
    from app.core.kube.custom_objects import CustomObjects

log = structlog.get_logger(__name__)

PAUSE_KEPT: Final = 3_600.0
"""Seconds for which a Pause stays after its end."""
REQUEST_KEPT: Final = 86_400.0
"""Seconds for which a ScaleRequest stays after the end of its hold."""
LAST_KEPT: Final = 5
"""The number of ScaleRequests of a shoot that stay, however old they are."""
_LOOKED_AT: Final = 10.0
# Seconds in which changes are waited for, to be looked at together: each look is at all objects.
_TOGETHER: Final = 0.25
# Seconds between a failed write and the next attempt.
_RETRIED_AFTER: Final = 30.0
# Notices that are published before the event loop gets a turn.
_AT_ONCE: Final = 20


def over(pauses: Iterable[Pause], now: float) -> list[Pause]:
    """Returns the Pauses that ended so long ago that they are deleted; what cannot be decoded may not have ended."""
    return [
        each
        for each in pauses
        if each.problem is None and not each.deleting and each.until + PAUSE_KEPT <= now
    ]


def finished(requests: Iterable[ScaleRequest], now: float) -> list[ScaleRequest]:
    """Returns the ScaleRequests whose hold ended so long ago that they are deleted, but for the last of each shoot."""
    of: defaultdict[str, list[ScaleRequest]] = defaultdict(list)
    for each in requests:
        if not (each.open or each.deleting) and each.problem is None:
            of[each.id.namespace].append(each)
    found: list[ScaleRequest] = []
    for those in of.values():
        those.sort(key=lambda each: (-each.created_at, each.id.name))
        found += [each for each in those[LAST_KEPT:] if _end(each) + REQUEST_KEPT <= now]
    return found


def _end(request: ScaleRequest) -> float:
    ended = request.created_at if request.ended is None else request.ended
    return rules.hold_end(request) or ended


class OverrideReconciler:
    """Runs in every replica of the prober, and acts in the leader.

    What is in force when this replica becomes the leader was reported by its predecessor and is not reported again,
    except for a Pause whose status does not show its end: no leader has seen that one.

    Args:
        cache: what is known.
        service: deletes, and knows who asked for it.
        pauses: all Pauses, to show their end.
        notice_bus: receives the notices.
        clock: decides what has expired.
        home: the watchdog's own namespace, for Events about what concerns no object.
        leading: returns whether this replica leads.
        clusters: returns the names of all Clusters; None while they are not known.
    """

    def __init__(
        self,
        cache: OverrideCache,
        service: OverrideService,
        pauses: "CustomObjects[Pause]",
        notice_bus: NoticeBus,
        clock: Clock,
        *,
        home: str,
        leading: Callable[[], bool],
        clusters: Callable[[], Collection[str] | None],
    ) -> None:
        self._cache, self._service, self._pauses = cache, service, pauses
        self._notice_bus, self._clock = notice_bus, clock
        self._home, self._leading, self._clusters = home, leading, clusters
        self._told: Mapping[str, Pause] = {}
        self._held: Mapping[str, tuple[str, Hold]] = {}
        """The holds in force, each with its namespace, by the uid of the ScaleRequest."""
        self._ignored: set[str] = set()
        """Pauses in force that concern no shoot, by uid."""
        self._off: Mapping[str, str] = {}
        self._led = False
        self._retry_at = clock.now()
        self._failed = self._failing = False
        """Whether something failed at the round before, and at this one."""
        self._woken = asyncio.Event()
        cache.subscribe(lambda _namespace: self.wake())

    def wake(self) -> None:
        """Checks for work at once: the overrides or the leadership have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Reports and tidies after each change, and every 10 s, until cancelled."""
        while True:
            await self._clock.sleep(_TOGETHER)
            self._woken.clear()
            await self._tell()
            await self._tidy()
            await happens(self._woken, _LOOKED_AT)

    # Reports.

    async def _tell(self) -> None:
        if not self._cache.synced:
            return
        now = self._clock.now()
        current = {each.id.uid: each for each in self._cache.all_pauses() if each.in_force(now)}
        before, self._told = self._told, current
        held, self._held = self._held, self._holds(now)
        off = self._cache.gone()
        lost = {kind: why for kind, why in off.items() if kind not in self._off}
        self._off = off
        leads, led = self._leading(), self._led
        self._led = leads
        if not leads:
            return
        if not led:
            before = {uid: each for uid, each in current.items() if each.told_until is not None}
            held = self._held
            self._ignored = {
                uid for uid, each in before.items() if not self._concerns_a_shoot(each)
            }
        over = {uid: each for uid, each in held.items() if uid not in self._held}
        due = chain(
            (notices.lost(self._home, kind, why, now) for kind, why in lost.items() if led),
            self._notices(before, current, now),
            (
                notices.hold_ended(namespace, hold, now, self._service.ended_by(uid))
                for uid, (namespace, hold) in over.items()
            ),
        )
        for number, notice in enumerate(due, 1):
            self._notice_bus.publish(notice)
            if number % _AT_ONCE == 0:
                await self._clock.sleep(0)

    def _notices(
        self, before: Mapping[str, Pause], current: Mapping[str, Pause], now: float
    ) -> Iterable[Notice]:
        for uid, pause in current.items():
            if not self._concerns_a_shoot(pause):
                if uid not in self._ignored and pause.told_until is None:
                    self._ignored.add(uid)
                    yield notices.ignored(pause, now)
                continue
            new = uid in self._ignored or uid not in before  # its shoot may have come later
            self._ignored.discard(uid)
            if new or _content(before[uid]) != _content(pause):
                yield notices.began(pause, now, of_all=self._cache.covers_all(pause))
        for uid, pause in before.items():
            if uid not in current and uid not in self._ignored:
                by, of_all = self._service.ended_by(uid), self._cache.covers_all(pause)
                yield notices.ended(pause, now, by, of_all=of_all)
        self._ignored &= current.keys()

    def _holds(self, now: float) -> Mapping[str, tuple[str, Hold]]:
        found = ((each, rules.hold_of(each, now)) for each in self._cache.requests())
        return {each.id.uid: (each.id.namespace, hold) for each, hold in found if hold is not None}

    def _concerns_a_shoot(self, pause: Pause) -> bool:
        clusters = self._clusters()
        known = clusters is None or pause.id.namespace in clusters
        return known or self._cache.covers_all(pause)

    # Upkeep.

    async def _tidy(self) -> None:
        now = self._clock.now()
        if not self._leading() or now < self._retry_at or not self._cache.synced:
            return
        self._failed, self._failing = self._failing, False
        # What the status can say: a whole second, and none after the year 9999.
        unshown = (
            each
            for each in tuple(self._cache.all_pauses())
            if each.problem is None
            and not each.deleting
            and each.told_until != parse_rfc3339(rfc3339(each.until))
        )
        old: Iterable[Pause | ScaleRequest] = chain(
            over(self._cache.all_pauses(), now), finished(self._cache.requests(), now)
        )
        # What fails for one object, or one kind, leaves the others as they are.
        for work in chain(map(self._show_end, unshown), map(self._delete, old)):
            await self._try(work)

    async def _try(self, work: Coroutine[Any, Any, None]) -> None:
        """Logs the first of consecutive failures; a feature that is off is reported elsewhere."""
        try:
            await work
        except (FeatureUnavailable, LeadershipLost, ClusterError) as error:
            self._retry_at = self._clock.now() + _RETRIED_AFTER
            if isinstance(error, ClusterError):
                if not (self._failed or self._failing):
                    log.warning("the overrides could not be cleaned up", error=str(error))
                self._failing = True

    async def _show_end(self, pause: Pause) -> None:
        """Writes the end of a Pause into its status, which `kubectl get` shows."""
        self._service.check(PAUSES)
        shown = replace(pause, told_until=pause.until)
        with suppress(Conflict):  # it has changed: the watch will show how
            await self._pauses.set_status(pause, shown, starting=self._starting)

    async def _delete(self, found: Pause | ScaleRequest) -> None:
        self._starting()
        await self._service.delete_over(found)

    def _starting(self) -> None:
        if not self._leading():
            raise LeadershipLost("this replica no longer leads and does not maintain the overrides")


def _content(pause: Pause) -> tuple[object, ...]:
    return (pause.scope, pause.reason, pause.author, pause.until, pause.problem)
