"""What is known of a target is a fold over what happened to it."""

import asyncio
from functools import reduce

import hypothesis.strategies as st
import looptime
import pytest
from hypothesis import given, settings

from app.core.clock import Clock
from app.core.model.endpoints import ProbeOutcome, ProbeType
from app.core.tasks import Tasks
from tests.support.endpointprobes import NAMESPACE, Bench, gate_probe, pod, pod_probe

pytestmark = pytest.mark.looptime(
    False
)  # each example has a loop of its own, with its own virtual time

RESTART, PAUSE, RESUME = "restart", "stop running", "run"
EVENTS = st.lists(
    st.one_of(
        st.sampled_from(ProbeOutcome),
        st.sampled_from(ProbeOutcome),
        st.sampled_from([RESTART, PAUSE, RESUME]),
    ),
    max_size=30,
)
THRESHOLDS = st.integers(1, 3)
INITIAL = {
    ProbeType.READINESS: "Failure",
    ProbeType.LIVENESS: "Success",
    ProbeType.STARTUP: "Unknown",
}


def fold(probe, events):
    """What is known after all of them: the result, and whether it counts."""
    ready = probe.type is ProbeType.READINESS
    thresholds = {
        ProbeOutcome.SUCCESS: probe.success_threshold,
        ProbeOutcome.FAILURE: probe.failure_threshold,
    }

    def step(known, event):
        said, counted, row, held, running = known
        if event == RESTART:
            return INITIAL[probe.type], False, row, False, True
        if event == PAUSE:
            return (
                ("Failure", False, row, held, False) if ready else (said, counted, row, held, False)
            )
        if event == RESUME:
            return said, counted, row, held, True
        passed = probe.type is ProbeType.STARTUP and counted and said == "Success"
        if event is ProbeOutcome.ERROR or held or passed or not running:
            return known
        row = (event, row[1] + 1) if row[0] is event else (event, 1)
        at_once = probe.gates and not counted and event is ProbeOutcome.FAILURE
        if row[1] < thresholds[event] and not at_once:
            return said, counted, row, held, running
        held = event is ProbeOutcome.FAILURE and not ready
        return str(event), True, (event, 0) if held else row, held, running

    return reduce(step, events, (INITIAL[probe.type], False, (None, 0), False, True))[:2]


async def lived(probe, events):
    """The same, by a worker that lives through it."""
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    bench, containers = Bench(clock, tasks, [probe], chance=0.0), 1
    bench.handlers.say(ProbeOutcome.ERROR)
    bench.pods.put(pod())
    bench.probes.start(NAMESPACE)
    await clock.sleep(0.5)
    for event in events:
        match event:
            case ProbeOutcome():
                bench.handlers.say(event)
                await clock.sleep(1.0)
                bench.handlers.say(ProbeOutcome.ERROR)
            case "restart":
                containers += 1
                bench.pods.change(id=f"containerd://{containers}", running=True)
            case "stop running":
                bench.pods.change(running=False)
            case _:
                bench.pods.change(running=True)
    (entry,) = bench.said()
    await tasks.stop()
    return str(entry.result), entry.counted


@given(
    kind=st.sampled_from(ProbeType),
    gates=st.booleans(),
    success=THRESHOLDS,
    failure=THRESHOLDS,
    events=EVENTS,
)
@settings(max_examples=300)
def test_for_any_results_and_restarts_a_worker_knows_what_a_fold_over_them_says(
    kind, gates, success, failure, events
):
    effect = gate_probe().effect if gates and kind is ProbeType.READINESS else pod_probe().effect
    probe = pod_probe(
        type=kind,
        effect=effect,
        period=1,
        success_threshold=1 if kind is ProbeType.STARTUP else success,
        failure_threshold=failure,
    )
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=1)) as runner:
        assert runner.run(lived(probe, events)) == fold(probe, events)
