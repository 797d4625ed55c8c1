"""A weeder on a simulated seed, on virtual time."""

from collections.abc import AsyncIterator

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from tests.support.weeding import NAMESPACE, WeederStage, WeederStand


@pytest.fixture
async def stage() -> AsyncIterator[WeederStage]:
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    made = WeederStage(tasks, clock)
    yield made
    await made.close()
    await tasks.stop()


@pytest.fixture
async def stand(stage: WeederStage) -> WeederStand:
    """One control plane that runs well, and a weeder with Gardener's file."""
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    return stage.weeder(world)
