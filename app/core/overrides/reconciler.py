"""Completes, removes and reports overrides, in the replica that leads the prober."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Final

import structlog

from app.core.clock import Clock
from app.core.errors import ClusterError, FeatureUnavailable, LeadershipLost, StoreFull
from app.core.model.overrides import ALL_SHOOTS, OverrideEntry
from app.core.overrides import notices
from app.core.overrides.cache import OverrideCache
from app.core.overrides.document import EntryKind, encode, parts_of
from app.core.overrides.notices import EndedBy, InForce, NoticeSource
from app.core.overrides.rules import KeyKnowledge, Knowledge
from app.core.overrides.writer import Data, OverrideWriter, Signature, signatures
from app.core.reporting.notices import NoticeBus

# Which data the leader wants in the ConfigMap: omitted fields filled in, expired entries removed; pure.


KEPT: Final = 3_600.0
"""Seconds for which an expired entry stays visible."""


def tidied(
    data: Mapping[str, str], knowledge: Knowledge, now: float, gone: Collection[str]
) -> Mapping[str, str]:
    """Returns the data as it should be; keys with a text that is unknown or cannot be read stay as they are.

    Args:
        data: the current data.
        knowledge: the parsed contents.
        now: the current instant.
        gone: keys whose Cluster does not exist any more; they are removed whatever they say.
    """
    found = dict(data)
    for key, known in knowledge.items():
        if data.get(key) != known.text:
            continue
        text = None if key in gone else _without_expired(known, now)
        if text is None:
            del found[key]
        else:
            found[key] = text
    return found


def _without_expired(known: KeyKnowledge, now: float) -> str | None:
    """Returns the remaining text of a key; None if nothing remains."""
    if known.problem is not None:
        return known.text
    whole = known.text if known.completed is None else known.completed
    if known.entry.empty:
        return None if known.seen + KEPT <= now else whole
    past = [kind for kind in EntryKind if over(known.entry, kind, now)]
    if not past:
        return whole
    left = {kind: part for kind, part in parts_of(whole).items() if kind not in past}
    return encode(left) if left else None


def over(entry: OverrideEntry, kind: EntryKind, now: float) -> bool:
    """Returns whether an entry expired long enough ago to be removed; a hold whose run is under way never did."""
    found = entry.pause if kind is EntryKind.PAUSE else entry.hold
    if found is None or found.until + KEPT > now:
        return False
    return kind is EntryKind.PAUSE or (entry.hold is not None and entry.hold.done)


log = structlog.get_logger(__name__)

_LOOKED_AT: Final = 10.0
# Seconds between a failed write and the next attempt.
_RETRIED_AFTER: Final = 30.0
# Notices that are published before the event loop gets a turn.
_AT_ONCE: Final = 20
# Seconds for which a Cluster must be missing before its key is removed, so that one that is recreated keeps its
# overrides.
_GONE_FOR: Final = 60.0


class OverrideReconciler:
    """Runs in every replica of the prober, and acts in the leader.

    What is in force when this replica becomes the leader was reported by its predecessor and is not reported again,
    except for texts that no leader can have processed: incomplete and unreadable ones.

    Args:
        cache: what is known.
        writer: changes the ConfigMap.
        notice_bus: receives the notices.
        clock: decides what has expired.
        home: the watchdog's own namespace, where the ConfigMap is.
        leading: returns whether this replica leads.
        clusters: returns the names of all Clusters; None while they are not known.
    """

    def __init__(
        self,
        cache: OverrideCache,
        writer: OverrideWriter,
        notice_bus: NoticeBus,
        clock: Clock,
        *,
        home: str,
        leading: Callable[[], bool],
        clusters: Callable[[], Collection[str] | None],
    ) -> None:
        self._cache, self._writer, self._notice_bus, self._clock = cache, writer, notice_bus, clock
        self._home, self._leading, self._clusters = home, leading, clusters
        self._told: InForce | None = None
        self._signed: frozenset[Signature] = frozenset()
        self._led = False
        self._missing_since: dict[str, float] = {}
        self._retry_at = clock.now()
        self._failing = False
        self._woken = asyncio.Event()
        cache.subscribe(self.wake)

    def wake(self) -> None:
        """Checks for work at once: the overrides or the leadership have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Reports and tidies after each change, and every 10 s, until cancelled."""
        while True:
            self._woken.clear()
            await self._tell()
            await self._tidy()
            try:
                async with asyncio.timeout(_LOOKED_AT):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _tell(self) -> None:
        if not self._cache.listed:
            return
        now, knowledge = self._clock.now(), self._cache.knowledge
        current = notices.in_force(knowledge, now)
        before, self._told = self._told, current
        endings = self._endings()
        leads, led = self._leading(), self._led
        self._led = leads
        if not leads:
            return
        if before is None or not led:
            before = {p: acting for p, acting in current.items() if not knowledge[p.key].news}
        document = self._cache.document
        home = NoticeSource(self._home, None if document is None else document.uid)
        due = notices.notices(before, current, now, home, endings)
        while some := tuple(islice(due, _AT_ONCE)):
            for notice in some:
                self._notice_bus.publish(notice)
            await self._clock.sleep(0)

    def _endings(self) -> EndedBy:
        """Returns who ended what since the last check.

        Of two ends of the same place, the first ended what was in force.
        """
        before, now = self._signed, signatures(self._cache.document)
        self._signed = frozenset(now)
        return {each.place: each.by for each in reversed(now) if each not in before}

    async def _tidy(self) -> None:
        gone, document = self._gone(), self._cache.document
        if document is None or not self._leading() or self._clock.now() < self._retry_at:
            return

        def plan(data: Data) -> Data:
            return tidied(data, self._cache.knowledge, self._clock.now(), gone)

        if plan(document.data) == document.data:
            return
        try:
            await self._writer.change(plan, starting=self._starting)
        except (FeatureUnavailable, LeadershipLost) as error:
            self._postpone(error, told=False)
        except (ClusterError, StoreFull) as error:
            self._postpone(error, told=not self._failing)
        else:
            self._failing = False

    def _postpone(self, error: Exception, *, told: bool) -> None:
        """Logs the first of consecutive failures; a feature that is off is reported elsewhere."""
        self._retry_at = self._clock.now() + _RETRIED_AFTER
        if told:
            self._failing = True
            log.warning("the overrides could not be cleaned up", error=str(error))

    def _starting(self) -> None:
        if not self._leading():
            raise LeadershipLost("this replica no longer leads and does not maintain the overrides")

    def _gone(self) -> Collection[str]:
        """Returns the keys whose Cluster this replica has missed for a minute."""
        clusters, now = self._clusters(), self._clock.now()
        if clusters is None:
            self._missing_since = {}
            return ()
        missing = [k for k in self._cache.knowledge if k != ALL_SHOOTS and k not in clusters]
        self._missing_since = {key: self._missing_since.get(key, now) for key in missing}
        return [key for key, since in self._missing_since.items() if now >= since + _GONE_FOR]
