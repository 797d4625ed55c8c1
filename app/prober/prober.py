"""The prober, put together: what `main` starts and stops."""

from app.core.ports import Preparation
from app.prober.controller import Controller
from app.prober.dependents import Dependents
from app.prober.environment import Environment
from app.prober.held_runs import HeldFlows
from app.prober.verdicts import listed
from app.prober.manual import ManualFlows
from app.prober.registry import Registry
from app.prober.releases import Releases


class Prober:
    """All probing of one process."""

    def __init__(self, environment: Environment, *, workers: int = 1) -> None:
        self._env = environment
        self.registry = Registry(environment)
        self.controller = Controller(environment, self.registry, workers)
        self.dependents = Dependents(environment)
        self.held = HeldFlows(environment, self.registry)
        self.flows = ManualFlows(environment, self.registry, self.held, self.dependents.current)
        self._releases = Releases(environment, self.registry, self.held)

    def start(self) -> None:
        """Begins to follow the Clusters."""
        tasks = self._env.tasks
        _ = tasks.shared(self.controller.run, "prober controller")
        _ = tasks.shared(self.held.run, "held flows")
        if self._env.policy.max_protection is not None:
            _ = tasks.shared(self._releases.run, "releases")

    def prepared(self) -> Preparation:
        """Whether all is listed that a verdict needs, and each shoot that is probed was looked at."""
        if not self.registry.listed or not listed(self._env):
            return Preparation.NONE
        looked = all(each.looked for each in self.registry.runners())
        return Preparation.COMPLETE if looked else Preparation.LISTED

    async def stop(self, why: str) -> None:
        """Ends all probing; a request of a flow that was sent is finished first."""
        self.held.stopping()
        await self.registry.stop_all(why)
