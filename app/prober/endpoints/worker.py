"""The worker of one probe on one target: a loop that runs the probe once a period (rules 5, Runs)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from app.core.model.endpoints import (
    CachedResult,
    Effect,
    EndpointProbeSpec,
    GateReason,
    ProbedContainer,
    ProbedPod,
    ProbeOutcome,
    ProbeType,
    Ran,
    TargetAddress,
    Waiting,
)
from app.core.reporting.notices import EndpointResultChanged, Severity
from app.prober.rules import probe_worker as rules
from app.prober.rules.gates import GateInputs
from app.prober.rules.probe_worker import PeriodAction, WorkerInputs, WorkerState

if TYPE_CHECKING:
    from asyncio import Task

    from app.prober.endpoints.manager import WorkerManager

NOTHING = ProbedContainer("")


class ProbeTarget(NamedTuple):
    """The target of a probe: a host, or a container of a pod."""

    host: str = ""
    uid: str = ""
    """The uid of the pod: another pod of the same name is another target."""
    pod: str = ""
    container: str = ""

    def __str__(self) -> str:
        return self.host or f"{self.pod}/{self.container}"


@dataclass(frozen=True, slots=True)
class EndpointResultView:
    """One probe on one target at one instant, for the API, the metrics and the status."""

    name: str
    type: ProbeType
    effect: Effect
    target: ProbeTarget
    """`str(target)` is the host, or `pod/container`."""
    result: CachedResult
    """Unknown before it has a container."""
    counted: bool
    """Whether runs gave this result; False for an initial value, and for a container that is not running."""
    since: float | None
    """The instant at which the result became what it is."""
    last_run: float | None = None
    """When the last run ended, whatever its outcome."""
    last_outcome: ProbeOutcome | None = None
    message: str = ""
    """The message of the last run, in one line."""
    run: int = 0
    """How many results in a row were the same as the last."""
    waiting: Waiting | None = None
    """Why the probe was not run in this period; None if it was."""
    gate: GateReason | None = None
    """The state of the probe's gate in this namespace: Failing is closed, all else is open; None if it is no gate."""

    @property
    def closed(self) -> bool | None:
        """Whether the probe's gate is closed; None if the probe is no gate."""
        return None if self.gate is None else self.gate is GateReason.FAILING


