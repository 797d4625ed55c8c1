"""The controller that makes pods of `spec.replicas` in the seed, and tells so in the status."""

import asyncio
import heapq
from dataclasses import dataclass
from itertools import count
from typing import Final

from app.core.clock import Clock
from app.simulation.store import Happened, Key, Object, Store, StoreEvent
from app.simulation.traffic import Journal, Write
from app.simulation.validation import SIZES
from app.simulation.views import ref_of, size_field

NAME: Final = "deployment-controller"
_TICK: Final = 0.001
"""No timer is finer: what is due within it is due, or the loop would turn on the spot for a rounded microsecond."""


@dataclass(frozen=True, slots=True)
class PodPace:
    """How long pods take, in seconds from the change of the spec."""

    observed: float = 0.1
    """Until the controller has seen the new spec and made, or begun to end, its pods."""
    gone: float = 0.5
    """Until pods that have been scaled away no longer count."""
    ready: float = 5.0
    """Until new pods are ready."""


class DeploymentController:
    """Follows every object of the seed that has a size."""

    def __init__(self, clock: Clock, seed: Store, journal: Journal, pace: PodPace) -> None:
        self.pace = pace
        self.stuck: set[Key] = set()
        """Those whose new pods do not become ready."""
        self._ending: set[Key] = set()
        self._clock = clock
        self._seed = seed
        self._journal = journal
        self._due: list[tuple[float, int, Key, Object, bool]] = []
        self._order = count()
        self._more = asyncio.Event()
        seed.subscribe(self._heard)

    async def run(self) -> None:
        """Writes each status when it is due, for ever."""
        while True:
            self._more.clear()
            now = self._clock.now()
            while self._due and self._due[0][0] <= now + _TICK:
                _, _, key, spec, last = heapq.heappop(self._due)
                self._write(key, spec, settled=last)
            await self._until_next()

    async def _until_next(self) -> None:
        if not self._due:
            await self._more.wait()
            return
        try:
            async with asyncio.timeout(self._due[0][0] - self._clock.now()):
                await self._more.wait()
        except TimeoutError:
            return  # the next one is due

    def recheck(self, key: Key) -> None:
        """Brings an object's status up to its spec, as after a change."""
        obj = self._seed.get(key)
        self._plan(key, obj)

    def _heard(self, event: StoreEvent) -> None:
        obj = event.object
        if event.happened is not Happened.MODIFIED or obj.get("spec", {}).keys().isdisjoint(SIZES):
            return
        if obj.get("status", {}).get("observedGeneration", 1) != obj["metadata"]["generation"]:
            self._plan(event.key, obj)

    def _plan(self, key: Key, obj: Object) -> None:
        now = self._clock.now()
        settled = self.pace.ready if obj["spec"][size_field(obj)] else self.pace.gone
        for delay, last in ((self.pace.observed, False), (settled, True)):
            heapq.heappush(self._due, (now + delay, next(self._order), key, obj["spec"], last))
        self._more.set()

    def _write(self, key: Key, spec: Object, *, settled: bool) -> None:
        obj = self._seed.find(key)
        if obj is None or obj["spec"] != spec:
            return  # a newer spec has its own turn
        name, now = size_field(obj), self._clock.now()
        patch = {"status": self._status(key, obj, name, settled=settled)}
        if self._seed.patch(key, patch, status=True) is not obj:
            self._journal.add(Write(now, key.namespace, ref_of(obj), patch, NAME, now))

    def _status(self, key: Key, obj: Object, name: str, *, settled: bool) -> Object:
        wanted, before = obj["spec"][name], obj.get("status", {})
        status = {"observedGeneration": obj["metadata"]["generation"]}
        status[name] = wanted if wanted or settled else before.get(name, 0)
        ready = self._still_ready(key, wanted, before.get("readyReplicas", 0))
        if settled and (not wanted or key not in self.stuck):
            ready = wanted
        return {**status, "readyReplicas": min(ready, status[name])}

    def _still_ready(self, key: Key, wanted: int, before: int) -> int:
        """How many of the pods that were ready stay: none once all were told to end."""
        if not wanted:
            self._ending.add(key)
        elif key in self._ending:
            self._ending.discard(key)
            return 0
        return before
