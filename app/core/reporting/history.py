"""The history of each shoot in memory: bounded, newest first.

Entries of different importance have separate limits (`_Shelf`), so that none displaces another: after hours of
uneventful or failed probes, the last scale-down and its reason are still there.
"""

import sys
from collections import OrderedDict, deque
from enum import Enum, unique
from itertools import chain
from typing import Final, NamedTuple

from app.core.errors import trimmed
from app.core.model.overrides import ALL_SHOOTS
from app.core.model.probing import NoticeKind, Verdict
from app.core.model.workloads import ResourceRef
from app.core.reporting.notices import EndpointNotice, Notice, Probed, VerdictChanged, WeedingNotice

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
    match notice:
        case EndpointNotice():
            return _Shelf.ENDPOINTS
        case Probed():
            return _Shelf.TROUBLE if notice.failed else _Shelf.ROUTINE
        case VerdictChanged():
            return _Shelf.TROUBLE
        case WeedingNotice():
            return _Shelf.WEEDING
        case _:
            return _Shelf.ACTIONS


class _ShootHistory:
    """The history of one shoot: of each shelf the newest entries within its limits."""

    __slots__ = ("_bytes", "_entries", "_last")

    def __init__(self) -> None:
        # Shelves are made on demand: in most shoots little happens.
        self._entries: dict[_Shelf, deque[HistoryRecord]] = {}
        self._bytes: dict[_Shelf, int] = {}
        self._last = 0

    def note(self, notice: Notice, number: int, of_all: int) -> None:
        """Adds a notice, or merges a probe into the newest entry if that says the same.

        It does not merge across `of_all`, the number of the last notice about all shoots.
        """
        shelf, message = _shelf(notice), trimmed(notice.message)
        entries = self._entries.setdefault(shelf, deque())
        if isinstance(notice, Probed) and self._last > of_all and entries:
            last = entries[-1]
            said = (last.number, last.kind, last.verdict, last.reason, last.message)
            if said == (self._last, notice.kind, notice.verdict, notice.reason, message):
                entries[-1] = last._replace(at=notice.at, times=last.times + 1)
                return
        self._last = number
        entry = HistoryRecord(
            number,
            notice.at,
            notice.kind,
            notice.verdict,
            str(notice.reason),
            message,
            notice.resource,
            since=notice.at,
        )
        entries.append(entry)
        size = self._bytes.get(shelf, 0) + _cost(entry)
        most, most_bytes = shelf.value
        while len(entries) > most or size > most_bytes:
            size -= _cost(entries.popleft())
        self._bytes[shelf] = size

    def newest_first(self) -> list[HistoryRecord]:
        entries = chain.from_iterable(self._entries.values())
        return sorted(entries, key=lambda entry: entry.number, reverse=True)


def _cost(entry: HistoryRecord) -> int:
    return _ENTRY_BYTES + sys.getsizeof(entry.message)


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
        story = self._stories.pop(notice.namespace, None) or _ShootHistory()
        self._stories[notice.namespace] = (
            story  # the last one is the one that something was added to last
        )
        while len(self._stories) > _NAMESPACES:
            self._stories.popitem(last=False)
        story.note(notice, self._number, self._of_all)

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
