"""The real workers on virtual time: the same story in the shoot's object, in metrics, history and log."""

import pytest
from structlog.testing import capture_logs

from app.api import presenting
from app.api.presenting import Endpoints
from app.core.clock import Clock
from app.core.model.overrides import NOTHING
from app.core.model.probing import RequestKind
from app.core.reporting import metering
from app.core.reporting.history import History
from app.core.reporting.metering import EndpointMetering
from app.core.reporting.notices import journal
from app.core.tasks import Tasks
from app.service.loops import succeeded
from tests.api.facts import POLICY, healthy
from tests.support.endpointprobes import (
    ERROR,
    FAILURE,
    NAMESPACE,
    SUCCESS,
    Bench,
    gate_probe,
    pod,
    pod_probe,
)
from tests.support.meter import Meter, Shoot

SUCCEEDED = "dwd_endpoint_probe_success"
FAILURES = "dwd_shoot_probe_failures_total"


class Harness:
    """A canary that is a gate and a probe of etcd, with all that shows them."""

    def __init__(self, clock, tasks):
        self.bench = Bench(clock, tasks, (gate_probe(), pod_probe()))
        words = (*metering.LEASE_MODE, RequestKind.ENDPOINT)
        views = self.bench.probes.views
        self.meter = Meter(probes=words, endpoints=lambda name: succeeded(views(name)))
        self.meter.shoots = [Shoot(NAMESPACE)]
        runs = EndpointMetering(self.meter.metrics, self.meter.metering.shoots)
        self.bench.meter.real = runs.ran
        self.history = History()

    def tell(self):
        """What the board would tell each of its subscribers."""
        for notice in self.bench.notices:
            journal(notice)
            self.history.note(notice)
            self.meter.metering.note(notice)
        self.bench.notices.clear()

    def shown(self):
        probes = self.bench.probes
        found = Endpoints(probes.views(NAMESPACE), probes.gates(NAMESPACE))
        return presenting.shoot(healthy(NAMESPACE), POLICY, NOTHING, found).model_dump(
            mode="json", by_alias=True
        )

    def value(self, name, /, **labels):
        return self.meter.value(name, **labels)


@pytest.fixture
async def harness():
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    yield Harness(clock, tasks)
    await tasks.stop()


async def test_before_any_run_nothing_is_counted_and_the_gate_is_open(harness):
    await harness.bench.start(pod())
    canary, etcd = harness.shown()["endpointProbes"]
    assert (etcd["result"], etcd["counted"], etcd["gate"]) == ("Failure", False, None)
    assert canary["gate"] == "Open"
    assert harness.value(SUCCEEDED, namespace=NAMESPACE, name="etcd") is None


async def test_a_canary_that_fails_closes_its_gate_in_every_record(harness):
    harness.bench.handlers.say(SUCCESS, FAILURE, of="canary")
    await harness.bench.start(pod())
    await harness.bench.passes(60)
    with capture_logs() as lines:
        harness.tell()
    shown = harness.shown()
    canary, etcd = shown["endpointProbes"]
    assert (canary["result"], canary["counted"], canary["gate"]) == ("Failure", True, "Closed")
    assert (etcd["result"], etcd["counted"], etcd["gate"]) == ("Success", True, None)
    [gate] = shown["gates"]
    assert (gate["name"], gate["state"], gate["reason"]) == ("canary", "Closed", "Failing")
    assert "it was Failure" in gate["message"]
    assert [harness.value(SUCCEEDED, namespace=NAMESPACE, name=n) for n in ("canary", "etcd")] == [
        0,
        1,
    ]
    runs = sum(run.probe == "canary" for run in harness.bench.handlers.runs)
    assert harness.value(FAILURES, namespace=NAMESPACE, probe="endpoint") == runs - 1 > 3
    reasons = [each.reason for each in harness.history.of(NAMESPACE)]
    assert reasons.index("GateClosed") < reasons.index("EndpointProbeSucceeded")
    [line] = [each for each in lines if each["reason"] == "GateClosed"]
    assert (line["log_level"], line["namespace"], line["probe"]) == ("warning", NAMESPACE, "canary")
    assert line["gate"] == "Failing"


async def test_errors_close_no_gate_and_are_counted_try_by_try(harness):
    harness.bench.handlers.say(ERROR, of="canary")
    await harness.bench.start(pod())
    await harness.bench.passes(35)
    [gate] = harness.shown()["gates"]
    assert gate["state"] == "Open"
    assert harness.value(SUCCEEDED, namespace=NAMESPACE, name="canary") is None
    errors = harness.value("dwd_probes_total", probe="endpoint", result="error")
    assert errors == sum(run.probe == "canary" for run in harness.bench.handlers.runs)
    assert errors >= 9


async def test_one_target_of_two_that_fails_is_0_in_the_metrics(harness):
    harness.bench.handlers.say(FAILURE, of="etcd-1")
    await harness.bench.start(pod(), pod("etcd-1", ip="10.0.0.2"))
    await harness.bench.passes(60)
    assert harness.value(SUCCEEDED, namespace=NAMESPACE, name="etcd") == 0
    results = {each["target"]["pod"]: each["result"] for each in harness.shown()["endpointProbes"]}
    assert results == {None: "Success", "etcd-0": "Success", "etcd-1": "Failure"}
    harness.bench.pods.remove("etcd-1")
    await harness.bench.passes(1)
    assert harness.value(SUCCEEDED, namespace=NAMESPACE, name="etcd") == 1


async def test_a_container_that_stops_is_0_in_the_metrics_until_it_runs_and_passes_again(harness):
    def value():
        return harness.value(SUCCEEDED, namespace=NAMESPACE, name="etcd")

    await harness.bench.start(pod())
    await harness.bench.passes(60)
    assert value() == 1
    harness.bench.pods.change(running=False)
    await harness.bench.passes(15)
    assert value() == 0
    harness.bench.pods.change(running=True, id="containerd://etcd-2")
    await harness.bench.passes(30)
    assert value() == 1


async def test_when_probing_ends_nothing_is_shown_any_more(harness):
    await harness.bench.start(pod())
    await harness.bench.passes(60)
    await harness.bench.probes.stop(NAMESPACE)
    shown = harness.shown()
    assert (shown["endpointProbes"], shown["endpointProbesTotal"], shown["gates"]) == ([], 0, [])
    assert harness.value(SUCCEEDED, namespace=NAMESPACE, name="canary") is None


async def test_between_two_changes_what_the_gates_say_stays_the_same(harness):
    await harness.bench.start(pod())
    await harness.bench.passes(60)
    before = harness.shown()["gates"]
    await harness.bench.passes(3)
    assert harness.shown()["gates"] == before
