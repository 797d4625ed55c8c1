"""Converts JSON pods and slices to the records that the weeder and endpoint probes read; pure."""

from collections.abc import Iterator

from app.core.model.endpoints import ProbedContainer, ProbedPod
from app.core.model.instants import parse_rfc3339
from app.core.model.pods import ContainerView, OwnerView, PodView, SliceEndpoint, SliceView
from app.simulation.pod_manifests import SERVICE_NAME
from app.simulation.store import Object, version_of


def pod_view(obj: Object) -> PodView:
    """Converts a pod for the weeder; missing fields count as not reported."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    return PodView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=version_of(obj),
        labels=metadata.get("labels") or {},
        owner=controller_of(obj),
        terminating=terminating(obj),
        containers=tuple(_containers(status)),
        ready_since=_ready_since(status),
    )


def probed_view(obj: Object) -> ProbedPod:
    """Converts a pod for endpoint probes, without its labels, by which the server selects."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    told = {each["name"]: each for each in status.get("containerStatuses") or ()}
    return ProbedPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=version_of(obj),
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "",
        deleting=terminating(obj),
        containers=tuple(
            _probed(each, told.get(each["name"]) or {})
            for each in (obj.get("spec") or {}).get("containers") or ()
        ),
    )


def _probed(container: Object, status: Object) -> ProbedContainer:
    running = (status.get("state") or {}).get("running")
    return ProbedContainer(
        name=container["name"],
        id=status.get("containerID") or "",
        running=running is not None,
        started_at=parse_rfc3339((running or {}).get("startedAt")),
        ports={
            each["name"]: each["containerPort"]
            for each in container.get("ports") or ()
            if "name" in each
        },
    )


def controller_of(obj: Object) -> OwnerView | None:
    """Returns the owner reference with `controller: true`."""
    for each in obj["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            return OwnerView(each["apiVersion"], each["kind"], each["name"], each["uid"])
    return None


def _containers(status: Object) -> Iterator[ContainerView]:
    for member, init in (("initContainerStatuses", True), ("containerStatuses", False)):
        for each in status.get(member) or ():
            yield _container(each, init=init)


def _container(status: Object, *, init: bool) -> ContainerView:
    waiting = (status.get("state") or {}).get("waiting")
    ended = (status.get("lastState") or {}).get("terminated") or {}
    return ContainerView(
        name=status["name"],
        waiting=None if waiting is None else waiting.get("reason") or "",
        restarts=status.get("restartCount"),
        last_exit=parse_rfc3339(ended.get("finishedAt")),
        init=init,
    )


def _ready_since(status: Object) -> float | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return parse_rfc3339(condition.get("lastTransitionTime"))
    return None


def pod_ready(obj: Object) -> bool:
    """Returns whether a pod's condition Ready is True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def terminating(obj: Object) -> bool:
    """Returns whether an object has a deletionTimestamp."""
    return obj["metadata"].get("deletionTimestamp") is not None


def slice_view(obj: Object) -> SliceView:
    """Converts an EndpointSlice."""
    metadata = obj["metadata"]
    return SliceView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        service=(metadata.get("labels") or {}).get(SERVICE_NAME, ""),
        resource_version=version_of(obj),
        endpoints=tuple(_endpoint(each) for each in obj.get("endpoints") or ()),
    )


def _endpoint(endpoint: Object) -> SliceEndpoint:
    ready = (endpoint.get("conditions") or {}).get("ready")
    target = endpoint.get("targetRef") or {}
    pod = target.get("name") if target.get("kind") == "Pod" else None
    return SliceEndpoint(ready=ready is not False, pod=pod)
