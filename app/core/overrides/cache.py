"""The overrides as they are now (rules 7): from the watch of the ConfigMap, our own writes, and the clock.

Three things change what is in force. The watch shows a new version of the ConfigMap. This process writes one itself, or
reads one live, before the watch shows it (`learn`): the newer version wins, by resourceVersion, so a lagging watch does
not undo a write. And time passes: pauses and holds expire without any event.

A key whose text cannot be read keeps its last readable content, and pauses its shoot meanwhile (`rules.stand_in`). If
the ConfigMap cannot be read at all, the last content applies; if it never could, there are no overrides after a minute.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from app.core.clock import Clock
from app.core.errors import ClusterError
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import (
    ALL_SHOOTS,
    EffectiveOverrides,
    Hold,
    OverrideEntry,
    Pause,
    Scope,
)
from app.core.overrides import rules
from app.core.overrides.rules import Knowledge
from app.core.ports import OverridesDocument, OverridesStore, OverridesView

log = structlog.get_logger(__name__)

FEATURE: Final = "overrides"
WAITED_FOR: Final = 60.0
"""Seconds after the start from which overrides that cannot be read count as none (rules 4.1, Synced)."""
# Seconds after which a version that the watch still does not show is read live.
_WATCH_LAGS: Final = 30.0
_DELETED: Final = "the ConfigMap of the overrides was deleted: nothing is paused or held"
# Seconds between two checks of the watch, for log and metric.
_LOOKED_AT: Final = 10.0
# The same before the first list, which the loops wait for.
_UNSYNCED: Final = 1.0


class OverrideCache:
    """The overrides that are known now (a `ports.OverridesView`).

    It sends a request only if the watch does not show a known version for long; `run` is a loop for all shoots.

    Args:
        store: the ConfigMap.
        clock: decides what has expired.
        metrics: exports whether the feature is off.
    """

    def __init__(self, store: OverridesStore, clock: Clock, metrics: Metrics) -> None:
        self._store, self._clock, self._metrics = store, clock, metrics
        self._started = self._heard_at = clock.now()
        self._knowledge: Knowledge = {}
        self._data: Mapping[str, str] = {}
        """Data of the newest version."""
        self._to_read: Sequence[str] = ()
        """Keys with a new text that is not parsed yet; until then their former content applies."""
        self._unread: dict[str, float] = {}
        """Keys without known content, and since when they exist: not parsed yet, or too many."""
        self._news = False
        """Whether a change has not been announced to the listeners yet."""
        self._watched: OverridesDocument | None = None
        self._learnt: OverridesDocument | None = None
        self._learnt_at = self._started
        self._gone: OverridesDocument | None = None
        """The last known version of a ConfigMap that the seed no longer has."""
        self._shown = self._listed = False
        self._reported: str | None = None
        self._done: dict[str, str] = {}
        """The last operation of each namespace whose scaling run ended in this process."""
        self._listeners: list[Callable[[], None]] = []
        self._woken = asyncio.Event()
        store.subscribe(self._watch_changed)
        self._watch_changed()
        self._was_synced = self.synced

    # Reading.

    @property
    def synced(self) -> bool:
        """Whether the overrides were read, or count as none: forbidden, or failing for a minute since the start."""
        return self._listed or self._store.forbidden is not None or self._waited

    @property
    def _waited(self) -> bool:
        return self._clock.now() >= self._started + WAITED_FOR

    @property
    def off(self) -> str | None:
        """Why this process has no overrides: reading has been forbidden since the start; None if it has."""
        return None if self._listed else self._store.forbidden

    @property
    def trouble(self) -> str | None:
        """Why the overrides cannot be read properly, for operators; None if they can, and in the first minute."""
        forbidden = self._store.forbidden
        if forbidden is not None:
            applies = "the last content applies" if self._listed else "there are none"
            return f"reading the overrides is forbidden, {applies}: {forbidden}"
        if not self._listed:
            missed = f"the overrides could not be read for {WAITED_FOR:.0f} s: they count as none"
            return missed if self._waited else None
        return self._quiet() or self._crowded()

    def _crowded(self) -> str | None:
        if len(self._data) <= rules.MOST_KEYS:
            return None
        text = (
            f"the ConfigMap of the overrides has more than {rules.MOST_KEYS} keys: the others are not read, and each "
            "pauses its shoot for an hour"
        )
        if self.document is not None and self.document.left_out:
            text += f"; of those after the first {len(self._data)} none has any effect"
        return text

    def _quiet(self) -> str | None:
        state, now = self._store.watch_state(), self._clock.now()
        if not state.stale(now):
            return None
        since = "" if state.last_contact is None else f" since {rfc3339(state.last_contact)}"
        return f"the watch of the overrides has had no contact{since}: the last content applies"

    @property
    def listed(self) -> bool:
        """Whether the watch has shown the ConfigMap, or its absence, at least once."""
        return self._listed

    @property
    def feature_off(self) -> str | None:
        """Why the overrides cannot be read at all now; None if they can, and before the first minute has passed."""
        off = self._store.forbidden is not None or (not self._listed and self._waited)
        return self.trouble if off else None

    @property
    def knowledge(self) -> Knowledge:
        """The keys with their last readable contents."""
        return self._knowledge

    @property
    def unread(self) -> int:
        """How many keys have no known content."""
        return len(self._unread)

    @property
    def document(self) -> OverridesDocument | None:
        """The newest known version of the ConfigMap; None if it does not exist or was never seen."""
        return self._learnt or self._watched

    @property
    def current(self) -> bool:
        """Whether `document` is fresh enough to be overwritten without a live read first."""
        fresh = self._listed and self._store.forbidden is None
        return fresh and not self._store.watch_state().stale(self._clock.now())

    def effective(self, namespace: str) -> EffectiveOverrides:
        """Returns the overrides that are in force for this shoot now."""
        return rules.effective(namespace, self._knowledge, self._clock.now(), self._unread)

    def global_pause(self) -> Pause | None:
        """Returns the pause of all shoots that is in force now, if any."""
        return rules.pause_of(ALL_SHOOTS, self._knowledge.get(ALL_SHOOTS), self._clock.now())

    def holds(self) -> Mapping[str, Hold]:
        """Returns the holds by namespace, including expired ones; of an unreadable key, the last known one."""
        return rules.holds(self._knowledge)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of what is in force, including pauses and holds that expire.

        It is called for every new text, even if the meaning is the same.
        """
        self._listeners.append(listener)

    # Learning.

    def learn(self, document: OverridesDocument) -> None:
        """Takes over a version that was written or read live; a lagging watch does not undo it."""
        known = self.document
        if known is not None and not _later(document, known):
            return
        self._learnt, self._learnt_at = document, self._clock.now()
        self._take()

    def amend(self, key: str, entry: OverrideEntry) -> None:
        """Changes the remembered content of an unreadable key, without writing it."""
        known = self._knowledge.get(key)
        if known is not None and known.problem is not None:
            self._knowledge = {**self._knowledge, key: replace(known, entry=entry)}
            self._tell()

    def note_done(self, namespace: str, operation: str) -> None:
        """Marks the hold of `operation` as done in this process, whether or not that can be written."""
        self._done.pop(namespace, None)
        self._done[namespace] = operation
        if len(self._done) > rules.MOST_KEYS:
            del self._done[next(iter(self._done))]
        self._take()

    def has_ended(self, namespace: str, hold: Hold) -> bool:
        """Returns whether the hold has no run to wait for: it names none, is done, or its run ended in this process."""
        return hold.operation is None or hold.done or self._done.get(namespace) == hold.operation

    def _watch_changed(self) -> None:
        """Handles a new version from the watch, or a change of the watch's state."""
        self._woken.set()
        if not self._store.watch_state().synced:
            return
        self._shown = True
        before, shown = self._watched, self._store.document()
        if shown is not None and self._gone is not None and not _after(shown, self._gone):
            shown = None
        existed = self.document is not None
        self._watched = shown
        if self._learnt is not None and _overtaken(self._learnt, before, shown):
            self._learnt = None
        if existed and self.document is None:
            log.warning(_DELETED)
        self._take()

    async def _settle(self) -> None:
        """Reads versions live that the watch still does not show, until cancelled.

        Either the watch lags, or it has missed the version, as after a new list that followed somebody else's deletion.
        Whether the watch is in contact does not tell which.
        """
        while True:
            await self._clock.sleep(_WATCH_LAGS / 3)
            learnt = self._learnt
            if learnt is None or self._clock.now() < self._learnt_at + _WATCH_LAGS:
                continue
            self._learnt_at = self._clock.now()
            try:
                found = await self._store.read()
            except ClusterError:
                continue  # what was learnt still applies
            if self._learnt is not learnt:
                continue  # the watch has caught up meanwhile
            self._learnt = found
            if found is None:  # gone, and so is what the watch shows, which is older
                self._gone, self._watched = learnt, None
                log.warning(_DELETED)
            self._take()

    def _take(self) -> None:
        found = self.document
        before, self._data = self._data, {} if found is None else found.data
        data, known, now = self._data, self._knowledge, self._clock.now()
        keys = rules.chosen(data, before, known)
        kept = {key: known[key] for key in keys if key in known}
        self._to_read = [key for key in keys if key not in kept or kept[key].text != data[key]]
        unread = data.keys() - kept.keys()
        for key in self._unread.keys() - unread:
            del self._unread[key]
        self._unread |= dict.fromkeys(unread - self._unread.keys(), now)
        self._news |= kept.keys() != known.keys()
        self._knowledge = kept
        self._read_on()

    def _read_on(self) -> None:
        """Parses some of the new texts, and notifies the listeners after the last of them."""
        some, now = self._to_read[: rules.some_of(self._to_read, self._data)], self._clock.now()
        self._to_read = self._to_read[len(some) :]
        read = rules.observed(self._knowledge, {key: self._data[key] for key in some}, now)
        known = rules.with_done({**self._knowledge, **read}, self._done)
        self._news |= known != self._knowledge
        self._knowledge = known
        for key in some:
            self._unread.pop(key, None)
        if self._to_read:
            self._woken.set()
            return
        self._listed = self._listed or self._shown
        if self._news:
            self._news = False
            self._tell()

    def _tell(self) -> None:
        """Notifies all listeners; one that fails is logged and does not affect the others."""
        self._heard_at = self._clock.now()
        self._woken.set()
        for listener in self._listeners:
            try:
                listener()
            except Exception as error:
                log.exception("a listener of the overrides failed", exc_info=error)

    # Expiry.

    async def run(self) -> None:
        """Notifies when something expires and reports problems of the watch, until cancelled."""
        await asyncio.gather(self._settle(), self._follow_the_clock())

    async def _follow_the_clock(self) -> None:
        while True:
            self._woken.clear()
            while self._to_read:
                await self._clock.sleep(0)
                self._read_on()
            self._tell_of_time()
            self._report()
            await self._until(self._next_check())

    def _tell_of_time(self) -> None:
        """Notifies if something has expired since the last time, or if missing overrides count as none from now on."""
        end = rules.next_end(self._knowledge, self._heard_at, self._unread)
        synced, self._was_synced = self._was_synced, self.synced
        if synced != self._was_synced or (end is not None and end <= self._clock.now()):
            self._tell()

    def _next_check(self) -> float:
        end = rules.next_end(self._knowledge, self._heard_at, self._unread)
        look = self._clock.now() + (_LOOKED_AT if self.synced else _UNSYNCED)
        return look if end is None else min(end, look)

    async def _until(self, instant: float) -> None:
        try:
            async with asyncio.timeout(max(instant - self._clock.now(), 0.0)):
                await self._woken.wait()
        except TimeoutError:
            return

    def _report(self) -> None:
        """Logs each problem once, and sets the metric if the overrides cannot be read at all."""
        self._metrics.feature_off.labels(FEATURE).set(int(self.feature_off is not None))
        trouble, before = self.trouble, self._reported
        self._reported = trouble
        if trouble == before:
            return
        if trouble is not None:
            log.warning("overrides cannot be followed", feature=FEATURE, error=trouble)
        else:
            log.info("overrides are followed again", feature=FEATURE)


