"""The EndpointSlice controller, and what slices say about the readiness of a service."""

import random
from typing import Final

from app.core.model.weeding import ServiceKey, SliceView
from app.simulation import manifests
from app.simulation.store import Object, ObjectKey, Store, StoreEvent
from app.simulation.timers import Timers
from app.simulation.views import SERVICE_NAME

MOST: Final = 100
"""The maximum number of endpoints in a slice, as the real controller's default."""
# The range of seconds from a change to the write of its slices.
_SOON: Final = (0.05, 0.2)


class EndpointSliceController:
    """Writes the EndpointSlices of each Service that has a selector."""

    def __init__(self, seed: Store, timers: Timers, rng: random.Random) -> None:
        self.slices: dict[ServiceKey, int] = {}
        """Services with a fixed number of slices, however few endpoints they have."""
        self.away: set[ServiceKey] = set()
        """Services whose slices a fault has removed; they are not written again."""
        self.untold: set[ServiceKey] = set()
        """Services whose endpoints lack `conditions.ready`."""
        self._seed, self._timers, self._rng = seed, timers, rng
        self._selectors: dict[str, dict[str, dict[str, str]]] = {}
        self._names: dict[ServiceKey, list[str]] = {}
        self._planned: set[ServiceKey] = set()

    def forget(self, namespace: str) -> None:
        """Forgets the services of a namespace, which are gone."""
        self._selectors.pop(namespace, None)
        for known in (self.slices, self._names):
            for key in [each for each in known if each.namespace == namespace]:
                del known[key]
        for marked in (self.away, self.untold):
            marked -= {each for each in marked if each.namespace == namespace}

    def heard(self, event: StoreEvent) -> None:
        """Handles a change of a Service, a pod or a slice."""
        match event.key.kind:
            case "Service":
                self._learn(event.key, event.object)
            case "EndpointSlice":
                self._plan(service_of(event.object))
            case _:
                labels = event.object["metadata"].get("labels") or {}
                for name, selector in self._selectors.get(event.key.namespace, {}).items():
                    if selector.items() <= labels.items():
                        self._plan(ServiceKey(event.key.namespace, name))

    def _learn(self, key: ObjectKey, obj: Object) -> None:
        services = self._selectors.setdefault(key.namespace, {})
        services.pop(key.name, None)
        selector = (obj.get("spec") or {}).get("selector")
        if selector and self._seed.find(key) is not None:
            services[key.name] = dict(selector)
        self._plan(ServiceKey(key.namespace, key.name))

    def _plan(self, key: ServiceKey) -> None:
        if key not in self._planned and key.service in self._selectors.get(key.namespace, {}):
            self._planned.add(key)
            self._timers.after(self._rng.uniform(*_SOON), lambda: self.sync(key, planned=True))

    def sync(self, key: ServiceKey, *, planned: bool = False) -> None:
        """Reconciles the slices of a service now; `planned`: as it was due to be."""
        if planned:
            self._planned.discard(key)
        owner = self._seed.find(ObjectKey("Service", key.namespace, key.service))
        names = self._names.setdefault(key, [])
        shares = [] if owner is None or key in self.away else self._shares(key)
        while len(names) < len(shares):
            names.append(f"{key.service}-{self._rng.randrange(16**5):05x}")
        while len(names) > len(shares):
            gone = ObjectKey("EndpointSlice", key.namespace, names.pop())
            if self._seed.find(gone) is not None:
                self._seed.delete(gone)
        for name, share in zip(names, shares, strict=True):
            if owner is not None:
                self._write(ObjectKey("EndpointSlice", key.namespace, name), owner, share)

    def _write(self, key: ObjectKey, owner: Object, share: list[Object]) -> None:
        service = ServiceKey(key.namespace, owner["metadata"]["name"])
        body = manifests.endpoint_slice(owner, share, untold=service in self.untold)
        if self._seed.find(key) is None:
            self._seed.create(key, body)
        else:
            self._seed.replace(key, body)

    def _shares(self, key: ServiceKey) -> list[list[Object]]:
        """Distributes the endpoints over the slices."""
        selector = self._selectors.get(key.namespace, {}).get(key.service)
        found = [
            pod
            for pod in self._seed.list("Pod", key.namespace)
            if selector is not None
            and selector.items() <= (pod["metadata"].get("labels") or {}).items()
            and pod["status"].get("podIP")
        ]
        number = max(self.slices.get(key, 1), -(-len(found) // MOST))
        return [found[first::number] for first in range(number)]


def service_of(obj: Object) -> ServiceKey:
    """Returns the service that a slice belongs to; its name is empty if the slice has no label for it."""
    metadata = obj["metadata"]
    return ServiceKey(metadata["namespace"], (metadata.get("labels") or {}).get(SERVICE_NAME, ""))


def serves(slices: list[SliceView]) -> bool:
    """Returns whether any endpoint of a service is ready."""
    return any(endpoint.ready for each in slices for endpoint in each.endpoints)
