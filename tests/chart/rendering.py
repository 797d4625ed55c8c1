"""The chart, rendered: by which helm, for which Kubernetes, with which values; each combination once."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import yaml

from tests.chart.tools import Tool

Json = dict[str, Any]

CHART: Final = Path(__file__).parents[2] / "helm/dependency-watchdog"
NAMESPACE: Final = "garden"
RELEASE: Final = "dependency-watchdog"
KUBES: Final = ("1.27.0", "1.35.4")
"""The oldest version that Chart.yaml allows, and the one of the API server that it is installed into."""
CLUSTER_WIDE: Final = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
"""The kinds that have no namespace."""
APIS: Final = (
    "monitoring.coreos.com/v1",
    "monitoring.coreos.com/v1/ServiceMonitor",
    "monitoring.coreos.com/v1/PodMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
    "autoscaling.k8s.io/v1",
    "autoscaling.k8s.io/v1/VerticalPodAutoscaler",
    "cert-manager.io/v1",
    "cert-manager.io/v1/Certificate",
    "gateway.networking.k8s.io/v1",
    "gateway.networking.k8s.io/v1/HTTPRoute",
)
"""What a seed serves that has everything the chart knows."""


def values_sets() -> list[Path]:
    """The sets of values that the chart ships with."""
    return sorted([*CHART.glob("ci/*.yaml"), *CHART.glob("values-*.yaml")])


def name_of(path: Path) -> str:
    """How a set is called in the name of a test."""
    return path.stem


@dataclass(frozen=True, slots=True)
class Rendering:
    """What one call of `helm template` printed."""

    text: str
    objects: tuple[Json, ...] = field(repr=False)

    def of(self, kind: str, name: str | None = None) -> list[Json]:
        """The objects of a kind; with that name, if one is given."""
        fitting = [each for each in self.objects if each["kind"] == kind]
        return [each for each in fitting if name in (None, each["metadata"]["name"])]

    def one(self, kind: str, name: str | None = None) -> Json:
        """The only object of a kind (and name)."""
        found = self.of(kind, name)
        assert len(found) == 1, (
            f"{kind} {name or ''}: {[each['metadata']['name'] for each in found]}"
        )
        return found[0]

    def kinds(self) -> set[str]:
        """The kinds that are there."""
        return {each["kind"] for each in self.objects}


class Renderer:
    """Renders the chart; the same call twice costs nothing."""

    def __init__(self, helm: Tool, folder: Path) -> None:
        self._helm, self._folder = helm, folder
        self._known: dict[tuple[str, ...], Rendering] = {}

    def __call__(self, *files: Path, release: str = RELEASE, **how: Any) -> Rendering:
        """The objects for these files of values, and what else there is (as in `words`).

        Raises:
            Failed: the chart refuses.
        """
        words = self.words(*files, **how)
        known = self._known.get((release, *words))
        if known is None:
            text = self._helm("template", release, str(CHART), *words)
            known = Rendering(text, tuple(_objects(text)))
            self._known[release, *words] = known
        return known

    def refusal(self, *files: Path, values: Mapping[str, Any] | None = None) -> str:
        """What the chart says to values that it refuses."""
        return self._helm.refusal("template", RELEASE, CHART, *self.words(*files, values=values))

    def words(
        self,
        *files: Path,
        values: Mapping[str, Any] | None = None,
        kube: str = KUBES[-1],
        apis: tuple[str, ...] = APIS,
        namespace: str = NAMESPACE,
    ) -> tuple[str, ...]:
        """The arguments of `helm template` behind release and chart."""
        given = [*(f"--values={each}" for each in files)]
        if values:
            given.append(f"--values={self._written(values)}")
        return (
            *given,
            f"--namespace={namespace}",
            f"--kube-version={kube}",
            *(f"--api-versions={each}" for each in apis),
        )

    def _written(self, values: Mapping[str, Any]) -> Path:
        text = json.dumps(values, sort_keys=True)
        path = self._folder / f"values-{sha256(text.encode()).hexdigest()[:16]}.json"
        path.write_text(text)
        return path


def _objects(text: str) -> Iterator[Json]:
    for document in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if document is None:
            continue
        yield from document["items"] if document["kind"] == "List" else [document]
