"""One run of the weeder: the whole of it, with its own event loop, watches, pauses and election."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core.model.weeding import ServiceKey
from app.core.ports import Leadership
from app.core.reporting.notices import Notice
from app.service.decisions import OverrideFeature
from app.service.loops import WeederLoop
from app.service.parts import Cluster, Configured, Core
from app.simulation.overrides_store import GARDEN
from app.simulation.weeder_seed import WEEDER
from bench.exploration.decisions import NotedOverrides
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
        super().__init__(around.grounds, name, machine, seed)
        self._surroundings = around
        self.told = Told(around.grounds.clock.now())
        """What it was told of pauses."""
        self.loop: WeederLoop | None = None
        self.sight: Sight | None = None

    @property
    def leadership(self) -> Leadership | None:
        """That of the weeder."""
        adapters = None if self.process is None else self.process.adapters.weeder
        return None if adapters is None else adapters.leadership

    def failed(self, text: str) -> None:
        """Something in it failed that never should."""
        self._surroundings.failed(self, text)

    def _policies(self) -> dict[str, Any]:
        return {"weeder": self._surroundings.recipe.policy}

    def _prepare(self, core: Core, cluster: Cluster, configured: Configured) -> None:
        around, adapters = self._surroundings, cluster.weeder
        if adapters is None or cluster.overrides is None:
            raise RuntimeError("a process of the weeder has its adapters")
        core.notice_bus.subscribe(lambda notice: around.heard(self, notice))
        overrides = NotedOverrides(cluster.overrides, self.told, core.clock)
        decided = OverrideFeature(core, overrides, GARDEN, dry_run=False)
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
        paced = replace(configured, deletions_a_second=around.recipe.deletions_a_second)
        self.loop = WeederLoop(paced, policy, core, adapters, decided)
        decided.start()

    def _begin(self) -> None:
        if self.loop is not None:
            self.loop.start()

    async def _end(self, why: str) -> None:
        if self.loop is not None:
            await self.loop.stop(why)

    def _ended(self) -> None:
        if left := self.machine.unfinished():
            self.failed(f"tasks are left over at its end: {', '.join(left)}")
