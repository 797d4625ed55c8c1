"""What is counted of endpoint probes, and of the two paths of endpoint mode."""

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from app.core.model.endpoints import EndpointProbeSpec, ProbeOutcome, TcpSocket
from app.core.model.policy import ProberPolicy
from app.core.model.probing import (
    LeaseCounts,
    NoticeKind,
    ProbeResult,
    RequestKind,
    ShootState,
    Tally,
)
from app.core.reporting import metering
from app.core.reporting.gauges import Probing
from app.core.reporting.metering import EndpointMetering
from app.service.loops import begin_prober
from tests.core.reporting.test_metering import NS, Meter, Shoot

LEASE_MODE = ProberPolicy("kubeconfig", dependents=())
ENDPOINT_MODE = replace(LEASE_MODE, external_secret="external")
CANARY = EndpointProbeSpec("canary", tcp_socket=TcpSocket(443), host="canary.example.org")
FAILURES = "dwd_shoot_probe_failures_total"
SUCCESS = "dwd_endpoint_probe_success"


def with_probes(policy, *probes):
    return replace(policy, endpoint_probes=probes or (CANARY,))


def words(policy):
    return [str(each) for each in metering.of_shoots(policy)]


def metered(**more):
    meter = Meter(probing=Probing((*metering.LEASE_MODE, RequestKind.ENDPOINT)), **more)
    meter.shoots = [Shoot()]
    return meter, EndpointMetering(meter.metrics, meter.metering.shoots)


# Runs.


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (ProbeOutcome.SUCCESS, "success"),
        (ProbeOutcome.FAILURE, "failure"),
        (ProbeOutcome.ERROR, "error"),
    ],
)
def test_each_run_is_counted_by_its_result_and_timed(outcome, result):
    meter, runs = metered()
    runs.ran(NS, "canary", outcome, 0.25)
    runs.ran("shoot--other", "canary", outcome, 0.5)
    assert meter.value("dwd_probes_total", probe="endpoint", result=result) == 2
    assert meter.value("dwd_probe_duration_seconds_count", probe="endpoint") == 2
    assert meter.value("dwd_probe_duration_seconds_sum", probe="endpoint") == 0.75


def test_every_outcome_has_its_word_and_a_run_is_never_throttled():
    meter, runs = metered()
    begun = {
        result: meter.value("dwd_probes_total", probe="endpoint", result=result)
        for result in ProbeResult
    }
    assert begun == dict.fromkeys(ProbeResult, 0) | {ProbeResult.THROTTLED: None}
    for outcome in ProbeOutcome:
        runs.ran(NS, "canary", outcome, 0.1)
    assert meter.value("dwd_probe_duration_seconds_count", probe="endpoint") == len(ProbeOutcome)


def test_a_run_that_did_not_succeed_is_a_failure_of_its_shoot():
    meter, runs = metered()
    assert meter.value(FAILURES, namespace=NS, probe="endpoint") == 0
    for outcome in ProbeOutcome:
        runs.ran(NS, "canary", outcome, 0.1)
    assert meter.value(FAILURES, namespace=NS, probe="endpoint") == 2
    assert meter.value(FAILURES, namespace=NS, probe="lease") == 0


def test_what_was_counted_of_a_shoot_that_is_gone_is_forgotten():
    meter, runs = metered()
    runs.ran(NS, "canary", ProbeOutcome.FAILURE, 0.1)
    meter.shoots = []
    assert meter.series() == set()
    meter.shoots = [Shoot()]
    assert meter.value(FAILURES, namespace=NS, probe="endpoint") == 0


def test_without_per_shoot_metrics_runs_are_counted_for_all_shoots_together_only():
    meter, runs = metered(per_shoot=False)
    runs.ran(NS, "canary", ProbeOutcome.FAILURE, 0.1)
    assert meter.series() == set()
    assert not meter.metering.shoots.probe_failures
    assert meter.value("dwd_probes_total", probe="endpoint", result="failure") == 1


# Results, read off at a scrape.


def showing(results, **more):
    meter = Meter(probing=Probing(endpoints=lambda name: results.get(name, {})), **more)
    meter.shoots = [Shoot()]
    return meter


