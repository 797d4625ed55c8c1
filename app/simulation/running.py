"""A pod on its node, as its kubelet knows it."""

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from app.core.model.pods import CRASH_LOOP
from app.simulation.crashloop import Backoff, wait_after
from app.simulation.pod_manifests import (
    CREATING,
    INITIALIZING,
    ContainerState,
    Run,
    pod_status,
)
from app.simulation.store import Key
from app.simulation.workloads import Workload


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
    last: Run | None = None
    """Its last crash."""
    done: Run | None = None
    """The run in which an init container did its work."""
    backoff: Backoff = field(default_factory=Backoff)

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
        self.life, self.last = Life.WAITING, Run(self.started, now)

    def finish(self, now: float) -> None:
        """Exits, having done its work."""
        self.life, self.done = Life.DONE, Run(self.started, now, code=0)

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

    key: Key
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
