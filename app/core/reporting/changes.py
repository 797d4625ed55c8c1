"""What changed, numbered: one bounded memory that any number of readers follow, each at its own pace.

A reader is a place in the sequence and nothing else: however many there are, and however slow, a change is kept once.
Nobody waits for a reader; one whose place has been forgotten is told so, and must begin anew.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

_MOST: Final = 4_096
"""Changes that are remembered: a whole outage of 1,000 shoots."""
_MOST_BYTES: Final = 8 * 2**20
_ID: Final = re.compile(r"([0-9a-f]{1,32})-([0-9]{1,18})", re.ASCII)


class ChangeKind(StrEnum):
    """What has changed."""

    SHOOT = "shoot"
    OPERATION = "operation"
    WEEDER = "weeder"
    OVERRIDE = "override"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that changed, as it is told to everybody."""

    number: int
    kind: ChangeKind
    namespace: str | None
    """The control plane; None: all of them."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader wants to hear of."""

    namespace: str | None = None
    """Only of this control plane, and what concerns all of them."""
    kinds: frozenset[ChangeKind] = frozenset(ChangeKind)

    def covers(self, kind: ChangeKind, namespace: str | None) -> bool:
        """Whether this is part of it."""
        return kind in self.kinds and (
            self.namespace is None or namespace is None or namespace == self.namespace
        )


class FollowerTooSlow(Exception):
    """A reader was too slow: what it would have to be told next is forgotten."""


class Feed:
    """The newest changes, in the order in which they were told."""

    def __init__(self, process: str, *, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        """`process` tells ids of this process from those of others: up to 32 hexadecimal digits."""
        self._process, self._most, self._most_bytes = process, most, most_bytes
        self._kept: dict[int, Change] = {}
        self._bytes = 0
        self._first = 1
        """The oldest that is remembered, or the next one."""
        self._last = 0
        self._followers: set[Follower] = set()

    @property
    def position(self) -> int:
        """The number of the newest change."""
        return self._last

    def id_of(self, number: int) -> str:
        """The id of a change, for whoever resumes behind it."""
        return f"{self._process}-{number}"

    def publish(self, kind: ChangeKind, namespace: str | None, body: bytes) -> None:
        """Tells of a change; readers take it when they can."""
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
        """From here on something may change without being told: nobody can resume across this instant."""
        self._kept.clear()
        self._bytes = 0
        self._last += 1
        self._first = self._last + 1

    def resume(self, last_id: str) -> int | None:
        """The place behind the change of this id; None where what followed it is not all remembered."""
        found = _ID.fullmatch(last_id)
        if found is None or found[1] != self._process:
            return None
        number = int(found[2])
        return number if self._first - 1 <= number <= self._last else None

    def follow(self, wanted: Wanted, after: int) -> "Follower":
        """A reader of what is told after the change of this number."""
        follower = Follower(self, wanted, after)
        self._followers.add(follower)
        return follower

    def leave(self, follower: "Follower") -> None:
        """It reads no more."""
        self._followers.discard(follower)

    def after(self, number: int) -> Iterator[Change]:
        """What was told after the change of this number, oldest first.

        Raises:
            Outrun: some of it is forgotten.
        """
        if number < self._first - 1:
            raise FollowerTooSlow(
                f"change {number + 1} is forgotten; the oldest left is {self._first}"
            )
        for each in range(number + 1, self._last + 1):
            yield self._kept[each]


class Follower:
    """One reader's place in the feed; a context manager that leaves it."""

    def __init__(self, feed: Feed, wanted: Wanted, after: int) -> None:
        self._feed, self._wanted = feed, wanted
        self.position = after
        """The number of the newest change that it took, or that does not concern it."""
        self._news = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.leave(self)

    def wake(self) -> None:
        """There is something to take."""
        self._news.set()

    async def news(self, seconds: float) -> bool:
        """Waits until something may be there to take; False where it did not come within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def take(self, most_bytes: int) -> list[Change]:
        """What it has not taken yet, oldest first: no more than so many bytes, though always one.

        Raises:
            Outrun: it came too late.
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
