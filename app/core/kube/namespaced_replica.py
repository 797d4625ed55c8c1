"""A copy of the objects of some namespaces, from one watch of all of them; which ones may change while it runs.

A namespace that is followed when a list begins is *covered* by it.  One that is followed later *joins*: from then on
the changes that the watch delivers are kept, and then its objects are listed.  Where the watch has told of an object
since, that list says nothing about it: the watch delivers every change, in order, so what it told is how the object was
at the place where the watch is now, and the list may be older than that.  Of all others the list is as new as the watch
or newer, and what it is ahead, the watch will tell again.  So no resourceVersions are compared, no object is missed,
and none stays that is gone.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from app.core.kube import decoding
from app.core.kube.replica import ObjectKey, Replica

T = TypeVar("T")


class NamespacedReplica(Replica[T]):
    """What is known of the objects of one kind in the namespaces that are followed."""

    def __init__(
        self,
        label: str,
        decode: Callable[[decoding.Raw], T],
        complaint: Callable[[T], str | None],
    ) -> None:
        """Nothing is followed; the arguments are those of `Replica`."""
        super().__init__(label, decode, complaint)
        self._followed: set[str] = set()
        self._kept: set[str] = set()
        """Of which changes are taken."""
        self._covered: set[str] = set()
        """Of which everything is known."""
        self._told: dict[str, set[str]] = {}
        """Of which objects the watch has told, of each namespace that joins."""
        self._listing = True
        """Whether a list is to come, or on its way, which will cover what was followed when it began."""

    @property
    def followed(self) -> Collection[str]:
        """The namespaces that are wanted."""
        return self._followed

    def follow(self, namespace: str) -> None:
        """Its objects are wanted from now on."""
        self._followed.add(namespace)

    def leave(self, namespace: str) -> None:
        """They are not any more, and are dropped; nobody is told."""
        for those in (self._followed, self._kept, self._covered):
            those.discard(namespace)
        self._told.pop(namespace, None)
        self.drop(namespace)

    def covers(self, namespace: str) -> bool:
        """Whether all objects of a namespace are known."""
        return namespace in self._covered

    def waiting(self) -> tuple[str, ...]:
        """The namespaces that have to join; none while a list is to come."""
        return () if self._listing else tuple(sorted(self._followed - self._covered))

    # What the reflector tells.

    def keeps(self, namespace: str) -> bool:
        """Whether changes of this namespace are taken."""
        return namespace in self._kept

    def list_begins(self) -> None:
        """Covers what is followed now; whoever was joining needs that no more, or begins anew."""
        self._listing = True
        self._kept = set(self._followed)
        self._told.clear()

    def replace(self, found: Mapping[ObjectKey, T]) -> tuple[ObjectKey, ...]:
        """These are all objects of the namespaces that were followed all the time since the list began."""
        self._listing = False
        self._covered = set(self._kept)
        return super().replace({key: each for key, each in found.items() if key[0] in self._kept})

    def put(self, key: ObjectKey, record: T) -> bool:
        """This object is so now; returns whether that is news."""
        self._note(key)
        return super().put(key, record)

    def remove(self, key: ObjectKey) -> bool:
        """This object is gone; returns whether that is news."""
        self._note(key)
        return super().remove(key)

    def _note(self, key: ObjectKey) -> None:
        told = self._told.get(key[0])
        if told is not None:
            told.add(key[1])

    # How a namespace joins.

    def join(self, namespace: str) -> None:
        """Changes of it are taken from now on: only a list that is asked for after this may be merged."""
        self._kept.add(namespace)
        self._told.setdefault(namespace, set())

    def merge(self, namespace: str, found: Mapping[ObjectKey, T]) -> bool:
        """These are its objects, but for those that the watch has told of; returns whether that covers it.

        It does not where the namespace was left meanwhile, or a list of everything has begun.
        """
        told = self._told.pop(namespace, None)
        if told is None:
            return False
        for key, record in found.items():
            if key[0] == namespace and key[1] not in told:
                self.put(key, record)
        self._covered.add(namespace)
        return True
