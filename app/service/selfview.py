"""The process's view of itself, for the API, the metrics and the health checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from app.api.health import Check, Health, listed
from app.core.clock import Clock
from app.core.config.settings import ApiSettings
from app.core.model.policy import ConfigWarning, Loop
from app.core.ports import Permission
from app.core.reporting.event_writer import FEATURE, EventWriter
from app.service.parts import Cluster, Configured, Election, LeaderAddressView
from app.service.seed_checks import MeltdownScan, PermissionCheck


class LeaderInfo:
    """The leader of one loop; without an election it is this instance.

    Args:
        election: The election of this loop.
        identity: Identity of this instance.
        where: Address of the leader of the process's first loop.
        first: The leader of the first loop, if this is another one. This loop's Lease is taken only together with the
            first one's, so the first loop's leader has it, or will have it soon.
    """

    def __init__(
        self,
        election: Election,
        identity: str,
        where: LeaderAddressView | None,
        first: "LeaderInfo | None" = None,
    ) -> None:
        self._election, self._identity, self._where = election, identity, where
        self._first = first

    @property
    def leading(self) -> bool:
        """Whether this instance leads the loop."""
        return self._election.leading

    @property
    def leader_identity(self) -> str | None:
        """Identity of the leader; None if it is not known."""
        if self.leading:
            return self._election.leader_identity or self._identity
        if self._first is not None and not self._first.leading:
            return self._first.leader_identity
        holder = self._election.leader_identity
        # A process that was stopped for a while may still read its own name from memory: it knows only that it does not
        # lead any more.
        return None if holder == self._identity else holder

    @property
    def address(self) -> str | None:
        """`host:port` of the leader's API; None if it is not known."""
        first = self._first
        if self._where is None or (first and first.leader_identity != self.leader_identity):
            return None
        return self._where.address()


def _none() -> Sequence[str]:
    """Return an empty result."""
    return ()


@dataclass(frozen=True, slots=True)
class Finders:
    """The parts of the process that find troubles; None: this process has no such part."""

    permissions: PermissionCheck | None = None
    scan: MeltdownScan | None = None
    events: EventWriter | None = None
    empty_selectors: Callable[[], Sequence[str]] = _none
    features_off: Sequence[Callable[[], Mapping[str, str]]] = ()
    """Functions that return further features that are off, with the reason of each."""


class SelfView:
    """This process and its troubles, as the API and the health checks show them."""

    def __init__(
        self, configured: Configured, cluster: Cluster, clock: Clock, finders: Finders
    ) -> None:
        self.configured, self._cluster, self._finders = configured, cluster, finders
        self.version, self.identity = configured.version, cluster.identity
        self.dry_run = configured.dry_run
        self.now, self.sleep = clock.now, clock.sleep
        self.started_at = clock.now()

    @property
    def peer_url(self) -> str | None:
        """URL of the process that runs the other loop (`--peer-url`); None if it was not given."""
        settings = self.configured.settings
        return settings.peer_url if isinstance(settings, ApiSettings) else None

    @property
    def leaders(self) -> Mapping[Loop, "LeaderInfo"]:
        """The leader of each loop that runs here."""
        identity, where = self._cluster.identity, self._cluster.leader
        found: dict[Loop, LeaderInfo] = {}
        for loop, election in self._cluster.elections.items():
            found[loop] = LeaderInfo(election, identity, where, next(iter(found.values()), None))
        return found

    def features_off(self) -> dict[str, str]:
        """Reasons by name of the features that are off."""
        found = {
            each.feature: f"the right to {each.verb} {each.resource} is missing"
            for each in self.missing_permissions()
            if each.feature
        }
        events, scan = self._finders.events, self._finders.scan
        if events is not None and events.off is not None:
            found[FEATURE] = events.off
        if scan is not None and scan.off is not None:
            found[scan.feature] = scan.off
        for each in self._finders.features_off:
            found |= each()
        leader = self._cluster.leader
        if leader is not None and leader.off is not None:
            found["leader-address"] = leader.off
        return found

    def missing_permissions(self) -> tuple[Permission, ...]:
        """Permissions that the configuration needs and the process lacks."""
        check = self._finders.permissions
        return () if check is None else check.missing

    @property
    def permissions_known(self) -> bool:
        """Whether the seed has answered a review of all permissions."""
        check = self._finders.permissions
        return check is None or check.checked_at is not None

    def config_warnings(self) -> tuple[ConfigWarning, ...]:
        """Warnings about flags and files."""
        return self.configured.warnings

    def found_unconfigured(self) -> tuple[str, ...]:
        """Names of objects that carry the meltdown key and are not configured."""
        scan = self._finders.scan
        return () if scan is None else scan.found

    def selectors_without_pods(self) -> Sequence[str]:
        """Selectors of the weeder that have matched no pod for an hour."""
        return self._finders.empty_selectors()


def health(
    view: SelfView, cluster: Cluster, alive: Sequence[Check], loops: Sequence[Check]
) -> Health:
    """Assemble the health checks: `alive` for liveness, `loops` and advisory ones about the process for readiness."""

    def watches() -> str | None:
        return "; ".join(f"{name}: {text}" for name, text in cluster.troubles().items()) or None

    def rights() -> str | None:
        if not view.permissions_known:
            return "not known yet: the seed has not answered"
        lacking = [f"{each.verb} {each.resource}" for each in view.missing_permissions()]
        return f"missing: {', '.join(lacking)}" if lacking else None

    def features() -> str | None:
        return listed([f"{name}: {why}" for name, why in view.features_off().items()])

    def election() -> str | None:
        found = {str(loop): each.trouble for loop, each in cluster.elections.items()}
        return "; ".join(f"{loop}: {text}" for loop, text in found.items() if text) or None

    advisory = partial(Check, advisory=True)
    return Health(
        live=alive,
        ready=[
            *loops,
            advisory("watches", watches),
            advisory("election", election),
            advisory("permissions", rights),
            advisory("features", features),
        ],
    )
