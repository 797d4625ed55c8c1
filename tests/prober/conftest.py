"""A prober on a simulated seed, on virtual time."""

from collections.abc import AsyncIterator

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from tests.support.harness import SHOOT, Harness, Lab


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    made = Lab(tasks, clock)
    yield made
    await made.close()
    await tasks.stop()


@pytest.fixture
async def harness(lab: Lab) -> Harness:
    """One healthy shoot of ten nodes, and a prober with Gardener's dependents."""
    world = lab.world()
    world.add_shoot(SHOOT)
    return lab.prober(world)
