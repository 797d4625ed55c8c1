"""What is counted of the notices, and what is read off the shoots."""

from dataclasses import dataclass

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as opened
from prometheus_client.parser import text_string_to_metric_families as parsed

from app.core.metrics import Format, Metrics
from app.core.model.probing import (
    Exclusion,
    LeaseCounts,
    NoticeKind,
    RequestKind,
    ShootState,
    Tally,
)
from app.core.model.weeding import DeletionResult
from app.core.model.workloads import Direction, ResourceRef
from app.core.reporting.gauges import show_shoots
from app.core.reporting.metering import Metering
from app.core.reporting.notices import Notice
from tests.support.slices import at_once

NS = "shoot--a"
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")


@dataclass
class Shoot:
    namespace: str = NS
    state: ShootState = ShootState.HEALTHY
    tally: Tally | None = None
    last_probe: float | None = None
    protected_since: float | None = None
    at_zero: tuple[str, ...] = ()


class Meter:
    """Metrics with everything that feeds them."""

    def __init__(self, *, per_shoot=True, probing=None):
        self.metrics = Metrics(per_shoot=per_shoot)
        self.metering = Metering(self.metrics)
        self.shoots: list[Shoot] = []
        show_shoots(self.metrics, self.metering, self, probing)

    # The shoots.

    def summaries(self):
        return self.shoots

    def facts(self, namespace):
        return next((each for each in self.shoots if each.namespace == namespace), None)

    # What is shown.

    def text(self, written=Format.TEXT):
        """What is written in slices."""
        (source,) = self.metrics.sliced
        return at_once(source.render(written))

    def samples(self):
        """All of them, whoever writes them."""
        families = (*self.metrics.registry.collect(), *parsed(self.text()))
        return [each for family in families for each in family.samples]

    def value(self, name, /, **labels):
        found = [s.value for s in self.samples() if (s.name, s.labels) == (name, labels)]
        assert len(found) < 2
        return found[0] if found else None

    def series(self):
        """Names of all series that have a namespace."""
        return {each.name for each in self.samples() if "namespace" in each.labels}

    def look(self, *, failed=False, known_since=None, lease="success", at=100.0):
        numbers = {
            "probes": {RequestKind.API_SERVER: "success", RequestKind.LEASE: lease},
            "durations": {RequestKind.API_SERVER: 0.01, RequestKind.LEASE: 0.02},
            "lag": 0.003,
            "failed": failed,
            "known_since": known_since,
        }
        self.note(NoticeKind.LOOK, at, numbers)

    def flow(self, direction, flow, at=100.0, **more):
        self.note(NoticeKind.SCALE, at, {"direction": direction, "flow": flow, **more})

    def resource(self, direction, requested_at=None, result="done", at=101.0):
        numbers = {
            "direction": direction,
            "result": result,
            "trigger": "auto",
            "requested_at": requested_at,
        }
        self.note(NoticeKind.SCALE, at, numbers, resource=KCM)

    def note(self, kind, at=100.0, numbers=None, reason="Reason", resource=None):
        self.metering.note(
            Notice(kind, NS, at, reason, "", resource=resource, numbers=numbers or {})
        )

    def outage(self, known_since, requests):
        """A scaling run down as the loop tells it: the probe that led to it is told after its beginning."""
        self.flow(Direction.DOWN, "started")
        self.look(known_since=known_since)
        for at in requests:
            self.resource(Direction.DOWN, at)
        self.flow(Direction.DOWN, "ended", seconds=2.0)


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


def test_a_protection_that_begins_is_a_meltdown_and_one_that_ends_is_not(meter):
    meter.note(NoticeKind.LIFECYCLE, reason="MeltdownProtectionStarted")
    meter.note(NoticeKind.LIFECYCLE, reason="MeltdownProtectionEnded")
    meter.note(NoticeKind.VERDICT)
    assert meter.value("dwd_meltdowns_total") == 1


# The weeder.


def test_pods_that_were_to_be_deleted_are_counted_by_service_and_result(meter):
    def told(reason, result, service="kube-apiserver"):
        meter.note(NoticeKind.WEED, numbers={"service": service, "result": result}, reason=reason)

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


