"""The overrides (pauses and holds) of one process.

Both loops read them, the API of any replica writes them, and the prober's leader carries out and maintains them
(rules 7).
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from app.api.health import Check
from app.core.overrides.cache import OverrideCache, WeederPauses
from app.core.overrides.notices import OverrideGauges
from app.core.overrides.reconciler import OverrideReconciler
from app.core.overrides.service import OverrideService
from app.core.ports import Watched
from app.service.parts import Cluster, Core, ProberAdapters

if TYPE_CHECKING:
    from app.core.kube.seed import SeedCluster


class OverrideFeature:
    """Builds and runs what a process needs for overrides.

    Args:
        core: Infrastructure that all parts share.
        cluster: Has the Pauses and ScaleRequests.
        dry_run: Refuse all writes.
    """

    def __init__(self, core: Core, cluster: Cluster, *, dry_run: bool) -> None:
        self._core, self._pauses, self._home = core, cluster.pauses, cluster.home
        self.identity = cluster.identity
        """Of this process, which ScaleRequests name as the one that carries them out."""
        self._reconciler: OverrideReconciler | None = None
        pauses, requests = cluster.pauses, cluster.requests
        self.view = OverrideCache(pauses, requests, cluster.home, core.clock)
        self.override_service = OverrideService(
            pauses, requests, self.view, cluster.home, core.clock, core.chance, dry_run=dry_run
        )

    def pauses(self) -> WeederPauses:
        """The pauses that keep the weeder from weeding."""
        return WeederPauses(self.view)

    def maintain(self, adapters: ProberAdapters, ignored: Callable[[], int]) -> None:
        """Report and maintain the Pauses, and show gauges, while this process leads the prober.

        Args:
            adapters: Those of the prober, which runs in this process.
            ignored: Returns the number of resources with ignore-scaling, for the gauge.
        """
        leadership = adapters.leadership
        self._reconciler = OverrideReconciler(
            self.view,
            self.override_service,
            self._pauses,
            self._core.notice_bus,
            self._core.clock,
            home=self._home,
            leading=lambda: leadership.leading,
            clusters=lambda: _names(adapters.seed),
        )
        leadership.subscribe(self._reconciler.wake)
        OverrideGauges(
            self._core.metrics,
            self.view,
            self._core.clock,
            leading=lambda: leadership.leading,
            ignored=ignored,
        )

    def start(self) -> None:
        """Start the tasks that follow and maintain the overrides."""
        tasks = self._core.tasks
        _ = tasks.shared(self.view.run, "overrides")
        if self._reconciler is not None:
            _ = tasks.shared(self._reconciler.run, "maintenance of the overrides")

    def features_off(self) -> Mapping[str, str]:
        """The features `pauses` and `scalerequests` that are off, with the reasons."""
        return self.view.features_off()

    def checks(self) -> list[Check]:
        """Readiness checks: one fails until the overrides have been read, or count as none; one shows troubles."""
        cache = self.view
        return [
            Check("overrides-synced", lambda: None if cache.synced else "not listed yet"),
            Check("overrides", lambda: _troubles(cache), advisory=True),
        ]


# Objects that cannot be decoded and are named by the check; the log has the others.
_NAMED: Final = 5


def _troubles(cache: OverrideCache) -> str | None:
    troubles = list(cache.troubles().values())
    unreadable = sorted(cache.undecodable())
    if unreadable:
        more = f" and {len(unreadable) - _NAMED} more" if len(unreadable) > _NAMED else ""
        count = "1 object" if len(unreadable) == 1 else f"{len(unreadable)} objects"
        troubles.append(f"{count} cannot be decoded: {'; '.join(unreadable[:_NAMED])}{more}")
    return "; ".join(troubles) or None


def _names(seed: "SeedCluster") -> Collection[str] | None:
    """Names of all Clusters; None before they were listed once."""
    return seed.clusters().keys() if seed.watch_state(Watched.CLUSTERS).synced else None
