"""The lag of the event loop."""

import asyncio
from functools import partial

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.tasks import Tasks
from app.service.service import sample_lag


class Late(Clock):
    """A loop that comes back late."""

    async def sleep(self, seconds):
        await super().sleep(seconds + 0.2)


async def sampled(make):
    clock, metrics = make(), Metrics()
    tasks = Tasks(clock)
    _ = tasks.shared(partial(sample_lag, clock, metrics.loop_lag), "lag")
    await asyncio.sleep(60.1)
    await tasks.stop()
    value = metrics.registry.get_sample_value
    return value("dwd_event_loop_lag_seconds_count"), value("dwd_event_loop_lag_seconds_sum")


async def test_an_idle_loop_has_no_lag():
    count, total = await sampled(Clock.of_loop)
    assert count == 120
    assert total < 0.01


async def test_a_loop_that_comes_back_late_is_measured():
    count, total = await sampled(Late.of_loop)
    assert count == 85
    assert abs(total - 85 * 0.2) < 0.01
