"""What is written to a store: create, replace, patch, delete, and the subresources `status` and `scale`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from app.core.errors import Conflict, Invalid
from app.core.simulation import manifests
from app.core.simulation.server import rendering
from app.core.simulation.server.catalog import Resource
from app.core.simulation.server.paths import Target
from app.core.simulation.server.reading import key_of, not_found
from app.core.simulation.store import Key, Object, Store, merge
from app.core.simulation.traffic import Write
from app.core.simulation.validation import validate_count
from app.core.simulation.views import ref_of, size_field


class Author(NamedTuple):
    """Who writes, and when it was sent."""

    name: str
    now: float


class Writer:
    """Writes one store."""

    def __init__(self, store: Store, wrote: Callable[[Write], None]) -> None:
        self._store = store
        self._wrote = wrote

    def create(self, resource: Resource, target: Target, body: Object, author: Author) -> Object:
        """Stores a new object.

        Raises:
            Conflict: there is one of this name.
            Invalid: it lacks a name, or is of another kind or namespace.
        """
        _check_kind(resource, body)
        name = _name_in(body, author)
        _check_namespace(target, body)
        key = Key(resource.kind, target.namespace, name)
        if self._store.find(key) is not None:
            raise Conflict(f'{resource.plural} "{name}" already exists', status=409)
        whole = {**body, "apiVersion": resource.api_version}
        made = self._store.create(key, manifests.born(whole, author.now))
        self._enter(made, {}, author, "create")
        return made

    def replace(self, resource: Resource, target: Target, body: Object, author: Author) -> Object:
        """Puts an object, its status or its scale in the place of what is there.

        Raises:
            NotFound: there is none.
            Conflict: it has another resourceVersion than the one named.
            Invalid: it is wrong.
        """
        current = self._existing(resource, target)
        key = key_of(resource, target)
        if target.part == "scale":
            return self._scale(current, key, body, author)
        _check_kind(resource, body)
        if target.part == "status":
            precondition = {"metadata": {"resourceVersion": _version_in(body)}}
            patch = {**precondition, "status": body.get("status", {})}
            changed = self._store.patch(key, patch, status=True)
        else:
            kept = {"apiVersion": resource.api_version, "status": current.get("status")}
            whole = {**body, **{name: value for name, value in kept.items() if value is not None}}
            changed = self._store.replace(key, whole)
        self._enter(changed, body, author, "update")
        return changed

    def patch(self, resource: Resource, target: Target, patch: Object, author: Author) -> Object:
        """Merges a patch into an object, its status or its scale.

        Raises:
            NotFound: there is none.
            Conflict: it has another resourceVersion than the one named.
            Invalid: what comes of it is wrong.
        """
        current = self._existing(resource, target)
        key = key_of(resource, target)
        if target.part == "scale":
            return self._scale(current, key, merge(rendering.scale(current), patch), author, patch)
        changed = self._store.patch(key, patch, status=target.part == "status")
        self._enter(changed, patch, author, "patch")
        return changed

    def delete(self, resource: Resource, target: Target, body: Object, author: Author) -> Object:
        """Removes an object; returns it as it was.

        Raises:
            NotFound: there is none.
            Conflict: a precondition does not hold.
        """
        current = self._existing(resource, target)
        preconditions = body.get("preconditions") or {}
        self._store.delete(
            key_of(resource, target),
            resource_version=preconditions.get("resourceVersion"),
            uid=preconditions.get("uid"),
        )
        self._enter(current, {}, author, "delete")
        return current

    def _existing(self, resource: Resource, target: Target) -> Object:
        found = self._store.find(key_of(resource, target))
        if found is None:
            raise not_found(resource, target.name)
        return found

    def _scale(
        self,
        current: Object,
        key: Key,
        wanted: Object,
        author: Author,
        patch: Object | None = None,
    ) -> Object:
        replicas = (wanted.get("spec") or {}).get("replicas") or 0
        validate_count(f'Scale "{key.name}"', "spec.replicas", replicas)
        version = _version_in(wanted if patch is None else patch)
        body = {
            "metadata": {"resourceVersion": version},
            "spec": {size_field(current): replicas},
        }
        changed = self._store.patch(key, body)
        self._enter(changed, wanted if patch is None else patch, author, "scale")
        return changed

    def _enter(self, obj: Object, body: Mapping[str, Any], author: Author, verb: str) -> None:
        metadata = obj["metadata"]
        place = metadata["namespace"] or metadata["name"]
        self._wrote(Write(author.now, place, ref_of(obj), body, author.name, author.now, verb))


def _version_in(body: Object) -> str | None:
    version = (body.get("metadata") or {}).get("resourceVersion")
    return None if version is None else str(version)


def _check_kind(resource: Resource, body: Object) -> None:
    kind = body.get("kind", resource.kind)
    if kind != resource.kind:
        raise Invalid(f"{kind} cannot be handled as a {resource.kind}", status=400)


def _check_namespace(target: Target, body: Object) -> None:
    namespace = (body.get("metadata") or {}).get("namespace")
    if namespace and namespace != target.namespace:
        raise Invalid(
            "the namespace of the provided object does not match the namespace sent on the request",
            status=400,
        )


def _name_in(body: Object, author: Author) -> str:
    metadata = body.get("metadata") or {}
    if metadata.get("name"):
        return str(metadata["name"])
    if metadata.get("generateName"):
        return f"{metadata['generateName']}{int(author.now * 1e6) % 36**5:05x}"
    raise Invalid("name or generateName is required", status=422)
