"""Values that are right each by itself and do not go together are refused, all at once, each with its path."""

from typing import Any

import pytest

from tests.chart.rendering import CHART, Json, Renderer
from tests.chart.tools import Failed
from tests.chart.valuesfiles import refused

pytestmark = pytest.mark.real


def budget(replicas: int, **budget: Any) -> Json:
    """Values with so many pods of the prober, and a PodDisruptionBudget that says only this."""
    nothing = {"maxUnavailable": None, "minAvailable": None}
    return {"prober": {"replicas": replicas, "pdb": {**nothing, **budget}}}


CASES = refused("together", "endpoints", "stricter")


@pytest.mark.parametrize(
    ("sentence", "values"), CASES, ids=[f"{n}-{each[0][:60]}" for n, each in enumerate(CASES)]
)
def test_values_that_do_not_go_together_are_refused(
    render: Renderer, sentence: str, values: Json
) -> None:
    said = render.refusal(values=values)
    assert f"- {sentence}" in said
    assert said.count("\n- ") == 1, said


def test_all_mistakes_are_named_at_once(render: Renderer) -> None:
    said = render.refusal(
        values={
            "ports": {"health": 9643},
            "metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}},
            "prober": {"pdb": {"minAvailable": 1}},
        }
    )
    assert said.count("\n- ") == 3


def test_the_schema_is_asked_first_and_names_the_path(renders: Renderer) -> None:
    said = renders.refusal(values={"prober": {"config": {"probeInterval": "10"}}})
    assert "at '/prober/config/probeInterval'" in said
    assert renders.refusal(values={"proberr": {}}).count("'proberr'") == 1


def test_what_does_not_run_is_not_judged(render: Renderer) -> None:
    wrong = {"suspectProbeInterval": "1h", "dependentResourceInfos": None}
    assert render(values={"prober": {"enabled": False, "config": wrong}}).of("Deployment")
    alone = {"prober": {"replicas": 5}, "leaderElection": {"enabled": False}}
    serve = {"mode": "serve", "serve": {"replicas": 1}, **alone}
    assert render(values=serve).one("Deployment", "dependency-watchdog-serve")


@pytest.mark.parametrize(
    "values",
    [
        budget(2, minAvailable="50%"),
        budget(2, maxUnavailable="1%"),
        budget(3, minAvailable=2),
        budget(0, minAvailable=1),
    ],
)
def test_a_budget_that_lets_a_pod_go_is_taken(render: Renderer, values: Json) -> None:
    found = render(values=values).one("PodDisruptionBudget", "dependency-watchdog-prober")
    assert found["spec"].items() >= {k: v for k, v in values["prober"]["pdb"].items() if v}.items()


def test_a_release_whose_name_no_service_can_have_is_refused(render: Renderer) -> None:
    with pytest.raises(Failed, match="fullnameOverride: is required for a release with this name"):
        render(release="1st")
    assert render(release="1st", values={"fullnameOverride": "first"}).of("Service")


def test_several_dry_runs_need_no_election(render: Renderer) -> None:
    values = {"prober": {"replicas": 3}, "weeder": {"replicas": 2}}
    rendered = render(CHART / "ci/dry-run-values.yaml", values=values)
    assert {each["spec"]["replicas"] for each in rendered.of("Deployment")} == {2, 3}


@pytest.mark.parametrize(
    ("lease", "renew", "retry"),
    [("15s", "10s", "8.33s"), ("1s", "999ms", "100ms"), ("1h0m1s", "1h", "1m")],
)
def test_an_election_whose_times_just_fit_is_taken(
    render: Renderer, lease: str, renew: str, retry: str
) -> None:
    times = {"leaseDuration": lease, "renewDeadline": renew, "retryPeriod": retry}
    rendered = render(values={"leaderElection": times})
    assert f"--leader-elect-renew-deadline={renew}" in rendered.text or renew == "10s"
