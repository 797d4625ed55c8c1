"""Objects in the API's JSON: alone, in lists, as rows of the tables that kubectl prints; pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.core.model.instants import parse_rfc3339
from app.simulation.definitions import SIZED, Definition, ServedResource
from app.simulation.store import Object
from app.simulation.views import size_field, terminating

if TYPE_CHECKING:
    from app.simulation.server.reading import StoredPage

_WITHOUT_GENERATION: Final = frozenset({"Event", "Lease", "Namespace", "Node", "Secret", "Service"})
_SLICE: Final = "EndpointSlice"
_EMPTY: Final[tuple[object, ...]] = ("", None, {}, [])
# The fields of an EndpointSlice that are null if empty.
_LISTS: Final = ("endpoints", "ports")
TYPED: Final = _WITHOUT_GENERATION | SIZED | {"Pod", _SLICE}
"""Built-in kinds, which a real server has Go types for; the others are custom resources."""
_SHOWN_WHEN_DELETED: Final = frozenset({"Pod", "Service"})


def served(resource: ServedResource, obj: Object) -> Object:
    """Converts an object to the requested version: Events are stored as events.k8s.io."""
    if (resource.group, resource.kind) != ("", "Event"):
        return obj
    kept = ("kind", "metadata", "reason", "type", "eventTime", "action", "reportingInstance")
    return {
        "apiVersion": resource.api_version,
        **{name: obj.get(name) for name in kept},
        **({"series": obj["series"]} if "series" in obj else {}),
        "involvedObject": obj.get("regarding") or {},
        "message": obj.get("note", ""),
        "reportingComponent": obj.get("reportingController", ""),
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
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
    if obj["kind"] in TYPED:
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


def listed(resource: ServedResource, page: "StoredPage", *, partially: bool) -> dict[str, Any]:
    """Returns a list, or one page of it; `partially`: of metadata only."""
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.continues or not (partially or resource.kind in TYPED):
        metadata["continue"] = page.continues
    kind = "PartialObjectMetadataList" if partially else f"{resource.kind}List"
    render = partial if partially else item
    return {
        "kind": kind,
        "apiVersion": "meta.k8s.io/v1" if partially else resource.api_version,
        "metadata": metadata,
        "items": [render(served(resource, obj)) for obj in page.items],
    }


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
    return {"major": major, "minor": minor, "gitVersion": git_version}


# Objects as rows of a table, which kubectl prints.


class Column(NamedTuple):
    """A column; an instant is shown as the time since."""

    name: str
    cell: Callable[[Object], object]
    priority: int = 0
    """Above 0 it is shown to those who ask for a wide table."""
    instant: bool = False


def table(resource: ServedResource, page: "StoredPage", now: float) -> dict[str, Any]:
    """Returns a list, one page of it or one object as rows."""
    columns: Sequence[Column] = (_NAME, *_COLUMNS.get(resource.kind, ()), _AGE)
    if resource.kind == "Event":
        columns = _OF_EVENTS
    elif isinstance(resource, Definition):
        columns = (_NAME, *map(_printed, resource.columns))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(page.version)}
        | ({"continue": page.continues} if page.continues else {}),
        "columnDefinitions": [
            {
                "name": each.name,
                "type": "date" if each.instant else "string",
                "format": "name" if each.name == "Name" else "",
                "description": "",
                "priority": each.priority,
            }
            for each in columns
        ],
        "rows": [
            {
                "cells": [
                    _age(each.cell(obj), now) if each.instant else each.cell(obj)
                    for each in columns
                ],
                "object": partial(obj),
            }
            for obj in page.items
        ],
    }


def _age(since: object, now: float) -> str:
    instant = parse_rfc3339(str(since))
    if instant is None:
        return "<unknown>"
    seconds = max(int(now - instant), 0)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def field_at(*path: str, default: object = "") -> Callable[[Object], object]:
    """Returns what reads a field, or gives a default where it is missing."""

    def read(obj: Any) -> object:  # noqa: ANN401 - JSON
        for name in path:
            obj = (obj or {}).get(name)
        return default if obj is None else obj

    return read


def _printed(column: Mapping[str, Any]) -> Column:
    """Returns a column of a definition, whose cells are null where an object has no value."""
    value = field_at(*column["jsonPath"].strip(".").split("."), default=None)
    return Column(column["name"], value, column.get("priority", 0), column["type"] == "date")


# Pods.


def _statuses(pod: Object) -> Iterator[tuple[str, Object]]:
    """Yields the containers, those first that initialize it, each with the prefix of what it waits for."""
    status = pod.get("status") or {}
    for prefix, which in (("Init:", "initContainerStatuses"), ("", "containerStatuses")):
        for each in status.get(which) or ():
            yield prefix, each


def _containers_ready(pod: Object) -> str:
    works = sum(bool(each.get("ready")) for prefix, each in _statuses(pod) if not prefix)
    return f"{works}/{len((pod.get('spec') or {}).get('containers') or ())}"


def _pod_status(pod: Object) -> object:
    """The one word for what it does: what its first container waits for that does not run."""
    if terminating(pod):
        return "Terminating"
    for prefix, each in _statuses(pod):
        if reason := ((each.get("state") or {}).get("waiting") or {}).get("reason"):
            return prefix + reason
    return field_at("status", "phase")(pod)


def _replicas_ready(deployment: Object) -> str:
    has, wants = deployment.get("status", {}), deployment["spec"]
    return f"{has.get('readyReplicas', 0)}/{wants.get('replicas', 1)}"


_NAME: Final = Column("Name", field_at("metadata", "name"))
_AGE: Final = Column("Age", field_at("metadata", "creationTimestamp"), instant=True)
_OF_EVENTS: Final = (
    Column(
        "Last Seen",
        lambda obj: field_at("series", "lastObservedTime", default=obj.get("eventTime"))(obj),
        instant=True,
    ),
    Column("Type", field_at("type")),
    Column("Reason", field_at("reason")),
    Column(
        "Object",
        lambda obj: "{}/{}".format(
            str(field_at("regarding", "kind")(obj)).lower(), field_at("regarding", "name")(obj)
        ),
    ),
    Column("Message", field_at("note")),
    _NAME._replace(priority=1),
)
_COLUMNS: Final[Mapping[str, Sequence[Column]]] = {
    "Deployment": (
        Column("Ready", _replicas_ready),
        Column("Up-to-date", field_at("status", "replicas", default=0)),
        Column("Available", field_at("status", "readyReplicas", default=0)),
    ),
    "Pod": (
        Column("Ready", _containers_ready),
        Column("Status", _pod_status),
        Column(
            "Restarts",
            lambda pod: str(sum(int(each.get("restartCount", 0)) for _, each in _statuses(pod))),
        ),
    ),
}
