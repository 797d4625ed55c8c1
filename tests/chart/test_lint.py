"""What can be said of the chart without a cluster: Helm's own checks, and that both helms make the same of it."""

from pathlib import Path

import pytest

from tests.chart import rendering
from tests.chart.crds import optional_kinds
from tests.chart.rendering import CHART, CLUSTER_WIDE, KUBES, Json, Renderer, Rendering
from tests.chart.tools import Tool

pytestmark = pytest.mark.real

SETS = pytest.mark.parametrize("values", rendering.values_sets(), ids=rendering.name_of)
NAMED_BY_ITSELF = {"callers-values", "token-values"}
"""Sets with a `fullnameOverride`."""


@SETS
def test_helm_has_nothing_to_say_about_a_set_of_values(helm4: Tool, values: Path) -> None:
    printed = helm4("lint", "--strict", CHART, f"--values={values}")
    assert "0 chart(s) failed" in printed
    assert "[WARNING]" not in printed
    assert "[ERROR]" not in printed


def test_helm_has_nothing_to_say_about_the_values_of_the_chart_itself(helm: Tool) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


@SETS
def test_both_helms_make_the_same_objects_for_every_kubernetes(
    render3: Renderer, render4: Renderer, values: Path
) -> None:
    oldest, newest = KUBES
    found = keyed(render4(values, kube=newest))
    assert keyed(render3(values, kube=newest)) == found
    assert keyed(render4(values, kube=oldest)) == found


@SETS
def test_a_cluster_without_the_kinds_of_others_gets_everything_else(
    render: Renderer, values: Path
) -> None:
    everything, bare = render(values), render(values, apis=())
    assert not bare.kinds() & optional_kinds()
    own = [each for each in everything.objects if each["kind"] not in optional_kinds()]
    assert list(bare.objects) == own


def test_between_them_the_sets_have_every_optional_kind(render: Renderer) -> None:
    rendered = [render(values) for values in rendering.values_sets()]
    missing = optional_kinds() - set().union(*(each.kinds() for each in rendered))
    assert not missing, "a kind that no set of values has is never tried"


@SETS
def test_every_object_is_in_the_namespace_of_the_release_and_says_who_made_it(
    render: Renderer, values: Path
) -> None:
    for each in render(values, release="one", namespace="elsewhere").objects:
        labels = each["metadata"].get("labels", {})
        assert labels.get("app.kubernetes.io/managed-by") == "Helm", each["metadata"]
        assert labels.get("app.kubernetes.io/instance") == "one", each["metadata"]
        everywhere = each["kind"] in CLUSTER_WIDE
        namespace = each["metadata"].get("namespace")
        assert namespace == (None if everywhere else "elsewhere"), each["metadata"]


@SETS
def test_two_releases_have_nothing_in_common(render: Renderer, values: Path) -> None:
    """Save what has its name from the program: its Leases, and the definitions of its kinds."""
    first = render(values, release="one", namespace="elsewhere")
    common = set(keyed(first)) & set(keyed(render(values)))
    common = {key for key in common if key[0] != "CustomResourceDefinition"}
    assert bool(common) == (values.stem in NAMED_BY_ITSELF), common


def test_an_older_kubernetes_than_the_chart_is_made_for_is_refused(helm: Tool) -> None:
    refused = helm.refusal("template", "x", CHART, "--kube-version=1.20.0")
    assert "kubeVersion" in refused


def keyed(rendered: Rendering) -> dict[tuple[str, str], Json]:
    """The objects by kind and name; none is there twice."""
    found = {(each["kind"], each["metadata"]["name"]): each for each in rendered.objects}
    assert len(found) == len(rendered.objects)
    return found
