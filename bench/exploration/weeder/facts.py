"""The facts of a weeder's world: what was asked for, what was accepted, and what a pod truly was."""

from typing import Final, NamedTuple

from app.core.model.instants import parse_duration, parse_rfc3339
from app.simulation.store import Object

_FIRST: Final = 10.0


class Sending(NamedTuple):
    """A process sends a deletion now."""

    process: str
    at: float
    namespace: str
    name: str
    uid: str
    owner: str
    """The uid of the owner; that of the pod where nobody owns it."""
    services: frozenset[str]
    """Those of the namespace that recover now, as far as this process was told."""


class Accepted(NamedTuple):
    """A server has accepted a deletion."""

    sending: Sending
    pod: Object
    """As it was right before."""


def owner_of(pod: Object) -> str | None:
    """The uid of the controller that a pod belongs to."""
    for each in pod["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            return str(each["uid"])
    return None


def ends(pod: Object) -> bool:
    """Whether it is terminating."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def backoff_left(pod: Object, now: float) -> float | None:
    """Seconds for which a pod would still wait in CrashLoopBackOff, as its status tells; None: it does not wait.

    The longest of its containers; 10 s doubling with each restart, or as long as the kubelet says, from the last exit.
    """
    status = pod.get("status") or {}
    every = (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    )
    return max((_left(each, now) for each in every if _waits(each)), default=None)


def _waits(container: Object) -> bool:
    return bool(container["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")


def _left(container: Object, now: float) -> float:
    ended = container["lastState"].get("terminated", {})
    exited, restarts = parse_rfc3339(ended.get("finishedAt")), container["restartCount"]
    if exited is None:
        return float("inf")
    _, told, _ = container["state"]["waiting"]["message"].split(maxsplit=2)  # back-off 1m20s …
    whole = min(_FIRST * 2 ** min(max(restarts, 1) - 1, 10), parse_duration(told))
    return float(max(whole - max(now - exited, 0.0), 0.0))
