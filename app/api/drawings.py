"""Shoots as JSON, drawn once for all who look: a shoot changes with each look at it, and not between two of them."""

from collections.abc import Sequence
from typing import NamedTuple

from app.api import presenting
from app.api.endpointview import NOTHING, Endpoints
from app.core.model.overrides import Standing
from app.core.model.policy import ProberPolicy
from app.prober.status import Outline, ShootStatus


class _Drawing(NamedTuple):
    status: ShootStatus
    standing: Standing
    endpoints: Endpoints
    body: bytes


class Drawings:
    """What was drawn last of each shoot that somebody saw; some 2 KiB for each."""

    def __init__(self) -> None:
        self._known: dict[str, _Drawing] = {}

    def shoot(
        self,
        status: ShootStatus,
        policy: ProberPolicy,
        standing: Standing,
        endpoints: Endpoints = NOTHING,
    ) -> bytes:
        """A shoot as `schemas.Shoot` has it, in JSON."""
        known, facts = self._known.get(status.namespace), (status, standing, endpoints)
        if known is None or known[:-1] != facts:
            body = presenting.shoot(status, policy, standing, endpoints).model_dump_json(
                by_alias=True
            )
            known = self._known[status.namespace] = _Drawing(*facts, body.encode())
        return known.body

    def keep(self, shoots: Sequence[Outline]) -> None:
        """Forgets those that are gone, as soon as more are known than there are."""
        if len(self._known) > len(shoots):
            names = (each.namespace for each in shoots)
            self._known = {each: self._known[each] for each in names if each in self._known}

    def __len__(self) -> int:
        return len(self._known)
