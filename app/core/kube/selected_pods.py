"""The pods that one selector matches in the followed namespaces, from one watch of all namespaces.

The watch is open from the first followed namespace until a while after the last was left.
"""

import asyncio
from collections.abc import Callable, Collection
from random import Random
from typing import Final

import structlog

from app.core.clock import Clock
from app.core.errors import ClusterError
from app.core.kube import sources
from app.core.kube.reflector import Reflector, RefusalWatch, WatchRequests
from app.core.kube.replica import NamespacedReplica, ObjectKey
from app.core.kube.resources import PODS
from app.core.limits import Backoff
from app.core.metrics import Metrics
from app.core.model.endpoints import ProbedPod
from app.core.model.selectors import LabelSelector
from app.core.ports import WatchState
from app.core.tasks import Tasks, cancelled

log = structlog.get_logger(__name__)

START_DELAY: Final = 1.0
"""Seconds from the first followed namespace to the list: at a start hundreds more follow at once."""
IDLE_TIMEOUT: Final = 60.0
"""Seconds after which an unused watch is closed."""
MOST_JOINS: Final = 10
"""Namespaces that are listed one by one; for more than that, everything is listed anew."""
LISTS_APART: Final = 5.0
"""Minimum seconds between two such lists."""
_BACKOFF: Final = Backoff(first=1.0, most=30.0)


class SelectedPods:
    """A copy of the pods of one selector, kept up to date by `run`."""

    def __init__(
        self,
        selector: LabelSelector,
        api: WatchRequests,
        clock: Clock,
        tasks: Tasks,
        metrics: Metrics,
        random: Random,
        *,
        changed: Callable[[str], None],
        refusal_changed: Callable[[], None],
    ) -> None:
        """Sends nothing yet.

        Args:
            selector: selects the pods.
            api: sends the requests.
            clock: timestamps the contacts of the watch.
            tasks: owns the watch task; if it dies the process ends.
            metrics: counts watch restarts.
            random: spreads retries and the durations of watches.
            changed: called with a namespace after each change of its pods.
            refusal_changed: called after each change of `forbidden`.
        """
        self._clock, self._tasks, self._metrics = clock, tasks, metrics
        self._random, self._changed = random, changed
        source = sources.probed_pods(selector)
        self.label = source.label
        """Name of the watch in metrics, log and status."""
        self._requests = RefusalWatch(api, refusal_changed)
        self._replica = NamespacedReplica(source.label, source.decode, source.complaint)
        self._reflector = Reflector(
            source, self._requests, clock, metrics, random, self._pod_changed
        )
        self._reflector.keep_in(self._replica)
        self._reflector.tell_lists(self._listed)
        self._watching: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()
        """Set when something changes that concerns `run`."""
        self._join_trouble: str | None = None
        self._failures = 0
        self._listed_all_at = float("-inf")

    @property
    def trouble(self) -> str | None:
        """Why the watch does not work; None while it does, or nothing is followed."""
        if self._watching is None:
            return None
        return self._reflector.trouble or self._join_trouble

    @property
    def forbidden(self) -> str | None:
        """Why watching pods is forbidden; None while it is allowed, or not known to be forbidden."""
        return self._requests.forbidden

    def follow(self, namespace: str) -> None:
        """Follows a namespace."""
        self._replica.follow(namespace)
        self._wakeup.set()

    def leave(self, namespace: str) -> None:
        """Stops following a namespace."""
        self._replica.leave(namespace)
        self._wakeup.set()

    def pods(self, namespace: str) -> Collection[ProbedPod]:
        """Returns the pods of a namespace, from the watch; none until all of them are known."""
        if not self._replica.covers(namespace):
            return ()
        return tuple(self._replica.of(namespace).values())

    def state(self, namespace: str) -> WatchState:
        """Returns the state of the watch for this namespace."""
        return WatchState(self._replica.covers(namespace), self._reflector.state.last_contact)

    def _pod_changed(self, namespace: str, _name: str) -> None:
        if self._replica.covers(namespace):
            self._changed(namespace)

    def _listed(self, _since: float | None, _news: tuple[ObjectKey, ...]) -> None:
        """Notifies for every namespace: even if its pods are the same, they may not have been known to be complete."""
        self._wakeup.set()
        for namespace in sorted(self._replica.followed):
            if self._replica.covers(namespace):
                self._changed(namespace)

    # The watch and its users.

    async def run(self) -> None:
        """Watches while any namespace is followed, until cancelled."""
        try:
            while True:
                await self._until_followed()
                await self._clock.sleep(START_DELAY)
                await self._list_all()
                await self._until_idle()
                await self._close()
        finally:
            await self._close()

    async def _until_followed(self) -> None:
        while not self._replica.followed:
            self._wakeup.clear()
            await self._wakeup.wait()

    async def _until_idle(self) -> None:
        """Lets namespaces join, until none has been followed for a while."""
        while True:
            self._wakeup.clear()
            if not self._replica.followed:
                if await self._quiet(IDLE_TIMEOUT):
                    return
            elif waiting := self._replica.waiting():
                await self._join_waiting(waiting)
            else:
                await self._wakeup.wait()

    async def _quiet(self, seconds: float) -> bool:
        """Returns whether nothing changes for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._wakeup.wait()
        except TimeoutError:
            return True
        return False

    async def _join_waiting(self, waiting: tuple[str, ...]) -> None:
        if len(waiting) <= MOST_JOINS:
            # in rotation: one that fails must not delay the others
            await self._join(waiting[self._failures % len(waiting)])
            return
        await self._clock.sleep(self._listed_all_at + LISTS_APART - self._clock.now())
        await self._list_all()

    async def _list_all(self) -> None:
        """Lists everything and watches from there."""
        if self._watching is not None:
            await cancelled(self._watching)
        self._listed_all_at = self._clock.now()
        self._replica.list_begins()  # until the list is complete no namespace joins
        self._reflector.list_anew()
        self._watching = self._tasks.shared(self._reflector.run, f"watch {self.label}")

    async def _join(self, namespace: str) -> None:
        self._replica.join(namespace)
        try:
            found = await self._reflector.read(PODS.path(namespace), namespace)
        except ClusterError as error:
            await self._back_off(error)
            return
        self._failures, self._join_trouble = 0, None
        if self._replica.merge(namespace, found):
            self._changed(namespace)

    async def _back_off(self, error: ClusterError) -> None:
        self._failures += 1
        self._join_trouble = str(error)
        log.warning("pods could not be listed", error=str(error), failures=self._failures)
        pause = _BACKOFF.jittered(self._failures, self._random.random())
        await self._clock.sleep(max(pause, error.retry_after or 0.0))

    async def _close(self) -> None:
        """Closes the watch."""
        watching, self._watching = self._watching, None
        if watching is None:
            return
        await cancelled(watching)
        self._metrics.watch_contact.remove(self.label)