@pytest.mark.parametrize("reason", ["WeedingStarted", "WeedingDelayed", "WeedingEnded"])
def test_the_begin_and_end_of_a_recovery_are_no_deletions_and_are_counted_by_nobody_here(
    meter, reason
):
    before = meter.samples()
    meter.note(NoticeKind.WEED, numbers={"service": "kube-apiserver", "recovery": 1}, reason=reason)
    assert meter.samples() == before


def test_what_failed_unexpectedly_is_counted_for_its_loop(meter):
    meter.note(NoticeKind.LIFECYCLE, reason="RunnerFailed")
    meter.note(NoticeKind.WEED, numbers={"loop": "weeder"}, reason="RunnerFailed")
    meter.note(NoticeKind.WEED, numbers={"loop": "weeder"}, reason="RunnerFailed")
    assert meter.value("dwd_runner_failures_total", loop="prober") == 1
    assert meter.value("dwd_runner_failures_total", loop="weeder") == 2


def test_dependents_that_were_left_behind_are_counted(meter):
    meter.note(NoticeKind.LIFECYCLE, reason="ProtectionAbandoned")
    assert meter.value("dwd_dependents_abandoned_total") == 1


def test_only_what_was_done_counts_whatever_else_has_the_same_name(meter):
    meter.note(NoticeKind.VERDICT, reason="MeltdownProtectionStarted")
    assert meter.value("dwd_meltdowns_total") == 0


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


# Read off the shoots.


def test_states_are_counted_those_without_shoots_too(meter):
    meter.shoots = [Shoot("a"), Shoot("b"), Shoot("c", ShootState.NOT_PROBED)]
    assert meter.value("dwd_shoots", state="Healthy") == 2
    assert meter.value("dwd_shoots", state="Failing") == 0
    assert meter.value("dwd_probers_active") == 2


def test_a_shoot_shows_its_state_its_leases_and_its_last_probe(meter):
    tally = Tally(
        LeaseCounts(10, 3, 2),
        None,
        nodes_read=True,
        judgements=(),
        excluded={Exclusion.NO_MACHINE: 4},
    )
    meter.shoots = [Shoot(tally=tally, last_probe=1234.5)]
    assert meter.value("dwd_shoot_state", namespace=NS, state="Healthy") == 1
    assert meter.value("dwd_shoot_last_probe_timestamp_seconds", namespace=NS) == 1234.5
    states = ("fresh", "expired", "unknown", "excluded")
    found = [meter.value("dwd_shoot_node_leases", namespace=NS, state=each) for each in states]
    assert found == [5, 3, 2, 4]


def test_a_shoot_has_one_state_at_a_time(meter):
    meter.shoots = [Shoot()]
    meter.series()
    meter.shoots = [Shoot(state=ShootState.PROTECTED)]
    assert meter.value("dwd_shoot_state", namespace=NS, state="Protected") == 1
    assert meter.value("dwd_shoot_state", namespace=NS, state="Healthy") is None


def test_what_has_no_value_has_no_series_and_what_is_counted_begins_at_0(meter):
    meter.shoots = [Shoot()]
    counted = {"dwd_shoot_probe_failures_total", "dwd_shoot_scale_attempts_total"}
    assert meter.series() == {"dwd_shoot_state", *counted}
    for direction in Direction:
        assert meter.value("dwd_shoot_scale_attempts_total", namespace=NS, direction=direction) == 0


def test_what_was_counted_of_a_shoot_is_shown_while_it_is_not_probed_and_nothing_else(meter):
    meter.shoots = [Shoot(state=ShootState.NOT_PROBED)]
    meter.flow(Direction.DOWN, "started")
    name = "dwd_shoot_scale_attempts_total"
    assert meter.value(name, namespace=NS, direction="down") == 1
    assert meter.value(name, namespace=NS, direction="up") is None


def test_a_protected_shoot_that_is_no_longer_probed_still_shows_its_protection(meter):
    meter.shoots = [Shoot(state=ShootState.NOT_PROBED, protected_since=77.0, at_zero=("a", "b"))]
    assert meter.value("dwd_shoot_protection_start_timestamp_seconds", namespace=NS) == 77.0
    assert meter.value("dwd_shoot_dependents_at_zero", namespace=NS) == 2


