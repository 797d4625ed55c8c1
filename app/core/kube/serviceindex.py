"""The EndpointSlices of each configured service: pure."""

from collections.abc import Collection

from app.core.model.pods import SliceView
from app.core.model.weeding import ServiceKey


class ServiceIndex:
    """Which slices a service has, and which service a slice has."""

    def __init__(self, services: Collection[str]) -> None:
        """Knows no slice; those of services that are not in `services` are never taken in."""
        self._configured = frozenset(services)
        self._slices: dict[ServiceKey, dict[str, SliceView]] = {}
        self._service_of: dict[tuple[str, str], ServiceKey] = {}

    def services(self) -> tuple[ServiceKey, ...]:
        """Those that have slices."""
        return tuple(self._slices)

    def slices(self, key: ServiceKey) -> tuple[SliceView, ...]:
        """The slices of a service; empty where it has none."""
        return tuple(self._slices.get(key, {}).values())

    def put(self, namespace: str, name: str, view: SliceView | None) -> tuple[ServiceKey, ...]:
        """This slice is so now, or gone; returns the services that this concerns.

        Two where it went from one to another; first the one that lost it.
        """
        before, now = self._service_of.pop((namespace, name), None), self._key(view)
        if before is not None and before != now:
            self._leave(before, name)
        if now is not None and view is not None:
            self._service_of[namespace, name] = now
            self._slices.setdefault(now, {})[name] = view
        return tuple(dict.fromkeys(key for key in (before, now) if key is not None))

    def _key(self, view: SliceView | None) -> ServiceKey | None:
        if view is None or view.service not in self._configured:
            return None
        return ServiceKey(view.namespace, view.service)

    def _leave(self, key: ServiceKey, name: str) -> None:
        self._slices[key].pop(name)
        if not self._slices[key]:
            del self._slices[key]
