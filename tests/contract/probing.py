"""The pods of endpoint probes on both clusters: their port, and what may happen to its watches."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from app.core.kube.pods import ProbedPods
from app.core.model.endpoints import ProbedPod
from app.core.model.names import LabelSelector, Operator, Requirement
from tests.contract.arena import Arena, until
from tests.contract.real import RealArena
from tests.contract.served import ServedArena
from tests.contract.weeders import RealWeeding, ServedWeeding
from tests.contract.wire import Wire

ROLE: Final = "role"
ETCD: Final = LabelSelector((Requirement(ROLE, Operator.IN, frozenset({"main"})),))
OTHERS: Final = LabelSelector(
    (Requirement(ROLE, Operator.EXISTS), Requirement(ROLE, Operator.NOT_IN, frozenset({"main"})))
)
SELECTORS: Final = (ETCD, OTHERS)
_WATCHES: Final = re.compile(
    'apiserver_longrunning_requests{.*resource="pods".*scope="cluster".*verb="WATCH"'
)


class Seen:
    """What is seen of the pods, and what was told."""

    def __init__(self, pods: ProbedPods, namespace: str) -> None:
        self.port, self._namespace = pods, namespace
        self.told: list[str] = []
        """Each namespace that was told."""
        pods.subscribe(self.told.append)

    def names(self, selector: LabelSelector = ETCD, namespace: str | None = None) -> str:
        """The names of the pods, one after the other."""
        found = self.port.pods(namespace or self._namespace, selector)
        return " ".join(sorted(each.name for each in found))

    def pod(self, name: str, selector: LabelSelector = ETCD) -> ProbedPod:
        """One of them."""
        found = self.port.pods(self._namespace, selector)
        return next(each for each in found if each.name == name)

    def synced(self, namespace: str | None = None) -> bool:
        """Whether all pods of a namespace are known."""
        return self.port.watch_state(namespace or self._namespace, ETCD).synced

    async def show(
        self, names: str, selector: LabelSelector = ETCD, namespace: str | None = None
    ) -> None:
        """Waits until these are seen."""
        await until(
            lambda: self.names(selector, namespace) == names and self.synced(namespace),
            f"{names!r} instead of {self.names(selector, namespace)!r}",
        )


class ServedProbing(ServedWeeding):
    """The adapter on the simulation's server."""

    def __init__(self, arena: ServedArena) -> None:
        super().__init__(arena)
        self._pods = _adapted(arena)
        self.probed: ProbedPods = self._pods

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        async with _started(self._pods):
            yield


class RealProbing(RealWeeding):
    """The adapter on a real API server."""

    def __init__(self, arena: RealArena) -> None:
        super().__init__(arena)
        self._pods = _adapted(arena)
        self.probed: ProbedPods = self._pods

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        await self.granted()
        async with _started(self._pods):
            yield

    async def watches(self) -> int:
        wire = Wire(self._arena.port, self._arena.ca, self._arena.admin_token)
        lines = (await wire.get("/metrics", accept="text/plain")).text.splitlines()
        await wire.close()
        return sum(int(line.rpartition(" ")[2]) for line in lines if _WATCHES.match(line))


def _adapted(arena: ServedArena | RealArena) -> ProbedPods:
    adapter = arena.adapter
    return ProbedPods(adapter.api, SELECTORS, arena.tasks, Random(1))


@asynccontextmanager
async def _started(pods: ProbedPods) -> AsyncIterator[None]:
    await pods.start()
    try:
        yield
    finally:
        await pods.close()


Probing = ServedProbing | RealProbing
"""The port on one cluster; what may happen to it is as in `weeding.Weeding`."""


def probing_of(arena: Arena) -> Probing:
    """That of this cluster."""
    assert isinstance(arena, ServedArena | RealArena)
    return RealProbing(arena) if isinstance(arena, RealArena) else ServedProbing(arena)
