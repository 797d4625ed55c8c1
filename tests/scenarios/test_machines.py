"""The machines that explored worlds run on: paused as by SIGSTOP, destroyed as by SIGKILL."""

import asyncio
import random

import pytest

from app.core.clock import Clock
from app.core.errors import Conflict, Unreachable
from app.simulation.traffic import ApiServer, Host, RequestCount, SimulatedRequest, Trouble
from bench.exploration.line import Boundary, LinedApi, Lines
from bench.exploration.timeline import Timeline, TimeStandsStill

REQUEST = SimulatedRequest(Host.SEED, "patch", "deployments", "shoot--a")


class Scene:
    """A world with one process, which makes requests of one API server; it watches them, too."""

    def __init__(self, seed=0):
        self.timeline = Timeline()
        self.world, self.machine = self.timeline.machine("world"), self.timeline.machine("a1")
        self.clock = Clock(0.0, self.world.time)
        self.seen: list[Boundary] = []
        self.carried_out: list[float] = []
        self.at = {}
        """What is done when a request passes a boundary."""
        self._lines = Lines("a1", self.machine, self.world, random.Random(seed), self)

    def open(self):
        self.server = ApiServer(Host.SEED, self.clock, random.Random(0), RequestCount())
        self.api = LinedApi(self._lines, self.server)

    # What a watcher hears.

    def passed(self, passage):
        self.seen.append(passage.boundary)
        self.at.get(passage.boundary, lambda: None)()

    def serving(self, process):
        """Nobody asks."""

    def sending(self, sending):
        """Nobody asks."""

    async def ask(self, told, *, limit=10.0):
        try:
            await self.api.ask(
                REQUEST, lambda: self.carried_out.append(self.clock.now()), limit=limit
            )
            told.append(("answered", self.clock.now()))
        except Exception as error:  # noqa: BLE001  whatever comes is what is looked at
            told.append((type(error), self.clock.now()))

    def play(self, seconds=100.0, **more):
        told: list[tuple[object, float]] = []

        async def main():
            self.open()
            _ = self.machine.create_task(self.ask(told, **more))
            await self.clock.sleep(seconds)

        self.timeline.run(main(), self.world)
        return told


@pytest.fixture
def scene():
    return Scene()


def test_a_request_passes_its_boundaries_in_their_order(scene):
    assert scene.play() == [("answered", pytest.approx(0.02))]
    assert scene.seen == list(Boundary)


@pytest.mark.parametrize("boundary", Boundary)
def test_a_process_killed_at_a_boundary_hears_nothing_and_what_was_sent_is_carried_out(
    scene, boundary
):
    scene.at[boundary] = scene.machine.destroy
    assert scene.play() == []
    assert bool(scene.carried_out) is (boundary is not Boundary.ABOUT_TO_SEND)


@pytest.mark.parametrize("boundary", Boundary)
def test_a_process_that_stands_still_hears_of_the_answer_when_it_goes_on(scene, boundary):
    def pause():
        scene.machine.pause()
        scene.world.call_later(3.0, scene.machine.resume)

    scene.at[boundary] = pause
    ((what, at),) = scene.play()
    assert what == "answered"
    assert at >= 3.0
    assert scene.carried_out[0] == pytest.approx(0.01)


def test_a_process_that_stood_still_for_longer_than_it_would_wait_has_given_up(scene):
    trouble = Trouble(silent=True)

    def pause():
        scene.server.begin(trouble)
        scene.machine.pause()
        scene.world.call_later(15.0, lambda: scene.server.end(trouble))
        scene.world.call_later(20.0, scene.machine.resume)

    scene.at[Boundary.SENT] = pause
    ((what, at),) = scene.play(limit=10.0)
    assert (what, at) == (Unreachable, 20.0)
    assert scene.carried_out, "the server worked on it all the same"


def test_a_server_may_work_on_a_request_that_its_client_has_given_up():
    landed = []
    for seed in range(20):
        scene = Scene(seed)
        trouble = Trouble(silent=True)

        def hang(scene=scene, trouble=trouble):
            scene.server.begin(trouble)
            scene.world.call_later(30.0, lambda: scene.server.end(trouble))

        scene.at[Boundary.SENT] = hang
        assert scene.play(limit=10.0) == [(Unreachable, 10.0)]
        landed.append(bool(scene.carried_out))
    assert 0 < sum(landed) < len(landed)


def test_what_a_server_refuses_arrives_as_its_error(scene):
    def refuse():
        raise Conflict("newer", status=409)

    told = []

    async def ask():
        try:
            await scene.api.ask(REQUEST, refuse)
        except Conflict as conflict:
            told.append(conflict.status)

    async def main():
        scene.open()
        _ = scene.machine.create_task(ask())
        await scene.clock.sleep(1)

    scene.timeline.run(main(), scene.world)
    assert told == [409]


def test_timers_of_a_machine_that_stands_still_pass_and_fire_when_it_goes_on():
    timeline = Timeline()
    world, machine = timeline.machine("world"), timeline.machine("a1")
    fired = []

    async def main():
        for after in (1.0, 2.0, 8.0):
            machine.call_later(after, lambda after=after: fired.append((after, machine.time())))
        machine.pause()
        world.call_later(5.0, machine.resume)
        await asyncio.sleep(10)

    timeline.run(main(), world)
    assert fired == [(1.0, 5.0), (2.0, 5.0), (8.0, 8.0)]


def test_tasks_of_a_destroyed_machine_end_where_nobody_notices():
    timeline = Timeline()
    world, machine = timeline.machine("world"), timeline.machine("a1")
    ended = []

    async def stubborn():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            ended.append("never seen to happen at another instant")

    async def main():
        task = machine.create_task(stubborn())
        await asyncio.sleep(1)
        machine.destroy()
        await asyncio.sleep(100)
        return task.done()

    assert timeline.run(main(), world)
    assert not ended


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


def test_a_world_in_which_nothing_can_happen_any_more_is_ended():
    timeline = Timeline()
    world = timeline.machine("world")

    async def main():
        await asyncio.Event().wait()

    with pytest.raises(TimeStandsStill):
        timeline.run(main(), world)
