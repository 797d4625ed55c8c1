"""One run of the weeder: the whole of it, with its own event loop, watches, pauses and election."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from app.core.kube.election import LeaseElection
from app.core.metrics import Metrics
from app.core.model.weeding import ServiceKey
from app.core.ports import Leadership
from app.core.reporting.notices import Notice, NoticeBus
from app.simulation.builders import World
from app.simulation.store import Object
from app.weeder.controller import WeederRunner
from app.weeder.environment import WeederEnvironment
from bench.exploration.life import Life
from bench.exploration.line import Watcher
from bench.exploration.timeline import Machine
from bench.exploration.watches import ProcessStreams
from bench.exploration.weeder.adapters import BookedPods, BookedSeed, ProcessPauses
from bench.exploration.weeder.recipe import WeederRecipe
from bench.exploration.weeder.sight import Sight

LEASE: Final = ("garden", "dwd-weeder-leader-election")


@dataclass(frozen=True, slots=True)
class WeederSurroundings:
    """What every process of a world of the weeder is given."""

    world: World
    machine: Machine
    """The world's own."""
    watcher: Watcher
    recipe: WeederRecipe
    since: Callable[[ServiceKey], float | None]
    """Since when a service is truly ready."""
    calm: Callable[[], bool]
    """Whether nothing goes wrong any more."""
    deleting: Callable[["WeederProcess", str, str, str], None]
    """It sends a deletion: namespace, name, uid."""
    deleted: Callable[["WeederProcess", str, Object], None]
    """One was accepted: uid, and the pod as it was."""
    heard: Callable[["WeederProcess", Notice], None]
    failed: Callable[["WeederProcess", str], None]


class WeederProcess(Life):
    """One run of the weeder."""

    lease = LEASE

    def __init__(self, around: WeederSurroundings, name: str, machine: Machine, seed: str) -> None:
        """Does nothing yet; the arguments are those of `Life`."""
        super().__init__(
            name,
            machine,
            seed,
            world=around.world,
            around=around.machine,
            watcher=around.watcher,
            elected=around.recipe.elected,
        )
        self._surroundings = around
        self.streams = ProcessStreams(around.world.parts.watches, machine)
        namespaces = [plane.namespace for plane in around.recipe.planes]
        self.pauses = ProcessPauses(around.world.pauses, machine, namespaces)
        self.weeder: WeederRunner | None = None
        self.sight: Sight | None = None
        self._seed: BookedSeed

    def failed(self, text: str) -> None:
        """Something in it failed that never should."""
        self._surroundings.failed(self, text)

    # As `Deletions`.

    def deleting(self, namespace: str, name: str, uid: str) -> None:
        """It sends a deletion."""
        self._surroundings.deleting(self, namespace, name, uid)

    def deleted(self, uid: str, pod: Object) -> None:
        """A deletion of it was accepted, whether or not it still lives."""
        self._surroundings.deleted(self, uid, pod)

    # As `Life`.

    def _connect(self) -> None:
        parts = self._world.parts
        own = {"api": self._api, "watches": self.streams, "pods": BookedPods(parts, self)}
        self._seed = BookedSeed(replace(parts, **cast("Any", own)), self)
        self._seed.select(self._surroundings.recipe.policy.services)
        _ = self._tasks.shared(self._seed.run, "watch of slices")
        _ = self._tasks.once(self._learn_pauses, "list of overrides")

    async def _learn_pauses(self) -> None:
        await self._world.clock.sleep(self._surroundings.recipe.pauses_known_after)
        self.pauses.learn()

    def _begin(self, leadership: Leadership) -> None:
        around, clock = self._surroundings, self._world.clock
        board = NoticeBus()
        board.subscribe(lambda notice: around.heard(self, notice))
        self.sight = Sight(
            self._seed,
            leadership,
            around.recipe.policy.watch_duration,
            clock.now,
            around.since,
            around.calm,
        )
        self._seed.subscribe(self.sight)
        leadership.subscribe(self.sight.leadership_changed)
        self.weeder = WeederRunner(
            WeederEnvironment.create(
                around.recipe.policy,
                self._seed,
                leadership,
                pauses=self.pauses,
                clock=clock,
                tasks=self._tasks,
                notice_bus=board,
                metrics=Metrics(),
                deletions_a_second=around.recipe.deletions_a_second,
            )
        )
        if isinstance(leadership, LeaseElection):
            leadership.prepare(self.weeder.prepared)
        self.weeder.start()

    async def _end(self, why: str) -> None:
        del why
        if self.weeder is not None:
            await self.weeder.stop()

    def _ended(self) -> None:
        if left := self.machine.unfinished():
            self.failed(f"tasks are left over at its end: {', '.join(left)}")

    def _disconnect(self) -> None:
        """Nothing: its streams are closed by the end of its tasks, and what it subscribed to asks whether it lives."""
