"""What the real API server of a seed does: it restarts, forgets, and gets slow.

What each of them must not do to the shoots, and what must have happened when, is in docs/failures.md.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

import aiohttp

from tests.e2e import objects, worlds
from tests.e2e.api import CLUSTERS, Json, deployments, secrets
from tests.e2e.landscape import Shoot
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import PATIENT, Program, config, gardener_dependents, quick
from tests.e2e.stage import Stage

WATCHES_BACK = 20.0
"""Seconds from the return of an API server that was away for some seconds."""


def hibernated(*, enabled: bool) -> Json:
    return {"spec": {"shoot": {"spec": {"hibernation": {"enabled": enabled}}}}}


async def resize(stage: Stage, namespace: str, name: str, replicas: int) -> None:
    """Somebody else changes the replicas of a dependent."""
    path = f"{deployments(namespace)}/{name}"
    await stage.seed.api.patch(path, {"spec": {"replicas": replicas}})


async def shown(prober: Program, namespace: str) -> tuple[str | None, list[int | None]]:
    """The state of a shoot and the replicas of its dependents, as the program shows them."""
    found = await prober.shoot(namespace)
    counts = [each["replicas"]["spec"] for each in found.get("resources", ())]
    return found.get("state"), counts


# A watch has expired.


@asynccontextmanager
async def never_missing(prober: Program, names: set[str]) -> AsyncIterator[None]:
    """Meanwhile the API of the program shows all these shoots, whenever it is asked."""
    missed: set[str] = set()

    async def look() -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                items = (await prober.get("/api/v1/shoots?limit=500"))["items"]
                missed.update(names - {each["namespace"] for each in items})
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
    assert not missed


async def change_everything(stage: Stage, gone: str, asleep: str, locked: str, came: str) -> None:
    """One change of each kind that the program watches, while it cannot see them."""
    api = stage.seed.api
    await api.delete(f"{CLUSTERS}/{gone}")
    await api.patch(f"{CLUSTERS}/{asleep}", hibernated(enabled=True))
    await api.create(CLUSTERS, objects.cluster(came, objects.shoot(came, grace=40)))
    without_token = objects.kubeconfig(locked, stage.plane.url, stage.plane.authority.pem, None)
    await api.patch(f"{secrets(locked)}/{objects.SECRET}", objects.secret(without_token))
    await resize(stage, stage.shoot.namespace, KCM, 3)


@scenario(limit=300)
async def test_what_happened_while_all_watches_expired_is_found_and_acted_on(outer: Stage) -> None:
    """The program cannot reach the seed, which changes and restarts: all positions are too old (410).

    No shoot vanishes that is still there, and nothing is scaled. Within 20 s every change is known: a Cluster that is
    gone, one that hibernates, one that is new, a Secret without its token, and the count that an outage then saves.
    """
    async with worlds.own_seed(outer) as world:
        stage, shoot, seed = world.stage, world.stage.shoot, world.stage.seed
        await shoot.build(grace=16, duration=16)
        gone, asleep, locked = await worlds.crowd(seed.api, stage.plane, 3, shoot.nodes)
        came = "shoot--crowd--new"
        prober = await stage.healthy(quick(), **PATIENT)
        async with never_missing(prober, {shoot.namespace, asleep, locked}):
            await world.way.cut()
            await change_everything(stage, gone, asleep, locked, came)
            await seed.child.stop()
            await seed.start()
            back = time.time()
            await world.way.heal()

            async def known() -> bool:
                states = [(await shown(prober, each))[0] for each in (gone, asleep, locked, came)]
                return states == [None, "NotProbed", "Failing", "Failing"]

            await eventually(known, "all changes are known", within=WATCHES_BACK)
            stage.figure(f"410 of all watches: all is known {time.time() - back:.1f} s after")
            await eventually(lambda: worlds.watches_are_well(prober), "watches go on", within=10)
        assert await prober.metric("dwd_watch_restarts_total", reason="Expired") == 8
        asked = stage.requests_to_seed(back)
        lists = Counter(each.resource for each in asked if each.verb == "list" and each.code == 200)
        once = ("clusters", "machines", "secrets", "pauses", "scalerequests")
        assert lists == {"deployments": 3, **dict.fromkeys(once, 1)}
        stage.assert_nothing_was_scaled()
        assert (await stage.outage(within=40))[KCM].saved == "3"


# The API server restarts, under many shoots.

CROWD = 298


class BigSeed:
    """A seed of 300 shoots: a crowd, one that is protected, and the one that the stage acts on."""

    def __init__(self, world: worlds.World) -> None:
        self.stage = world.stage
        self.seed = world.stage.seed
        self._crowded = world.neighbour
        self.protected = Shoot(self.seed.api, self.stage.plane, "shoot--e2e--protected")

    async def __aenter__(self) -> Self:
        """Creates all of it, in bulk."""
        began = time.time()
        nodes = ["c-0", "c-1", "c-2"]
        self.names = await worlds.crowd(self.seed.api, self._crowded, CROWD, nodes)
        self.stage.figure(f"{CROWD} shoots created in {time.time() - began:.0f} s")
        await self.protected.build(nodes=5, named="p", grace=16, duration=16)
        await self.stage.shoot.build(nodes=5, named="o", grace=16, duration=16)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.protected.kubelets.stop()

    async def watched(self) -> Program:
        """Starts the program; returns when the crowd and the one are healthy, and the other one is protected."""
        ports = f"({self.stage.plane.port}|{self._crowded.port})"
        pattern = rf"127\.0\.0\.1:{ports}"
        settings = config(gardener_dependents(mcm_delay="2s"))
        prober = await self.stage.start(settings, shoot_server_pattern=pattern, **PATIENT)
        self.protected.kubelets.path.cut()

        async def settled() -> bool:
            counts = (await prober.get("/api/v1/status"))["counts"]
            # null until the loops know the seed
            return bool(counts and counts["Healthy"] == CROWD + 1 and counts["Protected"] == 1)

        await eventually(settled, "all states are as they should be", within=90, every=0.5)
        return prober

    async def of_protected(self) -> list[str]:
        """The versions of the protected dependents: they change with every write, whoever writes."""
        items = await self.seed.api.items(deployments(self.protected.namespace))
        assert [each["spec"]["replicas"] for each in items] == [0, 0, 0]
        return [each["metadata"]["resourceVersion"] for each in items]

    async def restart(self, prober: Program, *, kill: bool) -> None:
        """Restarts the API server; returns when what has changed since is known to the program."""
        gone = time.time()
        await (self.seed.child.kill() if kill else self.seed.child.stop())
        await self.seed.start()
        back = time.time()
        sleeper, grown = self.names.pop(), self.names.pop()
        await self.seed.api.patch(f"{CLUSTERS}/{sleeper}", hibernated(enabled=True))
        for each in (KCM, MCM, CA):
            await resize(self.stage, grown, each, 2)

        async def known() -> bool:
            resized = (await shown(prober, grown))[1] == [2, 2, 2]
            asleep = (await shown(prober, sleeper))[0] == "NotProbed"
            return resized and asleep and await worlds.watches_are_well(prober)

        await eventually(known, "all watches are back", within=WATCHES_BACK)
        self.stage.figure(
            f"300 shoots, API server away for {back - gone:.1f} s: watches back "
            f"{time.time() - back:.1f} s after, {worlds.resident(prober):.0f} MiB"
        )

    async def outage_while_away(self) -> float:
        """The API server is killed a second before an outage can be known, and back some seconds after."""
        shoot = self.stage.shoot
        shoot.kubelets.path.cut()
        await asyncio.sleep(shoot.known_at() - 1 - time.time())
        await self.seed.child.kill()
        await asyncio.sleep(shoot.known_at() + 3 - time.time())
        await self.seed.start()
        return time.time()


@scenario(limit=420)
async def test_a_seed_of_300_shoots_restarts_and_only_an_outage_is_written(outer: Stage) -> None:
    """300 Clusters, 300 Secrets, 900 Deployments; the API server is stopped once, and killed twice.

    Nothing is written, a protected shoot stays as it is, all watches are back within 20 s, memory does not grow. An
    outage that could be known while the server was down is protected within 7 s of its return.
    """
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(worlds.own_seed(outer, neighbour=True))
        await stack.enter_async_context(worlds.renewed_leases(world.neighbour, "c-", 3))
        big, stage = await stack.enter_async_context(BigSeed(world)), world.stage
        prober = await big.watched()
        before, writes = await big.of_protected(), len(stage.writes())
        steady = worlds.resident(prober)
        worlds.forget_peak(prober)
        await big.restart(prober, kill=False)
        await big.restart(prober, kill=True)
        assert len(stage.writes()) == writes
        back = await big.outage_while_away()
        await stage.until_down(within=30)
        done = [each for each in stage.writes()[writes:] if each.code == 200]
        protected = max(each.at for each in done) - back
        stage.figure(f"outage while the API server was away: protected {protected:.1f} s after")
        assert protected <= 7
        assert {each.namespace for each in done} == {stage.shoot.namespace}
        await eventually(
            lambda: worlds.watches_are_well(prober), "watches go on", within=WATCHES_BACK
        )
        assert await big.of_protected() == before
        peak = worlds.resident_at_most(prober)
        stage.figure(f"300 shoots, 3 restarts: {steady:.0f} MiB before, {peak:.0f} MiB at most")
        assert peak <= 1.2 * steady


# Its storage is slow.


@scenario(limit=300)
async def test_a_seed_of_2_seconds_a_request_keeps_its_leader_and_protects(outer: Stage) -> None:
    """Every write takes 2 s longer, our Lease's too; what it sends is as early as ever, and it is sent once."""
    async with worlds.own_seed(outer) as world:
        stage = world.stage
        await stage.shoot.build(grace=16, duration=16)
        prober = await stage.healthy(quick())
        stage.seed.storage.slow(2.0)
        await stage.stays_unharmed(30)
        await stage.outage(within=60)
        writes = stage.writes()
        late = [each.at - stage.shoot.known_at() for each in writes]
        stage.figure(f"slow seed: first write {late[0]:.1f} s, last {late[-1]:.1f} s after")
        assert [each.code for each in writes] == [200] * 3
        assert late[-1] <= 5
        restored = stage.shoot.kubelets.path.restore()
        await stage.until_up(within=90)
        stage.figure(f"slow seed: all back {time.time() - restored:.0f} s after the outage")
        assert await prober.leads()
