"""What people do to a shoot, in the words of the tests: Pauses and ScaleRequests, by the API and with kubectl."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from app.core.model.instants import rfc3339
from app.core.model.overrides import API_PAUSE, API_VERSION, Hold, Pause, ScaleRequest, Scope
from app.core.model.scaling_runs import ScaleSpec, ScalingRunStatus
from app.core.model.workloads import Direction
from app.simulation import manifests
from app.simulation.builders import People, World
from app.simulation.store import Object, ObjectKey
from tests.support.harness import MCM, SHOOT, Harness, Lab

UP, DOWN = Direction.UP, Direction.DOWN
HOLD = 600.0
GARDEN = "garden"
REQUEST = "by-hand"
"""The name of a ScaleRequest that is made with kubectl."""


class Operator(Harness):
    """A harness, and what a person does at it."""

    @classmethod
    def at(cls, harness: Harness) -> Self:
        return cls(**vars(harness))

    # By the API.

    async def pause(
        self, scope: Scope = Scope.ALL, *, seconds: float = 600, everyone: bool = False
    ) -> None:
        now = self.now
        pause = Pause(scope, "hands off", "alice", now, now + seconds)
        await self.environment.override_service.set_pause(None if everyone else SHOOT, pause)

    async def resume(self, *, everyone: bool = False) -> None:
        where = None if everyone else SHOOT
        await self.environment.override_service.end_pause(where, API_PAUSE, by="alice")

    def paused_until(self) -> float:
        """When the pause ends; it is kept in whole seconds."""
        pause = self.environment.overrides.effective(SHOOT).pause
        assert pause is not None
        return pause.until

    def spec(self, direction: Direction, *, force: bool = False, hold: float = HOLD) -> ScaleSpec:
        return ScaleSpec(direction, "a test", "alice", hold, force)

    async def scale(
        self, direction: Direction, *, force: bool = False, hold: float = HOLD, where: str = SHOOT
    ) -> ScalingRunStatus:
        spec = self.spec(direction, force=force, hold=hold)
        return await self.prober.scaling_runs.begin(where, spec)

    async def scale_down_the_first_level(self, **how: Any) -> ScalingRunStatus:
        """A scaling run downwards that has written MCM, and goes on."""
        begun = await self.scale(DOWN, **how)
        await self.until(lambda: self.writes(MCM))
        return begun

    def operation(self, name: str) -> ScalingRunStatus:
        found = self.prober.scaling_runs.operation(name)
        assert found is not None
        return found

    async def ended(self, name: str, within: float = 120) -> ScalingRunStatus:
        """The operation, when it has ended."""
        await self.until(lambda: not self.operation(name).running, within=within)
        return self.operation(name)

    # With kubectl.

    @property
    def kubectl(self) -> People:
        return self.world.people

    def request(self, direction: str = "Down", *, name: str = REQUEST, **spec: Any) -> str:
        """Creates a ScaleRequest; returns its uid."""
        fields: dict[str, Any] = {"direction": direction, "reason": "r", **spec}
        made = self.kubectl.create("ScaleRequest", SHOOT, name, **fields)
        return str(made["metadata"]["uid"])

    def made(
        self,
        kind: str,
        name: str,
        *,
        ago: float = 0.0,
        status: Object | None = None,
        **spec: object,
    ) -> None:
        """An object of the shoot that was created earlier, with a status."""
        body: dict[str, object] = {"apiVersion": API_VERSION, "spec": spec}
        if status is not None:
            body["status"] = status
        key = ObjectKey(kind, SHOOT, name)
        self.world.store.create(key, manifests.born(body, self.now - ago))

    def held(self, seconds: float = HOLD, *, direction: str = "Down", name: str = REQUEST) -> None:
        """A ScaleRequest that has succeeded just now, and holds for so long."""
        now = self.now
        ends = {"endedAt": rfc3339(now), "holdUntil": rfc3339(now + seconds)}
        status = {"phase": "Succeeded", **ends}
        self.made("ScaleRequest", name, status=status, direction=direction, reason="r")

    def set_status(self, name: str = REQUEST, **status: object) -> None:
        """Changes the status of a ScaleRequest, as `kubectl --subresource status` does."""
        key = ObjectKey("ScaleRequest", SHOOT, name)
        self.world.store.patch(key, {"status": status}, status=True)

    # What is there.

    def objects(self, kind: str = "ScaleRequest") -> list[Object]:
        """The objects of the shoot as the API server has them, oldest first."""
        found = self.world.store.list(kind, SHOOT)
        return sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))

    def status_of(self, name: str | None = None) -> dict[str, Any]:
        """The status of a ScaleRequest, or of the only one."""
        if name is None:
            (found,) = self.objects()
            return dict(found.get("status") or {})
        key = ObjectKey("ScaleRequest", SHOOT, name)
        return dict(self.world.store.get(key).get("status") or {})

    def requests(self) -> list[ScaleRequest]:
        """The ScaleRequests of the shoot as the process knows them."""
        return list(self.environment.overrides.requests(SHOOT))

    def hold(self) -> Hold | None:
        """The hold that acts."""
        return self.environment.overrides.effective(SHOOT).hold

    def phase(self, name: str | None = None) -> object:
        """The phase in the status of a ScaleRequest, or of the only one; None before it has one."""
        return self.status_of(name).get("phase")

    async def done(self, name: str | None = None, *, within: float = 30) -> dict[str, Any]:
        """The status of a ScaleRequest, or of the only one, when it says that it has ended."""
        await self.until(lambda: "endedAt" in self.status_of(name), within=within)
        return self.status_of(name)


async def with_operator(
    lab: Lab,
    *,
    settle: float = 60.0,
    prepare: Callable[[World], object] = lambda _: None,
    **changes,
) -> Operator:
    """A healthy shoot of ten nodes in a world that is prepared so, its prober, and a person."""
    world = lab.with_shoot()
    prepare(world)
    operator = Operator.at(lab.prober(world, **changes))
    await operator.run(settle)
    return operator


def newer_version(world: World) -> None:
    """The definitions are those of a newer version, with a scope and a direction that this one does not know."""
    for kind, field, word in (
        ("Pause", "scope", "weekends"),
        ("ScaleRequest", "direction", "Sideways"),
    ):
        known = world.store.definitions[kind]
        schema = copy.deepcopy(known.schema)
        schema["properties"]["spec"]["properties"][field]["enum"].append(word)
        world.store.define(replace(known, schema=schema))


def again(operator: Operator) -> Operator:
    """The next process on the same world."""
    return Operator.at(operator.again())
