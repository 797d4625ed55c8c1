"""Writes to a store: create, replace, patch, delete, and the subresources `status` and `scale`."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from app.core.errors import Conflict, Forbidden, Invalid, ServerFault
from app.core.model.instants import parse_rfc3339
from app.core.model.names import is_label_key, is_subdomain
from app.simulation import manifests
from app.simulation.definitions import (
    SIZED,
    Definition,
    Problem,
    Rejected,
    ServedResource,
    check_count,
)
from app.simulation.server import rendering
from app.simulation.server.options import RequestedObject
from app.simulation.server.reading import existing, key_of
from app.simulation.store import POD, DeleteOptions, Object, ObjectKey, Store, merge
from app.simulation.views import size_field

_PARTS: Final = ("metadata", "spec", "status")
_MAPS: Final = ("annotations", "labels")
_LEASE: Final = "Lease"
_EVENT_TEXTS: Final = ("action", "reason", "reportingInstance")
_MAX_EVENT_TEXT: Final = 128
_MAX_NOTE: Final = 1024


def metadata_of(body: Object) -> Mapping[str, Any]:
    """Returns the metadata of an object or a patch; empty if it has none."""
    found = body.get("metadata")
    return found if isinstance(found, Mapping) else {}


def check_sent(
    resource: ServedResource, name: str, body: Object, *, strict: bool, patch: bool = False
) -> None:
    """Checks the form of an object or a patch that a client sent; a definition judges the rest of it later.

    Raises:
        Invalid: no field may be unknown (`strict`), and one is, or a part is of a wrong type: 400, 422 in a patch.
    """
    kind, custom = resource.kind, resource if isinstance(resource, Definition) else None
    problems = list(_misshapen(body, _PARTS if custom is None else _PARTS[:1]))
    if custom is not None and strict and (unknown := custom.unknown(body)):
        fields = ", ".join(f'unknown field "{each}"' for each in unknown)
        shown = f"Invalid value: {json.dumps(body)}: " if patch else ""
        problems.append(Problem("patch", f"{shown}strict decoding error: {fields}"))
    if problems and patch:
        whose = ("", "") if problems[0].path == "patch" else (kind, name)
        raise Rejected(*whose, *problems[0])
    if problems:
        what = f'{kind} in version "{resource.version}" cannot be handled as a {kind}'
        raise Invalid(f"{what}: {problems[0].text}", status=400)


def _misshapen(body: Object, parts: Iterable[str]) -> Iterator[Problem]:
    """Yields what could not even be read of labels, annotations and the parts of an object."""
    metadata = metadata_of(body)
    for path, part in (
        *((each, body.get(each)) for each in parts),
        *((f"metadata.{each}", metadata.get(each)) for each in _MAPS),
    ):
        if not isinstance(part, Mapping | None):
            yield Problem(path, f"{path}: cannot read it as an object")
        elif path not in parts:
            for key, value in (part or {}).items():
                if not is_label_key(key) or not isinstance(value, str | None):
                    yield Problem(path, f"Invalid value: {key}: {value!r}: is no name, or no text")


def check_kind(resource: ServedResource, body: Object) -> None:
    """Raises Invalid if an object is of another kind or version than its path; a built-in one need not say."""
    wanted = {"kind": resource.kind, "apiVersion": resource.api_version}
    default = {} if isinstance(resource, Definition) else wanted
    for member, right in wanted.items():
        found = body.get(member) or default.get(member)
        if found != right:
            message = f"{resource.kind} cannot be handled: {member} is {found}, not {right}"
            raise Invalid(message, status=400)


def check_new(resource: ServedResource, target: RequestedObject, name: str, body: Object) -> None:
    """Checks an object before it is created.

    Raises:
        Invalid: it is wrong.
        ServerFault: it says which version it has.
    """
    if not name:
        problem = "Required value: name or generateName is required"
        raise Rejected(resource.kind, "", "metadata.name", problem)
    if not is_subdomain(name):
        problem = f'Invalid value: "{name}": must be lower case letters, digits, - and .'
        raise Rejected(resource.kind, name, "metadata.name", problem)
    _check_namespace(target, body)
    if metadata_of(body).get("resourceVersion"):
        raise ServerFault("resourceVersion should not be set on objects to be created", status=500)
    if resource.kind == "Event":  # what is wrong with others, nobody here makes
        _check_event(name, target.namespace, body)


def check_replacement(
    resource: ServedResource, target: RequestedObject, body: Object, current: Object
) -> None:
    """Checks an object before it replaces `current`.

    Raises:
        Invalid: it is wrong, or of another name, or says no version though it has to.
        Conflict: it is another object of this name.
    """
    check_target(target, body)
    metadata = metadata_of(body)
    if resource.kind == _LEASE and not metadata.get("resourceVersion"):
        problem = "Invalid value: 0: must be specified for an update"
        raise Rejected(resource.plural, target.name, "metadata.resourceVersion", problem)
    if metadata.get("uid", current["metadata"]["uid"]) != current["metadata"]["uid"]:
        raise Conflict("the object has another uid", status=409)


def check_target(target: RequestedObject, body: Object) -> None:
    """Raises Invalid (400) if the name or namespace of a complete object differs from its path."""
    _check_name(target, metadata_of(body).get("name"))
    _check_namespace(target, body)


def check_patch(
    resource: ServedResource, target: RequestedObject, patch: Object, current: Object
) -> None:
    """Raises Rejected if a patch would make another object of `current`, or remove what every one has."""
    _check_name(target, metadata_of(patch).get("name", target.name))
    asked = {**patch, "uid": metadata_of(patch).get("uid")}
    has = {**current, "uid": current["metadata"]["uid"]}
    for member in ("apiVersion", "kind", "uid"):
        if asked.get(member) not in (None, has[member]):
            problem = f'Invalid value: "{asked[member]}": must be {has[member]}'
            raise Rejected(resource.kind, target.name, member, problem)
    for member in ("metadata", *(("spec",) if resource.kind in SIZED else ())):
        if member in patch and patch[member] is None:
            raise Rejected(resource.kind, target.name, member, "Required value")


def _check_name(target: RequestedObject, name: object) -> None:
    if name != target.name:
        raise Invalid(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})",
            status=400,
        )


def _check_namespace(target: RequestedObject, body: Object) -> None:
    namespace = metadata_of(body).get("namespace")
    if namespace and namespace != target.namespace:
        raise Invalid(
            "the namespace of the provided object does not match the namespace sent on the request",
            status=400,
        )


def _check_event(name: str, namespace: str, body: Object) -> None:
    def length(member: str) -> int:
        return len(str(body.get(member) or ""))

    right = {
        "eventTime": parse_rfc3339(body.get("eventTime")) is not None,
        "reportingController": is_label_key(str(body.get("reportingController") or "")),
        **{each: 0 < length(each) <= _MAX_EVENT_TEXT for each in _EVENT_TEXTS},
        "note": length("note") <= _MAX_NOTE,
        "type": body.get("type") in {"Normal", "Warning"},
        "regarding.namespace": namespace == "default"
        or (body.get("regarding") or {}).get("namespace"),
    }
    for path, is_right in right.items():
        if not is_right:
            raise Rejected("Event", name, path, "Invalid value: it is missing, too long or wrong")


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
        wrote: Callable[[float, Object, Object, str, str], None],
        deleted: Callable[[ObjectKey, str, DeleteOptions], Object],
    ) -> None:
        """Writes nothing yet.

        Args:
            store: what is written.
            wrote: enters a write that was accepted, as `Journal.enter` does.
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
        check_sent(resource, target.name, body, strict=asked.strict, patch=asked.verb == "patch")
        if verb == "create":
            return 201, self._create(asked, body)
        if (
            verb == "update"
            and resource.kind == _LEASE
            and self._store.find(key_of(resource, target)) is None
        ):
            check_target(target, body)
            metadata = dict(metadata_of(body))
            if metadata.get("uid"):
                raise Conflict("the object that was to be replaced is gone", status=409)
            metadata.pop("resourceVersion", None)
            return 201, self._create(asked, {**body, "metadata": metadata})
        current, key = existing(self._store, resource, target), key_of(resource, target)
        if verb == "update":
            check_kind(resource, body)
            check_replacement(resource, target, body, current)
            changed = self._store.replace(key, {**body, "apiVersion": resource.api_version})
        else:
            check_patch(resource, target, body, current)
            if target.part == "scale":
                return 200, self._scale(asked, current)
            changed = self._store.patch(key, body, status=target.part == "status")
        self._wrote(asked.sent, changed, body, asked.by, verb)
        return 200, changed

    def _create(self, asked: WriteRequest, body: Object) -> Object:
        resource, target = asked.resource, asked.target
        check_kind(resource, body)
        name = self._name_in(body)
        check_new(resource, target, name, body)
        key = ObjectKey(resource.kind, target.namespace, name)
        if isinstance(resource, Definition) and resource.kind not in self._store.definitions:
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
        self._wrote(asked.sent, made, {}, asked.by, "create")
        return made

    def _scale(self, asked: WriteRequest, current: Object) -> Object:
        wanted = merge(rendering.scale(current), asked.body)
        replicas = (wanted.get("spec") or {}).get("replicas") or 0
        check_count("Scale", asked.target.name, "spec.replicas", replicas)
        patch: dict[str, Any] = {"spec": {size_field(current): replicas}}
        version = metadata_of(asked.body).get("resourceVersion")
        patch["metadata"] = {"resourceVersion": version}
        changed = self._store.patch(key_of(asked.resource, asked.target), patch)
        self._wrote(asked.sent, changed, asked.body, asked.by, "scale")
        return changed

    def delete(self, asked: WriteRequest, options: DeleteOptions) -> Object:
        """Deletes an object, or makes a running pod terminate.

        Raises:
            NotFound: there is none.
            Conflict: a precondition does not hold.
        """
        before = existing(self._store, asked.resource, asked.target)
        made = self._delete(key_of(asked.resource, asked.target), asked.by, options)
        if made is not before:
            self._wrote(asked.sent, before, {}, asked.by, "delete")
        return made

    def _name_in(self, body: Object) -> str:
        metadata = metadata_of(body)
        if metadata.get("name") or not metadata.get("generateName"):
            return str(metadata.get("name") or "")
        self._named += 1
        return f"{metadata['generateName']}{self._named:05}"
