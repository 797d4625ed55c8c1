"""A pod on its node, as its kubelet knows it."""

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Final

from app.core.model.pods import CRASH_LOOP, PodView
from app.simulation.pod_manifests import (
    CREATING,
    INITIALIZING,
    ContainerRun,
    ContainerState,
    pod_status,
)
from app.simulation.store import ObjectKey
from app.simulation.workloads import Workload

# The kubelet's back-off before it starts a container again; pure.
#
# The first restart is at once.  After each restart the next wait doubles, from 10 s to 300 s, counted from the exit; a
# container that ran for more than 10 min begins anew.  The real kubelet looks only every few seconds whether a back-off
# is over; this one starts the container at that very instant, so that what is compared with it is compared with the
# best.


FIRST: Final = 10.0
MOST: Final = 300.0
RAN_WELL: Final = 600.0
"""Seconds from a start to an exit beyond which the exit counts as the first."""


def wait_after(restarts: int) -> float:
    """Seconds from an exit to the next start, of a container that was started again `restarts` times before."""
    return min(FIRST * 2.0 ** min(restarts - 1, 10), MOST) if restarts > 0 else 0.0


def started_again(pod: PodView) -> float | None:
    """When the kubelet will start the waiting containers of a pod without anybody's help: exit and back-off.

    Returns:
        The instant, for several containers the last; None where none waits in CrashLoopBackOff or tells its exit.
    """
    due = [
        container.last_exit + wait_after(container.restarts or 1)
        for container in pod.containers
        if container.crash_loops and container.last_exit is not None
    ]
    return max(due, default=None)


@dataclass(slots=True)
class ContainerBackoff:
    """What the kubelet remembers of one container."""

    restarts: int = 0
    """Since it last ran well."""
    restarted: float | None = None
    """When it was last started again."""

    def due(self, exited: float) -> float:
        """When a container may be started again that exited at this instant."""
        return exited if self._ran_well(exited) else exited + wait_after(self.restarts)

    def restart(self, exited: float, now: float) -> None:
        """It is started again now."""
        self.restarts = 1 if self._ran_well(exited) else self.restarts + 1
        self.restarted = now

    def _ran_well(self, exited: float) -> bool:
        return self.restarted is None or exited - self.restarted > RAN_WELL


class Life(StrEnum):
    """What a container does."""

    CREATING = "Creating"
    RUNNING = "Running"
    WAITING = "Waiting"
    """In CrashLoopBackOff."""
    DONE = "Done"


@dataclass(slots=True, eq=False)
class Container:
    """One container; instants are exact."""

    name: str
    init: bool = False
    life: Life = Life.CREATING
    restarts: int = 0
    started: float = 0.0
    takes: float = 0.0
    """Seconds from a good start until it is ready, or done."""
    last: ContainerRun | None = None
    """Its last crash."""
    done: ContainerRun | None = None
    """The run in which an init container did its work."""
    backoff: ContainerBackoff = field(default_factory=ContainerBackoff)

    @property
    def due(self) -> float | None:
        """When its back-off is over; None where it is in none."""
        if self.life is not Life.WAITING or self.last is None:
            return None
        return self.backoff.due(self.last.finished)

    def start(self, now: float, takes: float) -> None:
        """Starts, again where it has exited; `takes` is in seconds."""
        if self.last is not None:
            self.restarts += 1
            self.backoff.restart(self.last.finished, now)
        self.life, self.started, self.takes = Life.RUNNING, now, takes

    def crash(self, now: float) -> None:
        """Exits with an error."""
        self.life, self.last = Life.WAITING, ContainerRun(self.started, now)

    def finish(self, now: float) -> None:
        """Exits, having done its work."""
        self.life, self.done = Life.DONE, ContainerRun(self.started, now, code=0)

    def id(self, pod: str) -> str:
        """Which run of it this is, in the pod of this uid; the last one while it waits, empty before the first."""
        if self.life is Life.CREATING:
            return ""
        run = sha256(f"{pod}/{self.name}/{self.restarts}".encode())
        return f"containerd://{run.hexdigest()}"

    def state(self, pod: str, *, ready: bool, initialized: bool) -> ContainerState:
        """What the kubelet tells of it; `pod` is the uid of its pod."""
        told = ContainerState(self.name, self.restarts, self.id(pod), last=self.last, ready=ready)
        match self.life:
            case Life.CREATING:
                return told._replace(waiting=CREATING if initialized else INITIALIZING)
            case Life.RUNNING:
                return told._replace(running_since=self.started)
            case Life.WAITING:
                return told._replace(waiting=CRASH_LOOP, wait=wait_after(self.backoff.restarts))
            case Life.DONE:
                return told._replace(done=self.done)


@dataclass(slots=True, eq=False)
class RunningPod:
    """One pod and what it is in the middle of."""

    key: ObjectKey
    uid: str
    workload: Workload
    ip: str
    node: str
    born: float
    main: Container
    init: Container | None = None
    fit: bool = False
    """Whether it does its work: it is Ready unless its probe is made to fail."""
    ready: bool = False
    ready_changed: float = 0.0
    ending: bool = False
    """Whether it is terminating."""
    turn: int = 0
    """Which of its timers is the valid one."""

    @property
    def active(self) -> Container:
        """The container whose turn it is."""
        if self.init is not None and self.init.life is not Life.DONE:
            return self.init
        return self.main

    def status(self) -> dict[str, object]:
        """The status of the pod object."""
        initialized = self.init is None or self.init.life is Life.DONE
        init = self.init and self.init.state(self.uid, ready=False, initialized=True)
        return pod_status(
            ip=self.ip,
            born=self.born,
            init=init or None,
            main=self.main.state(self.uid, ready=self.ready, initialized=initialized),
            ready=self.ready,
            ready_changed=self.ready_changed,
        )