def test_a_probe_has_1_or_0_and_none_while_it_has_no_result():
    results = {NS: {"canary": True, "etcd": False}}
    meter = showing(results)
    assert meter.value(SUCCESS, namespace=NS, name="canary") == 1
    assert meter.value(SUCCESS, namespace=NS, name="etcd") == 0
    del results[NS]["canary"]
    assert meter.value(SUCCESS, namespace=NS, name="canary") is None
    assert meter.value(SUCCESS, namespace=NS, name="etcd") == 0


def test_a_shoot_that_is_gone_shows_no_result():
    meter = showing({NS: {"canary": True}})
    meter.shoots = []
    assert meter.series() == set()


def test_without_per_shoot_metrics_no_result_is_shown():
    meter = showing({NS: {"canary": True}}, per_shoot=False)
    assert SUCCESS not in meter.text()


@pytest.mark.parametrize("name", ['a"b', "a\\b", 'a",namespace="shoot--b'])
def test_no_name_of_a_probe_can_forge_a_label(name):
    meter = showing({NS: {name: False}})
    assert meter.value(SUCCESS, namespace=NS, name=name) == 0


# The words of each mode.


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (LEASE_MODE, ["apiserver", "lease"]),
        (with_probes(LEASE_MODE), ["apiserver", "lease", "endpoint"]),
        (ENDPOINT_MODE, ["internal", "external"]),
        (with_probes(ENDPOINT_MODE), ["internal", "external", "endpoint"]),
    ],
    ids=["leases", "leases and probes", "endpoint mode", "endpoint mode and probes"],
)
def test_failures_of_a_shoot_begin_at_0_for_the_probes_that_there_are_and_no_others(
    policy, expected
):
    meter = Meter(probing=Probing(metering.of_shoots(policy)))
    meter.shoots = [Shoot()]
    found = [s.labels["probe"] for s in meter.samples() if s.name == FAILURES and s.value == 0]
    assert found == expected == words(policy)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(LEASE_MODE, {"apiserver", "lease"}), (ENDPOINT_MODE, {"internal", "external"})],
    ids=["leases", "endpoint mode"],
)
def test_probes_of_the_mode_begin_at_0_with_every_result(policy, expected):
    meter = Meter()
    begin_prober(meter.metrics, policy, dry_run=False)
    found = {
        (s.labels["probe"], s.labels["result"])
        for s in meter.samples()
        if s.name == "dwd_probes_total"
    }
    assert found == {(probe, str(result)) for probe in expected for result in ProbeResult}


@pytest.mark.parametrize("result", ["failure", "error", "throttled"])
def test_a_path_that_did_not_answer_is_a_failure_of_its_shoot(result):
    meter = Meter(probing=Probing(metering.of_shoots(ENDPOINT_MODE)))
    meter.shoots = [Shoot()]
    numbers = {
        "probes": {RequestKind.INTERNAL: "success", RequestKind.EXTERNAL: result},
        "durations": {RequestKind.INTERNAL: 0.01, RequestKind.EXTERNAL: 5.0},
        "lag": 0.0,
        "failed": result != "failure",
        "known_since": None,
    }
    meter.note(NoticeKind.LOOK, numbers=numbers)
    assert meter.value("dwd_probes_total", probe="external", result=result) == 1
    assert meter.value("dwd_probe_duration_seconds_sum", probe="external") == 5.0
    assert meter.value(FAILURES, namespace=NS, probe="external") == 1
    assert meter.value(FAILURES, namespace=NS, probe="internal") == 0


# How many series there are.


def protected(name, *, tally):
    return Shoot(name, ShootState.PROTECTED, tally, 1.0, protected_since=1.0, at_zero=("a",))


@pytest.mark.parametrize(
    ("policy", "each"),
    [(with_probes(LEASE_MODE), 14), (with_probes(ENDPOINT_MODE), 10)],
    ids=["leases", "endpoint mode"],
)
def test_a_thousand_shoots_that_are_all_protected_stay_within_15000_series(policy, each):
    tally = None
    if not policy.endpoint_mode:
        tally = Tally(LeaseCounts(10, 9, 1), None, nodes_read=True, judgements=())
    probing = Probing(metering.of_shoots(policy), lambda _: {"canary": True})
    meter = Meter(probing=probing)
    begin_prober(meter.metrics, policy, dry_run=False)
    meter.shoots = [protected(f"shoot--{number}", tally=tally) for number in range(1_000)]
    samples = [s for family in parsed(meter.text()) for s in family.samples]
    assert len(samples) == each * 1_000
    assert len(meter.samples()) < 15_000
