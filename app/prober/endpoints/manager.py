"""The endpoint probes of all shoots: one worker for each probe and target, and the gates that follow from them.

`EndpointProbes` is what the registry, the runners and the API see. It has a `WorkerManager` for each shoot that is
probed, which is level-triggered (`sync`).
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from app.core.model.endpoints import EndpointProbeSpec, ProbedPod, ProbeType
from app.core.ports import STALE
from app.core.reporting.notices import EndpointWorkerFailed, Severity, report
from app.core.tasks import tell
from app.prober.endpoints.gates import Gates, GateView
from app.prober.endpoints.worker import EndpointResultView, ProbeTarget, Worker
from app.prober.environment import EndpointAdapters, ProberEnvironment
from app.prober.rules.gates import FOR_EVER, GateVerdict, judge
from app.prober.rules.probe_worker import first_tick

if TYPE_CHECKING:
    from app.core.kube.pods import ProbedPods

Listener = Callable[[str], None]


class EndpointProbes:
    """The endpoint probes of all shoots."""

    def __init__(self, environment: ProberEnvironment, adapters: EndpointAdapters) -> None:
        self._env, self._adapters = environment, adapters
        self._managers: dict[str, WorkerManager] = {}
        self._listeners: list[Listener] = []
        adapters.pods.subscribe(self._pods_changed)
        environment.leadership.subscribe(self._leadership_changed)

    # Called by the registry.

    def start(self, namespace: str) -> None:
        """Starts the endpoint probes of a shoot that is probed from now on."""
        if namespace in self._managers:
            return
        changed = partial(tell, self._listeners, {"namespace": namespace}, namespace)
        manager = WorkerManager(self._env, self._adapters, namespace, changed)
        self._managers[namespace] = manager
        self._adapters.pods.follow(namespace)
        manager.sync()

    async def stop(self, namespace: str) -> None:
        """Stops the endpoint probes of a shoot: forgets its results at once, and returns when no run is under way."""
        manager = self._managers.pop(namespace, None)
        if manager is None:
            return
        self._adapters.pods.leave(namespace)
        await manager.stop()

    # Events.

    def _pods_changed(self, namespace: str) -> None:
        if (manager := self._managers.get(namespace)) is not None:
            manager.sync()

    def _leadership_changed(self) -> None:
        for manager in list(self._managers.values()):
            manager.sync()

    # For the runners and the API.

    def closed(self, namespace: str) -> str | None:
        """Why no scale-down may start: the closed gates, their targets and messages; None if every gate is open."""
        manager = self._managers.get(namespace)
        return None if manager is None else manager.closed()

    def views(self, namespace: str) -> tuple[EndpointResultView, ...]:
        """The result of each probe and target of a shoot that is probed, in the order of the configuration."""
        manager = self._managers.get(namespace)
        return () if manager is None else manager.views()

    def gates(self, namespace: str) -> tuple[GateView, ...]:
        """The gates of a shoot, in the order of the configuration; empty if this instance does not probe it."""
        manager = self._managers.get(namespace)
        return () if manager is None else manager.gates()

    def subscribe(self, listener: Listener) -> None:
        """Calls `listener` with the namespace when a counted result or the side of a gate changes."""
        self._listeners.append(listener)


Targets = dict[ProbeTarget, ProbedPod | None]
"""Each target, with the pod that it is a container of; None for a host."""


def targets(probe: EndpointProbeSpec, namespace: str, pods: "ProbedPods") -> Targets:
    """The targets of `probe` in this namespace, as the watch of their pods shows them."""
    if probe.pods is None:
        return {ProbeTarget(host=(probe.host or "").replace("{namespace}", namespace)): None}
    return {
        ProbeTarget(uid=pod.uid, pod=pod.name, container=container.name): pod
        for pod in pods.pods(namespace, probe.pods)
        for container in pod.containers
        if probe.container in {None, container.name}
    }


def known_until(probe: EndpointProbeSpec, namespace: str, pods: "ProbedPods") -> float:
    """The instant after which it is not known which targets there are: never for a host, always without a list."""
    if probe.pods is None:
        return FOR_EVER
    watch = pods.watch_state(namespace, probe.pods)
    if not watch.synced or watch.last_contact is None:
        return -math.inf
    return watch.last_contact + STALE


class WorkerManager:
    """Starts, replaces and stops the workers of a namespace with their targets."""

    def __init__(
        self,
        environment: ProberEnvironment,
        adapters: EndpointAdapters,
        namespace: str,
        changed: Callable[[], None],
    ) -> None:
        """Starts nothing; `changed` is called when a result counts from now on, or not any more, or a gate turns."""
        self._env, self._pods = environment, adapters.pods
        self.clock, self.notice_bus = environment.clock, environment.notice_bus
        self.namespace, self.adapters, self.changed = namespace, adapters, changed
        probes = environment.policy.endpoint_probes
        self._startups = [probe for probe in probes if probe.type is ProbeType.STARTUP]
        # Startup probes first, so that their workers exist when others ask whether they have passed.
        self._probes = sorted(probes, key=lambda probe: probe.type is not ProbeType.STARTUP)
        self._workers: dict[str, dict[ProbeTarget, Worker]] = {probe.name: {} for probe in probes}
        self._ending: set[asyncio.Task[None]] = set()
        gates = [probe for probe in probes if probe.gates]
        self._gating = {probe.name for probe in gates}
        """What runs wherever gates are judged: the gates, and the Startup probes that one may have to wait for."""
        if any(probe.pods is not None for probe in gates):
            self._gating |= {probe.name for probe in self._startups}
        self._gates = Gates(namespace, self.clock, gates, self._judge, self.notice_bus, changed)

    # Workers and targets.

    def sync(self) -> None:
        """Starts, updates and stops workers, so that there is one for each probe and target that exists now."""
        for probe in self._probes:
            workers = self._workers[probe.name]
            wanted = targets(probe, self.namespace, self._pods) if self._runs(probe) else {}
            for target in [each for each in workers if each not in wanted]:
                self._end(workers.pop(target))
            for target, pod in wanted.items():
                worker = workers.get(target)
                if worker is None:
                    worker = workers[target] = self._begin(probe, target, pod)
                elif not worker.ended:
                    worker.observe(pod)
                if worker.ended:
                    self._let_go(worker)
        self._check_gates()

    def _runs(self, probe: EndpointProbeSpec) -> bool:
        """Whether this instance runs the probe: what gates need also in a standby that probes, the rest as leader."""
        owned = self._env.leadership
        return owned.may_probe if probe.name in self._gating else owned.leading

    def _begin(
        self, probe: EndpointProbeSpec, target: ProbeTarget, pod: ProbedPod | None
    ) -> Worker:
        """Starts a worker: of gates at once, of others at random in their first period, so that a start is no burst."""
        begins_at = self.clock.now()
        if probe.name not in self._gating:
            chance = self._env.chance.random()
            begins_at = first_tick(begins_at, probe.period, self._env.runs_together, chance)
        worker = Worker(self, probe, target, pod, begins_at)
        worker.observe(pod)
        if not worker.ended:
            name = f"endpoint probe {probe.name} of {target} in {self.namespace}"
            worker.task = self._env.tasks.kept(worker.run, name, partial(self._crashed, worker))
        return worker

    def _end(self, worker: Worker) -> None:
        worker.stop()
        self._let_go(worker)

    def _let_go(self, worker: Worker) -> None:
        if worker.task is not None and not worker.task.done():
            worker.task.cancel()
            self._ending.add(worker.task)
            worker.task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Stops all workers: forgets their results at once, cancels their tasks, and waits for their end."""
        for workers in self._workers.values():
            while workers:
                self._end(workers.popitem()[1])
        self._gates.stop()
        if self._ending:
            await asyncio.wait(set(self._ending))

    def _crashed(self, worker: Worker, error: Exception) -> None:
        probe, target = worker.probe.name, str(worker.target)
        what = f"the worker of probe {probe} on {target}"
        text = f"{what} failed and is started again: {type(error).__name__}"
        words = ("RunnerFailed", text, Severity.ERROR)
        report(self._env, EndpointWorkerFailed, self.namespace, *words, probe=probe, target=target)

    # Called by the workers.

    def started(self, target: ProbeTarget, container: str) -> bool:
        """Whether the Startup probes of this target have passed in this container; an ended one is not waited for."""
        workers = (self._workers[probe.name].get(target) for probe in self._startups)
        # It has to be known which targets have Startup probes: each selector has a watch of its own to be listed.
        return all(
            self._pods.watch_state(self.namespace, probe.pods).synced
            for probe in self._startups
            if probe.pods is not None
        ) and all(each is None or each.ended or each.state.passed(container) for each in workers)

    def ran(self, probe: EndpointProbeSpec) -> None:
        """Called after each run, once its result is known."""
        if probe.gates:
            self._check_gates(probe.name)

    # The gates.

    def _check_gates(self, name: str | None = None) -> None:
        """Checks the gate of this name, or all gates."""
        if self._env.leadership.may_probe:
            self._gates.check(name)
        else:
            self._gates.stop()

    def _judge(self, probe: EndpointProbeSpec) -> GateVerdict:
        until = known_until(probe, self.namespace, self._pods)
        readings = [worker.reading() for worker in self._of(probe)]
        return judge(probe, readings, self.clock.now(), until)

    def _of(self, probe: EndpointProbeSpec) -> Iterator[Worker]:
        return (each for each in self._workers[probe.name].values() if not each.ended)

    def closed(self) -> str | None:
        """Why no scale-down may start; None if every gate is open, or this instance does not probe."""
        return self._gates.closed() if self._env.leadership.may_probe else None

    # For the API.

    def gates(self) -> tuple[GateView, ...]:
        """The state of each gate; empty while this instance does not probe."""
        return self._gates.views() if self._env.leadership.may_probe else ()

    def views(self) -> tuple[EndpointResultView, ...]:
        """The result of each worker, in the order of the configuration."""
        gates = {gate.name: gate.reason for gate in self.gates()}
        return tuple(
            worker.view(gates.get(probe.name))
            for probe in self._env.policy.endpoint_probes
            for worker in sorted(self._of(probe), key=lambda each: each.target)
        )
