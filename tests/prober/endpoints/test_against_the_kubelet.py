"""Our workers and the kubelet's, as that is written down in Go, say the same of any life of a pod."""

import asyncio
from dataclasses import dataclass

import hypothesis.strategies as st
import looptime
import pytest
from hypothesis import given, settings

from app.core.clock import Clock
from app.core.model.endpoints import ProbeOutcome, ProbeType
from app.core.tasks import Tasks
from tests.prober.endpoints.kubelet import ContainerStatus, KubeletWorker, PodStatus, ProbeError
from tests.support.endpointprobes import Bench, container, pod, pod_probe

pytestmark = pytest.mark.looptime(
    False
)  # each example has a loop of its own, with its own virtual time


@dataclass(frozen=True)
class Moment:
    """How the pod is during one period, and what runs would bring."""

    container: int
    """0: not created; else the number of its id."""
    running: bool
    phase: str
    deleting: bool
    age: float
    outcomes: tuple[ProbeOutcome, ...]


OUTCOMES = st.lists(st.sampled_from(ProbeOutcome), min_size=3, max_size=3).map(tuple)
MOMENTS = st.builds(
    Moment,
    st.sampled_from([0, 1, 1, 1, 1, 2, 3]),
    st.sampled_from([True, True, True, False]),
    st.sampled_from(["Running"] * 12 + ["Pending", "Succeeded", "Failed"]),
    st.sampled_from([False] * 9 + [True]),
    st.sampled_from([0.5, 1.5, 2.5, 9.5]),
    OUTCOMES | st.sampled_from([(ProbeOutcome.FAILURE,), (ProbeOutcome.SUCCESS,)]),
)
SPECS = st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
KINDS = st.sampled_from(ProbeType)


class Script:
    """What the runs of one period bring, one after the other; the last goes on."""

    def __init__(self):
        self.outcomes = []
        self.runs = 0

    def run(self):
        self.runs += 1
        said = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if said is ProbeOutcome.ERROR:
            raise ProbeError
        return said is ProbeOutcome.SUCCESS


def probed(moment, now):
    there = container(
        id="" if not moment.container else f"containerd://{moment.container}",
        running=moment.running,
        started_at=now - moment.age,
    )
    return pod(phase=moment.phase, deleting=moment.deleting, containers=(there,))


def status(moment, now):
    there = ContainerStatus(
        "" if not moment.container else f"containerd://{moment.container}",
        moment.running,
        now - moment.age,
    )
    return PodStatus(moment.phase, there, moment.deleting)


async def compare(kind, spec, moments):
    """Both live through the same; after each period their caches are alike."""
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    delay, success, failure = spec
    probe = pod_probe(
        type=kind,
        period=1,
        initial_delay=delay,
        success_threshold=success,
        failure_threshold=failure,
    )
    bench, script = Bench(clock, tasks, [probe], chance=0.5), Script()
    theirs = KubeletWorker(kind, spec, script.run)
    bench.pods.put(probed(moments[0], clock.now() + 0.5))
    bench.handlers.say(*moments[0].outcomes)
    bench.probes.start("shoot--local--a")
    for moment in moments:
        tick = clock.now() + 0.5
        bench.handlers.say(*moment.outcomes)
        bench.pods.put(probed(moment, tick))
        script.outcomes = list(moment.outcomes)
        theirs.tick(status(moment, tick), tick)
        await clock.sleep(1.0)
        ours = [str(entry.result) for entry in bench.said()]
        assert ours == list(theirs.results_manager.cache.values())
        assert len(bench.handlers.runs) == script.runs
    await tasks.stop()


@given(kind=KINDS, spec=SPECS, moments=st.lists(MOMENTS, min_size=1, max_size=25))
@settings(max_examples=300)
def test_for_any_life_of_a_pod_ours_and_the_kubelets_say_the_same(kind, spec, moments):
    if kind is ProbeType.STARTUP:
        spec = (spec[0], 1, spec[2])  # Kubernetes allows no other
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=1)) as runner:
        runner.run(compare(kind, spec, moments))
