"""The state machine of one endpoint probe on one target: a state and a fact give the next state (rules 5).

It follows the kubelet's worker (`pkg/kubelet/prober/worker.go`, `doProbe`): `before` is what that does before a run,
`after` what it does with the result. Two rules differ from the kubelet on purpose: a container that is not running is
a failure only for Readiness, and a pod that is being deleted always ends its Liveness and Startup workers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from app.core.model.endpoints import (
    CachedResult,
    EndpointProbeSpec,
    ProbeOutcome,
    ProbeType,
    Waiting,
)
from app.prober.rules.schedule import begin_of

MAX_RUNS: Final = 3
"""How many runs are made at once if they end in errors (the kubelet's `maxProbeRetries`)."""
HOST: Final = "host"
"""The container id of a target that is a host: it exists from the start, and is never replaced."""


class PeriodAction(StrEnum):
    """What a worker does in this period."""

    RUN = "Run"
    WAIT = "Wait"
    END = "End"
    """The worker never runs again, and its result is removed."""


INITIAL: Final[Mapping[ProbeType, CachedResult]] = MappingProxyType(
    {
        ProbeType.READINESS: CachedResult.FAILURE,
        ProbeType.LIVENESS: CachedResult.SUCCESS,
        ProbeType.STARTUP: CachedResult.UNKNOWN,
    }
)
"""The result of a target before the first run (the kubelet's `newWorker`, `initialValue`)."""

_RESULTS: Final = {
    ProbeOutcome.SUCCESS: CachedResult.SUCCESS,
    ProbeOutcome.FAILURE: CachedResult.FAILURE,
}


@dataclass(frozen=True, slots=True)
class WorkerInputs:
    """What a worker decides on before a run, at one instant."""

    now: float
    known: bool = True
    """Whether anything is known of its pod."""
    finished: bool = False
    """The pod's containers have ended for good."""
    deleting: bool = False
    container: str = HOST
    """The id of the container; empty before it has been created."""
    running: bool = True
    started_at: float | None = None
    """When the container, or for a host the worker, started; None if the container does not say, taken as long ago."""
    started: bool = True
    """Whether the Startup probes of its container have passed, or there are none."""
    addressed: bool = True
    """Whether the address of the target is known."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker knows of its target; a new worker has `WorkerState()`."""

    container: str = ""
    """The id of the container that the state is about; empty before the first."""
    result: CachedResult | None = None
    """The result in the cache; None before there is a container."""
    counted: bool = False
    """Whether as many runs in a row as the threshold asks for gave this result; False for an initial value."""
    since: float = 0.0
    """When the result became what it is, counted or not."""
    last: CachedResult | None = None
    """The result of the last run that gave one."""
    run: int = 0
    """How many runs in a row gave that result."""
    result_at: float | None = None
    """When the last run that gave a result ended, on this container."""
    held: bool = False

    def passed(self, container: str) -> bool:
        """Whether this very container has a counted Success."""
        return self.counted and self.result is CachedResult.SUCCESS and self.container == container


@dataclass(frozen=True, slots=True)
class WorkerStep:
    """What to do in a period, and the state before it is done."""

    state: WorkerState
    action: PeriodAction
    waiting: Waiting | None = None
    """Why the worker waits; None if it does not."""


def before(probe: EndpointProbeSpec, state: WorkerState, facts: WorkerInputs) -> WorkerStep:
    """Decides what to do in this period; the checks come in the order of the kubelet's `doProbe`."""
    if not facts.known:
        return WorkerStep(state, PeriodAction.WAIT, Waiting.NO_POD)
    if facts.finished:
        return WorkerStep(state, PeriodAction.END)
    if facts.deleting and probe.type is not ProbeType.READINESS:
        return WorkerStep(_said(state, CachedResult.SUCCESS, facts.now), PeriodAction.END)
    if not facts.container:
        return WorkerStep(state, PeriodAction.WAIT, Waiting.NOT_CREATED)
    if facts.container != state.container:
        # A new container has nothing but the count of results in a row of the one before, as with the kubelet.
        new = WorkerState(facts.container, INITIAL[probe.type], since=facts.now)
        state = replace(new, last=state.last, run=state.run)
    waiting = _waiting(probe, state, facts)
    if waiting is None:
        return WorkerStep(state, PeriodAction.RUN)
    if waiting is Waiting.NOT_RUNNING and probe.type is ProbeType.READINESS:
        state = _said(state, CachedResult.FAILURE, facts.now)
    return WorkerStep(state, PeriodAction.WAIT, waiting)


def _waiting(probe: EndpointProbeSpec, state: WorkerState, facts: WorkerInputs) -> Waiting | None:
    """The first reason not to run, in the kubelet's order."""
    startup = probe.type is ProbeType.STARTUP
    # Without a delay, a node whose clock is ahead must not delay anything.
    delayed = (
        probe.initial_delay > 0
        and facts.started_at is not None
        and facts.now - facts.started_at < probe.initial_delay
    )
    reasons = (
        (state.held, Waiting.HELD),
        (not facts.running, Waiting.NOT_RUNNING),
        (delayed, Waiting.INITIAL_DELAY),
        (startup and state.passed(facts.container), Waiting.STARTED),
        (not startup and not facts.started, Waiting.STARTUP),
        (not facts.addressed, Waiting.NO_ADDRESS),
    )
    return next((reason for so, reason in reasons if so), None)


def _said(state: WorkerState, result: CachedResult, now: float) -> WorkerState:
    """Sets a result that does not come from runs, so that it is not counted."""
    if state.result is result and not state.counted:
        return state
    return replace(state, result=result, counted=False, since=now)


def after(
    probe: EndpointProbeSpec, state: WorkerState, outcome: ProbeOutcome, now: float
) -> WorkerState:
    """The state after a run with this outcome; an error leaves the state as it was."""
    result = _RESULTS.get(outcome)
    if result is None:
        return state
    run = state.run + 1 if state.last is result else 1
    state = replace(state, last=result, run=run, result_at=now)
    threshold = probe.success_threshold
    if result is CachedResult.FAILURE:
        # For a gate the first Failure counts while no result has counted yet.
        threshold = 1 if probe.gates and not state.counted else probe.failure_threshold
    if run < threshold:
        return state
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
    """When a worker that need not start at once begins: within its first period, for `randomness` in 0…1.

    That is at the start of a time slot of `together` seconds, but not before `now`. Workers that begin in the same
    slot go on running together, and find the code that they need in the CPU's caches.
    """
    return max(begin_of(now + period * randomness, together), now)


def next_tick(tick: float, period: float, now: float) -> float:
    """The first tick after `now`, for a worker that wakes at `tick` or later; ticks stay multiples of the period apart.

    As with Go's ticker, ticks that were missed count as one: a run that takes longer than a period is followed by the
    next at once, and after the process was frozen there is one run, not one for each period.
    """
    passed = math.floor((now - tick) / period)
    return tick + (max(passed, 0) + 1) * period
