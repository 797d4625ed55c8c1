"""Endpoint probes among fakes, on virtual time."""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from app.core.clock import Clock
from app.core.model.endpoints import EndpointProbeSpec, ProbeOutcome
from app.core.tasks import Tasks
from tests.support.endpointprobes import Bench, LabelledPod

BenchOf = Callable[..., Bench]
StartedBench = Callable[..., Awaitable[Bench]]


@pytest.fixture(autouse=True)
def no_line_is_rendered(lines: object) -> None:
    """Each crash of a worker has a traceback."""


@pytest.fixture
def bench_of(tasks: Tasks, clock: Clock) -> BenchOf:
    def make(
        *probes: EndpointProbeSpec,
        says: Sequence[ProbeOutcome | Exception] = (),
        takes: float = 0.0,
        chance: float | random.Random = 0.5,
        together: float = 0.0,
    ) -> Bench:
        """`says`: what the runs bring, one after the other, where they do not all succeed."""
        bench = Bench(clock, tasks, probes, chance, together)
        if says:
            bench.handlers.say(*says)
        bench.handlers.takes = takes
        return bench

    return make


@pytest.fixture
def started(bench_of: BenchOf) -> StartedBench:
    """The same, begun with these pods."""

    async def make(
        *probes: EndpointProbeSpec, pods: Sequence[LabelledPod] = (), **more: Any
    ) -> Bench:
        bench = bench_of(*probes, **more)
        await bench.start(*pods)
        return bench

    return make
