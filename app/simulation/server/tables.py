"""Alternative representations of objects: tables, as kubectl prints them, and metadata only; pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from app.core.errors import Invalid
from app.core.model.instants import parse_rfc3339
from app.simulation.definitions import PrintedColumn
from app.simulation.server import rendering
from app.simulation.server.catalog import ServedResource
from app.simulation.store import Object
from app.simulation.views import ready

# What kubectl prints of a pod and of a slice of endpoints, as the server makes it up; pure.


# Entries of a list that are printed.
_SHOWN: Final = 3
_OVER: Final = frozenset({"Succeeded", "Failed"})


def containers_ready(pod: Object) -> str:
    """How many of its containers run and are ready, of how many."""
    ready = sum(
        1 for each in _statuses(pod) if each.get("ready") and "running" in (each.get("state") or {})
    )
    return f"{ready}/{len(pod.get('spec', {}).get('containers') or ())}"


def pod_status(pod: Object) -> str:
    """The one word for what it does."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"] and status.get("phase") not in _OVER:
        return "Terminating"
    return _starting(pod) or _waiting(pod) or status.get("reason") or status.get("phase", "")


def restarts(pod: Object) -> int:
    """How often its containers were started again; while it starts, its init containers."""
    return sum(int(each.get("restartCount", 0)) for each in _counted(pod))


def last_restart(pod: Object) -> str | None:
    """When the last of them had ended."""
    ends = (_last_end(each) for each in _counted(pod))
    return max((end for end in ends if end), default=None) if restarts(pod) else None


def ports(of: Object) -> str:
    """Returns the ports of a slice."""
    return _some([str(port.get("port", "*")) for port in of.get("ports") or ()])


def addresses(of: Object) -> str:
    """Returns the addresses of a slice, ready or not."""
    endpoints = of.get("endpoints") or ()
    return _some([each for endpoint in endpoints for each in endpoint.get("addresses") or ()])


def _some(entries: Sequence[str]) -> str:
    if not entries:
        return "<unset>"
    more = f" + {len(entries) - _SHOWN} more..." if len(entries) > _SHOWN else ""
    return ",".join(entries[:_SHOWN]) + more


def _statuses(pod: Object, which: str = "containerStatuses") -> Sequence[Object]:
    return pod.get("status", {}).get(which) or ()


def _counted(pod: Object) -> Sequence[Object]:
    inits = _statuses(pod, "initContainerStatuses")
    return inits if _starting(pod) else _statuses(pod)


def _starting(pod: Object) -> str | None:
    """What its first init container does that has not ended well; None where all have."""
    inits = _statuses(pod, "initContainerStatuses")
    for number, each in enumerate(inits):
        state = each.get("state") or {}
        if _ended_well(state):
            continue
        reason = _reason(state)
        if reason in (None, "PodInitializing"):
            return f"Init:{number}/{len(pod['spec'].get('initContainers') or inits)}"
        return f"Init:{reason}"
    return None


def _ended_well(state: Object) -> bool:
    return "terminated" in state and not state["terminated"].get("exitCode")


def _waiting(pod: Object) -> str | None:
    """Why its first container does not run that does not; None where all do."""
    return next(filter(None, map(_reason, _states(pod))), None)


def _states(pod: Object) -> Iterator[dict[str, Any]]:
    return (each.get("state") or {} for each in _statuses(pod))


def _reason(state: Object) -> str | None:
    stopped = state.get("waiting") or state.get("terminated") or {}
    reason: str | None = stopped.get("reason")
    return reason


def _last_end(container: Object) -> str | None:
    ended = (container.get("lastState") or {}).get("terminated") or {}
    finished: str | None = ended.get("finishedAt")
    return finished


# What is taken: a real server does not take `application/*`.
_MEDIA: Final = frozenset({"*/*", "application/json"})
# Of one object, and of a list.
_PARTIAL: Final = ("as=PartialObjectMetadata", "as=PartialObjectMetadataList")


class Shape(StrEnum):
    """A requested representation of objects."""

    WHOLE = "Whole"
    PARTIAL = "Partial"
    TABLE = "Table"


class _Column(NamedTuple):
    name: str
    cell: Callable[[Object], object]
    type: str = "string"
    since: Callable[[Object], str | None] | None = None
    """An instant; how long ago it was is added, or is all that is shown where the cell is None."""
    priority: int = 0
    """Above 0 it is shown to those who ask for a wide table."""


def shape_of(accept: str, *, listed: bool = False) -> Shape:
    """The first shape of an Accept header that is served, for one object or a list.

    Raises:
        Invalid: 406, none is.
    """
    for each in (accept or "*/*").split(","):
        media, *words = (word.strip() for word in each.split(";"))
        if media not in _MEDIA:
            continue
        if "as=Table" in words:
            return Shape.TABLE
        if not set(_PARTIAL).isdisjoint(words):
            if _PARTIAL[listed] in words:
                return Shape.PARTIAL
            break
        if not any(word.startswith("as=") for word in words):
            return Shape.WHOLE
    raise Invalid("406: Not Acceptable: available representations: application/json", status=406)


