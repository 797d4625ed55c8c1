"""What is counted of notices, and of the runs of endpoint probes."""

from dataclasses import replace

import pytest

from app.core.model.endpoints import ProbeOutcome
from app.core.model.policy import ProberPolicy
from app.core.model.probing import ProbeResult, RequestKind
from app.core.model.weeding import DeletionResult
from app.core.model.workloads import Direction
from app.core.reporting import metering, notices
from app.core.reporting.metering import EndpointMetering
from app.service.loops import begin_prober
from tests.support.meter import NS, Meter, Shoot

LEASE_MODE = ProberPolicy("kubeconfig", dependents=())
ENDPOINT_MODE = replace(LEASE_MODE, external_secret="external")
FAILURES = "dwd_shoot_probe_failures_total"


@pytest.fixture
def meter():
    return Meter()


def test_each_probe_is_counted_by_its_result_and_timed(meter):
    meter.look()
    meter.look(lease="failure")
    assert meter.value("dwd_probes_total", probe="apiserver", result="success") == 2
    assert meter.value("dwd_probes_total", probe="lease", result="failure") == 1
    assert meter.value("dwd_probe_duration_seconds_count", probe="lease") == 2
    assert meter.value("dwd_probe_lag_seconds_sum") == pytest.approx(0.006)


@pytest.mark.parametrize("result", ["failure", "error", "throttled"])
def test_a_probe_that_did_not_succeed_is_a_failure_of_its_shoot(meter, result):
    meter.shoots = [Shoot()]
    meter.look(lease=result)
    meter.look()
    assert meter.value("dwd_shoot_probe_failures_total", namespace=NS, probe="lease") == 1
    assert meter.value("dwd_shoot_probe_failures_total", namespace=NS, probe="apiserver") == 0


def test_what_was_scaled_or_not_is_counted_by_resource_and_result(meter):
    meter.resource(Direction.DOWN)
    meter.resource(Direction.UP, result="dry-run")
    labels = {"resource": "Deployment/kube-controller-manager", "trigger": "auto"}
    name = "dwd_scale_operations_total"
    assert meter.value(name, direction="down", result="done", **labels) == 1
    assert meter.value(name, direction="up", result="dry-run", **labels) == 1


def test_runs_are_counted_for_their_shoot_and_timed(meter):
    meter.shoots = [Shoot()]
    meter.flow(Direction.UP, "started")
    meter.flow(Direction.UP, "ended", seconds=12.5)
    assert meter.value("dwd_shoot_scale_attempts_total", namespace=NS, direction="up") == 1
    assert meter.value("dwd_scale_duration_seconds_sum", direction="up") == 12.5


def test_protections_that_begin_or_are_abandoned_are_counted_and_no_other_change(meter):
    meter.note(notices.ProtectionBegan)
    meter.note(notices.LifecycleChanged, reason="MeltdownProtectionEnded")
    assert meter.value("dwd_meltdowns_total") == 1
    meter.note(notices.ProtectionAbandoned)
    assert meter.value("dwd_dependents_abandoned_total") == 1


# The weeder.


def test_pods_that_were_to_be_deleted_are_counted_by_service_and_result(meter):
    def told(reason, result, service="kube-apiserver"):
        meter.note(
            notices.PodJudged, reason=reason, service=service, pod="etcd-main-0", result=result
        )

    told("PodWeeded", DeletionResult.DELETED)
    told("PodWeeded", DeletionResult.DELETED)
    told("PodWeeded", DeletionResult.DELETED, "etcd-main-client")
    told("PodNotWeeded", DeletionResult.GONE)
    told("PodNotWeeded", DeletionResult.CONFLICT)
    told("PodNotWeeded", DeletionResult.ERROR)
    told("PodNotWeeded", DeletionResult.DRY_RUN)
    told("WeedingCapped", DeletionResult.CAPPED)
    name = "dwd_weeder_pod_deletions_total"
    assert meter.value(name, service="etcd-main-client", result="deleted") == 1
    found = {
        each: meter.value(name, service="kube-apiserver", result=each) for each in DeletionResult
    }
    assert found.pop(DeletionResult.DELETED) == 2
    assert set(found.values()) == {1}


