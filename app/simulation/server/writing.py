"""Writes to a store: create, replace, patch, delete, and the subresources `status` and `scale`."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from app.core.errors import Conflict, Forbidden
from app.simulation import manifests
from app.simulation.deletion import POD, DeleteOptions, DeletionState
from app.simulation.server import checks, rendering
from app.simulation.server.catalog import ServedResource
from app.simulation.server.options import RequestedObject
from app.simulation.server.reading import key_of, not_found
from app.simulation.store import Object, ObjectKey, Store, merge, version_of
from app.simulation.traffic import Write
from app.simulation.validation import WrongType, check_count
from app.simulation.views import ref_of, size_field

_MADE_BY_REPLACING: Final = frozenset({"Event", "Lease"})
_NEW_POD: Final = {"phase": "Pending", "qosClass": "BestEffort"}
_DIGITS: Final = "bcdfghjklmnpqrstvwxz2456789"


class AlreadyExists(Conflict):
    """An object of this name exists already."""

    def __init__(self, resource: ServedResource, name: str) -> None:
        self.name = name
        super().__init__(f'{resource.title} "{name}" already exists', status=409)


class Author(NamedTuple):
    """The user of a write, when it was sent, and how it is to be taken."""

    name: str
    now: float
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

    def tried(
        self,
        resource: ServedResource,
        target: RequestedObject,
        body: Object,
        write: Callable[["StoreWriter"], Object],
    ) -> Object:
        """Returns what would come of a write, which changes nothing; raises what it raises."""
        name = target.name or str(checks.metadata_of(body).get("name") or "")
        key = ObjectKey(resource.kind, target.namespace, name)
        made = write(StoreWriter(self._store.trial(key), lambda _: None, self._delete))
        metadata, before = dict(made["metadata"]), self._store.find(key)
        del metadata["resourceVersion"]
        if before is not None:
            metadata["resourceVersion"] = version_of(before)
        return {**made, "metadata": metadata}

    def create(
        self, resource: ServedResource, target: RequestedObject, body: Object, author: Author
    ) -> Object:
        """Creates an object; its status is dropped if the kind has a status subresource.

        Raises:
            Forbidden: the kind is served no longer.
            Conflict: there is one of this name.
            Invalid: it lacks a name, is of another kind or namespace, or is wrong.
        """
        checks.check_kind(resource, body)
        checks.check_sent(resource, "", body, strict=author.strict)
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
        made = self._store.create(key, manifests.born(whole, author.now))
        self._enter(made, {}, author, "create")
        return made

    def replace(
        self, resource: ServedResource, target: RequestedObject, body: Object, author: Author
    ) -> Object:
        """Replaces an object, its status or its scale.

        Raises:
            NotFound: there is none.
            Conflict: it has another resourceVersion than the one named.
            Invalid: it is wrong.
        """
        current = self._existing(resource, target)
        key = key_of(resource, target)
        checks.check_sent(resource, target.name, body, strict=author.strict)
        if target.part == "scale":
            return self._scale(current, key, body, author)
        checks.check_kind(resource, body)
        checks.check_replacement(resource, target, body, current)
        if target.part == "status":
            changed = self._store.replace(key, body, status=True)
        else:
            whole = {**body, "apiVersion": resource.api_version}
            if "status" in resource.parts:
                whole.pop("status", None)
            if "status" in current:
                whole["status"] = current["status"]
            changed = self._store.replace(key, whole)
        self._enter(changed, body, author, "update")
        return changed

    def makes(self, resource: ServedResource, target: RequestedObject) -> bool:
        """Returns whether replacing an object that does not exist creates it."""
        missing = self._store.find(key_of(resource, target)) is None
        return missing and not target.part and resource.kind in _MADE_BY_REPLACING

    def make(
        self, resource: ServedResource, target: RequestedObject, body: Object, author: Author
    ) -> Object:
        """Creates an object that was to be replaced but does not exist.

        Raises:
            Conflict: it was to be a certain object.
            Invalid: it is wrong, or of another name.
        """
        checks.check_target(target, body)
        metadata = dict(checks.metadata_of(body))
        if metadata.get("uid"):
            raise Conflict("the object that was to be replaced is gone", status=409)
        metadata.pop("resourceVersion", None)
        return self.create(resource, target, {**body, "metadata": metadata}, author)

    def patch(
        self, resource: ServedResource, target: RequestedObject, patch: Object, author: Author
    ) -> Object:
        """Merges a patch into an object, its status or its scale.

        Raises:
            NotFound: there is none.
            Conflict: it has another resourceVersion than the one named.
            Invalid: what comes of it is wrong.
        """
        current = self._existing(resource, target)
        try:
            return self._patch(resource, target, patch, author, current)
        except WrongType as error:
            raise error.of_patch() from error

    def _patch(
        self,
        resource: ServedResource,
        target: RequestedObject,
        patch: Object,
        author: Author,
        current: Object,
    ) -> Object:
        key = key_of(resource, target)
        checks.check_sent(resource, target.name, patch, strict=author.strict, whole=False)
        checks.check_whole(resource, target, patch)
        checks.check_patch(resource, target, patch, current)
        if target.part == "scale":
            return self._scale(current, key, merge(rendering.scale(current), patch), author, patch)
        changed = self._store.patch(key, patch, status=target.part == "status")
        self._enter(changed, patch, author, "patch")
        return changed

    def delete(
        self,
        resource: ServedResource,
        target: RequestedObject,
        options: DeleteOptions,
        author: Author,
    ) -> DeletionState:
        """Deletes an object, or makes a running pod terminate.

        Raises:
            NotFound: there is none.
            Conflict: a precondition does not hold.
        """
        before = self._existing(resource, target)
        made = self._delete(key_of(resource, target), author.name, options)
        if made.gone or (made.object is not before and not options.dry_run):
            self._enter(before, {}, author, "delete")
        return made

    def _existing(self, resource: ServedResource, target: RequestedObject) -> Object:
        found = self._store.find(key_of(resource, target))
        if found is None:
            raise not_found(resource, target.name)
        return found

    def _scale(
        self,
        current: Object,
        key: ObjectKey,
        wanted: Object,
        author: Author,
        patch: Object | None = None,
    ) -> Object:
        replicas = (wanted.get("spec") or {}).get("replicas") or 0
        check_count("Scale", key.name, "spec.replicas", replicas)
        version = _version_in(wanted if patch is None else patch)
        body = {
            "metadata": {"resourceVersion": version},
            "spec": {size_field(current): replicas},
        }
        changed = self._store.patch(key, body)
        self._enter(changed, wanted if patch is None else patch, author, "scale")
        return changed

    def _name_in(self, body: Object) -> str:
        metadata = checks.metadata_of(body)
        if metadata.get("name") or not metadata.get("generateName"):
            return str(metadata.get("name") or "")
        self._named += 1
        number, suffix = self._named * 7919, ""
        for _ in range(5):
            number, digit = divmod(number, len(_DIGITS))
            suffix += _DIGITS[digit]
        return f"{metadata['generateName']}{suffix}"

    def _enter(self, obj: Object, body: Mapping[str, Any], author: Author, verb: str) -> None:
        metadata = obj["metadata"]
        place = metadata["namespace"] or metadata["name"]
        self._wrote(Write(author.now, place, ref_of(obj), body, author.name, author.now, verb))


def _version_in(body: Object) -> str | None:
    version = checks.metadata_of(body).get("resourceVersion")
    return None if version is None else str(version)
