"""The prober, put together: what `main` starts and stops."""

from app.prober.controller import Controller
from app.prober.environment import Environment
from app.prober.registry import Registry


class Prober:
    """All probing of one process."""

    def __init__(self, environment: Environment, *, workers: int = 1) -> None:
        self._env = environment
        self.registry = Registry(environment)
        self.controller = Controller(environment, self.registry, workers)

    def start(self) -> None:
        """Begins to follow the Clusters."""
        _ = self._env.tasks.shared(self.controller.run, "prober controller")

    async def stop(self, why: str) -> None:
        """Ends all probing; a request of a flow that was sent is finished first."""
        await self.registry.stop_all(why)
