"""The objects of one kind as last seen; an object that cannot be decoded keeps its last good record."""

from collections.abc import Callable, Mapping
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
        complaint: Callable[[T], str | None],
    ) -> None:
        """Creates an empty copy.

        Args:
            label: the name of the watch in the log.
            decode: turns an object into a record.
            complaint: returns which part of a record could not be understood, if any.
        """
        self._label, self._record_of, self._complaint = label, decode, complaint
        self._objects: dict[str, dict[str, T]] = {}
        self._complained: dict[ObjectKey, str] = {}

    @property
    def empty(self) -> bool:
        """Whether there are no objects."""
        return not self._objects

    def of(self, namespace: str) -> Mapping[str, T]:
        """Returns the objects of a namespace by name."""
        return self._objects.get(namespace, {})

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
                problem = self._complaint(record)
            except (msgspec.MsgspecError, UnicodeDecodeError, BadAnswer) as error:
                problem = str(error)
        if problem is not None:
            text = "an object cannot be decoded; its last known state stays in use"
            self.complain(key, meta.resource_version, text, error=problem)
        return key, meta.resource_version, record

    def complain(self, key: ObjectKey, version: str | None, text: str, **more: object) -> None:
        """Logs a warning about an object, once for each of its versions."""
        if self._complained.get(key) != (version or ""):
            self._complained[key] = version or ""
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
        self._complained.pop(key, None)
        objects = self._objects.get(key[0], {})
        if objects.pop(key[1], None) is None:
            return False
        if not objects:
            del self._objects[key[0]]
        return True

    def drop(self, namespace: str) -> None:
        """Drops all objects of a namespace."""
        self._objects.pop(namespace, None)
        for key in [key for key in self._complained if key[0] == namespace]:
            del self._complained[key]

    def replace(self, found: Mapping[ObjectKey, T]) -> tuple[ObjectKey, ...]:
        """Replaces all objects; returns the keys of those that changed, appeared or vanished."""
        before = [(ns, name) for ns, objects in self._objects.items() for name in objects]
        gone = [key for key in before if key not in found and self.remove(key)]
        news = [key for key, record in found.items() if self.put(key, record)]
        return (*gone, *news)
