"""From `helm install` to the first verdict, on a real API server: ten seconds at most."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chart.cluster import Clusters, found_assets
from tests.chart.customresources import NAMES
from tests.e2e import chart_world
from tests.e2e.actors import WorkloadController
from tests.e2e.api import CRDS
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landscape import PROBER, furnish_seed, furnish_shoot
from tests.e2e.stage import Stage

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.looptime(False),
]

GOAL = 10.0
"""Seconds."""


@asynccontextmanager
async def seed_with_a_shoot(
    clusters: Clusters, folder: Path
) -> AsyncIterator[chart_world.InstalledWorld]:
    """The API server of the whole run as the seed, and one more for a shoot."""
    seed, assets = clusters.full.plane, found_assets()
    assert assets is not None
    plane = ControlPlane(assets / "kube-apiserver", folder, "shoot", seed.storage)
    await asyncio.gather(plane.start(), furnish_seed(seed.api))
    await furnish_shoot(plane.api)
    async with WorkloadController(seed.api) as controller:
        stage = Stage(0, folder, seed, plane, controller, [])
        await plane.known_as(chart_world.name_of_server(stage.shoot))
        try:
            async with chart_world.furnished(stage, seed.port) as made:
                yield made
        finally:
            for name in NAMES:  # helm keeps them, in the way of releases with other names
                await seed.api.delete(f"{CRDS}/{name}")
            await stage.shoot.kubelets.stop()
            await plane.stop()


async def test_there_is_a_verdict_ten_seconds_after_the_installation(
    clusters: Clusters, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    async with seed_with_a_shoot(clusters, tmp_path) as world:
        helm = chart_world.Helm(world, "helm4")
        began = time.time()
        await helm.install(chart_world.quick())
        prober = await world.node.run(chart_world.GARDEN, PROBER)
        await world.until_verdict(prober)
        seconds = time.time() - began
        figure(f"from helm install to the first verdict: {seconds:.1f} s (goal: {GOAL:g} s)")
        assert seconds <= GOAL
        await helm("uninstall", chart_world.RELEASE)
