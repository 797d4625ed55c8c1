"""A prober on a simulated seed, on virtual time."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from tests.prober.people import Operator, with_operator
from tests.support.harness import SLOW_KCM, Harness, Lab

VirtualTime = Callable[[], AbstractContextManager[None]]


@pytest.fixture
async def lab(tasks: Tasks, clock: Clock) -> AsyncIterator[Lab]:
    made = Lab(tasks, clock)
    yield made
    await made.close()


@pytest.fixture
async def harness(lab: Lab, virtual_time: VirtualTime) -> Harness:
    """One healthy shoot of ten nodes, and a prober with Gardener's dependents that has probed it for a minute."""
    with virtual_time():
        return await lab.healthy()


@pytest.fixture
async def operator(lab: Lab, virtual_time: VirtualTime) -> Operator:
    """The same, and what a person does there."""
    with virtual_time():
        return await with_operator(lab)


@pytest.fixture
async def slow(lab: Lab, virtual_time: VirtualTime) -> Operator:
    """The same, where a scaling run downwards waits a minute before it writes KCM."""
    with virtual_time():
        return await with_operator(lab, dependents=SLOW_KCM)
