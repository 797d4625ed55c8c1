"""The worker of one probe on one target: a loop that runs the probe once a period (rules 5, Runs)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app.core.clock import Clock
from app.core.model.endpoints import (
    EndpointProbeSpec,
    ProbedContainer,
    ProbedPod,
    ProbeOutcome,
    Ran,
    TargetAddress,
    Waiting,
)
from app.core.ports import EndpointMeter, Handlers
from app.prober.endpoints.results import Results, TargetResult, WorkerKey
from app.prober.rules import probe_worker as rules
from app.prober.rules.probe_worker import PeriodAction, WorkerInputs, WorkerState

NOTHING = ProbedContainer("")


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """What the workers of a namespace share."""

    clock: Clock
    handlers: Handlers
    meter: EndpointMeter
    results: Results
    started: Callable[[WorkerKey, str], bool]
    """Returns whether the Startup probes of this worker's target have passed, in the container with this id."""
    ran: Callable[[WorkerKey], None]
    """Called after each run, once its result is in the cache."""


class LastRun(NamedTuple):
    """The last run of a worker."""

    at: float
    """When it ended."""
    outcome: ProbeOutcome
    message: str


class Worker:
    """Probes one target until the target has ended, or the worker is stopped."""

    def __init__(
        self,
        around: WorkerEnvironment,
        key: WorkerKey,
        probe: EndpointProbeSpec,
        pod: ProbedPod | None,
        begins_at: float,
    ) -> None:
        self._around = around
        self._pod = pod
        self._began = around.clock.now()
        self._tick = begins_at
        self._running = False
        self._noted: WorkerState | None = None
        self._said = ""
        self.key = key
        self.probe = probe
        self.state = WorkerState()
        self.waiting: Waiting | None = None
        self.last: LastRun | None = None
        self.ended = False
        """The worker never runs again, and its result was removed."""

    # Called by the manager.

    def observe(self, pod: ProbedPod | None) -> None:
        """Takes the pod as the watch shows it now; None for a host, or if nothing is known of the pod."""
        self._pod = pod
        if not self._running:  # a run that is under way is finished first, as in the kubelet
            _ = self._consider()

    def stop(self) -> None:
        """Removes the result; the manager cancels the task."""
        self.ended = True
        self._around.results.remove(self.key)

    # The loop.

    async def run(self) -> None:
        """Runs the probe at each tick, where the rules allow it; returns when the target has ended."""
        while not self.ended:
            await self._around.clock.sleep_until(self._tick)
            self._tick = rules.next_tick(self._tick, self.probe.period, self._around.clock.now())
            if self._consider() is PeriodAction.RUN:
                await self._run_once()

    async def _run_once(self) -> None:
        self._running = True
        try:
            ran = await self._attempts()
        finally:
            self._running = False
        if not self.ended:
            self._conclude(ran)

    async def _attempts(self) -> Ran:
        """Runs the probe, at most three times while runs end in errors."""
        address = self._address()
        ran = await self._attempt(address)
        for _ in range(rules.MAX_RUNS - 1):
            if ran.outcome is not ProbeOutcome.ERROR:
                break
            ran = await self._attempt(address)
        return ran

    async def _attempt(self, address: TargetAddress) -> Ran:
        around, began = self._around, self._around.clock.now()
        ran = await around.handlers.run(self.probe, address)
        seconds = around.clock.now() - began
        around.meter.ran(self.key.namespace, self.probe.name, ran.outcome, seconds)
        return ran

    def _conclude(self, ran: Ran) -> None:
        now = self._around.clock.now()
        self.last = LastRun(now, ran.outcome, ran.message)
        if ran.outcome is not ProbeOutcome.ERROR:
            self._said = ran.message
        self.state = rules.after(self.probe, self.state, ran.outcome, now)
        self._note()
        _ = self._consider()  # takes in what became known while the run was under way
        self._around.ran(self.key)

    def _consider(self) -> PeriodAction:
        """Decides by the present facts what to do in this period, and stores the result that follows from them."""
        step = rules.before(self.probe, self.state, self._facts())
        self.state, self.waiting = step.state, step.waiting
        self._note()
        if step.action is PeriodAction.END:
            self.stop()
        return step.action

    def _note(self) -> None:
        state = self.state
        if state is self._noted or state.result is None:
            return
        self._noted = state
        message = "" if state.result_at is None else self._said
        entry = TargetResult(state.result, state.counted, state.since, state.result_at, message)
        self._around.results.put(self.key, entry)

    # Its target.

    def _facts(self) -> WorkerInputs:
        now, target, pod = self._around.clock.now(), self.key.target, self._pod
        if target.host:
            return WorkerInputs(now, started_at=self._began)
        if pod is None:
            return WorkerInputs(now, known=False)
        container = self._container(pod)
        return WorkerInputs(
            now,
            finished=pod.finished,
            deleting=pod.deleting,
            container=container.id,
            running=container.running,
            started_at=container.started_at,
            started=self._around.started(self.key, container.id),
            addressed=bool(pod.ip),
        )

    def _container(self, pod: ProbedPod) -> ProbedContainer:
        name = self.key.target.container
        return next((each for each in pod.containers if each.name == name), NOTHING)

    def _address(self) -> TargetAddress:
        target, namespace = self.key.target, self.key.namespace
        if self._pod is None:
            return TargetAddress(namespace, target.host)
        container = self._container(self._pod)
        return TargetAddress(namespace, self._pod.ip, target.pod, target.container, container.ports)
