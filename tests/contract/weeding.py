"""The weeder's ports on both clusters, what may happen to them, and what tests hear and see of them."""

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from app.core.errors import ClusterError
from app.core.kube.weeder_view import PodWatch, WeederSeed
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.weeding import PodView, ServiceKey
from app.core.ports import Admission, Permission, Relisted
from app.core.tasks import Tasks, cancelled
from app.simulation.traffic import Trouble
from tests.contract.arena import until
from tests.contract.real import Arena, RealArena
from tests.contract.served import ServedArena
from tests.contract.wire import Wire
from tests.e2e import objects
from tests.e2e.api import Json
from tests.e2e.landscape import RBAC, grant
from tests.e2e.processes import eventually

ETCD: Final = "etcd-main-client"
API_SERVER: Final = "kube-apiserver"
SERVICES: Final = (ETCD, API_SERVER)
"""Those that are configured."""
SHORT: Final = 0.5
"""Seconds after which a deletion without an answer is given up."""


class Heard:
    """Listens to services; keeps what it was told, and how things stood at that moment."""

    def __init__(self, namespace: str) -> None:
        self.calls: list[tuple[str, tuple[bool, ...]]] = []
        """Each change in the namespace of the test: the service, and which of its endpoints were ready then."""
        self.lists: list[Relisted] = []
        self._namespace = namespace
        self._seed: WeederSeed | None = None

    def to(self, seed: WeederSeed) -> None:
        """Listens from now on."""
        self._seed = seed
        seed.subscribe(self)

    def service_changed(self, key: ServiceKey) -> None:
        if key.namespace == self._namespace:
            self.calls.append((key.service, self.endpoints(key)))

    def services_relisted(self, relisted: Relisted) -> None:
        self.lists.append(relisted)

    def endpoints(self, key: ServiceKey) -> tuple[bool, ...]:
        """Which endpoints of a service are ready, slice by slice in the order of their names."""
        assert self._seed is not None
        slices = sorted(self._seed.slices(key), key=lambda each: each.name)
        return tuple(endpoint.ready for each in slices for endpoint in each.endpoints)


GROUPS = {"pods": "", "endpointslices": "discovery.k8s.io"}
_WATCHES = re.compile(
    'apiserver_longrunning_requests{.*resource="pods".*scope="namespace".*verb="WATCH"'
)
RIGHTS = {"pods": "get list watch delete", "endpointslices": "get list watch"}


class ServedWeeding:
    """The adapter on the simulation's servers."""

    seed: WeederSeed

    def __init__(self, arena: ServedArena) -> None:
        self._arena, self._world = arena, arena.world
        self._adapted = _adapted(arena)
        self.seed = self._adapted

    @asynccontextmanager
    async def open(self, heard: Heard) -> AsyncIterator[None]:
        async with _opened(self._adapted, heard):
            yield

    def cut(self):
        """All watches end, and none can be opened."""
        return self._arena.proxy.down()

    @asynccontextmanager
    async def forgets(self) -> AsyncIterator[None]:
        """As `cut`, and at its end the server has forgotten what happened in it."""
        async with self._arena.proxy.down():
            yield
            await self._arena.forget()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """The API server is stopped, and started again."""
        with self._world.faults.seed_down():
            yield

    @asynccontextmanager
    async def forbidden(self, verb: str, resource: str) -> AsyncIterator[None]:
        """We may not do this, for as long as it lasts."""
        trouble = Trouble(forbidden=True, verbs=frozenset({verb}), what=frozenset({resource}))
        right = Permission(verb, GROUPS[resource], resource)
        self._world.denied.add(right)
        with self._world.faults.seed_trouble(trouble):
            yield
        self._world.denied.discard(right)

    async def watches(self) -> int:
        """How many watches of pods of a namespace the server has open."""
        return self._world.parts.watches.open_now("Pod")


