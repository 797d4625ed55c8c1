"""What people do to a shoot, in the words of the tests: pauses, holds, scaling runs by hand."""

from collections.abc import Callable
from dataclasses import dataclass

from app.core.model.overrides import ALL_SHOOTS, Pause, Scope
from app.core.model.scaling_runs import ScaleRequest, ScalingRunStatus
from app.core.model.workloads import Direction
from app.simulation.builders import World
from tests.support.harness import SHOOT, Harness, Lab
from tests.support.overrides import MemoryStore

UP, DOWN = Direction.UP, Direction.DOWN
HOLD = 600.0


@dataclass
class Operator:
    """A harness with overrides, and what a person does at it."""

    harness: Harness
    store: MemoryStore

    async def pause(
        self, scope: Scope = Scope.ALL, *, seconds: float = 600, everyone: bool = False
    ) -> None:
        now = self.harness.now
        pause = Pause(scope, "hands off", "alice", now, now + seconds)
        await self.harness.environment.override_service.set_pause(
            ALL_SHOOTS if everyone else SHOOT, pause
        )

    async def resume(self, *, everyone: bool = False) -> None:
        await self.harness.environment.override_service.end_pause(ALL_SHOOTS if everyone else SHOOT)

    def paused_until(self) -> float:
        """When the pause ends; it is kept in whole seconds."""
        pause = self.harness.environment.overrides.effective(SHOOT).pause
        assert pause is not None
        return pause.until

    def order(
        self, direction: Direction, *, force: bool = False, hold: float = HOLD
    ) -> ScaleRequest:
        return ScaleRequest(SHOOT, direction, "a test", "alice", hold, force)

    async def scale(
        self, direction: Direction, *, force: bool = False, hold: float = HOLD
    ) -> ScalingRunStatus:
        return await self.harness.prober.scaling_runs.begin(
            self.order(direction, force=force, hold=hold)
        )

    def operation(self, name: str) -> ScalingRunStatus:
        found = self.harness.prober.scaling_runs.operation(name)
        assert found is not None
        return found

    async def ended(self, name: str, within: float = 120) -> ScalingRunStatus:
        """The operation, when it has ended."""
        await self.harness.until(lambda: not self.operation(name).running, within=within)
        return self.operation(name)

    def hold(self) -> dict[str, object] | None:
        """The hold as the ConfigMap has it."""
        return self.store.entries(SHOOT).get("hold")

    async def done(self, within: float = 30) -> None:
        """Waits until the hold says that its scaling run has ended."""

        def says_so() -> bool:
            hold = self.hold()
            return hold is not None and bool(hold["done"])

        await self.harness.until(says_so, within=within)


async def with_operator(
    lab: Lab,
    *,
    settle: float = 60.0,
    prepare: Callable[[World], object] = lambda _: None,
    **changes,
) -> Operator:
    """A healthy shoot of ten nodes in a world that is prepared so, its prober with overrides, and a person."""
    world = lab.world()
    world.add_shoot(SHOOT)
    prepare(world)
    store = MemoryStore(lab.clock)
    operator = Operator(lab.prober(world, store=store, **changes), store)
    await operator.harness.run(settle)
    return operator


def again(operator: Operator) -> Operator:
    """The next process on the same world and the same ConfigMap."""
    return Operator(operator.harness.again(), operator.store)
