"""The pods that one selector matches, of the namespaces that are followed: one watch of all namespaces.

It is open from the first that is followed until the last was left a while ago.
"""

import asyncio
from collections.abc import Callable, Collection
from random import Random
from typing import Final

import structlog

from app.core.clock import Clock
from app.core.errors import ClusterError
from app.core.kube import sources
from app.core.kube.namespaced_replica import NamespacedReplica
from app.core.kube.reflector import Reflector, RefusalWatch, WatchRequests
from app.core.kube.replica import ObjectKey
from app.core.kube.resources import PODS
from app.core.limits import Backoff
from app.core.metrics import Metrics
from app.core.model.endpoints import ProbedPod
from app.core.model.selectors import LabelSelector
from app.core.ports import WatchState
from app.core.tasks import Tasks, cancelled

log = structlog.get_logger(__name__)

SETTLING: Final = 1.0
"""Seconds from the first namespace that is followed to the list: at a start there are hundreds more at once."""
DESERTED: Final = 60.0
"""Seconds after which a watch that nobody needs any more is closed."""
MOST_JOINS: Final = 10
"""Namespaces that are listed one by one; of more than that, everything is listed anew."""
LISTS_APART: Final = 5.0
"""The least seconds between two such lists."""
_BACKOFF: Final = Backoff(first=1.0, most=30.0)


class SelectedPods:
    """A copy of the pods of one selector; `run` keeps it."""

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
        """Asks for nothing yet.

        Args:
            selector: which pods.
            api: the requests.
            clock: says when the watch was last in contact.
            tasks: keeps the watch; when it dies the process ends.
            metrics: where the watch is counted.
            random: spreads retries and the ends of watches.
            changed: called with a namespace after each change of its pods.
            refusal_changed: called after each change of `forbidden`.
        """
        self._clock, self._tasks, self._metrics = clock, tasks, metrics
        self._random, self._changed = random, changed
        source = sources.probed_pods(selector)
        self.label = source.label
        """Its name in metrics, log and troubles."""
        self._requests = RefusalWatch(api, refusal_changed)
        self._replica = NamespacedReplica(source.label, source.decode, source.complaint)
        self._reflector = Reflector(
            source, self._requests, clock, metrics, random, self._pod_changed
        )
        self._reflector.keep_in(self._replica)
        self._reflector.tell_lists(self._listed)
        self._watching: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        """Something has changed that `run` has to look at."""
        self._join_trouble: str | None = None
        self._failures = 0
        self._listed_all_at = float("-inf")

    @property
    def trouble(self) -> str | None:
        """What it suffers from; None while all is well, or nobody is followed."""
        if self._watching is None:
            return None
        return self._reflector.trouble or self._join_trouble

    @property
    def forbidden(self) -> str | None:
        """Why pods may not be watched; None while they may be, or nobody has said otherwise."""
        return self._requests.forbidden

    def follow(self, namespace: str) -> None:
        """The pods of this namespace are wanted."""
        self._replica.follow(namespace)
        self._stirred.set()

    def leave(self, namespace: str) -> None:
        """They are not any more."""
        self._replica.leave(namespace)
        self._stirred.set()

    def pods(self, namespace: str) -> Collection[ProbedPod]:
        """The pods of a namespace as last seen; none before all of them were."""
        if not self._replica.covers(namespace):
            return ()
        return tuple(self._replica.of(namespace).values())

    def state(self, namespace: str) -> WatchState:
        """How far the watch can be trusted for this namespace."""
        return WatchState(self._replica.covers(namespace), self._reflector.state.last_contact)

    def _pod_changed(self, namespace: str, _name: str) -> None:
        if self._replica.covers(namespace):
            self._changed(namespace)

    def _listed(self, _since: float | None, _news: tuple[ObjectKey, ...]) -> None:
        """Everybody is told: whose pods are the same may not have been known to be complete."""
        self._stirred.set()
        for namespace in sorted(self._replica.followed):
            if self._replica.covers(namespace):
                self._changed(namespace)

    # The watch, and who needs it.

    async def run(self) -> None:
        """Watches while anybody is followed, for ever."""
        try:
            while True:
                await self._until_followed()
                await self._clock.sleep(SETTLING)
                await self._list_all()
                await self._until_deserted()
                await self._close()
        finally:
            await self._close()

    async def _until_followed(self) -> None:
        while not self._replica.followed:
            self._stirred.clear()
            await self._stirred.wait()

    async def _until_deserted(self) -> None:
        """Lets namespaces join, until nobody has been followed for a while."""
        while True:
            self._stirred.clear()
            if not self._replica.followed:
                if await self._quiet(DESERTED):
                    return
            elif waiting := self._replica.waiting():
                await self._take_in(waiting)
            else:
                await self._stirred.wait()

    async def _quiet(self, seconds: float) -> bool:
        """Whether nothing happens for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        except TimeoutError:
            return True
        return False

    async def _take_in(self, waiting: tuple[str, ...]) -> None:
        if len(waiting) <= MOST_JOINS:
            await self._join(waiting[self._failures % len(waiting)])  # one must not keep the others
            return
        await self._clock.sleep(self._listed_all_at + LISTS_APART - self._clock.now())
        await self._list_all()

    async def _list_all(self) -> None:
        """Lists everything, and watches from there."""
        if self._watching is not None:
            await cancelled(self._watching)
        self._listed_all_at = self._clock.now()
        self._replica.list_begins()  # nobody joins meanwhile
        self._reflector.list_anew()
        self._watching = self._tasks.shared(self._reflector.run, f"watch {self.label}")

    async def _join(self, namespace: str) -> None:
        self._replica.join(namespace)
        try:
            found = await self._reflector.read(PODS.path(namespace), namespace)
        except ClusterError as error:
            await self._put_off(error)
            return
        self._failures, self._join_trouble = 0, None
        if self._replica.merge(namespace, found):
            self._changed(namespace)

    async def _put_off(self, error: ClusterError) -> None:
        self._failures += 1
        self._join_trouble = str(error)
        log.warning("pods could not be listed", error=str(error), failures=self._failures)
        pause = _BACKOFF.jittered(self._failures, self._random.random())
        await self._clock.sleep(max(pause, error.retry_after or 0.0))

    async def _close(self) -> None:
        """Ends the watch."""
        watching, self._watching = self._watching, None
        if watching is None:
            return
        await cancelled(watching)
        self._metrics.watch_contact.remove(self.label)
