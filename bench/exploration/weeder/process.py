"""One run of the weeder: the whole of it, with its own event loop, watches, pauses and election."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from app.core.model.weeding import ServiceKey
from app.core.reporting.notices import Notice
from app.service.loops import OverrideFeature, RunningLoop, WeederLoop
from app.service.parts import Cluster, Configured, Core
from app.simulation.identities import WEEDER
from bench.exploration.life import Grounds, Life
from bench.exploration.timeline import Machine
from bench.exploration.weeder.recipe import WeederRecipe
from bench.exploration.weeder.sight import Sight
from bench.exploration.wishes import Told

LEASE: Final = ("garden", "dwd-weeder-leader-election")


@dataclass(frozen=True, slots=True)
class WeederSurroundings:
    """What every process of a world of the weeder is given."""

    grounds: Grounds
    recipe: WeederRecipe
    told: Callable[[], Told]
    """What a process that starts now is told of the overrides: nothing yet."""
    since: Callable[[ServiceKey], float | None]
    """Since when a service is truly ready."""
    calm: Callable[[], bool]
    """Whether nothing goes wrong any more."""
    heard: Callable[["WeederProcess", Notice], None]
    failed: Callable[["WeederProcess", str], None]


class WeederProcess(Life):
    """One run of the weeder."""

    user = WEEDER

    def __init__(self, around: WeederSurroundings, name: str, machine: Machine, seed: str) -> None:
        """Does nothing yet; the arguments are those of `Life`."""
        super().__init__(around.grounds, name, machine, seed, around.told())
        self._surroundings = around
        self.sight: Sight | None = None

    def failed(self, text: str) -> None:
        """Something in it failed that never should."""
        self._surroundings.failed(self, text)

    def _policies(self) -> dict[str, Any]:
        recipe = self._surroundings.recipe
        return {"weeder": recipe.policy, "max_deletions_per_second": recipe.deletions_a_second}

    def _loop(
        self, core: Core, cluster: Cluster, configured: Configured, decisions: OverrideFeature
    ) -> RunningLoop:
        around, adapters = self._surroundings, cluster.weeder
        if adapters is None:
            raise RuntimeError("a process of the weeder has its adapters")
        core.notice_bus.subscribe(lambda notice: around.heard(self, notice))
        policy = around.recipe.policy
        self.sight = Sight(
            adapters.seed,
            adapters.leadership,
            policy.watch_duration,
            core.clock.now,
            around.since,
            around.calm,
        )
        adapters.seed.subscribe(self.sight)
        adapters.leadership.subscribe(self.sight.leadership_changed)
        return WeederLoop(configured, policy, core, adapters, decisions)

    def _ended(self) -> None:
        if left := self.machine.unfinished():
            self.failed(f"tasks are left over at its end: {', '.join(left)}")
