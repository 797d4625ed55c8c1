"""Validates objects from clients before they reach the store: names, metadata, times, Events; pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.core.errors import Conflict, Invalid, ServerFault
from app.core.model.instants import parse_rfc3339
from app.simulation.server.catalog import ServedResource
from app.simulation.server.options import RequestedObject
from app.simulation.store import Object
from app.simulation.validation import SIZED, Rejected, WrongType

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY: Final = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_MAX_NAME: Final = 253
_MAX_LABEL: Final = 63
_WORDS: Final = ("apiVersion", "kind")
_PARTS: Final = ("metadata", "spec", "status")
_MAPS: Final = ("annotations", "labels")
_TIMES: Final = ("renewTime", "acquireTime")
# Kinds that may be replaced without saying which version is.
_UNCONDITIONAL: Final = frozenset(
    {
        *("Deployment", "EndpointSlice", "Namespace", "Node", "Pod", "ReplicaSet"),
        *("Secret", "Service", "StatefulSet"),
    }
)
_EVENT_TYPES: Final = frozenset({"Normal", "Warning"})
_EVENT_TEXTS: Final = ("action", "reason", "reportingInstance")
_MAX_EVENT_TEXT: Final = 128
_MAX_NOTE: Final = 1024


def is_key(text: str) -> bool:
    """Returns whether a text is a valid key of a label or an annotation."""
    return bool(_KEY.fullmatch(text)) and len(text.rpartition("/")[2]) <= _MAX_LABEL


def is_label(text: str) -> bool:
    """Returns whether a text is a valid value of a label."""
    return bool(_LABEL.fullmatch(text)) and len(text) <= _MAX_LABEL


def check_shape(kind: str, name: str, body: Object, parts: Sequence[str] = _PARTS) -> None:
    """Raises WrongType where a part of an object or a patch, if it is there, is of another type than everywhere."""
    for member in _WORDS:
        if not isinstance(body.get(member), str | None):
            raise WrongType(kind, name, member, "it as text")
    for member in parts:
        if not isinstance(body.get(member), Mapping | None):
            raise WrongType(kind, name, member, "it as an object")
    metadata = metadata_of(body)
    for member in _MAPS:
        if not isinstance(metadata.get(member), Mapping | None):
            raise WrongType(kind, name, f"metadata.{member}", "it as an object")


def metadata_of(body: Object) -> Mapping[str, Any]:
    """Returns the metadata of an object or a patch; empty if it has none."""
    found = body.get("metadata")
    return found if isinstance(found, Mapping) else {}


def check_sent(
    resource: ServedResource, name: str, body: Object, *, strict: bool, whole: bool = True
) -> None:
    """Checks the form of an object or a patch that a client sent; a definition judges the rest of it later.

    Raises:
        WrongType: a part of it is of a wrong type.
        Invalid: no field may be unknown (`strict`), and one is: 400, or 422 in a patch.
    """
    known = resource.definition
    check_shape(resource.kind, name, body, _PARTS if known is None else _PARTS[:1])
    if known is not None and strict and (unknown := known.unknown(body)):
        fields = ", ".join(f'unknown field "{each}"' for each in unknown)
        if not whole:
            problem = f"Invalid value: {json.dumps(body)}: strict decoding error: {fields}"
            raise Rejected("", "", "patch", problem)
        raise Invalid(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {fields}",
            status=400,
        )


def check_kind(resource: ServedResource, body: Object) -> None:
    """Raises Invalid if the kind of an object differs from that of its path."""
    if resource.definition is not None:
        _check_named(resource, body)
    kind = body.get("kind", resource.kind)
    if kind != resource.kind:
        raise Invalid(f"{kind} cannot be handled as a {resource.kind}", status=400)


def _check_named(resource: ServedResource, body: Object) -> None:
    """Checks that a custom resource says what it is; a built-in one need not."""
    if not body.get("kind"):
        problem = f"(must be of type {resource.kind}): Object 'Kind' is missing"
        raise Invalid(f"the object provided is unrecognized {problem}", status=400)
    version = body.get("apiVersion", "")
    if version != resource.api_version:
        raise Invalid(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})",
            status=400,
        )
    if body["kind"] != resource.kind:
        problem = f'Invalid value: "{body["kind"]}": must be {resource.kind}'
        raise Rejected(body["kind"], str(metadata_of(body).get("name", "")), "kind", problem)


def check_new(resource: ServedResource, target: RequestedObject, name: str, body: Object) -> None:
    """Checks an object before it is created.

    Raises:
        Invalid: it is wrong.
        ServerFault: it says which version it has.
    """
    if not name:
        problem = "Required value: name or generateName is required"
        raise Rejected(resource.kind, "", "metadata.name", problem)
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        problem = f'Invalid value: "{name}": must be lower case letters, digits, - and .'
        raise Rejected(resource.kind, name, "metadata.name", problem)
    _check_namespace(target, body)
    if metadata_of(body).get("resourceVersion"):
        raise ServerFault("resourceVersion should not be set on objects to be created", status=500)
    check_content(resource, name, body)
    match resource.kind:
        case "Event":
            _check_event(name, target.namespace, body)
        case "Pod" if not (body.get("spec") or {}).get("containers"):
            raise Rejected("Pod", name, "spec.containers", "Required value")
        case "EndpointSlice" if not body.get("addressType"):
            raise Rejected("EndpointSlice", name, "addressType", "Required value")
        case _:
            pass  # whatever else is wrong, nobody here makes such objects


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
    if resource.kind not in _UNCONDITIONAL and not metadata.get("resourceVersion"):
        problem = "Invalid value: 0: must be specified for an update"
        raise Rejected(resource.plural, target.name, "metadata.resourceVersion", problem)
    if metadata.get("uid", current["metadata"]["uid"]) != current["metadata"]["uid"]:
        raise Conflict("the object has another uid", status=409)
    check_content(resource, target.name, body)


def check_target(target: RequestedObject, body: Object) -> None:
    """Raises Invalid (400) if the name or namespace of a complete object differs from its path."""
    name = metadata_of(body).get("name")
    if not name:
        raise Invalid(f"the name of the object ({target.name} based on URL) is missing", status=400)
    _check_name(target, name)
    _check_namespace(target, body)


def check_patch(
    resource: ServedResource, target: RequestedObject, patch: Object, current: Object
) -> None:
    """Checks a merge patch of `current`.

    Raises:
        Invalid: what would come of it is wrong.
    """
    metadata = metadata_of(patch)
    _check_name(target, metadata.get("name", target.name))
    if metadata.get("uid", current["metadata"]["uid"]) != current["metadata"]["uid"]:
        problem = f'Invalid value: "{metadata["uid"]}": field is immutable'
        raise Rejected(resource.kind, target.name, "metadata.uid", problem)
    for member in _WORDS if resource.definition is not None else ():
        if patch.get(member, current[member]) != current[member]:
            problem = f'Invalid value: "{patch[member]}": must be {current[member]}'
            raise Rejected(resource.kind, target.name, member, problem)
    check_content(resource, target.name, patch)


def check_whole(resource: ServedResource, target: RequestedObject, patch: Object) -> None:
    """Raises Rejected if a patch removes a field that every object of the kind has."""
    for member in ("metadata", *(("spec",) if resource.kind in SIZED else ())):
        if member in patch and patch[member] is None:
            raise Rejected(resource.kind, target.name, member, "Required value")


def check_content(resource: ServedResource, name: str, body: Object) -> None:
    """Checks annotations, labels and times; what is null is about to be removed.

    Raises:
        Rejected: one is wrong.
        WrongType: one is of a wrong type.
    """
    metadata = metadata_of(body)
    for member in _MAPS:
        for key, value in (metadata.get(member) or {}).items():
            _check_pair(resource.kind, name, f"metadata.{member}", key, value)
    if resource.kind == "Lease":
        for member in _TIMES:
            value = (body.get("spec") or {}).get(member)
            if value is not None and (not isinstance(value, str) or parse_rfc3339(value) is None):
                raise WrongType(resource.kind, name, f"spec.{member}", "it as a time")


def _check_pair(kind: str, name: str, path: str, key: str, value: object) -> None:
    if not is_key(key):
        raise Rejected(kind, name, path, f'Invalid value: "{key}": is no qualified name')
    if value is None:
        return
    if not isinstance(value, str):
        raise WrongType(kind, name, path, f"{type(value).__name__} as text")
    if path == "metadata.labels" and not is_label(value):
        raise Rejected(kind, name, path, f'Invalid value: "{value}": is no label')


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
    wrong = _wrong_in_event(namespace, body)
    if wrong:
        path, problem = next(iter(wrong.items()))
        raise Rejected("Event", name, path, problem)


def _wrong_in_event(namespace: str, body: Object) -> dict[str, str]:
    """What is wrong, by member."""
    regarding = body.get("regarding") or {}
    length = {name: len(str(body.get(name) or "")) for name in (*_EVENT_TEXTS, "note")}
    judged = {
        "eventTime": (parse_rfc3339(body.get("eventTime")) is None, "Required value"),
        "reportingController": (
            not _KEY.fullmatch(str(body.get("reportingController") or "")),
            "is no qualified name",
        ),
        **{
            name: (not 0 < length[name] <= _MAX_EVENT_TEXT, f"needs 1 to {_MAX_EVENT_TEXT} letters")
            for name in _EVENT_TEXTS
        },
        "note": (length["note"] > _MAX_NOTE, f"has over {_MAX_NOTE} letters"),
        "type": (body.get("type") not in _EVENT_TYPES, "has an invalid value"),
        "regarding.namespace": (
            not regarding.get("namespace") and namespace != "default",
            "does not match event.namespace",
        ),
    }
    return {path: problem for path, (is_wrong, problem) in judged.items() if is_wrong}
