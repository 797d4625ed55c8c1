"""Which shoots differ from what was last told of them."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from app.api import presenting
from app.api.schemas.events import EventName, ShootGone
from app.api.streaming import wire
from app.api.streaming.told import Told
from app.api.views import ProberView
from app.core.reporting.changes import ChangeKind

_UNEVENTFUL: Final[dict[str, Any]] = {
    "probe": {"last_time", "next_time", "duration_seconds", "count"},
    "leases": {"as_of", "candidates_as_of"},
    "endpoint_probes": {"__all__": {"last_time", "last_result", "message"}},
    "gates": {"__all__": {"message"}},
}
"""What each look, or each run of an endpoint probe, may change: that alone is told to nobody."""


class _Shown(NamedTuple):
    """A shoot as it was drawn last."""

    digest: bytes
    body: bytes


class ShootNews:
    """The shoots of the prober."""

    def __init__(self, prober: ProberView) -> None:
        self._prober = prober
        self._shown: dict[str, _Shown] = {}

    @property
    def drawn(self) -> set[str]:
        """Those that were drawn and are not gone."""
        return set(self._shown)

    def namespaces(self) -> set[str]:
        """All that there are."""
        return {each.namespace for each in self._prober.shoots.outlines()}

    def draw(self, namespace: str) -> Iterable[Told]:
        """The event that tells of it, where there is something to tell."""
        status, before = self._prober.shoots.status(namespace), self._shown.get(namespace)
        if status is None:
            return () if before is None else (self._gone(namespace),)
        standing = self._prober.overrides.standing(namespace)
        endpoints = self._prober.endpoints_of(namespace)
        shoot = presenting.shoot(status, self._prober.policy, standing, endpoints)
        eventful = shoot.model_dump_json(by_alias=True, exclude=_UNEVENTFUL)
        digest = blake2b(eventful.encode(), digest_size=16).digest()
        body = wire.body(EventName.SHOOT, shoot)
        self._shown[namespace] = _Shown(digest, body)
        if before is not None and before.digest == digest:
            return ()
        return (Told(ChangeKind.SHOOT, namespace, body),)

    def _gone(self, namespace: str) -> Told:
        del self._shown[namespace]
        body = wire.body(EventName.SHOOT_GONE, ShootGone(namespace=namespace))
        return Told(ChangeKind.SHOOT, namespace, body)

    def snapshot(self) -> Iterable[Told]:
        """Every shoot, as it was drawn last."""
        for namespace, shown in self._shown.items():
            yield Told(ChangeKind.SHOOT, namespace, shown.body)
