"""The life of one endpoint probe on one target, as a fold: what is known, plus a fact, is what is known next (rules 5).

It is the kubelet's worker (`pkg/kubelet/prober/worker.go`, `doProbe`).  `before` is what that does before a run and
`after` what it does with the result of one; what a run costs and how long it takes is nobody's business here.
Where this differs from the kubelet, the specification says so: a container that is not running fails only for
Readiness, and a pod that is being deleted ends its Liveness and Startup workers whatever else is so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from app.core.model.endpoints import EndpointProbe, ProbeOutcome, ProbeType
from app.prober.rules.schedule import begin_of

MAX_RUNS: Final = 3
"""A run that ends in an error is repeated at once, until there were so many (`maxProbeRetries`)."""
HOST: Final = "host"
"""Stands for the container id where the target is a host: it is there from the start, and never replaced."""


class CachedResult(StrEnum):
    """What the results cache says of a target."""

    SUCCESS = "Success"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"


class Waiting(StrEnum):
    """Why a worker lets a period pass without a run."""

    NO_POD = "NoPod"
    """Nothing is known of its pod."""
    NOT_CREATED = "NotCreated"
    """Its container has no id yet."""
    HELD = "Held"
    """Its container failed for good: it waits for the next one."""
    NOT_RUNNING = "NotRunning"
    INITIAL_DELAY = "InitialDelay"
    STARTED = "Started"
    """A Startup probe that has passed has nothing more to find out."""
    STARTUP = "Startup"
    """A Startup probe of its container has not passed yet."""
    NO_ADDRESS = "NoAddress"
    """Its pod has no IP yet."""


class PeriodAction(StrEnum):
    """What a worker does in this period."""

    RUN = "Run"
    WAIT = "Wait"
    END = "End"
    """It never runs again: its result goes with it."""


INITIAL: Final[Mapping[ProbeType, CachedResult]] = MappingProxyType(
    {
        ProbeType.READINESS: CachedResult.FAILURE,
        ProbeType.LIVENESS: CachedResult.SUCCESS,
        ProbeType.STARTUP: CachedResult.UNKNOWN,
    }
)
"""What a target counts as before anything was found out (`newWorker`, `initialValue`)."""

_RESULTS: Final = {
    ProbeOutcome.SUCCESS: CachedResult.SUCCESS,
    ProbeOutcome.FAILURE: CachedResult.FAILURE,
}


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What a worker goes by before a run, at one instant."""

    now: float
    known: bool = True
    """Whether its pod has a status."""
    finished: bool = False
    """The pod's containers have ended for good."""
    deleting: bool = False
    container: str = HOST
    """The id of the container; empty before it has been created."""
    running: bool = True
    started_at: float | None = None
    """Of the container, or of the worker for a host; None where a running container does not say: long ago."""
    started: bool = True
    """Whether the Startup probes of its container have passed, or there are none."""
    addressed: bool = True
    """Whether it is known where to ask."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker knows; begins as `State()`."""

    container: str = ""
    """The container that all this is about; empty before the first."""
    result: CachedResult | None = None
    """What the cache says; None before there is a container."""
    counted: bool = False
    """Whether runs said so, as often in a row as it takes; not so of an initial value."""
    since: float = 0.0
    """When it became this result, counted or not."""
    last: CachedResult | None = None
    """Of the last run that gave a result."""
    run: int = 0
    """How many runs in a row gave that."""
    result_at: float | None = None
    """When the last run that gave a result ended, on this container."""
    held: bool = False

    def passed(self, container: str) -> bool:
        """Whether runs have shown that this very container is well."""
        return self.counted and self.result is CachedResult.SUCCESS and self.container == container


@dataclass(frozen=True, slots=True)
class WorkerStep:
    """What a period begins with."""

    state: WorkerState
    action: PeriodAction
    waiting: Waiting | None = None
    """Why it waits; None where it does not."""


def before(probe: EndpointProbe, state: WorkerState, facts: WorkerFacts) -> WorkerStep:
    """What to do now, and what is known before it is done; the order of the checks is that of `doProbe`."""
    if not facts.known:
        return WorkerStep(state, PeriodAction.WAIT, Waiting.NO_POD)
    if facts.finished:
        return WorkerStep(state, PeriodAction.END)
    if facts.deleting and probe.type is not ProbeType.READINESS:
        return WorkerStep(_said(state, CachedResult.SUCCESS, facts.now), PeriodAction.END)
    if not facts.container:
        return WorkerStep(state, PeriodAction.WAIT, Waiting.NOT_CREATED)
    if facts.container != state.container:
        state = _renewed(probe, state, facts)
    return _of_container(probe, state, facts)


