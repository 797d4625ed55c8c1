"""The elections of a process: one for each loop that runs in it; the weeder's follows the prober's where both do."""

import asyncio
from collections.abc import Sequence

from app.core.kube.election import LeaseElection
from app.core.ports import Ownership
from app.core.runtime.tasks import Job, Tasks, cancelled


class Elections:
    """Takes part in elections, in their order: each but the first only while the one before is won (spec 8)."""

    def __init__(self, elections: Sequence[LeaseElection], tasks: Tasks) -> None:
        self._elections, self._tasks = tuple(elections), tasks
        self._running: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Begins to stand for them; a Lease that is lost ends the process."""
        before: LeaseElection | None = None
        for each in self._elections:
            job = each.run if before is None else _after(before, each)
            self._running.append(self._tasks.shared(job, "leader election"))
            before = each

    async def end(self) -> None:
        """Leaves them, and releases the Leases, the last one first."""
        for task in self._running:
            await cancelled(task)
        for each in reversed(self._elections):
            await each.release()


def _after(first: Ownership, second: LeaseElection) -> Job:
    """Stands for the second once the first is won; that one's loss ends the process, and so both."""

    async def run() -> None:
        won = asyncio.Event()

        def look() -> None:
            if first.leading:
                won.set()

        first.subscribe(look)
        look()
        await won.wait()
        await second.run()

    return run
