"""Two instances, and a seed that goes away: which of them takes over, and how soon.

The nodes are cut meanwhile, so that the outage can be known only when nobody leads any more, and is known when the seed
is back. Whoever ends is started again after a second, as the kubelet does. What must not happen, and what happens
when, is in docs/failures.md; more than one run of each is for figures by hand: DWD_FAILOVER_RUNS=4.
"""

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from app.core.model.instants import parse_rfc3339
from tests.e2e import objects
from tests.e2e import weeder_objects as things
from tests.e2e.api import Api
from tests.e2e.controlplane import ControlPlane
from tests.e2e.failover_kinds import KINDS, cast_in
from tests.e2e.failover_play import play
from tests.e2e.pair import (
    BACK_WITHIN,
    CHANCE,
    LEASE,
    NODES_CUT_AFTER,
    RETRY,
    Kept,
    lease_path,
    seed_is_back,
)
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually, free_port
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage
from tests.e2e.weeder_stage import GARDEN, weeding
from tests.e2e.worlds import World, own_seed

RUNS = int(os.environ.get("DWD_FAILOVER_RUNS", "1"))
LIMIT = 180 * RUNS + 60


async def server_says_when_it_was_renewed(stage: Stage) -> None:
    """A standby counts on that: each renewal has the server's own time, beside the holder's (decision 0041)."""
    path = lease_path(stage)
    seen = set()
    for _ in range(3):
        lease = await stage.seed.api.get(path)
        renewed = parse_rfc3339(lease["spec"]["renewTime"])
        written = max(
            parse_rfc3339(each["time"]) or 0.0 for each in lease["metadata"]["managedFields"]
        )
        assert renewed is not None
        assert -1 <= written - renewed <= 1, "both clocks are this machine's"
        seen.add(written)
        await asyncio.sleep(2.5)
    assert len(seen) > 1, "it moves with the renewals"


Away = Callable[[World], Awaitable[None]]
"""Takes the seed away, or brings it back."""


async def outages_while_the_seed_is_away(
    outer: Stage, what: str, go: Away, back: Away, seconds: Callable[[], float]
) -> None:
    """Plays an outage that begins while the seed is away; the first write has to come soon after its return."""
    async with own_seed(outer) as world:
        stage = world.stage
        await stage.shoot.build(grace=16, duration=16)
        settings = quick()
        async with Kept(await stage.prepare(settings), await stage.prepare(settings)) as both:
            took = [await one_outage(world, both, go, back, seconds()) for _ in range(RUNS)]
        stage.figure(f"{what}: first write {', '.join(f'{each:.1f}' for each in took)} s after")
        assert max(took) <= BACK_WITHIN


async def one_outage(world: World, both: Kept, go: Away, back: Away, seconds: float) -> float:
    """Seconds from the return of the seed to the first write; all is well again afterwards."""
    stage = world.stage
    leader = await both.leader()
    await stage.until_state(leader, "Healthy")
    await server_says_when_it_was_renewed(stage)
    await asyncio.sleep(CHANCE.uniform(0, 2))
    await go(world)
    await asyncio.sleep(NODES_CUT_AFTER)
    stage.shoot.kubelets.path.cut()
    await asyncio.sleep(seconds - NODES_CUT_AFTER)
    ended = time.time()
    stage.assert_nothing_was_scaled(ended - seconds)
    await back(world)
    returned = await seed_is_back(stage)
    await stage.until_down(within=60)
    first = max(stage.writes(ended)[0].at - returned, 0.0)
    stage.shoot.kubelets.path.restore()
    await stage.until_up(within=90)
    return first


async def cut(world: World) -> None:
    await world.way.cut()


async def heal(world: World) -> None:
    await world.way.heal()


@scenario(limit=LIMIT)
async def test_after_a_seed_that_was_cut_off_the_standby_writes_within_7_s(outer: Stage) -> None:
    """Both instances lose it for 25 to 40 s, at any moment between two renewals of the Lease."""
    await outages_while_the_seed_is_away(
        outer, "seed cut off", cut, heal, lambda: CHANCE.uniform(25, 40)
    )


async def stop_storage(world: World) -> None:
    world.stage.seed.storage.child.pause()


async def resume_storage(world: World) -> None:
    world.stage.seed.storage.child.resume()