def _later(one: OverridesDocument, other: OverridesDocument) -> bool:
    """Returns whether `one` is newer; resourceVersions of kube-apiserver are numbers that grow over all objects.

    Versions that are not numbers cannot be compared: the one received last counts.
    """
    mine, others = one.resource_version, other.resource_version
    if mine.isdecimal() and others.isdecimal():
        return int(mine) > int(others)
    return mine != others


def _after(one: OverridesDocument, gone: OverridesDocument) -> bool:
    """Returns whether `one` was created after `gone` was deleted."""
    return one.uid != gone.uid and _later(one, gone)


def _overtaken(
    learnt: OverridesDocument, before: OverridesDocument | None, shown: OverridesDocument | None
) -> bool:
    """Returns whether a watch that moves from `before` to `shown` has caught up with `learnt`."""
    if shown is not None:
        return shown.resource_version == learnt.resource_version or _later(shown, learnt)
    return before is not None and before.uid == learnt.uid


# The pauses for the weeder: one of scope `all` keeps it from deleting pods.


class WeederPauses:
    """The pauses for the weeder (a `ports.Pauses`)."""

    def __init__(self, overrides: OverridesView) -> None:
        self._overrides = overrides

    @property
    def synced(self) -> bool:
        """Whether the pauses are known; before that nothing is deleted."""
        return self._overrides.synced

    def paused(self, namespace: str) -> str | None:
        """Returns who paused the shoot or all shoots, until when and why; None if pods may be deleted."""
        effective = self._overrides.effective(namespace)
        pause = effective.covering
        if pause is None or pause.scope is not Scope.ALL:
            return None
        what = "all shoots are paused" if pause is effective.global_pause else "the shoot is paused"
        return f"{what} by {pause.author} until {rfc3339(pause.until)}: {pause.reason}"

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change."""
        self._overrides.subscribe(listener)
