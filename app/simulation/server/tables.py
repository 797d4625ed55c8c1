"""Objects as rows of a table, which kubectl prints; pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.core.model.instants import parse_rfc3339
from app.simulation.server import rendering
from app.simulation.server.catalog import ServedResource
from app.simulation.store import Object
from app.simulation.views import terminating


class Column(NamedTuple):
    """A column; an instant is shown as the time since."""

    name: str
    cell: Callable[[Object], object]
    priority: int = 0
    """Above 0 it is shown to those who ask for a wide table."""
    instant: bool = False


def table(
    resource: ServedResource,
    items: Sequence[Object],
    now: float,
    version: int | str,
    continues: str = "",
) -> dict[str, Any]:
    """The objects as rows."""
    columns: Sequence[Column] = (_NAME, *_COLUMNS.get(resource.kind, ()), _AGE)
    if resource.kind == "Event":
        columns = _OF_EVENTS
    elif resource.definition is not None:
        printed = resource.definition.columns
        own = (
            Column(each.name, each.value, each.priority, each.type == "date") for each in printed
        )
        columns = (_NAME, *own)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(version)}
        | ({"continue": continues} if continues else {}),
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
                "object": rendering.partial(obj),
            }
            for obj in items
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


def _at(*path: str, default: object = "") -> Callable[[Object], object]:
    """Returns what reads a field, or gives a default where it is missing."""

    def read(obj: Any) -> object:  # noqa: ANN401 - JSON
        for name in path:
            obj = (obj or {}).get(name)
        return default if obj is None else obj

    return read


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
    return _at("status", "phase")(pod)


def _replicas_ready(deployment: Object) -> str:
    has, wants = deployment.get("status", {}), deployment["spec"]
    return f"{has.get('readyReplicas', 0)}/{wants.get('replicas', 1)}"


_NAME: Final = Column("Name", _at("metadata", "name"))
_AGE: Final = Column("Age", _at("metadata", "creationTimestamp"), instant=True)
_OF_EVENTS: Final = (
    Column(
        "Last Seen",
        lambda obj: _at("series", "lastObservedTime", default=obj.get("eventTime"))(obj),
        instant=True,
    ),
    Column("Type", _at("type")),
    Column("Reason", _at("reason")),
    Column(
        "Object",
        lambda obj: "{}/{}".format(
            str(_at("regarding", "kind")(obj)).lower(), _at("regarding", "name")(obj)
        ),
    ),
    Column("Message", _at("note")),
    _NAME._replace(priority=1),
)
_COLUMNS: Final[Mapping[str, Sequence[Column]]] = {
    "Deployment": (
        Column("Ready", _replicas_ready),
        Column("Up-to-date", _at("status", "replicas", default=0)),
        Column("Available", _at("status", "readyReplicas", default=0)),
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
