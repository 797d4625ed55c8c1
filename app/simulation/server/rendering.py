"""Objects, lists and answers to deletions in the API's JSON; pure."""

from collections.abc import Sequence
from typing import Any, Final

from app.simulation.server.catalog import ServedResource
from app.simulation.store import Object
from app.simulation.validation import SIZED
from app.simulation.views import size_field

_WITHOUT_GENERATION: Final = frozenset({"Event", "Lease", "Namespace", "Node", "Secret", "Service"})
_SLICE: Final = "EndpointSlice"
_EMPTY: Final[tuple[object, ...]] = ("", None, {}, [])
# The fields of an EndpointSlice that are null if empty.
_LISTS: Final = ("endpoints", "ports")
# Built-in kinds, which a real server has Go types for; the others are custom resources.
_TYPED: Final = _WITHOUT_GENERATION | SIZED | {"Pod", _SLICE}
_SHOWN_WHEN_DELETED: Final = frozenset({"Pod", "Service"})


def served(resource: ServedResource, obj: Object) -> Object:
    """Converts an object to the requested version: Events are stored as events.k8s.io."""
    if (resource.group, resource.kind) != ("", "Event"):
        return obj
    kept = ("kind", "metadata", "reason", "type", "eventTime", "action", "reportingInstance")
    more = {"series": "series", "related": "related", "count": "deprecatedCount"}
    return {
        "apiVersion": resource.api_version,
        **{name: obj.get(name) for name in kept},
        **{name: obj[former] for name, former in more.items() if former in obj},
        "involvedObject": obj.get("regarding") or {},
        "message": obj.get("note", ""),
        "reportingComponent": obj.get("reportingController", ""),
        "source": obj.get("deprecatedSource") or {},
        "firstTimestamp": obj.get("deprecatedFirstTimestamp"),
        "lastTimestamp": obj.get("deprecatedLastTimestamp"),
    }


def shown(obj: Object) -> dict[str, Any]:
    """Returns an object as it is sent: without an empty namespace, and without the zeros that built-in kinds omit."""
    kind = obj["kind"]
    metadata = {name: value for name, value in obj["metadata"].items() if value not in _EMPTY}
    if kind in _WITHOUT_GENERATION:
        del metadata["generation"]
    body: dict[str, Any] = {**obj, "metadata": metadata}
    if kind in SIZED:
        status = obj.get("status", {})
        body["status"] = {name: value for name, value in status.items() if value != 0}
    if kind == _SLICE:
        body |= {name: obj.get(name) or None for name in _LISTS}
    return body


def item(obj: Object) -> dict[str, Any]:
    """Returns an object as an item of a list, in which built-in kinds omit kind and apiVersion."""
    body = shown(obj)
    if obj["kind"] in _TYPED:
        del body["kind"], body["apiVersion"]
    return body


def partial(obj: Object) -> dict[str, Any]:
    """Returns the metadata of an object only (PartialObjectMetadata)."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": shown(obj)["metadata"],
    }


def scale(obj: Object) -> dict[str, Any]:
    """Returns the `scale` subresource of an object; a size of 0 is omitted from its spec, as by a real server.

    Raises:
        NotFound: the kind has none.
    """
    field, metadata = size_field(obj), shown(obj)["metadata"]
    wanted, current = obj["spec"][field], obj.get("status", {}).get(field, 0)
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    chosen = obj["spec"].get("selector") if obj["kind"] in SIZED else None
    pairs = sorted((chosen or {}).get("matchLabels", {}).items())
    selector = {"selector": ",".join(f"{key}={value}" for key, value in pairs)} if pairs else {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": current, **selector},
    }


def listed(
    resource: ServedResource,
    items: Sequence[Object],
    version: int,
    *,
    continues: str,
    remaining: int | None,
    partially: bool,
) -> dict[str, Any]:
    """Returns a list, or one page of it; `partially`: of metadata only."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if continues or not (partially or resource.kind in _TYPED):
        metadata["continue"] = continues
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    kind = "PartialObjectMetadataList" if partially else f"{resource.kind}List"
    render = partial if partially else item
    return {
        "kind": kind,
        "apiVersion": "meta.k8s.io/v1" if partially else resource.api_version,
        "metadata": metadata,
        "items": [render(served(resource, obj)) for obj in items],
    }


def is_typed(kind: str) -> bool:
    """Returns whether a kind is built in; others are custom resources."""
    return kind in _TYPED


def deleted(resource: ServedResource, obj: Object) -> dict[str, Any]:
    """Returns the answer to a deletion: the object for some kinds, a Status for others."""
    if resource.kind in _SHOWN_WHEN_DELETED:
        return shown(obj)
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
    """Returns the answer to `GET /version`."""
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
