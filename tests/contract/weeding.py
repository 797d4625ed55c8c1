"""The weeder's ports on either cluster, and what tests hear and see of them."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from app.core.errors import ClusterError
from app.core.kube.weeder_view import PodWatch, WeederSeed
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.weeding import PodView, ServiceKey
from app.core.ports import Admission, Relisted
from app.core.tasks import cancelled
from tests.contract.arena import until
from tests.contract.real import Arena
from tests.e2e.weeder_objects import weeder_rules

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


@asynccontextmanager
async def weeder_seed(arena: Arena, heard: Heard) -> AsyncIterator[WeederSeed]:
    """The weeder's port with the rights that it needs; the slices are watched, and listed."""
    await arena.grant("weeder", weeder_rules())
    seed = WeederSeed(arena.adapter.api, SERVICES, arena.tasks, Random(1))
    heard.to(seed)
    await seed.start()
    try:
        await until(lambda: seed.watch_state().synced, "the slices are listed")
        yield seed
    finally:
        await seed.close()


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
    seed: WeederSeed,
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
    opened = Opened(seed.watch_pods(place, selector, told.append, admit), told)

    async def run() -> None:
        try:
            await opened.watch.run()
        except ClusterError as error:
            opened.ended.append(error)

    task = arena.tasks.once(run, "contract: watch of pods")
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
