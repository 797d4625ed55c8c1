"""What a test of the weeder's ports is given, whichever cluster stands behind them."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from app.core.errors import ClusterError
from app.core.kube.weeder_view import PodWatch, WeederSeed
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.weeding import PodView, ServiceKey
from app.core.ports import Admission, Relisted
from app.core.tasks import Tasks, cancelled
from tests.contract.arena import Arena, until

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


class Weeding(Protocol):
    """The weeder's port on one cluster, and what may happen to that."""

    @property
    def seed(self) -> WeederSeed:
        """The port; its slices are watched as soon as `open` is entered."""
        ...

    def open(self, heard: Heard) -> AbstractAsyncContextManager[None]:
        """The slices are watched within; `heard` listens from the beginning."""
        ...

    def cut(self) -> AbstractAsyncContextManager[None]:
        """All watches end, and none can be opened."""
        ...

    def away(self) -> AbstractAsyncContextManager[None]:
        """The API server is stopped, and started again."""
        ...

    def forgets(self) -> AbstractAsyncContextManager[None]:
        """As `cut`, and at its end the server has forgotten what happened in it."""
        ...

    def forbidden(self, verb: str, resource: str) -> AbstractAsyncContextManager[None]:
        """We may not do this, for as long as it lasts."""
        ...

    async def watches(self) -> int:
        """How many watches of pods of a namespace the server has open."""
        ...


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


def never() -> None:
    """What is called right before a request is sent, where nothing forbids it."""
