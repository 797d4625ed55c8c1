"""Waits on virtual time until something is so, and looks only when something may have changed."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

_SETTLING: Counter[int] = Counter()
"""How many tasks of an event loop wait for the present instant to end."""


async def wait_until(so: Callable[[], object], within: float) -> None:
    """Waits until `so` is true, for at most `within` seconds.

    Something changes only where a timer fires, so this asks at each instant that has one, after everything of that
    instant has run. A poll each 10 ms took most of the time of the tests that wait for minutes.
    """
    loop: Any = asyncio.get_running_loop()
    last = loop.time() + within
    while True:
        await _settled(loop)
        if so():
            return
        now = loop.time()
        assert now < last, f"not within {within:g} s"
        timers = (timer.when() for timer in loop._scheduled[:1])
        await asyncio.sleep(min(max(next(timers, last), now), last) - now)


async def _settled(loop: Any) -> None:
    """Waits until nothing is left to run at this instant but others that wait for the same."""
    _SETTLING[id(loop)] += 1
    try:
        while len(loop._ready) >= _SETTLING[id(loop)]:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    finally:
        _SETTLING[id(loop)] -= 1
