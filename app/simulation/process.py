"""The adapters of one process of the watchdog, real ones, on the API servers of a simulated world in memory."""

import random
from typing import Any, Final

from app.core.clock import Clock
from app.core.config.settings import ServeSettings
from app.core.metrics import Metrics
from app.core.model.policy import ProberPolicy
from app.core.model.weeding import WeederPolicy
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.realcluster import RealCluster
from app.service.parts import Cluster, Core
from app.simulation.memory import MemoryNetwork, Wiretap
from app.simulation.server import MemoryServers

AMPLE: Final[dict[str, Any]] = {"kube_api_qps": 1_000, "kube_api_burst": 1_000}
"""A budget of requests that is never used up, for what is not about budgets."""
_FILES: Final = {"prober_config_file": "/prober.yaml", "weeder_config_file": "/weeder.yaml"}


class SimulatedProcess:
    """The adapters of one process, with requests, watches, budgets and elections as they are in production.

    `network` is what its connections go through; `killed` and `vanish` of it end them from outside.
    """

    def __init__(
        self,
        servers: MemoryServers,
        core: Core,
        *,
        name: str,
        user: str,
        tap: Wiretap | None = None,
        identity: str | None = None,
        prober: ProberPolicy | None = None,
        weeder: WeederPolicy | None = None,
        **settings: Any,  # noqa: ANN401 - values of any flag
    ) -> None:
        """Opens nothing yet.

        Args:
            servers: the API servers of the world.
            core: what all parts of the process share.
            name: tells its connections from those of other processes.
            user: whose token it has in the seed.
            tap: hears of its connections.
            identity: what it calls itself in elections; None: a name of its own, as in production.
            prober: the policy of its prober; None if it runs none.
            weeder: the policy of its weeder; None if it runs none.
            settings: flags by name; the defaults are those of `dwd serve`.
        """
        self.core, self.network = core, MemoryNetwork(servers.place, name, tap or Wiretap())
        chosen = self.settings = ServeSettings.model_validate({**_FILES, **settings})
        real = RealCluster(
            chosen,
            core,
            servers.credentials(user),
            network=self.network,
            identity=identity,
        )
        if prober is not None:
            real.with_prober(chosen, prober)
        if weeder is not None:
            real.with_weeder(weeder)
        self.adapters: Cluster = real.adapters()
        self.api = real.api
        """What all its adapters to the seed send their requests through."""

    def start(self) -> None:
        """Opens the watches and enters the elections, as a task of its own."""
        _ = self.core.tasks.once(self._begin, "begin")

    async def _begin(self) -> None:
        await self.adapters.begin()

    async def kill(self) -> None:
        """Ends it as `kill -9` does: nothing is finished, and its connections are closed."""
        await self.core.tasks.stop()
        self.network.killed()
        await self.adapters.close()


def core_of(clock: Clock, tasks: Tasks, chance: random.Random) -> Core:
    """Returns what the parts of a simulated process share."""
    return Core(clock, tasks, Metrics(), NoticeBus(), chance)
