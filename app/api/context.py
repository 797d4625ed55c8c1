"""What every route can use: the process, its loops, what people decided, and the caches of what was rendered.

Only `ManualScaling` where it plans and acts, and `Dependents`, send requests to the seed; the rest is in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from app.api import presenting, schemas
from app.api.auth.authorization import AccessAuthority, Call
from app.api.limits import ReadLocks
from app.api.page.plots import Plots
from app.api.presenting import NOTHING, Endpoints
from app.core.model.overrides import API_PAUSE, EffectiveOverrides, Pause
from app.core.model.policy import ProberPolicy
from app.core.overrides.cache import OverrideCache
from app.core.overrides.service import OverrideService
from app.core.reporting.audit import AuditLog
from app.core.reporting.history import History
from app.prober.endpoints.manager import EndpointProbes
from app.prober.registry import ShootRegistry
from app.prober.scaling.operations import Dependents, ManualScaling
from app.prober.status import ShootStatus, ShootSummary
from app.weeder.controller import WeederController

if TYPE_CHECKING:
    from app.service.selfview import SelfView

# Shoots as JSON. A shoot changes with each probe and hardly ever between two, so that one rendering serves all readers
# of lists, and all streams of events.

# Fields that may change with each probe or endpoint probe; a change of these alone is no event.
_UNEVENTFUL: Final[dict[str, Any]] = {
    "probe": {"last_time", "next_time", "duration_seconds", "count"},
    "leases": {"as_of", "candidates_as_of"},
    "endpoint_probes": {"__all__": {"last_time", "last_result", "message"}},
    "gates": {"__all__": {"message"}},
}


@dataclass(frozen=True, slots=True)
class RenderedShoot:
    """A shoot as JSON; another one is the same if no eventful field differs."""

    digest: bytes
    json: bytes = field(compare=False)


class RenderedShoots:
    """Cache of the last rendering of each shoot that somebody asked for; some 2 KiB for each."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[object, ...], RenderedShoot]] = {}
        """With what each was rendered from."""

    def shoot(
        self,
        status: ShootStatus,
        policy: ProberPolicy,
        effective: EffectiveOverrides,
        endpoints: Endpoints = NOTHING,
    ) -> RenderedShoot:
        """The JSON of a shoot as `schemas.Shoot`; rendered only if its inputs differ from the last time."""
        known, facts = self._known.get(status.namespace), (status, effective, endpoints)
        if known is not None and known[0] == facts:
            return known[1]
        shoot = presenting.shoot(status, policy, effective, endpoints)
        # To build it takes ten times as long as to write it as JSON, so that it is written a second time to compare.
        eventful = shoot.model_dump_json(by_alias=True, exclude=_UNEVENTFUL)
        digest = blake2b(eventful.encode(), digest_size=16).digest()
        found = RenderedShoot(digest, shoot.model_dump_json(by_alias=True).encode())
        self._known[status.namespace] = facts, found
        return found

    def forget(self, namespace: str) -> None:
        """Drop a shoot that is gone."""
        self._known.pop(namespace, None)

    def keep(self, shoots: Sequence[ShootSummary]) -> None:
        """Drop shoots that are gone, if there are more in the cache than in `shoots`."""
        if len(self._known) > len(shoots):
            names = (each.namespace for each in shoots)
            self._known = {each: self._known[each] for each in names if each in self._known}

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True, slots=True)
class ProberView:
    """The prober, as the API sees it."""

    shoots: ShootRegistry
    history: History
    policy: ProberPolicy
    overrides: OverrideCache
    scaling_runs: ManualScaling
    resources: Dependents
    endpoints: EndpointProbes | None = None
    """None if no endpoint probes are configured."""
    rendered: RenderedShoots = field(default_factory=RenderedShoots)
    looks: ReadLocks = field(default_factory=ReadLocks)
    plots: Plots = field(default_factory=Plots)

    def endpoints_of(self, namespace: str) -> Endpoints:
        """The results of the endpoint probes of a shoot."""
        probes = self.endpoints
        if probes is None:
            return NOTHING
        return Endpoints(probes.views(namespace), probes.gates(namespace))

    def shoot_json(self, status: ShootStatus) -> RenderedShoot:
        """A shoot as `shoot` has it, as JSON; rendered once for all readers."""
        return self.rendered.shoot(*self._shown(status))

    def shoot(self, status: ShootStatus) -> schemas.Shoot:
        """A shoot as it is shown, with the overrides and the results of endpoint probes that it has now."""
        return presenting.shoot(*self._shown(status))

    def _shown(
        self, status: ShootStatus
    ) -> tuple[ShootStatus, ProberPolicy, EffectiveOverrides, Endpoints]:
        effective = self.overrides.effective(status.namespace)
        return status, self.policy, effective, self.endpoints_of(status.namespace)


@dataclass(frozen=True, slots=True)
class Context:
    """What every route can use; a loop that does not run in this process is None."""

    process: "SelfView"
    overrides: OverrideCache
    override_service: OverrideService
    authority: AccessAuthority
    audit: AuditLog
    prober: ProberView | None = None
    weeders: WeederController | None = None
    home: str = "garden"
    """The watchdog's own namespace; a Pause in it is of all shoots."""

    def place_of(self, call: Call, namespace: str) -> str:
        """The namespace in which a caller needs the right to make this call on a shoot."""
        return self.home if call.at_home else namespace

    def pause(self, namespace: str | None, name: str = API_PAUSE) -> Pause | None:
        """A Pause of a shoot, or of all shoots (None), by default the API's own; it may have ended."""
        pauses = self.overrides.pauses(namespace)
        return next((each for each in pauses if each.id.name == name), None)

    def has_shoot(self, namespace: str) -> bool:
        """Whether the seed has a shoot with this control plane, as far as the loops of this process know."""
        if self.prober is not None:
            return self.prober.shoots.status(namespace) is not None
        return self.weeders is not None and namespace in (self.weeders.namespaces() or ())
