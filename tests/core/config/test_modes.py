"""Lease mode or endpoint mode: which keys choose, what the choice changes, and what a file may still get wrong."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.core.config.policy_files import (
    known_after,
    late_scale_down,
    parse_prober,
    read_prober_file,
)
from app.core.config.yaml_file import keys_of
from app.core.model.endpoints import EndpointProbeSpec, Exec, Grpc, HttpGet, TcpSocket
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef

HERE = Path(__file__).parent
LEASE = {"kubeConfigSecretName": "probe"}
ENDPOINT = {"internalKubeConfigSecretName": "inside", "externalKubeConfigSecretName": "outside"}
DEPENDENT = {
    "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kube-controller-manager"},
    "scaleUp": {},
    "scaleDown": {},
}


def loaded(mode, **keys):
    text = yaml.safe_dump({"dependentResourceInfos": [DEPENDENT]} | mode | keys)
    return parse_prober(text, "file", strict=True)


def deployment(name):
    return ResourceRef("apps/v1", "Deployment", name)


def test_the_sample_of_endpoint_mode_means_what_it_says():
    path = HERE / "good/endpoint-mode-sample.yaml"
    up, down = ScalePolicy(1, 10.0, 60.0), ScalePolicy(0, 15.0, 45.0)
    assert read_prober_file(path, strict=True).policy == ProberPolicy(
        internal_secret="dws-interal-probe-secret-name",
        external_secret="dwd-external-probe-secret-name",
        probe_interval=20.0,
        initial_delay=5.0,
        success_threshold=1,
        failure_threshold=3,
        jitter=0.2,
        dependents=(
            DependentPolicy(deployment("kube-controller-manager"), up, down),
            DependentPolicy(deployment("machine-controller-manager"), up, down),
            DependentPolicy(
                deployment("cluster-autoscaler"),
                ScalePolicy(0, 10.0, 60.0),
                ScalePolicy(1, 15.0, 45.0),
            ),
        ),
    )


def test_both_names_choose_endpoint_mode():
    policy = loaded(ENDPOINT).policy
    assert policy.endpoint_mode
    assert policy.secret_names == {Route.INTERNAL: "inside", Route.EXTERNAL: "outside"}


def test_one_name_chooses_lease_mode():
    policy = loaded(LEASE).policy
    assert not policy.endpoint_mode
    assert policy.secret_names == {Route.INTERNAL: "probe"}


def test_a_name_that_is_null_chooses_nothing():
    nulls = dict.fromkeys(ENDPOINT)
    assert loaded(LEASE | nulls).policy == loaded(LEASE).policy
    assert loaded(ENDPOINT | {"kubeConfigSecretName": None}).policy == loaded(ENDPOINT).policy


@pytest.mark.parametrize(("mode", "thresholds"), [(LEASE, (1, 3)), (ENDPOINT, (3, 1))])
def test_each_mode_has_thresholds_of_its_own(mode, thresholds):
    policy = loaded(mode).policy
    assert (policy.failure_threshold, policy.success_threshold) == thresholds
    given_ones = loaded(mode, failureThreshold=2, successThreshold=4).policy
    assert (given_ones.failure_threshold, given_ones.success_threshold) == (2, 4)


def test_the_pause_after_an_internal_failure_can_be_chosen():
    assert loaded(ENDPOINT).policy.internal_failure_backoff == 30.0
    chosen = loaded(ENDPOINT, internalProbeFailureBackoffDuration="0s").policy
    assert chosen.internal_failure_backoff == 0.0


@given(
    st.integers(1, 20),
    st.floats(0.1, 60.0),
    st.floats(0.1, 30.0),
    st.integers(0, 60),
    st.booleans(),
)
def test_endpoint_mode_is_warned_of_exactly_where_the_page_says(
    failures, timeout, pause, delay, short
):
    grace = 40.0 if short else 120.0
    policy = ProberPolicy(
        kubeconfig_secret="inside",
        external_secret="outside",
        grace=grace,
        failure_threshold=failures,
        probe_timeout=timeout,
        suspect_interval=pause,
        dependents=(
            DependentPolicy(deployment("a"), scale_down=ScalePolicy(0, float(delay))),
            DependentPolicy(deployment("b"), scale_down=ScalePolicy(1)),
        ),
    )
    known = failures * min(5.0, timeout) + (failures - 1) * pause
    assert known_after(policy) == known
    assert (late_scale_down(policy) is not None) == (known + delay >= grace)


EXAMPLE = HERE.parents[2] / "config/prober-endpoint.yaml"


def test_the_example_of_endpoint_mode_has_its_defaults_and_no_warnings():
    found = read_prober_file(EXAMPLE, strict=True, allow_exec=True)
    bare = loaded(ENDPOINT).policy
    assert found.warnings == ()
    assert found.policy == replace(
        bare,
        internal_secret=found.policy.internal_secret,
        external_secret=found.policy.secret_names[Route.EXTERNAL],
        endpoint_probes=found.policy.endpoint_probes,
        dependents=found.policy.dependents,
    )


def test_the_example_has_each_handler_and_each_key_of_a_probe():
    found = read_prober_file(EXAMPLE, strict=True, allow_exec=True).policy.endpoint_probes
    assert {type(each.handler) for each in found} == {HttpGet, TcpSocket, Grpc, Exec}
    written = yaml.safe_load(EXAMPLE.read_text())["endpointProbes"]
    assert {key for each in written for key in each} == set(keys_of(EndpointProbeSpec))
    assert any(each.gates for each in found)


def test_the_example_scales_what_the_other_one_scales():
    other = read_prober_file(EXAMPLE.with_name("prober.yaml"), strict=True).policy
    found = read_prober_file(EXAMPLE, strict=True, allow_exec=True).policy
    assert found.dependents == other.dependents