def test_series_of_a_shoot_that_is_gone_vanish(meter):
    meter.shoots = [Shoot(last_probe=1.0, at_zero=("a",), protected_since=1.0)]
    meter.look(lease="error")
    meter.flow(Direction.DOWN, "started")
    assert len(meter.series()) == 6
    meter.shoots = []
    assert meter.series() == set()
    assert not meter.metering.shoots.probe_failures


def test_without_per_shoot_metrics_only_protection_and_zeros_have_a_namespace():
    meter = Meter(per_shoot=False)
    tally = Tally(LeaseCounts(1, 0, 0), None, nodes_read=True, judgements=())
    meter.shoots = [Shoot(tally=tally, last_probe=1.0, at_zero=("a",), protected_since=1.0)]
    meter.look(lease="error")
    meter.flow(Direction.DOWN, "started")
    assert meter.series() == {
        "dwd_shoot_dependents_at_zero",
        "dwd_shoot_protection_start_timestamp_seconds",
    }
    assert meter.value("dwd_shoots", state="Healthy") == 1


def test_no_histogram_has_a_namespace(meter):
    meter.shoots = [Shoot(last_probe=1.0)]
    meter.look()
    for family in (*meter.metrics.registry.collect(), *parsed(meter.text())):
        if family.type == "histogram":
            assert not any("namespace" in sample.labels for sample in family.samples), family.name


# What is written in slices.


def a_shoot_with_everything(namespace=NS):
    return Shoot(
        namespace,
        ShootState.PROTECTED,
        Tally(LeaseCounts(10, 3, 2), None, nodes_read=True, judgements=()),
        last_probe=1234.5,
        protected_since=1200.25,
        at_zero=("kube-controller-manager",),
    )


def everything(meter, shoots):
    meter.shoots = shoots
    meter.look(lease="error")
    meter.flow(Direction.DOWN, "started")


@pytest.mark.parametrize(
    ("written", "parse"), [(Format.TEXT, parsed), (Format.OPEN_METRICS, opened)]
)
def test_both_formats_say_the_same_and_can_be_read(meter, written, parse):
    everything(meter, [a_shoot_with_everything()])
    text = meter.text(written) + ("# EOF\n" if written is Format.OPEN_METRICS else "")
    families = {each.name: each for each in parse(text)}
    assert {each.name.removesuffix("_total") for each in meter.metrics.sliced[0].families()} == set(
        families
    )
    found = {s.name: s.value for family in families.values() for s in family.samples}
    assert found["dwd_shoot_protection_start_timestamp_seconds"] == 1200.25
    assert found["dwd_shoot_scale_attempts_total"] == 1
    assert families["dwd_shoot_scale_attempts"].type == "counter"
    assert families["dwd_shoot_state"].type == "gauge"
    assert all(each.documentation for each in families.values())


def test_each_family_is_written_once_with_all_of_its_samples_however_many_slices_it_takes(meter):
    everything(meter, [a_shoot_with_everything(f"shoot--{number}") for number in range(120)])
    heads = [line for line in meter.text().splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) == 8
    assert meter.text().count("dwd_shoot_state{") == 120


def test_others_have_their_turn_after_each_fifty_shoots(meter):
    meter.shoots = [Shoot(f"shoot--{number}") for number in range(120)]
    (source,) = meter.metrics.sliced
    before = 1
    assert len(list(source.render(Format.TEXT))) == before + 3


def test_a_shoot_that_goes_while_the_others_are_written_has_no_series(meter):
    meter.shoots = [Shoot(f"shoot--{number}") for number in range(60)]
    (source,) = meter.metrics.sliced
    work = source.render(Format.TEXT)
    next(work)
    next(work)
    del meter.shoots[55]
    assert at_once(work).count("dwd_shoot_state{") == 59


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", 'a",state="Healthy'])
def test_no_name_can_forge_a_label_or_a_line(meter, name):
    meter.shoots = [Shoot(name)]
    labels = {"namespace": name, "state": "Healthy"}
    assert meter.value("dwd_shoot_state", **labels) == 1
    assert meter.text().count("\ndwd_shoot_state") == 1
