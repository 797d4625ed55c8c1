"""A prober on a simulated seed, on virtual time."""

from collections.abc import AsyncIterator

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from tests.support.stands import SHOOT, Stage, Stand


@pytest.fixture
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    on_ports = request.node.get_closest_marker("on_ports") is not None
    made = Stage(tasks, clock, on_ports=on_ports)
    yield made
    await made.close()
    await tasks.stop()


@pytest.fixture
async def stand(stage: Stage) -> Stand:
    """One healthy shoot of ten nodes, and a prober with Gardener's dependents."""
    world = stage.world()
    world.add_shoot(SHOOT)
    return stage.prober(world)
