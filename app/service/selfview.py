"""The process's view of itself, for the API, the metrics and the health checks; and what it finds out about the seed.

About the seed: missing permissions (at start and hourly), and forgotten meltdown keys (at start, until it is known).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Final

import structlog

from app.api.health import Check, Health, listed
from app.core.clock import Clock
from app.core.errors import ClusterError, ConfigWarning, Forbidden
from app.core.metrics import Metrics
from app.core.model.policy import Loop
from app.core.ports import ADDRESS_FEATURE, EVENTS_FEATURE, Permission
from app.core.reporting.event_writer import EventWriter
from app.service.parts import Cluster, Configured, Election, LeaderAddressView, Rights, Scan

log = structlog.get_logger(__name__)

_HOUR: Final = 3600.0
_AFTER_FAILURE: Final = 60.0


class PermissionCheck:
    """Reviews which permissions are missing, and keeps log and metrics about them (rules 4.4)."""

    def __init__(self, rights: Rights, clock: Clock, metrics: Metrics) -> None:
        self._rights, self._clock, self._metrics = rights, clock, metrics
        self.missing: tuple[Permission, ...] = ()
        self.checked_at: float | None = None
        """Instant of the last complete review; None before the first."""

    async def run(self) -> None:
        """Review for ever: hourly, or after a minute if the seed did not answer."""
        while True:
            answered = await self._check()
            await self._clock.sleep(_HOUR if answered else _AFTER_FAILURE)

    async def _check(self) -> bool:
        try:
            missing = await self._rights.reviewer.missing(await self._rights.needed())
        except ClusterError as error:
            log.warning("rights could not be checked", error=str(error))
            return False
        self._note(missing)
        self.checked_at = self._clock.now()
        return True

    def _note(self, missing: tuple[Permission, ...]) -> None:
        still = {(each.verb, each.resource) for each in missing}
        for mended in {(each.verb, each.resource) for each in self.missing} - still:
            self._metrics.missing_permissions.remove(*mended)
        for each in missing:
            self._metrics.missing_permissions.labels(each.verb, each.resource).set(1)
            self._report(each)
        features = {each.feature for each in (*missing, *self.missing) if each.feature}
        for feature in features:
            off = any(each.feature == feature for each in missing)
            self._metrics.feature(feature, off=off, by="rights")
        self.missing = missing

    def _report(self, lacking: Permission) -> None:
        what = f"{lacking.verb} {lacking.resource}"
        where = f"{lacking.group or 'core'}, name {lacking.name or 'any'}"
        if lacking.feature:
            log.warning(
                "a right is missing; one feature is off", right=what, feature=lacking.feature
            )
        else:
            log.error("a right is missing that the configuration needs", right=what, where=where)


# Objects that carry the meltdown key and are not configured (rules 4.3). Nothing brings them back: gardenlet leaves the
# replicas alone for as long as the key is there, and the watchdog writes only what is configured.


_TRIES: Final = 5
_PAUSE: Final = 60.0


class MeltdownScan:
    """Finds objects that carry the meltdown key and are not configured; reports them, and never writes them."""

    feature: Final = "metadata-scan"

    def __init__(self, scan: Scan, clock: Clock, metrics: Metrics) -> None:
        self._scan, self._clock, self._metrics = scan, clock, metrics
        self.found: tuple[str, ...] = ()
        """Names as `namespace/Kind/name`."""
        self.off: str | None = None
        """Why the scan has no result; None while the feature is on."""

    async def run(self) -> None:
        """Scan once; while the seed does not answer, retry after a minute, a few times, then hourly."""
        for tries in count(1):
            try:
                self.found = tuple(await self._scan())
            except Forbidden as error:
                self._give_up(str(error), log.info)  # expected: the chart does not grant `list`
                return
            except ClusterError as error:
                self.off = str(error)
                if tries == _TRIES:
                    self._give_up(self.off, log.warning)
                await self._clock.sleep(_PAUSE if tries < _TRIES else _HOUR)
            else:
                self.off = None
                if tries > _TRIES:
                    self._metrics.feature(self.feature, off=False)
                for each in self.found:
                    said = "carries the meltdown key, is not configured, and is left alone"
                    log.warning(said, found=each)
                return

    def _give_up(self, why: str, tell: Callable[..., object]) -> None:
        self.off = why
        self._metrics.feature(self.feature, off=True)
        tell("objects with a meltdown key could not be listed", feature=self.feature, error=why)


# The view.


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
        where: "LeaderAddressView | None",
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


class SelfView:
    """This process and its troubles, as the API and the health checks show them.

    What finds the troubles is None where this process has no such part.

    Args:
        configured: The configuration.
        cluster: Has the elections, and where the leader is.
        clock: That of the process.
        permissions: The check of the rights.
        scan: The scan for forgotten meltdown keys.
        events: The writer of Events.
        empty_selectors: Returns the selectors of the weeder that match no pod.
        features_off: Functions that return further features that are off, with the reason of each.
    """

    def __init__(
        self,
        configured: Configured,
        cluster: Cluster,
        clock: Clock,
        *,
        permissions: PermissionCheck | None = None,
        scan: MeltdownScan | None = None,
        events: EventWriter | None = None,
        empty_selectors: Callable[[], Sequence[str]] = tuple,
        features_off: Sequence[Callable[[], Mapping[str, str]]] = (),
    ) -> None:
        self.configured, self._cluster = configured, cluster
        self._permissions, self._scan, self._events = permissions, scan, events
        self._features_off = features_off
        self.selectors_without_pods = empty_selectors
        """Returns the selectors of the weeder that have matched no pod for an hour."""
        self.version, self.identity = configured.version, cluster.identity
        self.dry_run = configured.settings.dry_run
        self.now, self.sleep = clock.now, clock.sleep
        self.started_at = clock.now()

    @property
    def peer_url(self) -> str | None:
        """URL of the process that runs the other loop (`--peer-url`); None if it was not given."""
        return self.configured.settings.peer_url

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
        if self._events is not None and self._events.off is not None:
            found[EVENTS_FEATURE] = self._events.off
        if self._scan is not None and self._scan.off is not None:
            found[self._scan.feature] = self._scan.off
        for each in self._features_off:
            found |= each()
        leader = self._cluster.leader
        if leader is not None and leader.off is not None:
            found[ADDRESS_FEATURE] = leader.off
        return found

    def missing_permissions(self) -> tuple[Permission, ...]:
        """Permissions that the configuration needs and the process lacks."""
        return () if self._permissions is None else self._permissions.missing

    @property
    def permissions_known(self) -> bool:
        """Whether the seed has answered a review of all permissions."""
        return self._permissions is None or self._permissions.checked_at is not None

    def config_warnings(self) -> tuple[ConfigWarning, ...]:
        """Warnings about flags and files."""
        return self.configured.warnings

    def found_unconfigured(self) -> tuple[str, ...]:
        """Names of objects that carry the meltdown key and are not configured."""
        return () if self._scan is None else self._scan.found


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
