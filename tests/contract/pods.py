"""Pods and slices of endpoints, as plain data."""

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

SERVICE: Final = "kubernetes.io/service-name"
CRASH_LOOP: Final = "CrashLoopBackOff"
BACK_OFF: Final = "back-off 2m40s restarting failed container=main pod=a_b(c)"


def pod(
    name: str, *, node: str | None = "node-1", labels: Mapping[str, str] = {}, **more: Any
) -> Json:
    """A pod on a node that does not exist, so that nobody stops it; without a node nobody has to."""
    place = {} if node is None else {"nodeName": node}
    container = {"name": "main", "image": "registry.invalid/none:1"}
    metadata = {"name": name, "labels": dict(labels)}
    return {"metadata": metadata, "spec": {"containers": [container], **place}} | more


def crash_looping(restarts: int = 5, finished: str = "2030-01-01T00:00:00Z") -> Json:
    """The status of a pod whose container waits for its back-off to end."""
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": finished}
    container = {
        "name": "main",
        "image": "registry.invalid/none:1",
        "imageID": "",
        "ready": False,
        "restartCount": restarts,
        "state": {"waiting": {"reason": CRASH_LOOP, "message": BACK_OFF}},
        "lastState": {"terminated": ended},
    }
    return {"phase": "Running", "containerStatuses": [container]}


def endpoints(*ready: bool | None, pods: tuple[str, ...] = ()) -> list[Json]:
    """One endpoint for each value; None: whether it is ready is not told."""
    made: list[Json] = []
    for number, is_ready in enumerate(ready):
        conditions = {} if is_ready is None else {"ready": is_ready}
        endpoint: Json = {"addresses": [f"10.0.0.{number + 1}"], "conditions": conditions}
        if number < len(pods):
            endpoint["targetRef"] = {"kind": "Pod", "name": pods[number]}
        made.append(endpoint)
    return made


def slice_of(
    service: str | None, name: str, *ready: bool | None, pods: tuple[str, ...] = ()
) -> Json:
    """A slice of a service; None: of none."""
    labels = {} if service is None else {SERVICE: service}
    metadata = {"name": name, "labels": labels}
    found = endpoints(*ready, pods=pods)
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": found}
