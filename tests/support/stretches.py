"""How long the event loop was kept from everybody else, by the time that its thread worked: others use the machine."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Stretches:
    """The longest stretch of work between two turns of a task that is always due."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        """Takes its turn again and again."""
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - begun)


@asynccontextmanager
async def stretches() -> AsyncIterator[Stretches]:
    """Watches the loop within; a real one, as a virtual one never comes to rest then."""
    found = Stretches()
    watching = asyncio.create_task(found.watch())
    await asyncio.sleep(0)
    try:
        yield found
        await asyncio.sleep(0)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
