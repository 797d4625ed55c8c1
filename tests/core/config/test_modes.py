"""Lease mode or endpoint mode: which keys choose, what the choice changes, and what a file may still get wrong."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from app.core.config import policy_files
from app.core.config.yaml_file import keys_of
from app.core.model.endpoints import EndpointProbeSpec, Exec, Grpc, HttpGet, TcpSocket
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from tests.core.config.test_files import DEPENDENT

HERE = Path(__file__).parent
LEASE = {"kubeConfigSecretName": "probe"}
ENDPOINT = {"internalKubeConfigSecretName": "inside", "externalKubeConfigSecretName": "outside"}


def loaded(mode, **keys):
    text = yaml.safe_dump({"dependentResourceInfos": [DEPENDENT]} | mode | keys)
    return policy_files.parse_prober(text, "file", strict=True)


def deployment(name):
    return ResourceRef("apps/v1", "Deployment", name)


@pytest.mark.parametrize(
    ("mode", "null", "secrets"),
    [
        (ENDPOINT, LEASE, {Route.INTERNAL: "inside", Route.EXTERNAL: "outside"}),
        (LEASE, ENDPOINT, {Route.INTERNAL: "probe"}),
    ],
    ids=["both names", "one name"],
)
def test_the_names_choose_the_mode_and_a_name_that_is_null_chooses_nothing(mode, null, secrets):
    policy = loaded(mode).policy
    assert (policy.endpoint_mode, policy.secret_names) == (mode is ENDPOINT, secrets)
    assert loaded(mode | dict.fromkeys(null)).policy == policy


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


@pytest.mark.parametrize(
    ("failures", "timeout", "delay", "known"),
    [(1, 3.0, 0, 3), (1, 60.0, 10, 5), (3, 5.0, 14, 15 + 2 * 4)],
    ids=["one probe", "an attempt has 5 s", "the pauses between probes count"],
)
def test_endpoint_mode_is_warned_of_where_the_verdict_and_a_delay_take_all_the_grace(
    failures, timeout, delay, known
):
    dependents = (
        DependentPolicy(deployment("a"), scale_down=ScalePolicy(0, float(delay))),
        DependentPolicy(deployment("b"), scale_down=ScalePolicy(1)),
    )
    policy = ProberPolicy(
        "inside",
        dependents,
        external_secret="outside",
        failure_threshold=failures,
        probe_timeout=timeout,
        suspect_interval=4.0,
    )
    assert policy_files.known_after(policy) == known
    for grace, late in ((known + delay, True), (known + delay + 0.1, False)):
        assert (policy_files.late_scale_down(replace(policy, grace=grace)) is not None) is late


EXAMPLE = HERE.parents[2] / "config/prober-endpoint.yaml"


def test_the_example_has_the_defaults_each_handler_each_key_and_scales_what_the_other_one_scales():
    found = policy_files.read_prober_file(EXAMPLE, strict=True, allow_exec=True)
    other = policy_files.read_prober_file(EXAMPLE.with_name("prober.yaml"), strict=True).policy
    probes = found.policy.endpoint_probes
    assert found.warnings == ()
    assert found.policy == replace(
        loaded(ENDPOINT).policy,
        internal_secret=found.policy.internal_secret,
        external_secret=found.policy.secret_names[Route.EXTERNAL],
        endpoint_probes=probes,
        dependents=other.dependents,
    )
    assert {type(each.handler) for each in probes} == {HttpGet, TcpSocket, Grpc, Exec}
    written = yaml.safe_load(EXAMPLE.read_text())["endpointProbes"]
    assert {key for each in written for key in each} == set(keys_of(EndpointProbeSpec))
    assert any(each.gates for each in probes)
