"""The objects of one kind as last seen; an object that cannot be decoded keeps its last good record.

`NamespacedReplica` copies the objects of some namespaces, from one watch of all namespaces; the set may change while it
runs. A namespace that is followed when a list begins is *covered* by it. One that is followed later *joins*: from then
on the changes that the watch delivers are recorded, and then its objects are listed separately. If the watch has
reported an object since the join began, the separate list is ignored for that object: the watch delivers every change
in order, so its last report is the state at the watch's current position, and the list may be older. For all other
objects the list is at least as new as the watch, and any change that it is ahead will be delivered again. So no
resourceVersions are compared, no object is missed, and none remains that is gone.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
import structlog

from app.core.errors import BadAnswer
from app.core.kube import decoding

log = structlog.get_logger(__name__)

T = TypeVar("T")

ObjectKey = tuple[str, str]
"""Namespace and name; cluster-scoped objects have the namespace ''."""


class Replica(Generic[T]):
    """The copy of a reflector: records of the objects of one kind."""

    def __init__(
        self,
        label: str,
        decode: Callable[[decoding.Raw], T],
        problem: Callable[[T], str | None],
    ) -> None:
        """Creates an empty copy.

        Args:
            label: the name of the watch in the log.
            decode: turns an object into a record.
            problem: returns which part of a record could not be understood, if any.
        """
        self._label, self._record_of, self._problem_of = label, decode, problem
        self._objects: dict[str, dict[str, T]] = {}
        self._warned: dict[ObjectKey, str] = {}

    @property
    def empty(self) -> bool:
        """Whether there are no objects."""
        return not self._objects

    def of(self, namespace: str) -> Mapping[str, T]:
        """Returns the objects of a namespace by name."""
        return self._objects.get(namespace, {})

    def everything(self) -> Iterator[T]:
        """Yields the objects of all namespaces."""
        return (each for objects in self._objects.values() for each in objects.values())

    def list_begins(self) -> None:
        """Announces that what is decoded until `replace` belongs to a new list."""

    def keeps(self, namespace: str) -> bool:  # noqa: ARG002  a copy of all namespaces asks for none
        """Returns whether objects of this namespace are kept; others are not decoded."""
        return True

    def decode(
        self, raw: decoding.Raw, problem: str | None = None
    ) -> tuple[ObjectKey, str | None, T | None]:
        """Decodes an object to its key, resourceVersion and record.

        The record is the last good one (or None) if the object cannot be decoded, and None if it is not kept.

        Args:
            raw: the object; its metadata suffices if there is a problem.
            problem: why it is not to be decoded.

        Raises:
            msgspec.MsgspecError: not even its name can be decoded.
            RecursionError: it is nested too deeply.
        """
        meta = decoding.identity(raw)
        key = (meta.namespace or "", meta.name)
        if not self.keeps(key[0]):
            return key, meta.resource_version, None
        record = self.of(key[0]).get(key[1])
        if problem is None:
            try:
                record = self._record_of(raw)
                problem = self._problem_of(record)
            except (msgspec.MsgspecError, UnicodeDecodeError, BadAnswer) as error:
                problem = str(error)
        if problem is not None:
            text = "an object cannot be decoded; its last known state stays in use"
            self.warn(key, meta.resource_version, text, error=problem)
        return key, meta.resource_version, record

    def warn(self, key: ObjectKey, version: str | None, text: str, **more: object) -> None:
        """Logs a warning about an object, once for each of its versions."""
        if self._warned.get(key) != (version or ""):
            self._warned[key] = version or ""
            log.warning(text, watch=self._label, namespace=key[0], name=key[1], **more)

    def put(self, key: ObjectKey, record: T) -> bool:
        """Stores a record; returns whether it differs from the one before."""
        objects = self._objects.setdefault(key[0], {})
        if objects.get(key[1]) == record:
            return False
        objects[key[1]] = record
        return True

    def remove(self, key: ObjectKey) -> bool:
        """Removes an object; returns whether it was there."""
        self._warned.pop(key, None)
        objects = self._objects.get(key[0], {})
        if objects.pop(key[1], None) is None:
            return False
        if not objects:
            del self._objects[key[0]]
        return True

    def drop(self, namespace: str) -> None:
        """Drops all objects of a namespace."""
        self._objects.pop(namespace, None)
        for key in [key for key in self._warned if key[0] == namespace]:
            del self._warned[key]

    def replace(self, found: Mapping[ObjectKey, T]) -> tuple[ObjectKey, ...]:
        """Replaces all objects; returns the keys of those that changed, appeared or vanished."""
        before = [(ns, name) for ns, objects in self._objects.items() for name in objects]
        gone = [key for key in before if key not in found and self.remove(key)]
        news = [key for key, record in found.items() if self.put(key, record)]
        return (*gone, *news)


class NamespacedReplica(Replica[T]):
    """The copy of the objects of one kind in the namespaces that are followed."""

    def __init__(
        self,
        label: str,
        decode: Callable[[decoding.Raw], T],
        problem: Callable[[T], str | None],
    ) -> None:
        """Follows no namespace yet; the arguments are those of `Replica`."""
        super().__init__(label, decode, problem)
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
