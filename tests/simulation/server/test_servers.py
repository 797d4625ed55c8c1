"""The API servers of a world on loopback: who gets in, and what becomes of their connections."""

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
import yaml

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.manifests import SECRET_NAME
from app.simulation.server import Loopback, SimulatedServers
from app.simulation.store import ObjectKey
from app.simulation.workloads import PodTimes

pytestmark = pytest.mark.looptime(False)

SHOOT = "shoot--local--a"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Landscape:
    """A world that is served, and a client of it."""

    def __init__(self, world, servers, session):
        self.world, self.servers, self.session = world, servers, session

    def shoot_config(self, name=SHOOT):
        secret = self.world.store.get(ObjectKey("Secret", name, SECRET_NAME))
        return yaml.safe_load(_decoded(secret["data"]["kubeconfig"]))

    async def ask(self, path, config=None, token=None, *, method="GET", body=None):
        """Asks, mostly to GET; status and body."""
        config = config or yaml.safe_load(self.servers.kubeconfig())
        cluster = config["clusters"][0]["cluster"]
        context = ssl.create_default_context(
            cadata=_decoded(cluster["certificate-authority-data"]).decode()
        )
        bearer = config["users"][0]["user"]["token"] if token is None else token
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        async with self.session.request(
            method, cluster["server"] + path, ssl=context, headers=headers, json=body
        ) as answer:
            return answer.status, await answer.json(content_type=None)


def _decoded(text):
    return base64.b64decode(text)


@asynccontextmanager
async def landscape(*shoots, nodes=3):
    clock = Clock.system()
    tasks, place = Tasks(clock), Loopback()
    world = World(clock, tasks, seed=1, latency=0.0, place=place)
    for name in shoots or (SHOOT,):
        world.add_shoot(name, nodes=nodes)
    servers = SimulatedServers(world, place)
    limit = aiohttp.ClientTimeout(total=5)
    try:
        await servers.start()
        async with aiohttp.ClientSession(timeout=limit) as session:
            yield Landscape(world, servers, session)
    finally:
        await servers.stop()
        await tasks.stop()


async def test_each_shoot_has_an_authority_of_its_own():
    async with landscape(SHOOT, "shoot--local--b") as here:
        config, other = here.shoot_config(), here.shoot_config("shoot--local--b")
        config["clusters"][0]["cluster"]["certificate-authority-data"] = other["clusters"][0][
            "cluster"
        ]["certificate-authority-data"]
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await here.ask(LEASES, config)


async def test_a_shoot_that_joins_later_is_served_after_another_start():
    async with landscape() as here:
        here.world.add_shoot("shoot--local--late", nodes=2)
        await here.servers.start()
        status, leases = await here.ask(LEASES, here.shoot_config("shoot--local--late"))
        assert (status, len(leases["items"])) == (200, 2)


async def test_a_cut_connection_ends_a_watch_in_the_middle():
    async with landscape() as here:
        asking = asyncio.ensure_future(here.ask("/apis/apps/v1/deployments?watch=true"))
        await asyncio.sleep(0.2)
        here.servers.cut()
        with pytest.raises(aiohttp.ClientError):
            await asking


PODS = f"/api/v1/namespaces/{SHOOT}/pods"


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  no event tells of it
            await asyncio.sleep(0.01)


async def test_what_changes_nothing_and_what_is_refused_is_in_no_book():
    async with landscape() as here:
        world = here.world
        world.add_control_plane(SHOOT, times=PodTimes(grace=60))
        path = f"{PODS}/{world.pods(SHOOT, 'etcd-main')[0].name}"
        for body, status in (
            ({"preconditions": {"uid": "x"}}, 409),
            ({"dryRun": ["All"]}, 400),
            (None, 200),
            (None, 200),
        ):
            assert (await here.ask(path, method="DELETE", body=body))[0] == status
        assert len(world.seed_pods.deletions) == len(world.journal.of(WATCHDOG)) == 1
