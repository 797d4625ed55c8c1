"""What people do to a shoot, in the words of the tests: pauses, holds, scaling runs by hand."""

from collections.abc import Callable
from dataclasses import dataclass

from app.core.model.overrides import ALL_SHOOTS, Pause, Scope
from app.core.model.scaling_runs import ScaleRequest, ScalingRunStatus
from app.core.model.workloads import Direction
from app.simulation.builders import World
from tests.support.overrides import MemoryStore
from tests.support.stands import SHOOT, Stage, Stand

UP, DOWN = Direction.UP, Direction.DOWN
HOLD = 600.0


@dataclass
class Hand:
    """A stand with overrides, and a person before it."""

    stand: Stand
    store: MemoryStore

    async def pause(
        self, scope: Scope = Scope.ALL, *, seconds: float = 600, everyone: bool = False
    ) -> None:
        now = self.stand.now
        pause = Pause(scope, "hands off", "alice", now, now + seconds)
        await self.stand.environment.override_service.set_pause(
            ALL_SHOOTS if everyone else SHOOT, pause
        )

    async def resume(self, *, everyone: bool = False) -> None:
        await self.stand.environment.override_service.end_pause(ALL_SHOOTS if everyone else SHOOT)

    def paused_until(self) -> float:
        """When the pause ends; it is kept in whole seconds."""
        pause = self.stand.environment.overrides.effective(SHOOT).pause
        assert pause is not None
        return pause.until

    def order(
        self, direction: Direction, *, force: bool = False, hold: float = HOLD
    ) -> ScaleRequest:
        return ScaleRequest(SHOOT, direction, "a test", "alice", hold, force)

    async def scale(
        self, direction: Direction, *, force: bool = False, hold: float = HOLD
    ) -> ScalingRunStatus:
        return await self.stand.prober.scaling_runs.begin(
            self.order(direction, force=force, hold=hold)
        )

    def operation(self, name: str) -> ScalingRunStatus:
        found = self.stand.prober.scaling_runs.operation(name)
        assert found is not None
        return found

    async def ended(self, name: str, within: float = 120) -> ScalingRunStatus:
        """The operation, when it has ended."""
        await self.stand.until(lambda: not self.operation(name).running, within=within)
        return self.operation(name)

    def hold(self) -> dict[str, object] | None:
        """The hold as the ConfigMap has it."""
        return self.store.entries(SHOOT).get("hold")

    async def done(self, within: float = 30) -> None:
        """Waits until the hold says that its scaling run has ended."""

        def says_so() -> bool:
            hold = self.hold()
            return hold is not None and bool(hold["done"])

        await self.stand.until(says_so, within=within)


async def at_hand(
    stage: Stage,
    *,
    settle: float = 60.0,
    prepare: Callable[[World], object] = lambda _: None,
    **changes,
) -> Hand:
    """A healthy shoot of ten nodes in a world that is prepared so, its prober with overrides, and a person."""
    world = stage.world()
    world.add_shoot(SHOOT)
    prepare(world)
    store = MemoryStore(stage.clock)
    hand = Hand(stage.prober(world, store=store, **changes), store)
    await hand.stand.run(settle)
    return hand


def again(hand: Hand) -> Hand:
    """The next process on the same world and the same ConfigMap."""
    return Hand(hand.stand.again(), hand.store)