class Worker:
    """Probes one target until the target has ended, or the worker is stopped."""

    def __init__(
        self,
        manager: "WorkerManager",
        probe: EndpointProbeSpec,
        target: ProbeTarget,
        pod: ProbedPod | None,
        begins_at: float,
    ) -> None:
        self._manager, self._clock, self._pod = manager, manager.clock, pod
        self._began = self._clock.now()
        self._tick = begins_at
        self._running = False
        self._last: tuple[float, Ran] | None = None
        """When the last run ended, and its result."""
        self._said = ""
        """The message of the last run that gave a result."""
        self._counting: CachedResult | None = None
        """The result, if it counts."""
        self._told: CachedResult | None = None
        """The last result that counted; a new container does not reset it."""
        self.probe, self.target = probe, target
        self.state = WorkerState()
        self.waiting: Waiting | None = None
        self.ended = False
        """The worker never runs again, and has no result."""
        self.task: Task[None] | None = None
        """The manager's; None before it is started, and if the target had ended before that."""

    # Called by the manager.

    def observe(self, pod: ProbedPod | None) -> None:
        """Takes the pod as the watch shows it now; None for a host, or if nothing is known of the pod."""
        self._pod = pod
        if not self._running:  # a run that is under way is finished first, as in the kubelet
            _ = self._consider()

    def stop(self) -> None:
        """Ends it; the manager cancels the task."""
        self.ended = True
        if self._counting is not None:
            self._counting = None
            self._manager.changed()

    def reading(self) -> GateInputs:
        """What it knows of its target, for the gate."""
        state, target = self.state, str(self.target)
        if state.result is None:
            return GateInputs(target)
        said = "" if state.result_at is None else self._said
        return GateInputs(target, state.result, state.counted, state.since, state.result_at, said)

    def view(self, gate: GateReason | None) -> EndpointResultView:
        """What it knows of its target, with the state of the probe's gate."""
        probe, state = self.probe, self.state
        at, ran = (None, None) if self._last is None else self._last
        return EndpointResultView(
            name=probe.name,
            type=probe.type,
            effect=probe.effect,
            target=self.target,
            result=state.result or CachedResult.UNKNOWN,
            counted=state.counted,
            since=None if state.result is None else state.since,
            last_run=at,
            last_outcome=None if ran is None else ran.outcome,
            message="" if ran is None else ran.message,
            run=state.run,
            waiting=self.waiting,
            gate=gate,
        )

    # The loop.

    async def run(self) -> None:
        """Runs the probe at each tick, where the rules allow it; returns when the target has ended."""
        while not self.ended:
            await self._clock.sleep_until(self._tick)
            self._tick = rules.next_tick(self._tick, self.probe.period, self._clock.now())
            if self._consider() is PeriodAction.RUN:
                await self._run_once()

    async def _run_once(self) -> None:
        """Runs the probe, at most three times while runs end in errors."""
        self._running = True
        try:
            address = self._address()
            ran = await self._attempt(address)
            for _ in range(rules.MAX_RUNS - 1):
                if ran.outcome is not ProbeOutcome.ERROR:
                    break
                ran = await self._attempt(address)
        finally:
            self._running = False
        if self.ended:
            return
        now = self._clock.now()
        self._last = now, ran
        if ran.outcome is not ProbeOutcome.ERROR:
            self._said = ran.message
        self.state = rules.after(self.probe, self.state, ran.outcome, now)
        self._note()
        _ = self._consider()  # takes in what became known while the run was under way
        self._manager.ran(self.probe)

    async def _attempt(self, address: TargetAddress) -> Ran:
        began, adapters = self._clock.now(), self._manager.adapters
        ran = await adapters.handlers.run(self.probe, address)
        adapters.ran(self._manager.namespace, ran.outcome, self._clock.now() - began)
        return ran

    def _consider(self) -> PeriodAction:
        """Decides by the present facts what to do in this period, and keeps the result that follows from them."""
        step = rules.before(self.probe, self.state, self._facts())
        self.state, self.waiting = step.state, step.waiting
        self._note()
        if step.action is PeriodAction.END:
            self.stop()
        return step.action

    def _note(self) -> None:
        """Reports a result that counts from now on, if it is another one than the last that did."""
        counting = self.state.result if self.state.counted else None
        if counting is not None and counting is not self._told:
            first, self._told = self._told is None, counting
            self._report(counting, first=first)
        if counting is not self._counting:
            self._counting = counting
            self._manager.changed()

    def _report(self, result: CachedResult, *, first: bool) -> None:
        probe, failed = self.probe, result is CachedResult.FAILURE
        severity = Severity.DEBUG if first else Severity.INFO
        notice = EndpointResultChanged(
            self._manager.namespace,
            self.state.since,
            "EndpointProbeFailed" if failed else "EndpointProbeSucceeded",
            f"{probe.type} probe {probe.name} of {self.target}: {result}: {self._said}",
            Severity.WARNING if failed else severity,
            probe=probe.name,
            target=str(self.target),
            result=result,
        )
        self._manager.notice_bus.publish(notice)

    # Its target.

    def _facts(self) -> WorkerInputs:
        now, pod = self._clock.now(), self._pod
        if self.target.host:
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
            started=self._manager.started(self.target, container.id),
            addressed=bool(pod.ip),
        )

    def _container(self, pod: ProbedPod) -> ProbedContainer:
        name = self.target.container
        return next((each for each in pod.containers if each.name == name), NOTHING)

    def _address(self) -> TargetAddress:
        target, namespace = self.target, self._manager.namespace
        if self._pod is None:
            return TargetAddress(namespace, target.host)
        container = self._container(self._pod)
        return TargetAddress(namespace, self._pod.ip, target.pod, target.container, container.ports)
