"""The machines that explored worlds run on: paused as by SIGSTOP, destroyed as by SIGKILL."""

import asyncio
import random

import pytest

from app.core.clock import Clock
from app.core.model.workloads import Patch
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.process import SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from bench.exploration.line import Boundary, Line, ServedLines
from bench.exploration.timeline import Timeline, TimeStandsStill
from tests.support.harness import GARDENER, KCM, SHOOT

PATCHES = frozenset({"patch"})


class Scene:
    """A world with one process, which patches a Deployment; it watches them, too."""

    def __init__(self):
        self.timeline = Timeline()
        self.around, self.machine = self.timeline.machine("world"), self.timeline.machine("a1")
        self.clock = Clock(0.0, self.around.time)
        self.seen: list[Boundary] = []
        self.carried_out: list[float] = []
        self.sent_at = 0.0
        self.at = {}
        """What is done when the patch passes a boundary."""
        self._lines = ServedLines(self, None)

    def open(self):
        place = MemoryPlace()
        self.world = World(self.clock, Tasks(self.clock), place=place)
        self.world.add_shoot(SHOOT, nodes=1)
        self.servers = MemoryServers(self.world, place, self._lines)
        self.world.store.subscribe(self._stored)
        self._line = Line("a1", self.machine, self)
        self._lines.joins(self._line)

    def _stored(self, event):
        if event.key.name == KCM.name and "patched" in event.object["metadata"]["annotations"]:
            self.carried_out.append(self.clock.now() - self.sent_at)

    def kill(self):
        self.machine.destroy()
        self.process.network.stop()
        self.around.call_later(0.001, self.process.network.killed)

    # What a watcher hears.

    def passed(self, passage):
        if passage.request.verb == "patch":
            self.seen.append(passage.boundary)
            self.at.get(passage.boundary, lambda: None)()

    def asks(self, process, sent):
        if sent.request.verb == "patch":
            self.sent_at = self.clock.now()

    def serves(self, process, sent, serve):
        return serve()

    def connecting(self, process, namespace, route):
        """There is no request to a shoot."""

    def refused(self, process, namespace, route, error):
        """There is no request to a shoot."""

    async def _ask(self, told):
        core = core_of(self.clock, Tasks(self.clock), random.Random(0))
        self.process = SimulatedProcess(
            self.servers, core, name="a1", user=WATCHDOG, tap=self._line, prober=GARDENER
        )
        self.machine.at_burial = self.process.adapters.close
        adapters, version = self.process.adapters.prober, self.world.dependent(SHOOT, KCM)
        assert adapters is not None
        patch = Patch(version.resource_version, None, {"patched": "yes"})
        await adapters.seed.patch_dependent(SHOOT, KCM, patch)
        told.append(self.clock.now() - self.sent_at)

    def play(self):
        """After how many seconds the process heard the answer, if it did."""
        told: list[float] = []

        async def main():
            self.open()
            _ = self.machine.create_task(self._ask(told))
            await self.clock.sleep(100)

        try:
            self.timeline.run(main(), self.around)
        finally:
            self.process.network.stop()
            for each in (self.machine, self.around):
                each.destroy()
                each.bury()
        return told


@pytest.fixture
def scene():
    return Scene()


def test_a_request_passes_its_boundaries_in_their_order(scene):
    assert scene.play() == [pytest.approx(0.02)]
    assert scene.seen == list(Boundary)


@pytest.mark.parametrize("boundary", Boundary)
def test_a_process_killed_at_a_boundary_hears_nothing_and_what_was_sent_is_carried_out(
    scene, boundary
):
    scene.at[boundary] = scene.kill
    assert scene.play() == []
    assert bool(scene.carried_out) is (boundary is not Boundary.ABOUT_TO_SEND)


@pytest.mark.parametrize("boundary", Boundary)
def test_a_process_that_stands_still_hears_of_the_answer_when_it_goes_on(scene, boundary):
    def pause():
        scene.machine.pause()
        scene.around.call_later(3.0, scene.machine.resume)

    scene.at[boundary] = pause
    (heard,) = scene.play()
    assert heard >= (0.0 if boundary is Boundary.ANSWERED else 3.0)
    assert scene.carried_out[0] == pytest.approx(0.01)


def test_errors_that_nobody_takes_are_heard_of():
    timeline = Timeline()
    world, machine = timeline.machine("world"), timeline.machine("a1")
    heard: list[str] = []
    machine.on_stray = heard.append

    async def main():
        machine.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    timeline.run(main(), world)
    assert "ZeroDivisionError" in heard[0]


def test_what_turns_on_the_spot_is_ended():
    timeline = Timeline()
    world = timeline.machine("world")

    async def main():
        again()
        await asyncio.sleep(1)

    def again():
        world.call_soon(again)

    with pytest.raises(TimeStandsStill):
        timeline.run(main(), world)
