"""The objects of one kind as they were last seen; of one that cannot be decoded, the last good record stays."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec
import structlog

from app.core.errors import BadAnswer
from app.core.kube import decoding

log = structlog.get_logger(__name__)

T = TypeVar("T")

ObjectKey = tuple[str, str]
"""Namespace and name; the namespace of what is in none is ''."""


class Replica(Generic[T]):
    """What is known of the objects of one kind."""

    def __init__(
        self,
        label: str,
        decode: Callable[[decoding.Raw], T],
        complaint: Callable[[T], str | None],
    ) -> None:
        """It is empty.

        Args:
            label: the name of its watch in the log.
            decode: makes a record of an object.
            complaint: what of a record could not be understood.
        """
        self._label, self._record_of, self._complaint = label, decode, complaint
        self._objects: dict[str, dict[str, T]] = {}
        self._complained: dict[ObjectKey, str] = {}

    @property
    def empty(self) -> bool:
        """Whether there is nothing."""
        return not self._objects

    def of(self, namespace: str) -> Mapping[str, T]:
        """The objects of a namespace by name."""
        return self._objects.get(namespace, {})

    def list_begins(self) -> None:
        """From now on what is decoded is of a new list, until `replace` is told all of it."""

    def keeps(self, namespace: str) -> bool:  # noqa: ARG002  a copy of all namespaces asks for none
        """Whether the objects of this namespace are kept; what is not is not decoded."""
        return True

    def decode(
        self, raw: decoding.Raw, problem: str | None = None
    ) -> tuple[ObjectKey, str | None, T | None]:
        """Key, resourceVersion and record of an object; the last good record, or None, where it cannot be decoded.

        Of one that is not kept there is no record.

        Args:
            raw: the object; its metadata is enough where there is a problem.
            problem: why it is not to be decoded.

        Raises:
            msgspec.MsgspecError: it cannot even be told which one it is.
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
            text = "an object cannot be decoded, what was known of it goes on"
            self.complain(key, meta.resource_version, text, error=problem)
        return key, meta.resource_version, record

    def complain(self, key: ObjectKey, version: str | None, text: str, **more: object) -> None:
        """Warns of an object, once of each of its versions."""
        if self._complained.get(key) != (version or ""):
            self._complained[key] = version or ""
            log.warning(text, watch=self._label, namespace=key[0], name=key[1], **more)

    def put(self, key: ObjectKey, record: T) -> bool:
        """This object is so now; returns whether that is news."""
        objects = self._objects.setdefault(key[0], {})
        if objects.get(key[1]) == record:
            return False
        objects[key[1]] = record
        return True

    def remove(self, key: ObjectKey) -> bool:
        """This object is gone; returns whether that is news."""
        self._complained.pop(key, None)
        objects = self._objects.get(key[0], {})
        if objects.pop(key[1], None) is None:
            return False
        if not objects:
            del self._objects[key[0]]
        return True

    def drop(self, namespace: str) -> None:
        """Forgets all of a namespace."""
        self._objects.pop(namespace, None)
        for key in [key for key in self._complained if key[0] == namespace]:
            del self._complained[key]

    def replace(self, found: Mapping[ObjectKey, T]) -> tuple[ObjectKey, ...]:
        """These are all objects now; returns those that are not what they were."""
        before = [(ns, name) for ns, objects in self._objects.items() for name in objects]
        gone = [key for key in before if key not in found and self.remove(key)]
        news = [key for key, record in found.items() if self.put(key, record)]
        return (*gone, *news)
