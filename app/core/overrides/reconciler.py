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
from app.core.model import overrides
from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.overrides import ALL_SHOOTS, API_VERSION, LONGEST, Hold, Pause, ScaleRequest
from app.core.model.workloads import ResourceRef
from app.core.overrides.cache import PAUSES, OverrideCache
from app.core.overrides.service import OverrideService
from app.core.reporting.notices import Notice, NoticeBus, OverrideChanged, OverrideNotice, Severity
from app.core.tasks import wait_until_set

if TYPE_CHECKING:
    from app.core.kube.custom_objects import CustomObjects

log = structlog.get_logger(__name__)

PAUSE_KEPT: Final = 3_600.0
"""Seconds for which a Pause stays after its end."""
REQUEST_KEPT: Final = 86_400.0
"""Seconds for which a ScaleRequest stays after the end of its hold."""
LAST_KEPT: Final = 5
"""The number of ScaleRequests of a shoot that stay, however old they are."""
# The reasons of its notices.
STARTED: Final = "PauseStarted"
ENDED: Final = "PauseEnded"
IGNORED: Final = "PauseIgnored"
HOLD_ENDED: Final = "HoldEnded"
OFF: Final = "OverridesOff"
# Seconds by which an end may be later than a day from now: it is a whole second, by the clock of another process.
_LEEWAY: Final = 5.0
_LOOKED_AT: Final = 10.0
# Seconds in which changes are waited for, to be looked at together: each look is at all objects.
_TOGETHER: Final = 0.25
# Seconds between a failed write and the next attempt.
_RETRIED_AFTER: Final = 30.0
# Notices that are published before the event loop gets a turn.
_AT_ONCE: Final = 20


