"""What kubectl prints of a pod and of a slice of endpoints, as the server makes it up; pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.simulation.store import Object

_SHOWN: Final = 3
"""Entries of a list that are printed."""
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
    """The ports of a slice."""
    return _some([str(port.get("port", "*")) for port in of.get("ports") or ()])


def addresses(of: Object) -> str:
    """The addresses of a slice, ready or not."""
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
