"""The flows of this process by their ids, running and past, for whoever asks."""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final
from uuid import uuid4

from app.core.errors import OperationGone
from app.core.model.operations import Operation

_PAST: Final = 2_000
"""Automatic flows that are kept after their end: a seed-wide outage of 1,000 shoots, there and back."""
_BY_HAND: Final = 500
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9]{1,9}")


class OperationBook:
    """All flows of one process; those that a person began are not pushed out by the others."""

    def __init__(self, process: str | None = None) -> None:
        """`process` tells ids of this process from those of an earlier one."""
        self._process = process or uuid4().hex[:8]
        self._last = 0
        self._running: dict[str, Callable[[], Operation]] = {}
        self._past: OrderedDict[str, Operation] = OrderedDict()
        self._by_hand: OrderedDict[str, Operation] = OrderedDict()

    def new_id(self) -> str:
        """An id that no other flow has."""
        self._last += 1
        return f"{self._process}-{self._last}"

    def follow(self, name: str, snapshot: Callable[[], Operation]) -> None:
        """A flow waits or runs; `snapshot` says how far it is, until its end."""
        self._running[name] = snapshot

    def close(self, operation: Operation) -> None:
        """A flow has ended like this."""
        self._running.pop(operation.id, None)
        shelf, most = self._past, _PAST
        if operation.author is not None:
            shelf, most = self._by_hand, _BY_HAND
        shelf[operation.id] = operation
        while len(shelf) > most:
            shelf.popitem(last=False)

    def __iter__(self) -> Iterator[Operation]:
        """All that are known, in no order."""
        yield from [snapshot() for snapshot in self._running.values()]
        yield from self._by_hand.values()
        yield from self._past.values()

    def __contains__(self, name: str) -> bool:
        """Whether it is known here."""
        return name in self._running or name in self._by_hand or name in self._past

    def get(self, name: str) -> Operation | None:
        """One of them; None where there never was one of this id.

        Raises:
            OperationGone: an earlier leader's, or one of so long ago that it was forgotten.
        """
        if (snapshot := self._running.get(name)) is not None:
            return snapshot()
        found = self._by_hand.get(name) or self._past.get(name)
        if found is None and self._may_have_been(name):
            raise OperationGone(f"operation {name} is one of an earlier leader, or long over")
        return found

    def _may_have_been(self, name: str) -> bool:
        """Whether some process gave out this id; of our own we know how far they go."""
        if not _ID.fullmatch(name):
            return False
        process, _, number = name.partition("-")
        return process != self._process or 0 < int(number) <= self._last
