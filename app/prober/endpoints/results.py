"""What the workers have found out: one entry for each worker, and a stream of what changes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app.prober.rules.endpoints import Result


class Target(NamedTuple):
    """Who is asked: a host, or a container of a pod."""

    host: str = ""
    uid: str = ""
    """Of the pod: another pod of the same name is another target."""
    pod: str = ""
    container: str = ""

    def __str__(self) -> str:
        return self.host or f"{self.pod}/{self.container}"


class Key(NamedTuple):
    """A worker: one probe on one target."""

    namespace: str
    probe: str
    target: Target


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one target by one probe."""

    result: Result
    counted: bool
    """Whether runs said so, as often in a row as it takes."""
    since: float
    result_at: float | None = None
    """When the last run that gave a result ended."""
    message: str = ""
    """What that run brought, in one line."""

    def same(self, other: "Entry | None") -> bool:
        """Whether the other says the same, whenever it does."""
        return other is not None and (self.result, self.counted) == (other.result, other.counted)


class Change(NamedTuple):
    """A result that is another one now, was found for the first time, or went with its worker."""

    key: Key
    before: Entry | None
    after: Entry | None


Listener = Callable[[Change], None]


class Results:
    """The cache; each entry belongs to one worker and goes with it."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[Key, Entry]] = {}
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """`listener` is called with each change, after it has been made."""
        self._listeners.append(listener)

    def get(self, key: Key) -> Entry | None:
        """What is known by this worker; None before it has a container, and after it has ended."""
        return self._entries.get(key.namespace, {}).get(key)

    def of(self, namespace: str) -> dict[Key, Entry]:
        """All of one namespace."""
        return dict(self._entries.get(namespace, {}))

    def put(self, key: Key, entry: Entry) -> None:
        """Notes what is known now; listeners hear of it where it says something else than before."""
        entries = self._entries.setdefault(key.namespace, {})
        before = entries.get(key)
        entries[key] = entry
        if not entry.same(before):
            self._tell(Change(key, before, entry))

    def remove(self, key: Key) -> None:
        """The worker has ended."""
        entries = self._entries.get(key.namespace, {})
        before = entries.pop(key, None)
        if not entries:
            self._entries.pop(key.namespace, None)
        if before is not None:
            self._tell(Change(key, before, None))

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)
