"""Endpoint probes among fakes, on virtual time."""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core.clock import Clock
from app.core.model.endpoints import EndpointProbeSpec
from app.core.tasks import Tasks
from tests.support.endpointprobes import Bench

BenchOf = Callable[..., Bench]


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    """What is logged; a rendered traceback would cost a second of real time each."""
    with capture_logs() as entries:
        yield entries


@pytest.fixture
async def bench_of() -> AsyncIterator[BenchOf]:
    clock = Clock.of_loop()
    tasks = Tasks(clock)

    def make(
        *probes: EndpointProbeSpec, chance: float | random.Random = 0.5, together: float = 0.0
    ) -> Bench:
        return Bench(clock, tasks, probes, chance, together)

    yield make
    await tasks.stop()
