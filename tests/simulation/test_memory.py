"""Connections in memory: the real adapter on the simulated API servers, and what a network can do to it in between."""

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from app.core.clock import Clock
from app.core.errors import BadAnswer, Unreachable
from app.core.kube.client import ApiClient, ApiRequest
from app.core.kube.connections import ConnectionPool, RequestedRight
from app.core.metrics import Metrics
from app.core.model.shoots import Route
from app.core.model.workloads import Patch
from app.core.ports import Watched
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryNetwork, MemoryPlace, MemoryTlsContext
from app.simulation.network import SEED
from app.simulation.process import SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from app.simulation.traffic import ApiServer, RequestCount, Trouble
from bench.exploration.timeline import Timeline
from tests.support.harness import GARDENER, KCM, SHOOT

EXTERNAL = "external"


class Meeting:
    """A world with one shoot, and one process that reaches it by its real adapter."""

    def __init__(self, clock, tasks):
        self.clock, self.place = clock, MemoryPlace()
        self.world = World(clock, tasks, seed=1, place=self.place, external_secret_name=EXTERNAL)
        self.world.add_shoot(SHOOT)
        self.servers = MemoryServers(self.world, self.place)
        core = core_of(clock, tasks, random.Random(1))
        changed = replace(GARDENER, external_secret=EXTERNAL)
        self.process = SimulatedProcess(self.servers, core, name="a", user=WATCHDOG, prober=changed)
        self.adapters: Any = self.process.adapters.prober

    @property
    def seed(self):
        return self.adapters.seed

    async def shoot(self, route=Route.INTERNAL):
        return await self.adapters.connector.connect(
            await self.seed.read_secret(SHOOT, route=route)
        )

    def port(self, name=SHOOT, route=Route.INTERNAL):
        return self.place.port(name, route)


@asynccontextmanager
async def meeting():
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    made = Meeting(clock, tasks)
    try:
        yield made
    finally:
        await made.process.adapters.close()
        await tasks.stop()


async def test_packets_that_are_dropped_arrive_when_the_route_is_mended():
    async with meeting() as made:
        shoot = await made.shoot()
        fault = made.world.faults.route_cut(SHOOT, Route.INTERNAL)
        began = made.clock.now()
        asked = asyncio.ensure_future(shoot.version())
        await made.clock.sleep(2)
        fault.lift()
        assert await asked
        assert 2 <= made.clock.now() - began < 2.1


async def test_while_packets_are_dropped_there_is_neither_an_answer_nor_a_refusal():
    async with meeting() as made:
        shoot = await made.shoot()
        _ = await shoot.version()
        began = made.clock.now()
        with made.world.faults.route_cut(SHOOT, Route.INTERNAL), pytest.raises(Unreachable):
            await shoot.version()
        assert made.clock.now() - began == pytest.approx(8.0, abs=0.1), "3 s, and 5 s on a new one"


async def test_a_kept_connection_that_the_network_has_forgotten_costs_a_read_three_seconds():
    async with meeting() as made:
        shoot = await made.shoot()
        _ = await shoot.version()
        made.port().forget()
        began = made.clock.now()
        assert await shoot.version()
        assert made.clock.now() - began == pytest.approx(3.0, abs=0.1)


async def test_an_answer_that_is_cut_in_the_middle_is_no_answer():
    async with meeting() as made:
        shoot = await made.shoot()
        made.port().cut_answers(600)
        with pytest.raises(BadAnswer, match="cut off"):
            await shoot.leases(new_connection=True)
        made.port().cut_answers(None)
        assert len((await shoot.leases(new_connection=True)).leases) == 10


async def test_a_write_whose_client_has_given_up_is_not_carried_out_if_the_server_hears_of_that():
    async with meeting() as made:
        view = await made.seed.read_dependent(SHOOT, KCM)
        patch = Patch(view.resource_version, replicas=0)
        with made.world.faults.seed_trouble(Trouble(latency=30.0, verbs=frozenset({"patch"}))):
            with pytest.raises(Unreachable):
                await made.seed.patch_dependent(SHOOT, KCM, patch)
            await made.clock.sleep(60)
        assert made.world.replicas(SHOOT, KCM) == 1


async def test_a_write_lands_late_if_nobody_tells_the_server_that_its_client_has_given_up():
    async with meeting() as made:
        view = await made.seed.read_dependent(SHOOT, KCM)
        patch = Patch(view.resource_version, replicas=0)
        with made.world.faults.seed_trouble(Trouble(latency=30.0, verbs=frozenset({"patch"}))):
            asked = asyncio.ensure_future(made.seed.patch_dependent(SHOOT, KCM, patch))
            await made.clock.sleep(1)
            made.port(SEED).forget()
            with pytest.raises(Unreachable):
                await asked
            assert made.world.replicas(SHOOT, KCM) == 1
            await made.clock.sleep(30)
        assert made.world.replicas(SHOOT, KCM) == 0


