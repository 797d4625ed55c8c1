"""What a scrape reads off the shoots."""

from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as opened
from prometheus_client.parser import text_string_to_metric_families as parsed

from app.core.metrics import Format
from app.core.model.endpoints import EndpointProbeSpec, ProbeOutcome, TcpSocket
from app.core.model.policy import ProberPolicy
from app.core.model.probing import Exclusion, LeaseCounts, ShootState, Tally
from app.core.model.workloads import Direction
from app.core.reporting.metering import EndpointMetering, of_shoots
from app.service.loops import begin_prober
from tests.support.meter import NS, Meter, Shoot, at_once

CANARY = EndpointProbeSpec("canary", tcp_socket=TcpSocket(443), host="canary.example.org")
LEASE_MODE = ProberPolicy("kubeconfig", dependents=())
WITH_PROBES = replace(LEASE_MODE, endpoint_probes=(CANARY,))
FAILURES = "dwd_shoot_probe_failures_total"
SUCCESS = "dwd_endpoint_probe_success"


@pytest.fixture
def meter():
    return Meter()


def showing(results, **more):
    """With the results of endpoint probes."""
    meter = Meter(endpoints=lambda name: results.get(name, {}), **more)
    meter.shoots = [Shoot()]
    return meter


def shoot_with_everything(namespace=NS):
    return Shoot(
        namespace,
        ShootState.PROTECTED,
        Tally(LeaseCounts(10, 3, 2), None, nodes_read=True, judgements=()),
        last_probe=1234.5,
        protected_since=1200.25,
        at_zero=("kube-controller-manager",),
    )


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


def test_series_of_a_shoot_that_is_gone_vanish_and_what_was_counted_of_it_is_forgotten():
    meter = showing({NS: {"canary": True}})
    meter.shoots = [Shoot(last_probe=1.0, at_zero=("a",), protected_since=1.0)]
    meter.look(lease="error")
    meter.flow(Direction.DOWN, "started")
    EndpointMetering(meter.metrics, meter.metering.shoots).ran(NS, ProbeOutcome.FAILURE, 0.1)
    assert len(meter.series()) == 7
    meter.shoots = []
    assert meter.series() == set()
    meter.shoots = [Shoot()]
    assert {s.value for s in meter.samples() if s.name == FAILURES} == {0.0}


def test_without_per_shoot_metrics_only_protection_and_zeros_have_a_namespace():
    meter = showing({NS: {"canary": True}}, per_shoot=False)
    meter.shoots = [shoot_with_everything()]
    meter.look(lease="error")
    meter.flow(Direction.DOWN, "started")
    EndpointMetering(meter.metrics, meter.metering.shoots).ran(NS, ProbeOutcome.FAILURE, 0.1)
    assert meter.series() == {
        "dwd_shoot_dependents_at_zero",
        "dwd_shoot_protection_start_timestamp_seconds",
    }
    assert meter.value("dwd_shoots", state="Protected") == 1


def test_no_histogram_has_a_namespace(meter):
    meter.shoots = [Shoot(last_probe=1.0)]
    meter.look()
    for family in (*meter.metrics.registry.collect(), *parsed(meter.text())):
        if family.type == "histogram":
            assert not any("namespace" in sample.labels for sample in family.samples), family.name


# What is written in slices.


def everything(meter, shoots):
    meter.shoots = shoots
    meter.look(lease="error")
    meter.flow(Direction.DOWN, "started")


@pytest.mark.parametrize(
    ("written", "parse"), [(Format.TEXT, parsed), (Format.OPEN_METRICS, opened)]
)
def test_both_formats_say_the_same_and_can_be_read(meter, written, parse):
    everything(meter, [shoot_with_everything()])
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
    everything(meter, [shoot_with_everything(f"shoot--{number}") for number in range(120)])
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
def test_no_name_can_forge_a_label_or_a_line(name):
    meter = showing({name: {name: False}})
    meter.shoots = [Shoot(name)]
    assert meter.value("dwd_shoot_state", namespace=name, state="Healthy") == 1
    assert meter.value(SUCCESS, namespace=name, name=name) == 0
    assert meter.text().count("\ndwd_shoot_state") == 1


# What the configuration leads to.


def test_a_probe_has_1_or_0_and_none_while_it_has_no_result():
    results = {NS: {"canary": True, "etcd": False}}
    meter = showing(results)
    assert meter.value(SUCCESS, namespace=NS, name="canary") == 1
    assert meter.value(SUCCESS, namespace=NS, name="etcd") == 0
    del results[NS]["canary"]
    assert meter.value(SUCCESS, namespace=NS, name="canary") is None
    assert meter.value(SUCCESS, namespace=NS, name="etcd") == 0


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (LEASE_MODE, ["apiserver", "lease"]),
        (WITH_PROBES, ["apiserver", "lease", "endpoint"]),
        (replace(LEASE_MODE, external_secret="external"), ["internal", "external"]),
        (replace(WITH_PROBES, external_secret="external"), ["internal", "external", "endpoint"]),
    ],
    ids=["leases", "leases and probes", "endpoint mode", "endpoint mode and probes"],
)
def test_failures_of_a_shoot_begin_at_0_for_the_probes_that_there_are_and_no_others(
    policy, expected
):
    meter = Meter(probes=of_shoots(policy))
    meter.shoots = [Shoot()]
    found = [s.labels["probe"] for s in meter.samples() if s.name == FAILURES and s.value == 0]
    assert found == expected


@pytest.mark.parametrize(
    ("policy", "each"),
    [(WITH_PROBES, 14), (replace(WITH_PROBES, external_secret="external"), 10)],
    ids=["leases", "endpoint mode"],
)
def test_a_thousand_shoots_that_are_all_protected_stay_within_15000_series(policy, each):
    meter = Meter(probes=of_shoots(policy), endpoints=lambda _: {"canary": True})
    begin_prober(meter.metrics, policy, dry_run=False)
    meter.shoots = [shoot_with_everything(f"shoot--{number}") for number in range(1_000)]
    if policy.endpoint_mode:
        meter.shoots = [replace(each, tally=None) for each in meter.shoots]
    samples = [s for family in parsed(meter.text()) for s in family.samples]
    assert len(samples) == each * 1_000
    assert len(meter.samples()) < 15_000
