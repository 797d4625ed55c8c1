"""The history of each shoot in memory: bounded, newest first.

Entries of different importance have separate limits (`_Shelf`), so that none displaces another: after hours of
uneventful or failed probes, the last scale-down and its reason are still there.
"""

import sys
from collections import OrderedDict, deque
from collections.abc import Iterator
from enum import Enum, unique
from typing import Final, NamedTuple, assert_never

from app.core.errors import trimmed
from app.core.model.overrides import ALL_SHOOTS
from app.core.model.probing import NoticeKind, Verdict
from app.core.model.workloads import ResourceRef
from app.core.reporting.notices import Notice

PROBE: Final = "probe"
"""Key in the numbers of a notice: the name of the endpoint probe that it is about."""
# Estimated size of an entry in bytes, without its message.
_ENTRY_BYTES: Final = 256
# Maximum number of namespaces, the most recent ones; the weeder also reports on namespaces that never were a shoot.
_NAMESPACES: Final = 2_000


class HistoryRecord(NamedTuple):
    """One entry of the history, as described in `docs/api.md`."""

    number: int
    """Sequence number over the entries of all shoots."""
    at: float
    kind: NoticeKind
    verdict: Verdict | None
    reason: str
    message: str
    resource: ResourceRef | None
    since: float
    """When the first of several equal probes in a row ended."""
    times: int = 1
    """How many probes this entry stands for."""

    def again(self, at: float) -> "HistoryRecord":
        """Returns the entry extended by another equal probe."""
        return self._replace(at=at, times=self.times + 1)


@unique
class _Shelf(Enum):
    """Groups of entries with their own limits: maximum number of entries and bytes."""

    ROUTINE = (60, 12_000)
    """Probes that ended in a reading."""
    TROUBLE = (100, 16_000)
    """Probes that failed, and changes of the verdict."""
    ACTIONS = (200, 32_000)
    """Scaling, overrides, and changes in the life of the shoot."""
    WEEDING = (80, 14_000)
    """The weeder's actions: a service that flaps makes it report dozens of pods each time."""
    ENDPOINTS = (80, 12_000)
    """Results of endpoint probes and their gates: targets that flap are reported again and again."""


def _shelf(notice: Notice) -> _Shelf:
    if PROBE in notice.numbers:
        return _Shelf.ENDPOINTS
    match notice.kind:
        case NoticeKind.LOOK:
            return _Shelf.TROUBLE if notice.numbers.get("failed") else _Shelf.ROUTINE
        case NoticeKind.VERDICT:
            return _Shelf.TROUBLE
        case NoticeKind.SCALE | NoticeKind.OVERRIDE | NoticeKind.LIFECYCLE:
            return _Shelf.ACTIONS
        case NoticeKind.WEED:
            return _Shelf.WEEDING
        case _:
            assert_never(notice.kind)


class _Ring:
    """The newest entries within a limit on number and size."""

    __slots__ = ("_bytes", "_entries", "_max_bytes", "_max_entries")

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._entries: deque[HistoryRecord] = deque()
        self._bytes = 0

    def add(self, entry: HistoryRecord) -> None:
        self._entries.append(entry)
        self._bytes += _cost(entry)
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._bytes -= _cost(self._entries.popleft())

    def repeat(self, number: int, notice: Notice) -> bool:
        """Merges the notice into the newest entry if that has this number and says the same; returns whether it did."""
        last = self._entries[-1] if self._entries else None
        if last is None or last.number != number or not _same(last, notice):
            return False
        self._entries[-1] = last.again(notice.at)
        return True

    def __iter__(self) -> Iterator[HistoryRecord]:
        return iter(self._entries)


def _cost(entry: HistoryRecord) -> int:
    return _ENTRY_BYTES + sys.getsizeof(entry.message)


def _same(entry: HistoryRecord, notice: Notice) -> bool:
    said = (entry.kind, entry.verdict, entry.reason, entry.message)
    return said == (NoticeKind.LOOK, notice.verdict, notice.reason, trimmed(notice.message))


class _ShootHistory:
    """The history of one shoot."""

    __slots__ = ("_last", "_rings")

    def __init__(self) -> None:
        self._rings: dict[_Shelf, _Ring] = {}
        """Created on demand: in most shoots little happens."""
        self._last = 0

    def note(self, notice: Notice, number: int, of_all: int) -> None:
        """Adds a notice; does not merge a probe across `of_all`, the number of the last notice about all shoots."""
        ring = self._ring(_shelf(notice))
        if (
            notice.kind is NoticeKind.LOOK
            and self._last > of_all
            and ring.repeat(self._last, notice)
        ):
            return
        self._last = number
        ring.add(_entry(notice, number))

    def _ring(self, shelf: _Shelf) -> _Ring:
        found = self._rings.get(shelf)
        if found is None:
            found = self._rings[shelf] = _Ring(*shelf.value)
        return found

    def newest_first(self) -> list[HistoryRecord]:
        entries = (entry for ring in self._rings.values() for entry in ring)
        return sorted(entries, key=lambda entry: entry.number, reverse=True)


def _entry(notice: Notice, number: int) -> HistoryRecord:
    return HistoryRecord(
        number,
        notice.at,
        notice.kind,
        notice.verdict,
        str(notice.reason),
        trimmed(notice.message),
        notice.resource,
        since=notice.at,
    )


class History:
    """The history of all shoots: at most about 86 kB each, and a few kB where little happens."""

    def __init__(self) -> None:
        self._stories: OrderedDict[str, _ShootHistory] = OrderedDict()
        self._number = 0
        self._of_all = 0

    def note(self, notice: Notice) -> None:
        """Adds `notice`; a subscriber of the bus.

        A notice about all shoots ends every series of equal probes, because it belongs between two of them.
        """
        self._number += 1
        if notice.namespace == ALL_SHOOTS:
            self._of_all = self._number
        self._story(notice.namespace).note(notice, self._number, self._of_all)

    def _story(self, namespace: str) -> _ShootHistory:
        story = self._stories.get(namespace)
        if story is not None:
            self._stories.move_to_end(namespace)
            return story
        story = self._stories[namespace] = _ShootHistory()
        if len(self._stories) > _NAMESPACES:
            self._stories.popitem(last=False)
        return story

    def of(self, namespace: str) -> list[HistoryRecord]:
        """Returns the entries of this shoot, newest first."""
        story = self._stories.get(namespace)
        return [] if story is None else story.newest_first()

    def about(self, namespace: str) -> list[HistoryRecord]:
        """Returns the entries of this shoot and those that concern all shoots, newest first."""
        entries = [*self.of(namespace), *self.of(ALL_SHOOTS)]
        return sorted(entries, key=lambda entry: entry.number, reverse=True)

    def forget(self, namespace: str) -> None:
        """Drops the history of a shoot that is gone from the seed."""
        self._stories.pop(namespace, None)
