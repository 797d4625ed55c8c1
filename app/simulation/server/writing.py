"""Writes to a store: create, replace, patch, delete, and the subresources `status` and `scale`."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from app.core.errors import Conflict, Forbidden
from app.simulation import manifests
from app.simulation.deletion import POD, DeleteOptions, DeletionState
from app.simulation.server import checks, rendering
from app.simulation.server.catalog import ServedResource
from app.simulation.server.options import RequestedObject
from app.simulation.server.reading import existing, key_of
from app.simulation.store import Object, ObjectKey, Store, merge
from app.simulation.traffic import Write
from app.simulation.validation import check_count
from app.simulation.views import ref_of, size_field

_MADE_BY_REPLACING: Final = frozenset({"Event", "Lease"})
_NEW_POD: Final = {"phase": "Pending", "qosClass": "BestEffort"}


class AlreadyExists(Conflict):
    """An object of this name exists already."""

    def __init__(self, resource: ServedResource, name: str) -> None:
        self.name = name
        super().__init__(f'{resource.title} "{name}" already exists', status=409)


class WriteRequest(NamedTuple):
    """What a client wants to be written."""

    verb: str
    """create, update, patch or delete."""
    resource: ServedResource
    target: RequestedObject
    body: Object
    by: str
    """Whose request it is."""
    sent: float
    """When it was sent."""
    strict: bool = False
    """Whether fields that are unknown are refused."""


class StoreWriter:
    """Executes the writes of clients on one store."""

    def __init__(
        self,
        store: Store,
        wrote: Callable[[Write], None],
        deleted: Callable[[ObjectKey, str, DeleteOptions], DeletionState],
    ) -> None:
        """Writes nothing yet.

        Args:
            store: what is written.
            wrote: called with each write that was accepted.
            deleted: deletes, in somebody's name.
        """
        self._store, self._wrote, self._delete = store, wrote, deleted
        self._named = 0

    def write(self, asked: WriteRequest) -> tuple[int, Object]:
        """Creates, replaces or patches an object, its status or its scale.

        Returns:
            The HTTP status, and the object as it is then.

        Raises:
            NotFound: there is none.
            Conflict: there is one of this name, or it has another resourceVersion than the one named.
            Forbidden: the kind is served no longer.
            Invalid: it is wrong.
        """
        verb, resource, target, body = asked[:4]
        checks.check_sent(
            resource, target.name, body, strict=asked.strict, patch=asked.verb == "patch"
        )
        if verb == "create":
            return 201, self._create(asked, body)
        made_anew = resource.kind in _MADE_BY_REPLACING and not target.part
        if verb == "update" and made_anew and self._store.find(key_of(resource, target)) is None:
            checks.check_target(target, body)
            metadata = dict(checks.metadata_of(body))
            if metadata.get("uid"):
                raise Conflict("the object that was to be replaced is gone", status=409)
            metadata.pop("resourceVersion", None)
            return 201, self._create(asked, {**body, "metadata": metadata})
        current = existing(self._store, resource, target)
        if verb == "patch":
            checks.check_patch(resource, target, body, current)
        if target.part == "scale":
            wanted = merge(rendering.scale(current), body) if verb == "patch" else body
            return 200, self._scale(asked, current, wanted)
        if verb == "patch":
            status = target.part == "status"
            changed = self._store.patch(key_of(resource, target), body, status=status)
        else:
            changed = self._replace(asked, current)
        self._enter(changed, asked, verb)
        return 200, changed

    def _create(self, asked: WriteRequest, body: Object) -> Object:
        resource, target = asked.resource, asked.target
        checks.check_kind(resource, body)
        name = self._name_in(body)
        checks.check_new(resource, target, name, body)
        key = ObjectKey(resource.kind, target.namespace, name)
        if resource.definition is not None and resource.kind not in self._store.definitions:
            ended = "create not allowed while custom resource definition is terminating"
            raise Forbidden(f'{resource.title} "{name}" is forbidden: {ended}', status=403)
        if self._store.find(key) is not None:
            raise AlreadyExists(resource, name)
        whole = {**body, "apiVersion": resource.api_version}
        if "status" in resource.parts:
            whole.pop("status", None)
        if resource.kind == POD:
            whole["status"] = dict(_NEW_POD)
        made = self._store.create(key, manifests.born(whole, asked.sent))
        self._enter(made, asked._replace(body={}), "create")
        return made

    def _replace(self, asked: WriteRequest, current: Object) -> Object:
        resource, target, body = asked.resource, asked.target, asked.body
        checks.check_kind(resource, body)
        checks.check_replacement(resource, target, body, current)
        if target.part == "status":
            return self._store.replace(key_of(resource, target), body, status=True)
        whole = {**body, "apiVersion": resource.api_version}
        if "status" in resource.parts:
            whole.pop("status", None)
        if "status" in current:
            whole["status"] = current["status"]
        return self._store.replace(key_of(resource, target), whole)

    def _scale(self, asked: WriteRequest, current: Object, wanted: Object) -> Object:
        replicas = (wanted.get("spec") or {}).get("replicas") or 0
        check_count("Scale", asked.target.name, "spec.replicas", replicas)
        patch: dict[str, Any] = {"spec": {size_field(current): replicas}}
        version = checks.metadata_of(asked.body).get("resourceVersion")
        patch["metadata"] = {"resourceVersion": version}
        changed = self._store.patch(key_of(asked.resource, asked.target), patch)
        self._enter(changed, asked, "scale")
        return changed

    def delete(self, asked: WriteRequest, options: DeleteOptions) -> DeletionState:
        """Deletes an object, or makes a running pod terminate.

        Raises:
            NotFound: there is none.
            Conflict: a precondition does not hold.
        """
        before = existing(self._store, asked.resource, asked.target)
        made = self._delete(key_of(asked.resource, asked.target), asked.by, options)
        if made.gone or made.object is not before:
            self._enter(before, asked._replace(body={}), "delete")
        return made

    def _name_in(self, body: Object) -> str:
        metadata = checks.metadata_of(body)
        if metadata.get("name") or not metadata.get("generateName"):
            return str(metadata.get("name") or "")
        self._named += 1
        return f"{metadata['generateName']}{self._named:05}"

    def _enter(self, obj: Object, asked: WriteRequest, verb: str) -> None:
        metadata, sent = obj["metadata"], asked.sent
        place = metadata["namespace"] or metadata["name"]
        self._wrote(Write(sent, place, ref_of(obj), asked.body, asked.by, sent, verb))
