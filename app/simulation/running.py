"""A running pod: its containers and their restarts, as its kubelet tracks them."""

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NamedTuple

from app.core.model.instants import rfc3339
from app.core.model.weeding import CRASH_LOOP
from app.simulation.manifests import condition
from app.simulation.store import ObjectKey
from app.simulation.workloads import Workload

# The kubelet's back-off before it restarts a container.
#
# The first restart is immediate. After each restart the next wait doubles, from 10 s to 300 s, counted from the exit;
# it is reset for a container that ran for more than 10 min. The real kubelet checks only every few seconds whether a
# back-off is over; this one restarts the container at that very instant, so that whatever is compared with it, such as
# the watchdog, is compared with the best case.


FIRST: Final = 10.0
MOST: Final = 300.0
RAN_WELL: Final = 600.0
"""A container that ran for longer than this, in seconds, has its back-off reset."""


def wait_after(restarts: int) -> float:
    """Returns the seconds from an exit to the next start of a container that was restarted `restarts` times before."""
    return min(FIRST * 2.0 ** min(restarts - 1, 10), MOST) if restarts > 0 else 0.0


class ContainerRun(NamedTuple):
    """A completed run of a container."""

    started: float
    finished: float
    code: int = 1

    def status(self) -> dict[str, Any]:
        """Returns what the kubelet reports of it."""
        return {
            "exitCode": self.code,
            "reason": "Error" if self.code else "Completed",
            "startedAt": rfc3339(self.started),
            "finishedAt": rfc3339(self.finished),
        }


@dataclass(slots=True)
class ContainerBackoff:
    """The back-off state of one container."""

    restarts: int = 0
    """Restarts since the back-off was last reset."""
    restarted: float | None = None
    """The instant of the last restart."""

    def due(self, exited: float) -> float:
        """Returns when a container that exited at the instant `exited` may be restarted."""
        return exited if self._ran_well(exited) else exited + wait_after(self.restarts)

    def restart(self, exited: float, now: float) -> None:
        """Records a restart at `now`."""
        self.restarts = 1 if self._ran_well(exited) else self.restarts + 1
        self.restarted = now

    def _ran_well(self, exited: float) -> bool:
        return self.restarted is None or exited - self.restarted > RAN_WELL


class Life(StrEnum):
    """The state of a container."""

    CREATING = "Creating"
    RUNNING = "Running"
    WAITING = "Waiting"
    """In CrashLoopBackOff."""
    DONE = "Done"


@dataclass(slots=True, eq=False)
class Container:
    """One container; instants are exact, not cut to seconds as in the API."""

    name: str
    init: bool = False
    life: Life = Life.CREATING
    restarts: int = 0
    started: float = 0.0
    takes: float = 0.0
    """Seconds from a successful start until the container is ready, or done."""
    last: ContainerRun | None = None
    """The run that ended in the last crash."""
    done: ContainerRun | None = None
    """The successful run of an init container."""
    backoff: ContainerBackoff = field(default_factory=ContainerBackoff)

    @property
    def due(self) -> float | None:
        """When the back-off is over; None if the container is not in one."""
        if self.life is not Life.WAITING or self.last is None:
            return None
        return self.backoff.due(self.last.finished)

    def start(self, now: float, takes: float) -> None:
        """Starts or restarts the container; it becomes ready, or done, after `takes` seconds."""
        if self.last is not None:
            self.restarts += 1
            self.backoff.restart(self.last.finished, now)
        self.life, self.started, self.takes = Life.RUNNING, now, takes

    def crash(self, now: float) -> None:
        self.life, self.last = Life.WAITING, ContainerRun(self.started, now)

    def finish(self, now: float) -> None:
        """Exits successfully."""
        self.life, self.done = Life.DONE, ContainerRun(self.started, now, code=0)

    def id(self, pod: str) -> str:
        """Returns the container id of the current run, or of the last run while waiting; empty before the first.

        Args:
            pod: the uid of the container's pod.
        """
        if self.life is Life.CREATING:
            return ""
        run = sha256(f"{pod}/{self.name}/{self.restarts}".encode())
        return f"containerd://{run.hexdigest()}"

    def status(self, pod: str, *, ready: bool, initialized: bool) -> dict[str, Any]:
        """Returns what the kubelet reports of it; `pod` is the uid of the pod."""
        run = self.id(pod)
        return {
            "name": self.name,
            "image": f"registry.example/{self.name}:1",
            **({"containerID": run} if run else {}),
            "ready": ready or self.done is not None,
            "started": self.life is Life.RUNNING,
            "restartCount": self.restarts,
            "state": self._state(initialized=initialized),
            "lastState": {} if self.last is None else {"terminated": self.last.status()},
        }

    def _state(self, *, initialized: bool) -> dict[str, Any]:
        match self.life:
            case Life.CREATING:
                reason = "ContainerCreating" if initialized else "PodInitializing"
                return {"waiting": {"reason": reason}}
            case Life.RUNNING:
                return {"running": {"startedAt": rfc3339(self.started)}}
            case Life.WAITING:
                wait = wait_after(self.backoff.restarts)
                message = f"back-off {wait:g}s restarting failed container={self.name}"
                return {"waiting": {"reason": CRASH_LOOP, "message": message}}
            case Life.DONE:
                return {"terminated": {} if self.done is None else self.done.status()}


@dataclass(slots=True, eq=False)
class RunningPod:
    """A pod on its node, with the state of its containers and its next timer."""

    key: ObjectKey
    uid: str
    workload: Workload
    ip: str
    node: str
    born: float
    main: Container
    init: Container | None = None
    fit: bool = False
    """Whether the pod works: then it is Ready, unless a fault makes its readiness probe fail."""
    ready: bool = False
    ready_changed: float = 0.0
    ending: bool = False
    """Whether the pod is terminating."""
    turn: int = 0
    """The number of the pod's valid timer; timers with another number are ignored."""

    @property
    def active(self) -> Container:
        """The container that runs or waits now: the init container until it is done."""
        if self.init is not None and self.init.life is not Life.DONE:
            return self.init
        return self.main

    def status(self) -> dict[str, Any]:
        """Returns `status` of the pod object."""
        initialized = self.init is None or self.init.life is Life.DONE
        main = self.main.status(self.uid, ready=self.ready, initialized=initialized)
        status = {
            "phase": "Running"
            if initialized and self.main.life is not Life.CREATING
            else "Pending",
            "qosClass": "Burstable",
            "podIP": self.ip,
            "podIPs": [{"ip": self.ip}],
            "startTime": rfc3339(self.born),
            "conditions": [
                condition("Initialized", initialized, self.born),
                condition("Ready", self.ready, self.ready_changed),
                condition("ContainersReady", self.ready, self.ready_changed),
                condition("PodScheduled", True, self.born),  # noqa: FBT003  the status of this condition
            ],
            "containerStatuses": [main],
        }
        if self.init is None:
            return status
        init = self.init.status(self.uid, ready=False, initialized=True)
        return {**status, "initContainerStatuses": [init]}
