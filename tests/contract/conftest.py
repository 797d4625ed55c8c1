"""Two clusters for the same tests: which of them a test gets is its parameter `where`.

From the outside in: `served` (the real adapter on the simulation's servers), `real` (the real adapter on
kube-apiserver), `adapter`, `arena` and `proxy` (what both share).
"""

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from app.core.clock import Clock
from app.core.kube import weeder_view
from app.core.kube.weeder_view import WeederSeed
from app.core.model.policy import ProberPolicy
from app.core.tasks import Tasks
from app.simulation.server.loopback import Loopback
from tests.contract.adapter import hurried
from tests.contract.arena import CLUSTERS, POLICY, until
from tests.contract.real import Arena, Landscape, RealArena, landscape
from tests.contract.reviewing import (
    RealReviewing,
    Reviewing,
    ServedReviewing,
)
from tests.contract.served import ServedArena
from tests.contract.wire import Wire
from tests.core.kube.weeding import SERVICES, Heard
from tests.e2e.controlplane import assets_in
from tests.e2e.weeder_objects import weeder_rules


@pytest.fixture(params=CLUSTERS)
def where(request: pytest.FixtureRequest) -> str:
    """Which cluster the test gets."""
    return str(request.param)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Data and logs of the run; the logs stay, the data goes."""
    made = tmp_path_factory.mktemp("contract")
    yield made
    for data in made.glob("etcd*"):
        if data.is_dir():
            shutil.rmtree(data)


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of etcd and kube-apiserver."""
    found = assets_in(os.environ.get("KUBEBUILDER_ASSETS"))
    if found is None:
        pytest.skip(
            "etcd and kube-apiserver are not there: set KUBEBUILDER_ASSETS (hack/kube-assets)"
        )
    return found


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


@pytest.fixture
def policy() -> ProberPolicy:
    """What the prober is configured for; a module that is about something else has a fixture of its own."""
    return POLICY


@pytest_asyncio.fixture(loop_scope="session")
async def arena(
    where: str,
    real_land: Landscape | None,
    policy: ProberPolicy,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Arena]:
    """The cluster, with a namespace for this test."""
    clock = Clock.system()
    tasks = Tasks(clock)
    hurried(monkeypatch)
    try:
        if real_land is not None:
            async with (real := RealArena(clock, tasks, real_land, policy=policy)).open():
                yield real
        else:
            async with (served := ServedArena(clock, tasks, Loopback(), policy=policy)).open():
                yield served
    finally:
        await tasks.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def heard(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Heard]:
    """What is heard of the weeder's port, with the rights that it needs; the slices are watched, and listed."""
    monkeypatch.setattr(weeder_view, "DELETED_WITHIN", 0.5)
    await arena.grant("weeder", weeder_rules())
    made = WeederSeed(arena.adapter.api, SERVICES, arena.tasks, Random(1))
    heard = Heard(made)
    made.subscribe(heard)
    await made.start()
    await until(lambda: made.watch_state().synced, "the slices are listed")
    yield heard


@pytest.fixture
def seed(heard: Heard) -> WeederSeed:
    """The weeder's port."""
    return heard.seed


@pytest_asyncio.fixture(loop_scope="session")
async def reviewing(arena: Arena) -> AsyncIterator[Reviewing]:
    """A caller, and who asks about her."""
    made = RealReviewing(arena) if isinstance(arena, RealArena) else ServedReviewing(arena)
    async with made.open():
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def wire(arena: Arena) -> AsyncIterator[Wire]:
    """The seed's API server, as its administrator."""
    made = Wire(arena.port, arena.ca, arena.admin_token)
    yield made
    await made.close()
