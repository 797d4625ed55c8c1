"""Waits on virtual time until something is so, and looks only when something may have changed."""

import asyncio
from collections.abc import Callable
from typing import Any


async def wait_until(so: Callable[[], object], within: float) -> None:
    """Waits until `so` is true, for at most `within` seconds.

    Something changes only where a timer fires, so this asks at each instant that has one, after everything of that
    instant has run.  A poll each 10 ms took most of the time of the tests that wait for minutes.
    """
    loop: Any = asyncio.get_running_loop()
    last = loop.time() + within
    while True:
        while loop._ready:  # noqa: ASYNC110 - what else this instant brings
            await asyncio.sleep(0)
        if so():
            return
        now = loop.time()
        assert now < last, f"not within {within:g} s"
        timers = (timer.when() for timer in loop._scheduled[:1])
        await asyncio.sleep(min(max(next(timers, last), now), last) - now)