def _renewed(probe: EndpointProbe, state: WorkerState, facts: WorkerFacts) -> WorkerState:
    """The initial value for a new container, off hold; what was seen in a row goes on, as it does in the kubelet."""
    said = WorkerState(facts.container, INITIAL[probe.type], counted=False, since=facts.now)
    return replace(said, last=state.last, run=state.run)


def _of_container(probe: EndpointProbe, state: WorkerState, facts: WorkerFacts) -> WorkerStep:
    waiting = _waiting(probe, state, facts)
    if waiting is None:
        return WorkerStep(state, PeriodAction.RUN)
    if waiting is Waiting.NOT_RUNNING and probe.type is ProbeType.READINESS:
        state = _said(state, CachedResult.FAILURE, facts.now)
    return WorkerStep(state, PeriodAction.WAIT, waiting)


def _waiting(probe: EndpointProbe, state: WorkerState, facts: WorkerFacts) -> Waiting | None:
    """The first reason not to run, in the kubelet's order."""
    startup = probe.type is ProbeType.STARTUP
    reasons = (
        (state.held, Waiting.HELD),
        (not facts.running, Waiting.NOT_RUNNING),
        (_delayed(probe, facts), Waiting.INITIAL_DELAY),
        (startup and state.passed(facts.container), Waiting.STARTED),
        (not startup and not facts.started, Waiting.STARTUP),
        (not facts.addressed, Waiting.NO_ADDRESS),
    )
    return next((reason for so, reason in reasons if so), None)


def _delayed(probe: EndpointProbe, facts: WorkerFacts) -> bool:
    """Whether `initialDelaySeconds` is not over; without one, a node whose clock is ahead of ours delays nothing."""
    if not probe.initial_delay or facts.started_at is None:
        return False
    return facts.now - facts.started_at < probe.initial_delay


def _said(state: WorkerState, result: CachedResult, now: float) -> WorkerState:
    """The cache says this now, though no run did."""
    if state.result is result and not state.counted:
        return state
    return replace(state, result=result, counted=False, since=now)


def after(
    probe: EndpointProbe, state: WorkerState, outcome: ProbeOutcome, now: float
) -> WorkerState:
    """What is known after a run that ended like this; after an error, what was known before it."""
    result = _RESULTS.get(outcome)
    if result is None:
        return state
    run = state.run + 1 if state.last is result else 1
    state = replace(state, last=result, run=run, result_at=now)
    return state if run < _threshold(probe, state, result) else _counted(probe, state, result, now)


def _threshold(probe: EndpointProbe, state: WorkerState, result: CachedResult) -> int:
    """How many equal results in a row count; of a gate's target the first Failure counts while nothing else has."""
    if result is CachedResult.SUCCESS:
        return probe.success_threshold
    return 1 if probe.gates and not state.counted else probe.failure_threshold


def _counted(
    probe: EndpointProbe, state: WorkerState, result: CachedResult, now: float
) -> WorkerState:
    same = state.counted and state.result is result
    held = result is CachedResult.FAILURE and probe.type is not ProbeType.READINESS
    return replace(
        state,
        result=result,
        counted=True,
        since=state.since if same else now,
        run=0 if held else state.run,
        held=held,
    )


def first_tick(now: float, period: float, together: float, randomness: float) -> float:
    """When a worker that may wait begins: anywhere in its first period, for `randomness` in 0…1.

    With the begin of a stretch of `together` seconds, but not before `now`: workers keep their distance to it, so those
    that begin in the same one always run together, and find the code that they need in the CPU's caches.
    """
    return max(begin_of(now + period * randomness, together), now)


def next_tick(tick: float, period: float, now: float) -> float:
    """The tick after all that are due, for a worker that wakes at `tick` or later; ticks keep their distance.

    As with Go's ticker, those that passed unused are one: a run that takes longer than a period is followed by the
    next at once, and after the process was frozen there is one run, not one for each period.
    """
    passed = math.floor((now - tick) / period)
    return tick + (max(passed, 0) + 1) * period
