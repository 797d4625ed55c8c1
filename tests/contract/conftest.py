"""Two clusters for the same tests: which of them a test gets is its parameter `where`.

From the outside in: `served` (the real adapter on the simulation's servers), `real` (the real adapter on
kube-apiserver), `adapter` and `arena` (what both share).
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.simulation.server.loopback import Loopback
from tests.contract.arena import CLUSTERS
from tests.contract.real import Arena, Landscape, RealArena, landscape
from tests.contract.reviewing import Reviewing
from tests.contract.served import ServedArena
from tests.contract.wire import Wire
from tests.e2e.conftest import assets, folder

__all__ = ["assets", "folder"]


@pytest.fixture
def binary() -> Path:
    """kubectl, where the other assets are."""
    found = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere")) / "kubectl"
    if not found.is_file():
        pytest.skip("kubectl is not there: set KUBEBUILDER_ASSETS (hack/kube-assets kubectl)")
    return found


@pytest.fixture(params=CLUSTERS)
def where(request: pytest.FixtureRequest) -> str:
    """Which cluster the test gets."""
    return str(request.param)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def land(assets: Path, folder: Path) -> AsyncIterator[Landscape]:
    """A real seed and a real shoot, for the whole run."""
    async with landscape(assets, folder) as made:
        yield made


@pytest.fixture
def real_land(request: pytest.FixtureRequest, where: str) -> Landscape | None:
    """They are started only where they are asked for."""
    if where != "kube":
        return None
    made: Landscape = request.getfixturevalue("land")
    return made


@pytest_asyncio.fixture(loop_scope="session")
async def arena(real_land: Landscape | None) -> AsyncIterator[Arena]:
    """The cluster, with a namespace for this test."""
    clock = Clock.system()
    tasks = Tasks(clock)
    try:
        if real_land is not None:
            async with (real := RealArena(clock, tasks, real_land)).open():
                yield real
        else:
            async with (served := ServedArena(clock, tasks, Loopback())).open():
                yield served
    finally:
        await tasks.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def reviewing(arena: RealArena) -> Reviewing:
    """A caller, and who asks about her."""
    made = Reviewing(arena)
    await made.begin()
    return made


@pytest_asyncio.fixture(loop_scope="session")
async def wire(arena: Arena) -> AsyncIterator[Wire]:
    """The seed's API server, as its administrator."""
    made = Wire(arena.port, arena.ca, arena.admin_token)
    yield made
    await made.close()
