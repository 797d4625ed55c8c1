"""What the API server says of its kinds, against what the chart renders: kubeconform, and a dry run on the server."""

import json
from pathlib import Path

import pytest
import yaml

from tests.chart import rendering, schemas
from tests.chart.cluster import Cluster, Clusters
from tests.chart.rendering import NAMESPACE, Renderer
from tests.chart.tools import Tool

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def furnished(clusters: Clusters) -> Clusters:
    """Both API servers have the namespace that the chart goes to."""
    for each in (clusters.full, clusters.bare):
        if f"namespace/{NAMESPACE}" not in each.names("namespaces"):
            each.namespace(NAMESPACE)
    return clusters


@pytest.fixture(scope="session")
def strict(kubeconform: Tool, schemas: Path) -> Tool:
    """Kubeconform, with the schemas of the API server and no others."""
    return kubeconform.with_words("-strict", "-summary", f"-schema-location={location(schemas)}")


def location(folder: Path) -> str:
    return str(folder / schemas.LOCATION)


def test_every_field_is_one_that_its_kind_has(
    strict: Tool, render: Renderer, tmp_path: Path
) -> None:
    """Of every set at once: to read the schemas takes longer than to compare with them."""
    number = 0
    for values in rendering.values_sets():
        rendered = render(values)
        (tmp_path / f"{values.stem}.yaml").write_text(rendered.text)
        number += len(rendered.objects)
    printed = strict(tmp_path)
    assert f"Valid: {number}, Invalid: 0, Errors: 0, Skipped: 0" in printed


def test_the_server_would_take_every_object(furnished: Clusters, render: Renderer) -> None:
    """Of every set at once, each object that several sets have once."""
    objects = [each for path in rendering.values_sets() for each in render(path).objects]
    distinct = {json.dumps(each, sort_keys=True): each for each in objects}
    would_apply(furnished.full, yaml.safe_dump_all(distinct.values()))


def test_a_server_without_the_kinds_of_others_would_take_every_object(
    furnished: Clusters, render: Renderer
) -> None:
    """Of one set: without those kinds, all others are the same (test_lint)."""
    would_apply(furnished.bare, render(rendering.CHART / "values-ha.yaml", apis=()).text)


def test_a_misspelt_field_is_found_by_both(
    strict: Tool, furnished: Clusters, render: Renderer
) -> None:
    """Else the tests above could not fail."""
    wrong = render().text.replace("resources:", "resourcs:")
    assert "resourcs" in strict.refusal("-", stdin=wrong)
    assert 'unknown field "spec.template.spec.containers[0].resourcs"' in apply_refused(
        furnished.full, wrong
    )


def test_a_misspelt_field_of_a_kind_of_others_is_found_by_both(
    strict: Tool, furnished: Clusters
) -> None:
    wrong = """\
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: x}
spec: {selector: {}, endpoints: [{port: metrics, intervall: 30s}]}
"""
    assert "intervall" in strict.refusal("-", stdin=wrong)
    assert 'unknown field "spec.endpoints[0].intervall"' in apply_refused(furnished.full, wrong)


def would_apply(cluster: Cluster, text: str) -> None:
    dry = ("apply", "--dry-run=server", "--validate=strict", f"--namespace={NAMESPACE}")
    cluster.kubectl(*dry, "--filename=-", stdin=text)


def apply_refused(cluster: Cluster, text: str) -> str:
    dry = ("apply", "--dry-run=server", "--validate=strict", f"--namespace={NAMESPACE}")
    return cluster.kubectl.refusal(*dry, "--filename=-", stdin=text)