async def test_watches_follow_the_seed_and_a_process_that_is_killed_leaves_none():
    async with meeting() as made:
        await made.process.adapters.begin()
        await made.clock.sleep(5)
        assert all(made.seed.watch_state(what).synced for what in Watched)
        assert made.port(SEED).connections >= 5
        made.process.network.killed()
        await made.clock.sleep(0.01)
        assert made.process.network.connections == 0
        assert made.port(SEED).connections == 0


async def test_a_machine_that_vanishes_leaves_its_connections_to_the_server():
    async with meeting() as made:
        await made.process.adapters.begin()
        await made.clock.sleep(5)
        open_before = made.port(SEED).connections
        made.process.network.vanish()
        await made.clock.sleep(1)
        assert made.port(SEED).connections >= open_before > 0


# Without a world: one server that says what the test says.


class Plain:
    """A server in memory, and a client of it."""

    def __init__(self, handler, loop=None):
        self.place, clock = MemoryPlace(), Clock.of_loop()
        self.api = ApiServer(clock, random.Random(0), RequestCount())
        self.port = self.place.port("a")
        self.authority = self.place.authority("a")
        self.place.show("a", self.authority)
        loop = loop or asyncio.get_running_loop()
        self.port.listen(web.Server(handler, loop=loop), self.api, loop)
        self.network = MemoryNetwork(self.place)
        self.pool = ConnectionPool("shoot", clock, Metrics(), network=self.network)
        context = MemoryTlsContext.in_bundle(self.authority)
        self.client = ApiClient(self.pool, self.place.url("a"), context)

    async def get(self, within=30.0):
        request = ApiRequest(RequestedRight("get", "/"), "/", within)
        return (await self.client.call(request, bytes, None)).value


async def test_a_web_socket_is_opened_over_it_as_over_any_connection():
    async def answer(request):
        response = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await response.prepare(request)
        await response.send_bytes(b"said")
        return response

    made, request = Plain(answer), ApiRequest(RequestedRight("create", "pods/exec"), "/", 60.0)
    async with made.client.socket(request, None, ("v5.channel.k8s.io",)) as opened:
        assert (await opened.receive()).data == b"said"
    await made.pool.close()


async def test_a_server_that_streams_waits_for_a_client_that_does_not_read():
    written: list[int] = []

    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(64):
            await response.write(b" " * 65_536)
            written.append(65_536)
        await response.write_eof()
        return response

    made = Plain(stream)
    request = ApiRequest(RequestedRight("get", "/"), "/", 30.0)
    async with made.client.watch(request, None, silence=60.0):
        await asyncio.sleep(5)
        assert 65_536 <= sum(written) < 1 << 20, (
            "what fits into the buffers on the way, and no more"
        )
    assert len(await made.get()) == 64 * 65_536
    await made.pool.close()


def test_two_ends_may_live_on_machines_of_one_time_line_and_the_client_may_stand_still():
    timeline = Timeline()
    world, client = timeline.machine("world"), timeline.machine("a1")
    served: list[float] = []
    answered: list[float] = []

    async def answer(request):
        served.append(timeline.now)
        return web.Response(body=b"{}")

    async def ask():
        made = Plain(answer, world)
        client.call_later(0.5, client.pause)
        world.call_later(10.0, client.resume)
        for _ in range(2):
            _ = await made.get()
            answered.append(timeline.now)
            await asyncio.sleep(1)
        await made.pool.close()

    async def main():
        task = client.create_task(ask())
        while not task.done():  # noqa: ASYNC110  a task of another loop
            await asyncio.sleep(1)
        task.result()

    timeline.run(main(), world)
    assert served[0] == answered[0] == 0.0
    assert answered[1] == pytest.approx(10.0), "its timers have passed, its callbacks waited"
    for machine in (client, world):
        machine.destroy()
        machine.bury()


async def test_a_watch_whose_client_hangs_up_before_it_hears_of_its_begin_is_over():
    async with meeting() as made:
        listeners = made.world.store._listeners
        before = len(listeners)
        slow = made.world.faults.seed_trouble(Trouble(latency=2.0))
        made.process.start()
        while len(listeners) == before:
            await made.clock.sleep(0.01)
        assert len(listeners) > before, "the servers have begun watches, of which nobody knows yet"
        await made.process.kill()
        slow.lift()
        await made.clock.sleep(5)
        assert len(listeners) == before
