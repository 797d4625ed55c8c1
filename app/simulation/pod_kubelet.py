"""The kubelet of the seed's nodes: starts containers, restarts crashed ones, and reports readiness.

A container without its dependency crashes a while after its start, and waits for its back-off before the next start.
There is one timer for each pod, and one task for all of them: 9,000 pods cost no more than their crashes.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import count
from typing import Any, Final, NamedTuple

from app.core.model.instants import format_duration, rfc3339
from app.core.model.weeding import CRASH_LOOP, ServiceKey
from app.simulation.manifests import condition
from app.simulation.store import (
    DeleteOptions,
    Happened,
    ObjectKey,
    Preconditions,
    Store,
    StoreEvent,
)
from app.simulation.timers import Timers
from app.simulation.views import terminating
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
    in_a_row: int = 0
    """Restarts since the back-off was last reset."""
    restarted: float | None = None
    """The instant of the last restart."""

    @property
    def due(self) -> float | None:
        """When the back-off is over; None if the container is not in one."""
        if self.life is not Life.WAITING or self.last is None:
            return None
        exited = self.last.finished
        return exited if self._ran_well(exited) else exited + wait_after(self.in_a_row)

    def start(self, now: float, takes: float) -> None:
        """Starts or restarts the container; it becomes ready, or done, after `takes` seconds."""
        if self.last is not None:
            self.restarts += 1
            self.in_a_row = 1 if self._ran_well(self.last.finished) else self.in_a_row + 1
            self.restarted = now
        self.life, self.started, self.takes = Life.RUNNING, now, takes

    def _ran_well(self, exited: float) -> bool:
        return self.restarted is None or exited - self.restarted > RAN_WELL

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

    def status(self, pod: "RunningPod", *, ready: bool, initialized: bool) -> dict[str, Any]:
        """Returns what the kubelet reports of it."""
        run = self.id(pod.uid)
        return {
            "name": self.name,
            "image": f"registry.example/{self.name}:1",
            **({"containerID": run} if run else {}),
            "ready": ready or self.done is not None,
            "started": self.life is Life.RUNNING,
            "restartCount": self.restarts,
            "state": self._state(pod, initialized=initialized),
            "lastState": {} if self.last is None else {"terminated": self.last.status()},
        }

    def _state(self, pod: "RunningPod", *, initialized: bool) -> dict[str, Any]:
        match self.life:
            case Life.CREATING:
                reason = "ContainerCreating" if initialized else "PodInitializing"
                return {"waiting": {"reason": reason}}
            case Life.RUNNING:
                return {"running": {"startedAt": rfc3339(self.started)}}
            case Life.WAITING:
                wait = format_duration(wait_after(self.in_a_row))
                whose = f"container={self.name} pod={pod.key.name}_{pod.key.namespace}({pod.uid})"
                message = f"back-off {wait} restarting failed {whose}"
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
        main = self.main.status(self, ready=self.ready, initialized=initialized)
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
        init = self.init.status(self, ready=False, initialized=True)
        return {**status, "initContainerStatuses": [init]}


# The kubelet.


class BecameReady(NamedTuple):
    """A record that a pod became Ready."""

    pod: str
    at: float


class PodKubelet:
    """Runs the pods of a seed that belong to a `Workload`; it ignores others."""

    def __init__(
        self,
        seed: Store,
        timers: Timers,
        rng: random.Random,
        served: Callable[[ServiceKey], bool],
    ) -> None:
        """Creates a kubelet without pods.

        Args:
            seed: where the pods are.
            timers: schedules what pods do next.
            rng: the source of all jitter.
            served: returns whether a service is ready.
        """
        self.broken: set[tuple[str, str]] = set()
        """Workloads whose containers crash, even if their dependency is ready."""
        self.unready: set[tuple[str, str]] = set()
        """Workloads whose readiness probes fail."""
        self.became_ready: dict[str, list[BecameReady]] = {}
        """The records of pods that became Ready, by namespace, in order."""
        self._seed, self._timers, self._rng = seed, timers, rng
        self._served = served
        self._pods: dict[str, dict[str, RunningPod]] = {}
        """Those of each namespace, by name."""
        self._numbers = count(1)

    # What there is.

    def find(self, key: ObjectKey) -> RunningPod | None:
        """Returns a running pod; None if the kubelet does not run it."""
        return self._pods.get(key.namespace, {}).get(key.name)

    def of(self, workload: tuple[str, str]) -> tuple[RunningPod, ...]:
        """Returns the pods of a workload."""
        namespace, _ = workload
        return tuple(pod for pod in self._all(namespace) if pod.workload.key == workload)

    def _all(self, namespace: str) -> tuple[RunningPod, ...]:
        return tuple(self._pods.get(namespace, {}).values())

    # What begins.

    def admit(self, key: ObjectKey, uid: str, workload: Workload) -> None:
        """Starts to run a pod that was just created."""
        pod = self._add(key, uid, workload, self._timers.now())
        self._later(pod, workload.times.bound, self._bind)

    def settle(self, key: ObjectKey, uid: str, workload: Workload, *, since: float) -> RunningPod:
        """Starts to run a pod that has been Ready since an instant."""
        pod = self._add(key, uid, workload, since)
        if pod.init is not None:
            pod.init.start(since, 0.0)
            pod.init.finish(since)
        pod.main.start(since, 0.0)
        pod.fit = pod.ready = True
        pod.ready_changed = since
        self._seed.patch(key, {"spec": {"nodeName": pod.node}})
        self._tell(pod)
        return pod

    def crash_looped(self, pod: RunningPod, restarts: int, *, exited: float) -> None:
        """Puts a pod into the state after `restarts` restarts and a last exit at `exited`."""
        container = pod.init or pod.main
        if pod.init is not None:
            pod.main = Container(pod.main.name)
        container.restarts = container.in_a_row = restarts
        container.restarted = container.started = exited - pod.workload.times.crash_after
        container.crash(exited)
        self._settle_ready(pod, fit=False)
        self._later(pod, max((container.due or exited) - self._timers.now(), 0.0), self._start)
        self._tell(pod)

    def _add(self, key: ObjectKey, uid: str, workload: Workload, since: float) -> RunningPod:
        number = next(self._numbers)
        pod = RunningPod(
            key=key,
            uid=uid,
            workload=workload,
            ip=f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            node=f"seed-node-{number % 7}",
            born=since,
            main=Container(workload.name),
            init=Container("wait", init=True) if workload.init else None,
            ready_changed=since,
        )
        self._pods.setdefault(key.namespace, {})[key.name] = pod
        return pod

    def forget(self, namespace: str) -> None:
        """Forgets a namespace whose pods are gone."""
        self.became_ready.pop(namespace, None)
        self._pods.pop(namespace, None)

    # What it hears of.

    def heard(self, event: StoreEvent) -> None:
        """Handles a change of a pod, which may have become terminating."""
        pod = self.find(event.key)
        if pod is None or event.object["metadata"]["uid"] != pod.uid:
            return
        if event.happened is Happened.DELETED:
            pod.turn += 1
            del self._pods[pod.key.namespace][pod.key.name]
        elif terminating(event.object) and not pod.ending:
            pod.ending = True
            self._later(pod, pod.workload.times.grace, self._remove)

    def service_changed(self, service: ServiceKey, *, ready: bool) -> None:
        """Tells the pods that depend on a service that it became ready or not ready."""
        for pod in self._all(service.namespace):
            if pod.workload.needs == service.service:
                self._look_again(pod, better=ready)

    def recheck(self, workload: tuple[str, str], *, better: bool) -> None:
        """Lets the pods of a workload notice, with the usual delays, that conditions became better or worse."""
        for pod in self.of(workload):
            self._look_again(pod, better=better)

    def probe(self, workload: tuple[str, str]) -> None:
        """Runs the readiness probes of a workload now."""
        for pod in self.of(workload):
            if not pod.ending and self._settle_ready(pod, fit=pod.fit):
                self._tell(pod)

    def _look_again(self, pod: RunningPod, *, better: bool) -> None:
        if pod.active.life is not Life.RUNNING or pod.ending:
            return
        if not better:
            self._later(pod, self._about(pod.workload.times.lost_after, pod), self._check)
        elif not pod.fit:
            self._go_on(pod)

    # What a pod goes through.

    def _bind(self, pod: RunningPod) -> None:
        self._seed.patch(pod.key, {"spec": {"nodeName": pod.node}})
        pod.born = pod.ready_changed = self._timers.now()
        self._tell(pod)
        self._later(pod, pod.workload.times.start, self._start)

    def _start(self, pod: RunningPod) -> None:
        times = pod.workload.times
        takes = times.init if pod.active.init else times.ready_after
        pod.active.start(self._timers.now(), self._about(takes, pod))
        if self._good(pod):
            self._go_on(pod)
        else:
            self._later(pod, self._about(times.crash_after, pod), self._check)
        self._tell(pod)

    def _go_on(self, pod: RunningPod) -> None:
        """Schedules a container whose dependency is ready to become Ready, or done."""
        done = pod.active.started + pod.active.takes
        self._later(pod, done - self._timers.now(), self._check)

    def _check(self, pod: RunningPod) -> None:
        """Lets the active container check its dependency: it completes, becomes Ready, or crashes."""
        now, active = self._timers.now(), pod.active
        if not self._good(pod):
            broken = pod.workload.key in self.broken
            if not pod.fit or broken or pod.workload.crashes_when_lost:
                self._crash(pod)
            else:
                self._settle_ready(pod, fit=False)
                self._tell(pod)
        elif active.init:
            active.finish(now)
            self._start(pod)
        elif self._settle_ready(pod, fit=True):
            self._tell(pod)

    def _crash(self, pod: RunningPod) -> None:
        now = self._timers.now()
        pod.active.crash(now)
        self._settle_ready(pod, fit=False)
        due = pod.active.due
        if due is None or due <= now:
            self._start(pod)
            return
        self._later(pod, due - now, self._start)
        self._tell(pod)

    def _remove(self, pod: RunningPod) -> None:
        stopped = DeleteOptions(preconditions=Preconditions(pod.uid), grace=0)
        self._seed.request_deletion(pod.key, self._timers.now(), stopped)

    # What is so.

    def _good(self, pod: RunningPod) -> bool:
        needs = pod.workload.needs
        if pod.workload.key in self.broken:
            return False
        return needs is None or self._served(ServiceKey(pod.workload.namespace, needs))

    def _settle_ready(self, pod: RunningPod, *, fit: bool) -> bool:
        """Updates readiness; returns whether it changed."""
        pod.fit = fit
        ready = fit and pod.workload.key not in self.unready
        if ready is pod.ready:
            return False
        pod.ready, pod.ready_changed = ready, self._timers.now()
        if ready:
            seen = BecameReady(pod.key.name, pod.ready_changed)
            self.became_ready.setdefault(pod.key.namespace, []).append(seen)
        return True

    def _tell(self, pod: RunningPod) -> None:
        if self._seed.get(pod.key)["spec"].get("nodeName"):  # else no kubelet has it yet
            self._seed.patch(pod.key, {"status": pod.status()}, status=True)

    def _about(self, seconds: float, pod: RunningPod) -> float:
        jitter = pod.workload.times.jitter
        return seconds * (1 + jitter * self._rng.uniform(-1, 1))

    def _later(self, pod: RunningPod, seconds: float, step: Callable[[RunningPod], None]) -> None:
        """Schedules the pod's next step, which replaces the one scheduled before."""
        pod.turn += 1
        turn = pod.turn

        def due() -> None:
            if pod.turn == turn:
                step(pod)

        self._timers.after(max(seconds, 0.0), due)