def finished(requests: Iterable[ScaleRequest], now: float) -> list[ScaleRequest]:
    """Returns the ScaleRequests whose hold ended so long ago that they are deleted, but for the last of each shoot."""
    of: defaultdict[str, list[ScaleRequest]] = defaultdict(list)
    for each in requests:
        if not (each.open or each.deleting) and each.problem is None:
            of[each.id.namespace].append(each)
    found: list[ScaleRequest] = []
    for those in of.values():
        those.sort(key=lambda each: (-each.created_at, each.id.name))
        for each in those[LAST_KEPT:]:
            ended = each.created_at if each.ended is None else each.ended
            if (overrides.hold_end(each) or ended) + REQUEST_KEPT <= now:
                found.append(each)
    return found


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
            await wait_until_set(self._woken, _LOOKED_AT)

    # Reports.

    async def _tell(self) -> None:
        if not self._cache.synced:
            return
        now = self._clock.now()
        current = {each.id.uid: each for each in self._cache.all_pauses() if each.in_force(now)}
        before, self._told = self._told, current
        held, self._held = (
            self._held,
            {
                each.id.uid: (each.id.namespace, hold)
                for each in self._cache.requests()
                if (hold := overrides.hold_of(each, now)) is not None
            },
        )
        off = self._cache.gone()
        lost = {kind: why for kind, why in off.items() if kind not in self._off}
        self._off = off
        led, self._led = self._led, self._leading()
        if not self._led:
            return
        if not led:
            lost, held = {}, {}
            before = {uid: each for uid, each in current.items() if each.told_until is not None}
            self._ignored = {uid for uid, each in before.items() if not self.concerns_a_shoot(each)}
        due = chain(
            (self._lost(kind, why, now) for kind, why in lost.items()),
            self._notices(before, current, now),
            (
                self._hold_ended(uid, namespace, hold, now)
                for uid, (namespace, hold) in held.items()
                if uid not in self._held
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
            if not self.concerns_a_shoot(pause):
                if uid not in self._ignored and pause.told_until is None:
                    self._ignored.add(uid)
                    where = pause.id.namespace
                    text = f"Pause {pause.id.name} has no effect: {where} is not the namespace of a shoot"
                    yield self._notice(pause, IGNORED, text, pause.author, now, Severity.WARNING)
                continue
            new = uid in self._ignored or uid not in before  # its shoot may have come later
            self._ignored.discard(uid)
            if new or before[uid].decision != pause.decision:
                yield self._began(pause, now)
        # A Pause that still exists is reported as it is now: somebody may have moved its end into the past.
        there = {each.id.uid: each for each in self._cache.all_pauses() if not each.deleting}
        for uid, pause in before.items():
            if uid not in current and uid not in self._ignored:
                yield self._ended(there.get(uid, pause), now)
        self._ignored &= current.keys()

    def concerns_a_shoot(self, found: Pause | ScaleRequest) -> bool:
        """Whether it has an effect: not where no shoot is, except for a Pause in the watchdog's own namespace."""
        clusters = self._clusters()
        if clusters is None or found.id.namespace in clusters:
            return True
        return isinstance(found, Pause) and self._cache.covers_all(found)

    def _began(self, pause: Pause, now: float) -> Notice:
        """A Pause is in force from now on, or another way than before."""
        of_all = self._cache.covers_all(pause)
        what = "all shoots are" if of_all else f"{pause.id.namespace} is"
        by = f"by {pause.author} until {rfc3339(pause.until)}"
        text = f"{what} paused, scope {pause.scope}, {by} ({pause.id.name}): {pause.reason}"
        severity = Severity.INFO
        if pause.problem is not None:
            severity = Severity.ERROR if of_all else Severity.WARNING
        elif pause.until - now > LONGEST + _LEEWAY:
            text, severity = f"{text}; it ends more than 24 h from now", Severity.WARNING
        return self._notice(pause, STARTED, text, pause.author, now, severity)

    def _ended(self, pause: Pause, now: float) -> Notice:
        whose = "all shoots" if self._cache.covers_all(pause) else pause.id.namespace
        until, by = rfc3339(pause.until), self._service.ended_by(pause.id.uid)
        how = "was deleted" if by is None else f"was ended by {by}"
        how = f"{how} before its end at {until}"
        if not pause.in_force(now):
            how, by = f"ended at {until}", None
        text = f"the pause of {whose} by {pause.author} ({pause.id.name}) {how}: {pause.reason}"
        return self._notice(pause, ENDED, text, by, now)

    def _notice(
        self,
        pause: Pause,
        reason: str,
        text: str,
        author: str | None,
        now: float,
        severity: Severity = Severity.INFO,
    ) -> Notice:
        return OverrideChanged(
            ALL_SHOOTS if self._cache.covers_all(pause) else pause.id.namespace,
            now,
            reason,
            text,
            severity=severity,
            resource=ResourceRef(API_VERSION, "Pause", pause.id.name),
            resource_uid=pause.id.uid,
            about_namespace=pause.id.namespace,
            event=text,
            action="EndOverride" if reason == ENDED else "SetOverride",
            override="pause",
            until=rfc3339(pause.until),
            scope=pause.scope,
            author=author,
        )

    def _hold_ended(self, uid: str, namespace: str, hold: Hold, now: float) -> Notice:
        """Verdicts of a shoot act again."""
        how, by = "was ended", self._service.ended_by(uid)
        if hold.done and now >= hold.until:
            how, by = f"ended at {rfc3339(hold.until)}", None
        who = "" if by is None else f" by {by}"
        text = f"the hold of {namespace} by {hold.author} {how}{who}: {hold.reason}"
        return OverrideChanged(
            namespace,
            now,
            HOLD_ENDED,
            text,
            action="EndOverride",
            override="hold",
            operation=hold.operation,
            author=by,
        )

    def _lost(self, kind: str, why: str, now: float) -> Notice:
        """A kind is no longer there, or must not be read any more, so that none of it is in force."""
        text = f"there are no {kind} any more: {why}"
        return OverrideNotice(
            ALL_SHOOTS,
            now,
            OFF,
            text,
            Severity.ERROR,
            resource=ResourceRef("v1", "Namespace", self._home),
            about_namespace=self._home,
            event=text,
        )

    # Upkeep.

    async def _tidy(self) -> None:
        now = self._clock.now()
        if not self._leading() or now < self._retry_at or not self._cache.synced:
            return
        self._failed, self._failing = self._failing, False
        # What cannot be decoded may not have ended, and has no end to show.
        pauses = [
            each for each in self._cache.all_pauses() if each.problem is None and not each.deleting
        ]
        # What the status can say: a whole second, and none after the year 9999.
        unshown = (each for each in pauses if each.told_until != parse_rfc3339(rfc3339(each.until)))
        old: Iterable[Pause | ScaleRequest] = chain(
            [each for each in pauses if each.until + PAUSE_KEPT <= now],
            finished(self._cache.requests(), now),
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
