"""Values that are right each by itself and do not go together are refused, all at once, each with its path."""

import pytest

from tests.chart.rendering import CHART, Json, Renderer
from tests.chart.tools import Failed, Tool
from tests.chart.valuesfiles import refused

pytestmark = pytest.mark.real


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


def test_a_release_whose_name_no_service_can_have_is_refused(render: Renderer) -> None:
    with pytest.raises(Failed, match="fullnameOverride: is required for a release with this name"):
        render(release="1st")
    assert render(release="1st", values={"fullnameOverride": "first"}).of("Service")


def test_ports_of_the_command_line_are_compared_with_those_of_files(helm: Tool) -> None:
    """Helm reads a number of `--set` as another type."""
    words = ("--set=image.repository=x", "--set=ports.metrics=8080")
    assert "ports: must differ" in helm.refusal("template", "x", CHART, *words)
