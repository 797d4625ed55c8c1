"""A copy of the objects of some namespaces, from one watch of all namespaces; the set may change while it runs.

A namespace that is followed when a list begins is *covered* by it. One that is followed later *joins*: from then on the
changes that the watch delivers are recorded, and then its objects are listed separately. If the watch has reported an
object since the join began, the separate list is ignored for that object: the watch delivers every change in order, so
its last report is the state at the watch's current position, and the list may be older. For all other objects the list
is at least as new as the watch, and any change that it is ahead will be delivered again. So no resourceVersions are
compared, no object is missed, and none remains that is gone.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from app.core.kube import decoding
from app.core.kube.replica import ObjectKey, Replica

T = TypeVar("T")


class NamespacedReplica(Replica[T]):
    """The copy of the objects of one kind in the namespaces that are followed."""

    def __init__(
        self,
        label: str,
        decode: Callable[[decoding.Raw], T],
        complaint: Callable[[T], str | None],
    ) -> None:
        """Follows no namespace yet; the arguments are those of `Replica`."""
        super().__init__(label, decode, complaint)
        self._followed: set[str] = set()
        self._kept: set[str] = set()
        """Namespaces whose changes are recorded."""
        self._covered: set[str] = set()
        """Namespaces that are completely known."""
        self._told: dict[str, set[str]] = {}
        """The objects that the watch has reported, by joining namespace."""
        self._listing = True
        """Whether a list is due or in progress, which will cover what was followed when it began."""

    @property
    def followed(self) -> Collection[str]:
        """The namespaces that are followed."""
        return self._followed

    def follow(self, namespace: str) -> None:
        """Follows a namespace from now on."""
        self._followed.add(namespace)

    def leave(self, namespace: str) -> None:
        """Stops following a namespace and drops its objects, without a notification."""
        for those in (self._followed, self._kept, self._covered):
            those.discard(namespace)
        self._told.pop(namespace, None)
        self.drop(namespace)

    def covers(self, namespace: str) -> bool:
        """Returns whether all objects of a namespace are known."""
        return namespace in self._covered

    def waiting(self) -> tuple[str, ...]:
        """Returns the namespaces that have to join; none while a list is due."""
        return () if self._listing else tuple(sorted(self._followed - self._covered))

    # Called by the reflector.

    def keeps(self, namespace: str) -> bool:
        """Returns whether changes of this namespace are recorded."""
        return namespace in self._kept

    def list_begins(self) -> None:
        """Covers what is followed now; joins in progress are superseded."""
        self._listing = True
        self._kept = set(self._followed)
        self._told.clear()

    def replace(self, found: Mapping[ObjectKey, T]) -> tuple[ObjectKey, ...]:
        """Replaces all objects of the namespaces that were followed since the list began."""
        self._listing = False
        self._covered = set(self._kept)
        return super().replace({key: each for key, each in found.items() if key[0] in self._kept})

    def put(self, key: ObjectKey, record: T) -> bool:
        """Stores a record; returns whether it differs from the one before."""
        self._note(key)
        return super().put(key, record)

    def remove(self, key: ObjectKey) -> bool:
        """Removes an object; returns whether it was there."""
        self._note(key)
        return super().remove(key)

    def _note(self, key: ObjectKey) -> None:
        told = self._told.get(key[0])
        if told is not None:
            told.add(key[1])

    # Joining.

    def join(self, namespace: str) -> None:
        """Records changes of this namespace from now on; only a list that is requested after this may be merged."""
        self._kept.add(namespace)
        self._told.setdefault(namespace, set())

    def merge(self, namespace: str, found: Mapping[ObjectKey, T]) -> bool:
        """Merges a list, apart from objects that the watch has reported; returns whether that covers the namespace.

        It does not if the namespace was left meanwhile, or a list of everything has begun.
        """
        told = self._told.pop(namespace, None)
        if told is None:
            return False
        for key, record in found.items():
            if key[0] == namespace and key[1] not in told:
                self.put(key, record)
        self._covered.add(namespace)
        return True
