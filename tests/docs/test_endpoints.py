"""docs/endpoints.md: the program takes its examples as they stand, and each handler has one."""

import pytest
import yaml

from app.core.config.policy_files import parse_prober
from app.core.errors import ConfigurationError
from app.core.model.endpoints import Exec, Grpc, HttpGet, TcpSocket
from tests.docs.pages import DOCS, Page

PAGE = Page(DOCS / "endpoints.md")
EXAMPLES = [found.text for language, found in PAGE.blocks if language == "yaml"]
LEASE_MODE, ENDPOINT_MODE = (
    "kubeConfigSecretName: a-secret\n",
    "internalKubeConfigSecretName: one\nexternalKubeConfigSecretName: another\n",
)
DEPENDENTS = (
    "dependentResourceInfos:\n"
    "- {ref: {apiVersion: apps/v1, kind: Deployment, name: kcm}, scaleUp: {}, scaleDown: {}}\n"
)


def whole(example, mode):
    """A whole file, of an example that is a part of one."""
    if "dependentResourceInfos" in yaml.safe_load(example):
        return example
    return mode + DEPENDENTS + example


def loaded(example, mode=LEASE_MODE, *, allow_exec=True):
    return parse_prober(whole(example, mode), "example.yaml", strict=True, allow_exec=allow_exec)


@pytest.mark.parametrize("mode", [LEASE_MODE, ENDPOINT_MODE], ids=["lease mode", "endpoint mode"])
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_is_taken_without_a_warning_in_either_mode(number, mode):
    assert loaded(EXAMPLES[number], mode).warnings == ()


def test_each_handler_has_an_example():
    probes = [probe for each in EXAMPLES for probe in loaded(each).policy.endpoint_probes]
    assert {type(probe.handler) for probe in probes} == {HttpGet, TcpSocket, Grpc, Exec}


def test_one_example_is_endpoint_mode_and_one_is_a_gate():
    policies = [loaded(each).policy for each in EXAMPLES]
    assert [policy.endpoint_mode for policy in policies].count(True) == 1
    gates = [probe for policy in policies for probe in policy.endpoint_probes if probe.gates]
    assert len(gates) == 1


def test_the_gate_of_the_page_is_as_fast_as_the_page_says():
    (gate,) = (p for each in EXAMPLES for p in loaded(each).policy.endpoint_probes if p.gates)
    seconds = gate.failure_threshold * gate.period + gate.timeout
    assert f"at the latest, here {seconds} s." in " ".join(PAGE.text.split())
    assert seconds < 10, "the first scale-down of endpoint mode, as the page says"


def test_the_exec_example_needs_the_flag_that_the_page_names():
    (example,) = (each for each in EXAMPLES if "exec:" in each)
    with pytest.raises(ConfigurationError, match="--allow-exec"):
        loaded(example, allow_exec=False)
    assert "`--allow-exec`" in PAGE.text


def test_both_modes_at_once_are_a_mistake_as_the_page_says():
    (example,) = (each for each in EXAMPLES if "externalKubeConfigSecretName" in each)
    with pytest.raises(ConfigurationError, match="kubeConfigSecretName"):
        loaded(LEASE_MODE + example)
