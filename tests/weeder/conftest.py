"""A weeder on a simulated seed, on virtual time."""

from collections.abc import AsyncIterator

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from tests.support.weeding import WeederHarness, WeederLab


@pytest.fixture
async def lab(tasks: Tasks, clock: Clock) -> AsyncIterator[WeederLab]:
    made = WeederLab(tasks, clock)
    yield made
    await made.close()


@pytest.fixture
async def harness(lab: WeederLab) -> WeederHarness:
    """One control plane that runs well, and a weeder with Gardener's file."""
    return lab.control_plane()


@pytest.fixture
async def slow(lab: WeederLab) -> WeederHarness:
    """The same, with one deletion in 20 s."""
    return lab.control_plane(deletions_a_second=0.05)
