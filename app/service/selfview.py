"""What a process says of itself: to the API, to the metrics, to whoever asks for its health."""

from collections.abc import Sequence
from functools import partial

from app.api.health import Check, Health, seed_checks
from app.core.model.policy import ConfigWarning
from app.core.ports import Permission
from app.core.records.events import FEATURE, EventWriter
from app.core.records.history import Entry, History
from app.core.runtime.clock import Clock
from app.core.runtime.permissions import PermissionCheck
from app.core.runtime.scanning import MeltdownScan
from app.prober.registry import Registry
from app.prober.status import ShootStatus
from app.service.parts import Cluster, Configured


class Shoots:
    """The shoots, and what happened to them."""

    def __init__(self, registry: Registry, history: History) -> None:
        self._registry = registry
        self._history = history

    def statuses(self) -> Sequence[ShootStatus]:
        """Every shoot, probed or not, in no order."""
        return self._registry.statuses()

    def status(self, namespace: str) -> ShootStatus | None:
        """One shoot; None where the seed has none of this name."""
        return self._registry.status(namespace)

    def history(self, namespace: str) -> Sequence[Entry]:
        """What happened to a shoot, newest first."""
        return self._history.of(namespace)


class SelfView:
    """This process, and what is wrong with it."""

    def __init__(
        self,
        configured: Configured,
        cluster: Cluster,
        started_at: float,
        permissions: PermissionCheck | None,
        scan: MeltdownScan | None,
        events: EventWriter | None,
    ) -> None:
        self._configured, self._cluster = configured, cluster
        self._permissions, self._scan, self._events = permissions, scan, events
        self.version = configured.version
        self.dry_run = configured.dry_run
        self.started_at = started_at

    @property
    def leading(self) -> bool:
        """Whether this instance leads the prober's loop."""
        return self._cluster.ownership.leading

    @property
    def leader_identity(self) -> str | None:
        """Who leads it; None where nobody is known to."""
        known = self._cluster.ownership.leader_identity
        return known or (self._cluster.identity if self.leading else None)

    def features_off(self) -> dict[str, str]:
        """Each feature that is off, and why."""
        found = {
            each.feature: f"the right to {each.verb} {each.resource} is missing"
            for each in self.missing_permissions()
            if each.feature
        }
        if self._events is not None and self._events.off is not None:
            found[FEATURE] = self._events.off
        if self._scan is not None and self._scan.off is not None:
            found[self._scan.feature] = self._scan.off
        return found

    def missing_permissions(self) -> tuple[Permission, ...]:
        """Rights that the configuration needs and the process lacks."""
        return () if self._permissions is None else self._permissions.missing

    @property
    def permissions_known(self) -> bool:
        """Whether the seed has been asked for all rights, and has answered."""
        return self._permissions is None or self._permissions.checked_at is not None

    def config_warnings(self) -> tuple[ConfigWarning, ...]:
        """What is accepted in flags and file, and deserves a look."""
        return self._configured.warnings

    def found_unconfigured(self) -> tuple[str, ...]:
        """Objects that carry the meltdown key and are not configured."""
        return () if self._scan is None else self._scan.found


def health(view: SelfView, cluster: Cluster, clock: Clock, loops: list[Check]) -> Health:
    """What liveness (`loops`: those of the process) and readiness look at."""

    def watches() -> str | None:
        return "; ".join(f"{name}: {text}" for name, text in cluster.troubles().items()) or None

    def rights() -> str | None:
        if not view.permissions_known:
            return "not known yet: the seed has not answered"
        lacking = [f"{each.verb} {each.resource}" for each in view.missing_permissions()]
        return f"missing: {', '.join(lacking)}" if lacking else None

    def features() -> str | None:
        return "; ".join(f"{name}: {why}" for name, why in view.features_off().items()) or None

    advisory = partial(Check, advisory=True)
    return Health(
        live=loops,
        ready=[
            *seed_checks(cluster.seed, clock),
            advisory("watches", watches),
            advisory("election", lambda: cluster.ownership.trouble),
            advisory("permissions", rights),
            advisory("features", features),
        ],
    )
