"""Control planes for the whole run, and the scenarios on them.

From the outside in: `controlplane` (etcd and kube-apiserver as child processes), `landscape` (what Gardener puts on
them), `kubelets` and `actors` (who keeps it alive), `program` (the watchdog as Gardener starts it), `audit` (what it
really asked for), `stage` (all of that for one scenario), `parallel` (scenarios beside each other). `opponent*`: the
real kube-controller-manager, what it judges, and who counts; `failover_*`: two instances (`pair`), what is done to
them, and what the audit log says of it; `test_kwok`: kwok in the place of `kubelets`.
`people`: Pauses and ScaleRequests, and those who look at them with the real kubectl.
`weeder_*`: the stage, the actors and the objects of the weeder, whose seed is the API server that a scenario has for
itself. `api*`: a client of the REST API, and what it may; `canaries`: what nobody may be told.
`podrunner` (with `podspec`, `sandbox`): pods of Deployments, as the API server has them; `gardener`:
what those Deployments come from without the chart; `chart_world`: the stage for that, and the chart.
"""

import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.actors import WorkloadController
from tests.e2e.api import all_of
from tests.e2e.controlplane import Planes, assets_in, control_planes
from tests.e2e.landscape import furnish_people, furnish_seed, furnish_shoot
from tests.e2e.parallel import Scenario, Scenarios, selected

SHARED, OWN_STORAGE = 6, 3  # what two slow cores bear
CHOSEN = pytest.StashKey[Sequence[Scenario]]()
FIGURES = pytest.StashKey[list[str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Remembers which scenarios were selected: they are started together."""
    session.stash[CHOSEN] = selected(session.items)
    session.config.stash[FIGURES] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Shows what was measured."""
    if figures := config.stash.get(FIGURES, []):
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of etcd and kube-apiserver."""
    found = assets_in(os.environ.get("KUBEBUILDER_ASSETS"))
    if found is None:
        pytest.skip(
            "etcd and kube-apiserver are not there: set KUBEBUILDER_ASSETS (hack/kube-assets)"
        )
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Data and logs of the run; the logs stay when something failed, the data goes."""
    made = tmp_path_factory.mktemp("e2e")
    yield made
    for data in made.glob("etcd*"):
        if data.is_dir():
            shutil.rmtree(data)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def planes(assets: Path, folder: Path) -> AsyncIterator[Planes]:
    """A seed and the shoots' API servers, with what each of them always has."""
    async with control_planes(assets, folder, shared=SHARED, own_storage=OWN_STORAGE) as made:
        await furnish_seed(made.seed.api)
        await furnish_people(made.seed.api)
        await all_of(furnish_shoot(plane.api) for plane in made.shoots)
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scenarios(
    request: pytest.FixtureRequest, planes: Planes, folder: Path
) -> AsyncIterator[Scenarios]:
    """All selected scenarios, begun."""
    session = request.session
    figures = request.config.stash[FIGURES]
    async with WorkloadController(planes.seed.api) as controller:
        running = Scenarios(session.stash[CHOSEN], planes, controller, folder, figures)
        yield running
        await running.close()
