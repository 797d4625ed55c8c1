"""Overrides of processes on a simulated seed, on virtual time."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from tests.core.overrides.replicas import Lab, Replica


@pytest.fixture
async def lab(tasks: Tasks, clock: Clock) -> AsyncIterator[Lab]:
    made = Lab(tasks, clock)
    yield made
    await made.close()


@pytest.fixture
async def replica(lab: Lab, virtual_time: Callable[[], AbstractContextManager[None]]) -> Replica:
    """It has listed everything, and does not lead."""
    with virtual_time():
        return await lab.started()


@pytest.fixture
async def leader(lab: Lab, virtual_time: Callable[[], AbstractContextManager[None]]) -> Replica:
    """It has listed everything, and leads."""
    with virtual_time():
        return await lab.started(leads=True)
