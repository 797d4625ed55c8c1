"""Objects, lists and failures as the API shows them; pure."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from app.core.errors import ClusterError, Conflict, Expired
from app.core.simulation.server.catalog import Resource
from app.core.simulation.store import Object
from app.core.simulation.views import scale_view

_SIZED: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
_WITHOUT_GENERATION: Final = frozenset({"Event", "Lease", "Namespace", "Node", "Secret"})
_TYPED: Final = _WITHOUT_GENERATION | _SIZED
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    504: "Timeout",
}


def shown(obj: Object) -> dict[str, Any]:
    """An object as it is sent: without an empty namespace, and without the zeros that typed kinds leave out."""
    kind = obj["kind"]
    metadata = {name: value for name, value in obj["metadata"].items() if value}
    if kind in _WITHOUT_GENERATION:
        del metadata["generation"]
    body: dict[str, Any] = {**obj, "metadata": metadata}
    if kind in _SIZED and "status" in obj:
        body["status"] = {name: value for name, value in obj["status"].items() if value != 0}
    return body


def item(obj: Object) -> dict[str, Any]:
    """An object in a list: kinds that the server knows by type do not name themselves there."""
    body = shown(obj)
    if obj["kind"] in _TYPED:
        del body["kind"], body["apiVersion"]
    return body


def partial(obj: Object) -> dict[str, Any]:
    """Its metadata alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": shown(obj)["metadata"],
    }


def scale(obj: Object) -> dict[str, Any]:
    """The `scale` subresource of an object; a size of 0 is left out of its spec, as everywhere.

    Raises:
        NotFound: the kind has none.
    """
    view, metadata = scale_view(obj), shown(obj)["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": {"replicas": view.replicas} if view.replicas else {},
        "status": {"replicas": view.current},
    }


def listed(
    resource: Resource,
    items: Sequence[Mapping[str, Any]],
    version: int,
    *,
    continues: str = "",
    remaining: int = 0,
    partially: bool = False,
) -> dict[str, Any]:
    """A list, or one page of it."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if continues:
        metadata |= {"continue": continues, "remainingItemCount": remaining}
    if partially:
        kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    else:
        kind, api_version = f"{resource.kind}List", resource.api_version
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}


def status(error: ClusterError, code: int) -> dict[str, Any]:
    """What went wrong, as a Status."""
    return _status(code, str(error), _reason(error, code))


def _reason(error: ClusterError, code: int) -> str:
    if isinstance(error, Conflict) and "already exists" in str(error):
        return "AlreadyExists"
    if isinstance(error, Expired):
        return "Expired"
    return _REASONS.get(code, HTTPStatus(code).phrase.replace(" ", ""))


def _status(code: int, message: str, reason: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def deleted(resource: Resource, obj: Object) -> dict[str, Any]:
    """The answer to a deletion."""
    details = {
        "name": obj["metadata"]["name"],
        "group": resource.group,
        "kind": resource.plural,
        "uid": obj["metadata"]["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }


def version(git_version: str) -> dict[str, Any]:
    """`GET /version`."""
    major, minor, _ = git_version.removeprefix("v").split(".", 2)
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "simulated",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "simulated",
    }
