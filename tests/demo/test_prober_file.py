"""The prober file of a scenario: the program takes it, and it says no more than the scenario asks for."""

import pytest

from app.core.config.policy_files import parse_prober
from app.core.model.endpoints import Effect, HttpGet
from app.core.model.shoots import Route
from app.simulation.demo.child import is_as_shipped, prober_file
from app.simulation.manifests import EXTERNAL_SECRET_NAME, SECRET_NAME
from app.simulation.scenarios.scenario import DemoMode, Scenario
from tests.docs.pages import ROOT

SHIPPED = (ROOT / "config/prober.yaml").read_text()
ADDRESS = ("127.0.0.1", 4711)


def loaded(mode, canary=None):
    return parse_prober(prober_file(SHIPPED, mode, canary), "prober.yaml", strict=True)


@pytest.mark.parametrize(
    ("mode", "canary", "as_shipped"),
    [
        (DemoMode.LEASE, False, True),
        (DemoMode.LEASE, True, False),
        (DemoMode.ENDPOINT, False, False),
        (DemoMode.ENDPOINT, True, False),
    ],
)
def test_only_lease_mode_without_a_canary_is_as_shipped(mode, canary, as_shipped):
    assert is_as_shipped(Scenario("mine", "a test", (), mode, canary)) is as_shipped


@pytest.mark.parametrize("mode", list(DemoMode))
@pytest.mark.parametrize("canary", [None, ADDRESS], ids=["no canary", "canary"])
def test_the_program_takes_it_without_a_warning(mode, canary):
    assert loaded(mode, canary).warnings == ()


def test_endpoint_mode_has_both_secrets_its_own_thresholds_and_the_shipped_dependents():
    policy, shipped = loaded(DemoMode.ENDPOINT).policy, loaded(DemoMode.LEASE).policy
    assert policy.secret_names == {
        Route.INTERNAL: SECRET_NAME,
        Route.EXTERNAL: EXTERNAL_SECRET_NAME,
    }
    assert (policy.failure_threshold, policy.success_threshold) == (3, 1)
    assert policy.dependents == shipped.dependents
    assert policy.endpoint_probes == ()


def test_lease_mode_stays_what_it_is():
    assert loaded(DemoMode.LEASE).policy == parse_prober(SHIPPED, "shipped", strict=True).policy


def test_the_canary_is_a_gate_that_closes_before_a_verdict_can_fall():
    policy = loaded(DemoMode.ENDPOINT, ADDRESS).policy
    (probe,) = policy.endpoint_probes
    assert (probe.host, probe.handler) == ("127.0.0.1", HttpGet(port=4711))
    assert probe.effect is Effect.GATE_SCALE_DOWN
    closed = probe.failure_threshold * probe.period + probe.timeout
    assert closed < (policy.failure_threshold - 1) * policy.suspect_interval
