"""Creates, changes and deletes Pauses and ScaleRequests as a person with kubectl would."""

from collections.abc import Mapping
from typing import Any

from app.core.errors import NotFound
from app.simulation import manifests
from app.simulation.identities import OPERATOR
from app.simulation.parts import WorldParts
from app.simulation.store import Object, ObjectKey


class People:
    """People who write immediately and unaffected by faults; `by` names them in the journal."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

    def create(
        self, kind: str, namespace: str, name: str, *, by: str = OPERATOR, **spec: object
    ) -> Object:
        """Creates an object.

        Raises:
            NotFound: the kind is not served.
            Conflict: there is one of this name.
            Rejected: `spec` is wrong.
        """
        key, body = self._key(kind, namespace, name), {"spec": spec}
        known = self._parts.store.definitions[kind]
        whole = {"apiVersion": f"{known.group}/{known.version}", **body}
        made = self._parts.store.create(key, manifests.born(whole, self._parts.clock.now()))
        self._enter(made, body, by, "create")
        return made

    def edit(
        self, kind: str, namespace: str, name: str, *, by: str = OPERATOR, **spec: object
    ) -> None:
        """Changes some fields of the spec; None removes one.

        Raises:
            NotFound: there is no such object.
            Rejected: what would come of it is wrong.
        """
        self._parts.write(self._key(kind, namespace, name), {"spec": spec}, by)

    def delete(self, kind: str, namespace: str, name: str, *, by: str = OPERATOR) -> None:
        """Deletes an object.

        Raises:
            NotFound: there is no such object.
        """
        self._enter(self._parts.store.delete(self._key(kind, namespace, name)), {}, by, "delete")

    def _key(self, kind: str, namespace: str, name: str) -> ObjectKey:
        if kind not in self._parts.store.definitions:
            raise NotFound(f"the server doesn't have a resource type {kind}", status=404)
        return ObjectKey(kind, namespace, name)

    def _enter(self, obj: Object, body: Mapping[str, Any], by: str, verb: str) -> None:
        self._parts.journal.enter(self._parts.clock.now(), obj, body, by, verb)