class RealWeeding:
    """The adapter on a real API server."""

    seed: WeederSeed

    def __init__(self, arena: RealArena) -> None:
        self._arena = arena
        self._adapted = _adapted(arena)
        self.seed = self._adapted

    async def granted(self) -> None:
        """All rights are there, and known to be."""
        api, garden = self._arena.api, self._arena.garden
        await grant(api, garden, "weeder", _rules(RIGHTS.items()))
        await self._granted(_permissions(), missing=False)

    @asynccontextmanager
    async def open(self, heard: Heard) -> AsyncIterator[None]:
        await self.granted()
        async with _opened(self._adapted, heard):
            yield

    def cut(self):
        return self._arena.proxy.down()

    @asynccontextmanager
    async def forgets(self) -> AsyncIterator[None]:
        async with self._arena.proxy.down():
            yield
            # The last revision of all is never forgotten: so that what happened is not in it, one more thing happens.
            again = {"metadata": {"annotations": {"contract": str(self._arena.clock.now())}}}
            await self._arena.api.patch(f"/api/v1/namespaces/{self._arena.namespace}", again)
            await self._arena.forget()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        seed = self._arena.land.seed
        await seed.child.stop(within=10)
        try:
            yield
        finally:
            await seed.start()

    @asynccontextmanager
    async def forbidden(self, verb: str, resource: str) -> AsyncIterator[None]:
        verbs = [each for each in RIGHTS[resource].split() if each != verb]
        rights = RIGHTS | {resource: " ".join(verbs)}
        path = f"{RBAC}/clusterroles/{self._arena.garden}-weeder"
        right = (Permission(verb, GROUPS[resource], resource),)
        await self._arena.api.patch(path, {"rules": _rules(rights.items())})
        await self._granted(right, missing=True)
        try:
            yield
        finally:
            await self._arena.api.patch(path, {"rules": _rules(RIGHTS.items())})
            await self._granted(right, missing=False)

    async def _granted(self, rights: tuple[Permission, ...], *, missing: bool) -> None:
        async def known() -> bool:
            return await self._arena.access.missing(rights) == (rights if missing else ())

        await eventually(known, f"{rights} are known", within=10, every=0.02)

    async def watches(self) -> int:
        wire = Wire(self._arena.port, self._arena.ca, self._arena.admin_token)
        lines = (await wire.get("/metrics", accept="text/plain")).text.splitlines()
        await wire.close()
        return sum(int(line.rpartition(" ")[2]) for line in lines if _WATCHES.match(line))


Weeding = ServedWeeding | RealWeeding
"""The weeder's port on one cluster, and what may happen to that."""


def _rules(rights: Iterable[tuple[str, str]]) -> list[Json]:
    return [objects.rule(GROUPS[resource], [resource], verbs) for resource, verbs in rights]


def _permissions() -> tuple[Permission, ...]:
    return tuple(
        Permission(verb, GROUPS[resource], resource)
        for resource, verbs in RIGHTS.items()
        for verb in verbs.split()
    )


def _adapted(arena: ServedArena | RealArena) -> WeederSeed:
    adapter = arena.adapter
    return WeederSeed(adapter.api, SERVICES, arena.tasks, Random(1))


@asynccontextmanager
async def _opened(seed: WeederSeed, heard: Heard) -> AsyncIterator[None]:
    heard.to(seed)
    async with AsyncExitStack() as stack:
        await seed.start()
        stack.push_async_callback(seed.close)
        await until(lambda: seed.watch_state().synced, "the slices are listed")
        yield


@dataclass
class Opened:
    """A watch of pods that runs, and what it told."""

    watch: PodWatch
    told: list[str] = field(default_factory=list)
    asked: int = 0
    """How many requests were admitted."""
    ended: list[ClusterError] = field(default_factory=list)
    """What it ended with, if it did."""

    def names(self) -> str:
        """The names of the pods, one after the other."""
        return " ".join(sorted(self.watch.pods()))

    def pod(self, name: str) -> PodView:
        """One of the pods."""
        return self.watch.pods()[name]

    async def show(self, names: str) -> None:
        """Waits until it shows these pods."""
        await until(lambda: self.names() == names, f"{names!r} instead of {self.names()!r}")


@asynccontextmanager
async def watching(
    arena: Arena,
    weeding: Weeding,
    tasks: Tasks,
    selector: LabelSelector | None = None,
    *,
    namespace: str | None = None,
    admitted: Admission | None = None,
) -> AsyncIterator[Opened]:
    """A watch of pods runs within."""
    told: list[str] = []

    async def admit() -> None:
        opened.asked += 1
        if admitted is not None:
            await admitted()

    place = arena.namespace if namespace is None else namespace
    opened = Opened(weeding.seed.watch_pods(place, selector, told.append, admit), told)

    async def run() -> None:
        try:
            await opened.watch.run()
        except ClusterError as error:
            opened.ended.append(error)

    task = tasks.once(run, "contract: watch of pods")
    try:
        yield opened
    finally:
        await cancelled(task)


def selecting(*requirements: Requirement) -> LabelSelector:
    """A selector of these requirements."""
    return LabelSelector(requirements)


def one_of(key: str, *values: str) -> Requirement:
    """A label has one of these values."""
    return Requirement(key, Operator.IN, frozenset(values))


def none_of(key: str, *values: str) -> Requirement:
    """A label has none of these values."""
    return Requirement(key, Operator.NOT_IN, frozenset(values))


def key(arena: Arena, service: str = ETCD) -> ServiceKey:
    """A service in the namespace of the test."""
    return ServiceKey(arena.namespace, service)


def mine(arena: Arena, keys: Iterable[ServiceKey]) -> list[str]:
    """The services of the namespace of the test."""
    return sorted(each.service for each in keys if each.namespace == arena.namespace)
