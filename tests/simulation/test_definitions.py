"""The definitions of the custom resources: those of the chart, and all of what they say is understood."""

import copy
from pathlib import Path

import pytest
import yaml

import app.simulation.crds
from app.simulation.crds import DEFINITIONS
from app.simulation.definitions import Definition

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm/dependency-watchdog/files/crds"
COPIES = Path(app.simulation.crds.__file__).parent
MEND = f"cp {CHART.relative_to(ROOT)}/*.yaml {COPIES.relative_to(ROOT)}/"


def texts(folder):
    return {each.name: each.read_bytes() for each in folder.glob("*.yaml")}


def test_they_are_those_of_the_chart():
    assert texts(COPIES) == texts(CHART), f"the chart's files were changed: {MEND}"


def test_each_of_them_is_served():
    assert {f"{each.plural}.yaml" for each in DEFINITIONS} == texts(COPIES).keys()


@pytest.mark.parametrize(
    "strange",
    [
        {"pattern": "x"},
        {"format": "date"},
        {"x-kubernetes-validations": [{"rule": "self != 'x'", "message": "no x"}]},
    ],
)
def test_what_is_not_understood_is_not_left_out(strange):
    document = yaml.safe_load((COPIES / "pauses.yaml").read_text())
    changed = copy.deepcopy(document)
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["author"] |= strange
    assert Definition.read(document).kind == "Pause"
    with pytest.raises(ValueError, match="not understood"):
        Definition.read(changed)
