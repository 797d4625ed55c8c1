"""Keeps one worker for each probe and target of one namespace; level-triggered (`sync`)."""

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.core.model.endpoints import (
    CachedResult,
    EndpointProbeSpec,
    GateReason,
    ProbedPod,
    ProbeType,
)
from app.core.ports import STALE
from app.prober.endpoints.gate_watch import GateWatch
from app.prober.endpoints.results import (
    EndpointResultView,
    GateView,
    ProbeTarget,
    ResultNotices,
    Results,
    TargetResult,
    WorkerKey,
)
from app.prober.endpoints.worker import Worker, WorkerEnvironment
from app.prober.environment import EndpointAdapters, ProberEnvironment
from app.prober.rules.gates import FOR_EVER, GateInputs, GateVerdict, judge
from app.prober.rules.probe_worker import first_tick

if TYPE_CHECKING:
    from app.core.kube.pods import ProbedPods

Targets = dict[ProbeTarget, ProbedPod | None]
"""Each target, with the pod that it is a container of; None for a host."""


def targets(probe: EndpointProbeSpec, namespace: str, pods: "ProbedPods") -> Targets:
    """The targets of `probe` in this namespace, as the watch of their pods shows them."""
    if probe.pods is None:
        return {ProbeTarget(host=host_of(probe, namespace)): None}
    return {
        ProbeTarget(uid=pod.uid, pod=pod.name, container=container.name): pod
        for pod in pods.pods(namespace, probe.pods)
        for container in pod.containers
        if probe.container in {None, container.name}
    }


def host_of(probe: EndpointProbeSpec, namespace: str) -> str:
    """The host of a probe, with `{namespace}` replaced."""
    return (probe.host or "").replace("{namespace}", namespace)


def known_until(probe: EndpointProbeSpec, namespace: str, pods: "ProbedPods") -> float:
    """The instant after which it is not known which targets there are: never for a host, always without a list."""
    if probe.pods is None:
        return FOR_EVER
    watch = pods.watch_state(namespace, probe.pods)
    if not watch.synced or watch.last_contact is None:
        return -math.inf
    return watch.last_contact + STALE


@dataclass(frozen=True, slots=True)
class _Job:
    worker: Worker
    task: asyncio.Task[None] | None
    """None if the target had ended before the worker could start."""


