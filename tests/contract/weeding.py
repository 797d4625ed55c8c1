"""The services of the weeder on either cluster, and what tests hear of them."""

from collections.abc import Iterable
from typing import Final

from app.core.kube.weeder_view import WeederSeed
from app.core.model.weeding import ServiceKey
from app.core.ports import Relisted
from tests.contract.real import Arena

ETCD: Final = "etcd-main-client"
API_SERVER: Final = "kube-apiserver"
SERVICES: Final = (ETCD, API_SERVER)
"""Those that are configured."""


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


def key(arena: Arena, service: str = ETCD) -> ServiceKey:
    """A service in the namespace of the test."""
    return ServiceKey(arena.namespace, service)


def mine(arena: Arena, keys: Iterable[ServiceKey]) -> list[str]:
    """The services of the namespace of the test."""
    return sorted(each.service for each in keys if each.namespace == arena.namespace)
