"""People who write Pauses and ScaleRequests, as with kubectl."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.core.errors import NotFound
from app.simulation import manifests
from app.simulation.identities import OPERATOR
from app.simulation.store import Object, ObjectKey

if TYPE_CHECKING:
    from app.simulation.builders import World


class People:
    """People who write immediately and unaffected by faults; `by` names them in the journal."""

    def __init__(self, world: "World") -> None:
        self._world = world

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
        known = self._world.store.definitions[kind]
        whole = {"apiVersion": f"{known.group}/{known.version}", **body}
        made = self._world.store.create(key, manifests.born(whole, self._world.clock.now()))
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
        self._world.write(self._key(kind, namespace, name), {"spec": spec}, by)

    def delete(self, kind: str, namespace: str, name: str, *, by: str = OPERATOR) -> None:
        """Deletes an object.

        Raises:
            NotFound: there is no such object.
        """
        self._enter(self._world.store.delete(self._key(kind, namespace, name)), {}, by, "delete")

    def _key(self, kind: str, namespace: str, name: str) -> ObjectKey:
        if kind not in self._world.store.definitions:
            raise NotFound(f"the server doesn't have a resource type {kind}", status=404)
        return ObjectKey(kind, namespace, name)

    def _enter(self, obj: Object, body: Mapping[str, Any], by: str, verb: str) -> None:
        self._world.journal.enter(self._world.clock.now(), obj, body, by, verb)