class WorkerManager:
    """Starts, replaces and stops the workers of a namespace with their targets."""

    def __init__(
        self,
        environment: ProberEnvironment,
        adapters: EndpointAdapters,
        namespace: str,
        results: Results,
        changed: Callable[[str], None],
    ) -> None:
        self._env, self._pods, self._results = environment, adapters.pods, results
        self._namespace = namespace
        self._teller = ResultNotices(environment.notice_bus)
        # Startup probes first, so that their workers exist when others ask whether they have passed.
        probes = environment.policy.endpoint_probes
        self._probes = sorted(probes, key=lambda probe: probe.type is not ProbeType.STARTUP)
        self._around = WorkerEnvironment(
            environment.clock, adapters.handlers, adapters.meter, results, self._started, self._ran
        )
        self._jobs: dict[WorkerKey, _Job] = {}
        self._by_probe: dict[str, dict[WorkerKey, _Job]] = {probe.name: {} for probe in probes}
        """The same by probe, as each run of a gate needs all jobs of one probe."""
        self._ending: set[asyncio.Task[None]] = set()
        gates = [probe for probe in probes if probe.gates]
        self._gate_names = {probe.name for probe in gates}
        self._gating = self._gate_names | _guards(probes)
        tell, moved = partial(self._teller.gate, namespace), partial(changed, namespace)
        self._gates = GateWatch(environment.clock, gates, self._judge, tell, moved)

    # Workers and targets.

    def sync(self) -> None:
        """Starts, updates and stops workers, so that there is one for each probe and target that exists now."""
        wanted = self._wanted()
        for key in [key for key in self._jobs if key not in wanted]:
            self._end(key)
        for key, (probe, pod) in wanted.items():
            self._see(key, probe, pod)
        self._check_gates()

    def _wanted(self) -> dict[WorkerKey, tuple[EndpointProbeSpec, ProbedPod | None]]:
        return {
            WorkerKey(self._namespace, probe.name, target): (probe, pod)
            for probe in self._probes
            if self._runs(probe)
            for target, pod in targets(probe, self._namespace, self._pods).items()
        }

    def _runs(self, probe: EndpointProbeSpec) -> bool:
        """Whether this instance runs the probe: what gates need also in a standby that probes, the rest as leader."""
        owned = self._env.leadership
        return owned.may_probe if probe.name in self._gating else owned.leading

    def _see(self, key: WorkerKey, probe: EndpointProbeSpec, pod: ProbedPod | None) -> None:
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = self._by_probe[key.probe][key] = self._begin(key, probe, pod)
        elif not job.worker.ended:
            job.worker.observe(pod)
        if job.worker.ended:
            self._let_go(job)

    def _begin(self, key: WorkerKey, probe: EndpointProbeSpec, pod: ProbedPod | None) -> _Job:
        worker = Worker(self._around, key, probe, pod, self._begins_at(probe))
        worker.observe(pod)
        if worker.ended:
            return _Job(worker, None)
        name = f"endpoint probe {key.probe} of {key.target} in {key.namespace}"
        return _Job(worker, self._env.tasks.kept(worker.run, name, partial(self._crashed, key)))

    def _begins_at(self, probe: EndpointProbeSpec) -> float:
        """When a worker starts: gates at once, others at random in their first period, so that a start is no burst."""
        now = self._env.clock.now()
        if probe.name in self._gating:
            return now
        return first_tick(now, probe.period, self._env.runs_together, self._env.chance.random())

    def _end(self, key: WorkerKey) -> None:
        job = self._jobs.pop(key)
        del self._by_probe[key.probe][key]
        job.worker.stop()
        self._let_go(job)

    def _let_go(self, job: _Job) -> None:
        if job.task is None or job.task.done():
            return
        job.task.cancel()
        self._ending.add(job.task)
        job.task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Stops all workers: removes their results at once, cancels their tasks, and waits for their end."""
        for key in list(self._jobs):
            self._end(key)
        self._gates.stop()
        if self._ending:
            await asyncio.wait(set(self._ending))

    def _crashed(self, key: WorkerKey, error: Exception) -> None:
        self._teller.crashed(key, error, self._env.clock.now())

    # Called by the workers.

    def _started(self, key: WorkerKey, container: str) -> bool:
        """Whether the Startup probes of this worker's target have passed; one that has ended is not waited for."""
        return self._startups_known() and all(
            job.worker.ended or job.worker.state.passed(container)
            for job in self._of_target(key)
            if job.worker.probe.type is ProbeType.STARTUP
        )

    def _startups_known(self) -> bool:
        """Whether it is known which targets have Startup probes: each selector has a watch of its own to be listed."""
        return all(
            self._pods.watch_state(self._namespace, probe.pods).synced
            for probe in self._probes
            if probe.type is ProbeType.STARTUP and probe.pods is not None
        )

    def _of_target(self, key: WorkerKey) -> Iterable[_Job]:
        keys = (WorkerKey(self._namespace, probe.name, key.target) for probe in self._probes)
        return (self._jobs[each] for each in keys if each in self._jobs)

    def _ran(self, key: WorkerKey) -> None:
        if key.probe in self._gate_names:
            self._check_gates(key.probe)

    # The gates.

    def _check_gates(self, name: str | None = None) -> None:
        """Checks the gate of this name, or all gates."""
        if self._env.leadership.may_probe:
            self._gates.check(name)
        else:
            self._gates.stop()

    def _judge(self, probe: EndpointProbeSpec) -> GateVerdict:
        until = known_until(probe, self._namespace, self._pods)
        readings = [self._reading(job) for job in self._of_probe(probe) if not job.worker.ended]
        return judge(probe, readings, self._env.clock.now(), until)

    def _of_probe(self, probe: EndpointProbeSpec) -> Iterable[_Job]:
        return self._by_probe[probe.name].values()

    def _reading(self, job: _Job) -> GateInputs:
        key = job.worker.key
        known, target = self._results.get(key), str(key.target)
        if known is None:
            return GateInputs(target)
        return GateInputs(
            target, known.result, known.counted, known.since, known.result_at, known.message
        )

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
            self._view(job.worker, gates.get(probe.name))
            for probe in self._env.policy.endpoint_probes
            for job in sorted(self._of_probe(probe), key=lambda job: job.worker.key.target)
            if not job.worker.ended
        )

    def _view(self, worker: Worker, gate: GateReason | None) -> EndpointResultView:
        probe, known, last = worker.probe, self._results.get(worker.key), worker.last
        entry = (
            TargetResult(CachedResult.UNKNOWN, counted=False, since=0.0) if known is None else known
        )
        return EndpointResultView(
            probe.name,
            probe.type,
            probe.effect,
            worker.key.target,
            entry.result,
            entry.counted,
            None if known is None else entry.since,
            None if last is None else last.at,
            None if last is None else last.outcome,
            "" if last is None else last.message,
            worker.state.run,
            worker.waiting,
            gate,
        )


def _guards(probes: Iterable[EndpointProbeSpec]) -> set[str]:
    """The names of Startup probes that a gate may have to wait for: they run wherever the gate does."""
    known = list(probes)
    if not any(probe.gates and probe.pods is not None for probe in known):
        return set()
    return {probe.name for probe in known if probe.type is ProbeType.STARTUP}
