"""The weeder, put together: what `main` starts and stops."""

from app.core.ports import Preparation
from app.weeder.controller import Controller
from app.weeder.environment import Environment
from app.weeder.registry import Registry
from app.weeder.selector_check import SelectorCheck


class Weeder:
    """All weeding of one process."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self.registry = Registry(environment)
        self.controller = Controller(environment, self.registry)
        self.selectors = SelectorCheck(environment)

    def start(self) -> None:
        """Begins to follow the services."""
        tasks = self._env.tasks
        _ = tasks.shared(self._env.openings.run, "weeder openings")
        _ = tasks.shared(self._env.deletions.run, "weeder deletions")
        _ = tasks.shared(self.controller.run, "weeder controller")
        _ = tasks.shared(self.selectors.run, "weeder selectors")

    def prepared(self) -> Preparation:
        """Whether the slices are listed, and it is known what is paused."""
        listed = self._env.seed.watch_state().synced and self._env.pauses.synced
        return Preparation.COMPLETE if listed else Preparation.NONE

    async def stop(self) -> None:
        """Ends all recoveries; a deletion that was sent is finished first."""
        await self.registry.stop()
