"""A bounded, numbered feed of changes for the event stream of the API; readers follow it at their own pace.

A reader is only a position in the sequence: however many readers there are, and however slow, a change is stored once
and nobody waits for a reader. A reader whose position has been dropped gets `FollowerTooSlow` and must start anew.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.tasks import wait_until_set

# Maximum number of changes that are kept: a complete outage of 1,000 shoots.
_MOST: Final = 4_096
_MOST_BYTES: Final = 8 * 2**20
_ID: Final = re.compile(r"([0-9a-f]{1,32})-([0-9]{1,18})", re.ASCII)


class ChangeKind(StrEnum):
    """What a change is about."""

    SHOOT = "shoot"
    OPERATION = "operation"
    WEEDER = "weeder"
    OVERRIDE = "override"
    AUDIT = "audit"


# What a reader gets that names no kinds. Attempts need a right of their own, so that they have to be asked for.
USUAL: Final = frozenset(ChangeKind) - {ChangeKind.AUDIT}


@dataclass(frozen=True, slots=True)
class Change:
    """One change, encoded once for all readers."""

    number: int
    kind: ChangeKind
    namespace: str | None
    """The control-plane namespace; None stands for all."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filter of a reader."""

    namespace: str | None = None
    """Only changes of this control plane, and those that concern all; None stands for no restriction."""
    kinds: frozenset[ChangeKind] = USUAL

    def covers(self, kind: ChangeKind, namespace: str | None) -> bool:
        """Returns whether a change passes the filter."""
        return kind in self.kinds and (
            self.namespace is None or namespace is None or namespace == self.namespace
        )


class FollowerTooSlow(Exception):
    """The next change for a reader has been dropped."""


class Feed:
    """The newest changes in the order of publication."""

    def __init__(self, process: str, *, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        """Creates an empty feed; `process`, up to 32 hexadecimal digits, marks the ids of this process."""
        self._process, self._most, self._most_bytes = process, most, most_bytes
        self._kept: dict[int, Change] = {}
        self._bytes = 0
        self._first = 1
        """Number of the oldest change that is kept, or of the next one."""
        self._last = 0
        self._followers: set[Follower] = set()

    @property
    def position(self) -> int:
        """The number of the newest change."""
        return self._last

    def id_of(self, number: int) -> str:
        """Returns the id of a change, for a client that resumes after it."""
        return f"{self._process}-{number}"

    def publish(self, kind: ChangeKind, namespace: str | None, body: bytes) -> None:
        """Appends a change and wakes all readers."""
        self._last += 1
        self._kept[self._last] = Change(self._last, kind, namespace, body)
        self._bytes += len(body)
        while len(self._kept) > self._most or self._bytes > self._most_bytes:
            self._forget_oldest()
        for each in self._followers:
            each.wake()

    def _forget_oldest(self) -> None:
        self._bytes -= len(self._kept.pop(self._first).body)
        self._first += 1

    def interrupt(self) -> None:
        """Drops all changes, because some may go unpublished from now on: nobody can resume across this instant."""
        self._kept.clear()
        self._bytes = 0
        self._last += 1
        self._first = self._last + 1

    def resume(self, last_id: str) -> int | None:
        """Returns the position after this change; None if the id is foreign or a later change has been dropped."""
        found = _ID.fullmatch(last_id)
        if found is None or found[1] != self._process:
            return None
        number = int(found[2])
        return number if self._first - 1 <= number <= self._last else None

    @contextmanager
    def follow(self, wanted: Wanted, after: int) -> Iterator["Follower"]:
        """Yields a reader of the changes after this number, which is woken for as long as the context lasts."""
        follower = Follower(self, wanted, after)
        self._followers.add(follower)
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    def after(self, number: int) -> Iterator[Change]:
        """Yields the changes after this number, oldest first.

        Raises:
            FollowerTooSlow: some of them have been dropped.
        """
        if number < self._first - 1:
            raise FollowerTooSlow(
                f"change {number + 1} is forgotten; the oldest left is {self._first}"
            )
        for each in range(number + 1, self._last + 1):
            yield self._kept[each]


class Follower:
    """One reader's position in the feed."""

    def __init__(self, feed: Feed, wanted: Wanted, after: int) -> None:
        self._feed, self._wanted = feed, wanted
        self.position = after
        """Number of the newest change that was taken or filtered out."""
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Signals that there may be something to take."""
        self._news.set()

    async def news(self, seconds: float) -> bool:
        """Waits until there may be something to take; returns False if nothing came within so many seconds."""
        return await wait_until_set(self._news, seconds)

    def take(self, most_bytes: int) -> list[Change]:
        """Takes the next changes, oldest first, up to so many bytes but at least one.

        Raises:
            FollowerTooSlow: some of them have been dropped.
        """
        self._news.clear()
        found: list[Change] = []
        size = 0
        for change in self._feed.after(self.position):
            if self._wanted.covers(change.kind, change.namespace):
                size += len(change.body)
                if found and size > most_bytes:
                    self._news.set()
                    break
                found.append(change)
            self.position = change.number
        return found
