"""The programs that the chart is tried with, and the chart as they render it.

From the outside in: `tools` (a program and how it is called), `rendering` (the chart, rendered, each combination once),
`cluster` (real API servers, with and without the `crds` of others), `releases` (the chart in one of them), `schemas`
(what kubeconform knows). A test that needs one of the programs is skipped where it is not there.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chart import cluster
from tests.chart.cluster import Clusters
from tests.chart.rendering import Renderer
from tests.chart.schemas import write_schemas
from tests.chart.tools import Tool, tool

HELMS = ("helm3", "helm4")
_FIGURE = "figure"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows what was measured, in whichever process."""
    reports = [each for kind in terminalreporter.stats.values() for each in kind]
    noted = [note for each in reports for note in getattr(each, "user_properties", ())]
    if lines := dict.fromkeys(text for name, text in noted if name == _FIGURE):
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(str(line))


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Notes a measured figure for the summary of the run."""

    def note(text: str) -> None:
        record_property(_FIGURE, text)

    return note


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs have what they keep."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="session")
def helm3(homes: Path) -> Tool:
    """Helm 3."""
    return tool("helm3", homes / "helm3")


@pytest.fixture(scope="session")
def helm4(homes: Path) -> Tool:
    """Helm 4."""
    return tool("helm4", homes / "helm4")


@pytest.fixture(scope="session", params=HELMS)
def helm(request: pytest.FixtureRequest) -> Tool:
    """Either of them: a test with this fixture runs twice."""
    found: Tool = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def promtool(homes: Path) -> Tool:
    """Prometheus' tool for rules and metrics."""
    return tool("promtool", homes / "promtool")


@pytest.fixture(scope="session")
def prometheus(homes: Path) -> Path:
    """The server; a test that starts it ends it."""
    return tool("prometheus", homes / "prometheus").path


@pytest.fixture(scope="session")
def kubeconform(homes: Path) -> Tool:
    """What compares objects with schemas."""
    return tool("kubeconform", homes / "kubeconform")


@pytest.fixture(scope="session")
def render3(helm3: Tool, tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    """Renders the chart with Helm 3."""
    return Renderer(helm3, tmp_path_factory.mktemp("values3"))


@pytest.fixture(scope="session")
def render4(helm4: Tool, tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    """Renders the chart with Helm 4."""
    return Renderer(helm4, tmp_path_factory.mktemp("values4"))


@pytest.fixture(scope="session")
def render(render4: Renderer) -> Renderer:
    """Renders the chart, for tests that do not ask which helm it is."""
    return render4


@pytest.fixture(scope="session", params=HELMS)
def renders(request: pytest.FixtureRequest) -> Renderer:
    """Renders the chart with either: a test with this fixture runs twice."""
    found: Renderer = request.getfixturevalue(f"render{request.param[-1]}")
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def clusters(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Clusters]:
    """Real API servers, for the whole run."""
    assets = cluster.found_assets()
    if assets is None:
        pytest.skip("etcd, kube-apiserver and kubectl are not there (make test-kube builds them)")
    async with cluster.clusters(tmp_path_factory.mktemp("clusters"), assets) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def schemas(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that kubeconform takes its schemas from."""
    found = await cluster.documented(clusters.full.plane, "HTTPRoute")
    return write_schemas(found, tmp_path_factory.mktemp("schemas") / "of-the-api-server")