@scenario(limit=LIMIT)
async def test_after_16_s_without_the_storage_of_the_seed_the_standby_writes_within_7_s(
    outer: Stage,
) -> None:
    """The leader ends meanwhile, and is started again while nothing can be listed."""
    await outages_while_the_seed_is_away(
        outer, "etcd of the seed stopped for 16 s", stop_storage, resume_storage, lambda: 16.0
    )


@asynccontextmanager
async def refusing(seed: ControlPlane, folder: Path) -> AsyncIterator[int]:
    """The port of a server that looks like this one and answers every request with 429."""

    async def refuse(_: web.Request) -> web.Response:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429}
        return web.json_response(status, status=429, headers={"Retry-After": "1"})

    pair = seed.authority.server()
    files = folder / f"{seed.name}-429.crt", folder / f"{seed.name}-429.key"
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    runner, port = web.AppRunner(app, access_log=None), free_port()
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        yield port
    finally:
        await runner.cleanup()


@scenario(limit=LIMIT + 60 * RUNS)
async def test_after_60_s_of_429_the_standby_writes_within_7_s(outer: Stage) -> None:
    """Whatever they ask for is put off, on every connection."""
    async with contextlib.AsyncExitStack() as stack:

        async def go(world: World) -> None:
            port = await stack.enter_async_context(refusing(world.stage.seed, outer.folder))
            world.way.lead_to(port)

        async def back(world: World) -> None:
            world.way.lead_to(world.stage.seed.port)
            await stack.aclose()

        await outages_while_the_seed_is_away(outer, "60 s of 429", go, back, lambda: 60.0)


# Some of what `make failover` plays (docs/failover.md); the audit log is the judge.

IN_TURN = ("sigterm", "lease-edited", "server")


@scenario(limit=150 * len(IN_TURN))
async def test_whatever_happens_to_two_instances_no_two_write_and_no_count_is_lost(
    outer: Stage,
) -> None:
    """One after the other in one world."""
    async with own_seed(outer) as world, cast_in(world, apart=False) as cast:
        for each in IN_TURN:
            result = await play(cast, KINDS[each])
            outer.figure(f"{each}: {result}")
            assert result.troubles == []


# Both loops in one process.


async def holder(api: Api, lease: str) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{GARDEN}/leases/{lease}"
    found = await api.find(path) or {"spec": {}}
    return found["spec"].get("holderIdentity") or ""


@scenario(limit=LIMIT)
async def test_after_a_kill_of_serve_the_other_one_leads_both_loops_within_17_s(
    stage: Stage,
) -> None:
    """The weeder's Lease is watched from the start, and taken as soon as the prober's is won."""
    async with weeding(stage) as seed:
        await seed.grant_both_loops()
        command = things.both(things.settings())
        async with Kept(seed.prepare(command), seed.prepare(command)) as both:
            took = [await one_kill(seed.api, both) for _ in range(RUNS)]
    for loop, seconds in zip(("prober", "weeder"), zip(*took, strict=True), strict=True):
        stage.figure(
            f"serve killed: the {loop} leads {', '.join(f'{each:.1f}' for each in seconds)} s after"
        )
    assert max(max(each) for each in took) <= LEASE + RETRY


async def one_kill(api: Api, both: Kept) -> tuple[float, float]:
    """Seconds from the kill to the next leader of the prober, and of the weeder."""

    async def led() -> str:
        found = {await holder(api, each) for each in (objects.LEASE, things.LEASE)}
        return found.pop() if len(found) == 1 else ""

    before = await eventually(led, "one leads both", within=60)
    leader = await both_metrics(both)
    await asyncio.sleep(CHANCE.uniform(4, 6))
    await leader.kill()
    killed = time.time()

    async def follows(lease: str) -> float:
        async def another() -> bool:
            return await holder(api, lease) not in {"", before}

        await eventually(another, f"another one holds {lease}", within=60, every=0.05)
        return time.time() - killed

    prober, weeder = await asyncio.gather(follows(objects.LEASE), follows(things.LEASE))
    return prober, weeder


async def both_metrics(both: Kept) -> Program:
    """Who leads both loops."""

    async def found() -> Program | None:
        for each in both.programs:
            with contextlib.suppress(OSError, TimeoutError):
                if await each.metric("leader_election_master_status") == len(("prober", "weeder")):
                    return each
        return None

    leader = await eventually(found, "one leads both", within=60)
    assert leader is not None
    return leader