def test_what_failed_unexpectedly_is_counted_for_its_loop(meter):
    meter.note(notices.RunnerFailed)
    meter.note(notices.EndpointWorkerFailed, probe="canary", target="canary.example.org")
    meter.note(notices.RecoveryFailed, service="kube-apiserver")
    meter.note(notices.RecoveryFailed, service="etcd-main-client")
    assert meter.value("dwd_runner_failures_total", loop="prober") == 2
    assert meter.value("dwd_runner_failures_total", loop="weeder") == 2


# Detection.


def test_detection_is_the_first_request_minus_the_instant_at_which_it_could_be_known(meter):
    meter.outage(100.0, [101.5, 100.75, None])
    assert meter.value("dwd_detection_seconds_count") == 1
    assert meter.value("dwd_detection_seconds_sum") == pytest.approx(0.75)


def test_a_second_run_down_in_the_same_outage_is_not_detection(meter):
    meter.outage(100.0, [100.5])
    meter.outage(100.0, [130.0])
    assert meter.value("dwd_detection_seconds_count") == 1


def test_what_counts_is_the_probe_that_the_run_began_at_not_a_later_one(meter):
    meter.flow(Direction.DOWN, "started")
    meter.look(known_since=100.0)
    meter.look(known_since=100.6)
    meter.resource(Direction.DOWN, 100.9)
    meter.flow(Direction.DOWN, "ended", seconds=9.0)
    assert meter.value("dwd_detection_seconds_sum") == pytest.approx(0.9)


def test_the_next_outage_is_detected_again(meter):
    meter.outage(100.0, [100.5])
    meter.look(failed=True)
    meter.look()
    meter.outage(500.0, [501.0])
    assert meter.value("dwd_detection_seconds_sum") == pytest.approx(1.5)


@pytest.mark.parametrize(("known", "requests"), [(None, [1.0]), (100.0, []), (100.0, [None])])
def test_a_run_that_wrote_nothing_or_found_no_outage_says_nothing_of_detection(
    meter, known, requests
):
    meter.outage(known, requests)
    assert meter.value("dwd_detection_seconds_count") == 0


def test_scaling_up_says_nothing_of_detection(meter):
    meter.flow(Direction.UP, "started")
    meter.look(known_since=100.0)
    meter.resource(Direction.UP, 101.0)
    meter.flow(Direction.UP, "ended", seconds=1.0)
    assert meter.value("dwd_detection_seconds_count") == 0


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
    assert set(metering.of_shoots(policy)) == expected


# Runs of endpoint probes.


def metered(**more):
    meter = Meter(probes=(*metering.LEASE_MODE, RequestKind.ENDPOINT), **more)
    meter.shoots = [Shoot()]
    return meter, EndpointMetering(meter.metrics, meter.metering.shoots)


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
    runs.ran(NS, outcome, 0.25)
    runs.ran("shoot--other", outcome, 0.5)
    assert meter.value("dwd_probes_total", probe="endpoint", result=result) == 2
    assert meter.value("dwd_probe_duration_seconds_count", probe="endpoint") == 2
    assert meter.value("dwd_probe_duration_seconds_sum", probe="endpoint") == 0.75
    assert meter.value("dwd_probes_total", probe="endpoint", result="throttled") is None


def test_a_run_that_did_not_succeed_is_a_failure_of_its_shoot():
    meter, runs = metered()
    assert meter.value(FAILURES, namespace=NS, probe="endpoint") == 0
    for outcome in ProbeOutcome:
        runs.ran(NS, outcome, 0.1)
    assert meter.value(FAILURES, namespace=NS, probe="endpoint") == 2
    assert meter.value(FAILURES, namespace=NS, probe="lease") == 0


def test_without_per_shoot_metrics_runs_are_counted_for_all_shoots_together_only():
    meter, runs = metered(per_shoot=False)
    runs.ran(NS, ProbeOutcome.FAILURE, 0.1)
    assert not meter.metering.shoots.probe_failures
    assert meter.value("dwd_probes_total", probe="endpoint", result="failure") == 1
