"""Overrides of processes on a simulated seed, on virtual time."""

from collections.abc import AsyncIterator

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from tests.core.overrides.replicas import Lab


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    made = Lab(tasks, clock)
    yield made
    await made.close()
    await tasks.stop()
