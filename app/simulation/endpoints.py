"""The controller that writes the EndpointSlices of services, and what they say of a service."""

import random
from typing import Final

from app.core.model.pods import SliceView
from app.core.model.weeding import ServiceKey
from app.simulation import pod_manifests
from app.simulation.pod_manifests import SERVICE_NAME, Endpoint
from app.simulation.pod_views import pod_ready, terminating
from app.simulation.store import Object, ObjectKey, Store, StoreEvent
from app.simulation.timers import Timers

MOST: Final = 100
"""Endpoints of one slice."""
_SOON: Final = (0.05, 0.2)
"""Seconds from a change to what is written of it."""


class EndpointSliceController:
    """Writes which pods are behind each Service that has a selector."""

    def __init__(self, seed: Store, timers: Timers, rng: random.Random) -> None:
        self.slices: dict[ServiceKey, int] = {}
        """Services that are to have so many slices, however few their endpoints."""
        self.away: set[ServiceKey] = set()
        """Services whose slices are gone, and stay so."""
        self.untold: set[ServiceKey] = set()
        """Services whose endpoints do not tell whether they are ready."""
        self._seed, self._timers, self._rng = seed, timers, rng
        self._selectors: dict[str, dict[str, dict[str, str]]] = {}
        self._names: dict[ServiceKey, list[str]] = {}
        self._planned: set[ServiceKey] = set()

    def heard(self, event: StoreEvent) -> None:
        """A Service, a pod or a slice has changed."""
        match event.key.kind:
            case "Service":
                self._learn(event.key, event.object)
            case "EndpointSlice":
                self._plan(service_of(event.object))
            case _:
                self._plan_services_of(event)

    def _learn(self, key: ObjectKey, obj: Object) -> None:
        services = self._selectors.setdefault(key.namespace, {})
        services.pop(key.name, None)
        selector = (obj.get("spec") or {}).get("selector")
        if selector and self._seed.find(key) is not None:
            services[key.name] = dict(selector)
        self._plan(ServiceKey(key.namespace, key.name))

    def _plan_services_of(self, event: StoreEvent) -> None:
        labels = event.object["metadata"].get("labels") or {}
        for name, selector in self._selectors.get(event.key.namespace, {}).items():
            if selector.items() <= labels.items():
                self._plan(ServiceKey(event.key.namespace, name))

    def _plan(self, key: ServiceKey) -> None:
        if key not in self._planned and key.service in self._selectors.get(key.namespace, {}):
            self._planned.add(key)
            self._timers.after(self._rng.uniform(*_SOON), lambda: self._due(key))

    def _due(self, key: ServiceKey) -> None:
        self._planned.discard(key)
        self.sync(key)

    def sync(self, key: ServiceKey) -> None:
        """Writes the slices of a service as they ought to be, now."""
        owner = self._seed.find(ObjectKey("Service", key.namespace, key.service))
        names = self._names.setdefault(key, [])
        shares = [] if owner is None or key in self.away else self._shares(key)
        while len(names) < len(shares):
            names.append(f"{key.service}-{self._rng.randrange(16**5):05x}")
        while len(names) > len(shares):
            self._drop(ObjectKey("EndpointSlice", key.namespace, names.pop()))
        for name, share in zip(names, shares, strict=True):
            if owner is not None:
                self._write(ObjectKey("EndpointSlice", key.namespace, name), owner, share)

    def _write(self, key: ObjectKey, owner: Object, share: list[Endpoint]) -> None:
        service = ServiceKey(key.namespace, owner["metadata"]["name"])
        body = pod_manifests.endpoint_slice(owner, share, untold=service in self.untold)
        if self._seed.find(key) is None:
            self._seed.create(key, body)
        else:
            self._seed.replace(key, body)

    def _drop(self, key: ObjectKey) -> None:
        if self._seed.find(key) is not None:
            self._seed.delete(key)

    def _shares(self, key: ServiceKey) -> list[list[Endpoint]]:
        """The endpoints, dealt out to as many slices as there are to be."""
        found = self._endpoints(key)
        number = max(self.slices.get(key, 1), -(-len(found) // MOST))
        return [found[first::number] for first in range(number)]

    def _endpoints(self, key: ServiceKey) -> list[Endpoint]:
        selector = self._selectors.get(key.namespace, {}).get(key.service)
        if selector is None:
            return []
        return [
            _endpoint(pod)
            for pod in self._seed.list("Pod", key.namespace)
            if selector.items() <= (pod["metadata"].get("labels") or {}).items()
            and pod["status"].get("podIP")
        ]


def _endpoint(pod: Object) -> Endpoint:
    metadata, ends = pod["metadata"], terminating(pod)
    return Endpoint(
        pod=metadata["name"],
        uid=metadata["uid"],
        ip=pod["status"]["podIP"],
        node=pod["spec"]["nodeName"],
        ready=pod_ready(pod) and not ends,
        terminating=ends,
    )


def service_of(obj: Object) -> ServiceKey:
    """The service that a slice belongs to; with an empty name where it does not say."""
    metadata = obj["metadata"]
    return ServiceKey(metadata["namespace"], (metadata.get("labels") or {}).get(SERVICE_NAME, ""))


def serves(slices: list[SliceView]) -> bool:
    """Whether any endpoint of a service is ready."""
    return any(endpoint.ready for each in slices for endpoint in each.endpoints)
