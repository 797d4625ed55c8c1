"""A prober on a simulated seed, on virtual time."""

from collections.abc import AsyncIterator

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from tests.support.harness import Harness, Lab


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
    """A prober with Gardener's dependents that has probed one healthy shoot of ten nodes for a minute."""
    return await lab.healthy()