def table(
    resource: ServedResource,
    items: Sequence[Object],
    now: float,
    version: int | str | None,
    continues: str = "",
) -> dict[str, Any]:
    """The objects as rows; of those that have columns only, the name is shown to those who ask for it."""
    columns = _columns(resource)
    metadata: dict[str, Any] = {} if version is None else {"resourceVersion": str(version)}
    if continues:
        metadata["continue"] = continues
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            _definition(column, form="name" if column.name == "Name" else "") for column in columns
        ],
        "rows": [_row(obj, columns, now) for obj in items],
    }


def _columns(resource: ServedResource) -> Sequence[_Column]:
    if resource.kind == "Event":
        return _OF_EVENTS
    if resource.definition is not None:
        return (_NAME, *map(_printed, resource.definition.columns))
    return (_NAME, *_COLUMNS.get(resource.kind, ()), _AGE)


def _printed(column: PrintedColumn) -> _Column:
    if column.type == "date":
        return _Column(column.name, lambda _: None, column.type, column.value, column.priority)
    return _Column(column.name, column.value, column.type, priority=column.priority)


def _definition(column: _Column, form: str) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": form,
        "description": "",
        "priority": column.priority,
    }


def _row(obj: Object, columns: Sequence[_Column], now: float) -> dict[str, Any]:
    cells = [_cell(obj, column, now) for column in columns]
    return {"cells": cells, "object": rendering.partial(obj)}


def _cell(obj: Object, column: _Column, now: float) -> object:
    shown = column.cell(obj)
    if column.since is None:
        return shown
    since = column.since(obj)
    if shown is None:
        return _age(since, now)
    return shown if since is None else f"{shown} ({_age(since, now)} ago)"


def _age(since: str | None, now: float) -> str:
    instant = parse_rfc3339(since)
    if instant is None:
        return "<unknown>"
    seconds = max(int(now - instant), 0)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _status(obj: Object, name: str) -> int:
    return int(obj.get("status", {}).get(name, 0))


def _pods_ready(obj: Object) -> str:
    return f"{_status(obj, 'readyReplicas')}/{obj['spec'].get('replicas', 1)}"


def _readiness(obj: Object) -> str:
    conditions = obj.get("status", {}).get("conditions", ())
    if not any(condition["type"] == "Ready" for condition in conditions):
        return "Unknown"
    return "Ready" if ready(obj) else "NotReady"


def _holder(obj: Object) -> str:
    return str(obj.get("spec", {}).get("holderIdentity", ""))


def _phase(obj: Object) -> str:
    return str(obj.get("status", {}).get("currentStatus", {}).get("phase", ""))


def _node(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get("node", ""))


def _last_seen(event: Object) -> str | None:
    series = event.get("series") or {}
    seen = series.get("lastObservedTime") or event.get("eventTime")
    return None if seen is None else str(seen)


def _regarding(event: Object) -> str:
    found = event.get("regarding") or {}
    return f"{str(found.get('kind', '')).lower()}/{found.get('name', '')}"


_NAME: Final = _Column("Name", lambda obj: obj["metadata"]["name"])
_AGE: Final = _Column(
    "Age", lambda _: None, since=lambda obj: obj["metadata"].get("creationTimestamp")
)
_OF_EVENTS: Final = (
    _Column("Last Seen", lambda _: None, since=_last_seen),
    _Column("Type", lambda obj: obj.get("type", "")),
    _Column("Reason", lambda obj: obj.get("reason", "")),
    _Column("Object", _regarding),
    _Column("Message", lambda obj: obj.get("note", "")),
    _NAME._replace(priority=1),
)
_COLUMNS: Final[Mapping[str, Sequence[_Column]]] = {
    "Deployment": (
        _Column("Ready", _pods_ready),
        _Column("Up-to-date", lambda obj: _status(obj, "replicas"), "integer"),
        _Column("Available", lambda obj: _status(obj, "readyReplicas"), "integer"),
    ),
    "EndpointSlice": (
        _Column("AddressType", lambda obj: obj.get("addressType", "")),
        _Column("Ports", ports),
        _Column("Endpoints", addresses),
    ),
    "Pod": (
        _Column("Ready", containers_ready),
        _Column("Status", pod_status),
        _Column("Restarts", lambda obj: str(restarts(obj)), since=last_restart),
    ),
    "StatefulSet": (_Column("Ready", _pods_ready),),
    "Lease": (_Column("Holder", _holder),),
    "Node": (_Column("Status", _readiness),),
    "Machine": (_Column("Status", _phase), _Column("Node", _node)),
    "Secret": (
        _Column("Type", lambda obj: obj.get("type", "Opaque")),
        _Column("Data", lambda obj: len(obj.get("data") or {}), "integer"),
    ),
}
