"""Two instances, and a seed that goes away: which of them takes over, and how soon.

The nodes are cut meanwhile, so that the outage can be known only when nobody leads any more, and is known when the seed
is back. Whoever ends is started again after a second, as the kubelet does. What must not happen, and what happens
when, is in docs/failures.md; `make failover` plays more of them.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from app.core.model.instants import parse_rfc3339
from tests.e2e import objects
from tests.e2e import weeder_objects as things
from tests.e2e.controlplane import ControlPlane
from tests.e2e.failover_kinds import KINDS, Cast, Kind, cast_in, quicken
from tests.e2e.failover_play import play
from tests.e2e.pair import BACK_WITHIN, CHANCE, LEASE, RETRY, Kept, lease_path
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually, free_port
from tests.e2e.program import Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_stage import GARDEN, weeding
from tests.e2e.worlds import own_seed

# Some of what `make failover` plays (docs/failover.md); the audit log is the judge.


async def played_in_turn(outer: Stage, *kinds: Kind) -> None:
    """One after the other in one world."""
    async with own_seed(outer) as world, cast_in(world, apart=False) as cast:
        for each in kinds:
            result = await play(cast, each)
            outer.figure(f"{each.title}: {result}")
            assert result.troubles == []
            if each.since == "return":
                assert result.first is not None
                assert result.first <= each.goal, "as soon as the seed is back"
        await server_says_when_it_was_renewed(cast.stage)


async def server_says_when_it_was_renewed(stage: Stage) -> None:
    """A standby counts on that: each renewal has the server's own time, beside the holder's (decision 0041)."""
    seen = set()
    for _ in range(3):
        lease = await stage.seed.api.get(lease_path(stage))
        renewed = parse_rfc3339(lease["spec"]["renewTime"])
        written = max(
            parse_rfc3339(each["time"]) or 0.0 for each in lease["metadata"]["managedFields"]
        )
        assert renewed is not None
        assert -1 <= written - renewed <= 1, "both clocks are this machine's"
        seen.add(written)
        await asyncio.sleep(2.5)
    assert len(seen) > 1, "it moves with the renewals"


@scenario(limit=400)
async def test_whatever_happens_to_two_instances_no_two_write_and_no_count_is_lost(
    outer: Stage,
) -> None:
    await played_in_turn(outer, KINDS["sigterm"], KINDS["server"])


@scenario(limit=400)
async def test_after_a_seed_that_was_cut_off_or_without_storage_the_standby_writes_within_7_s(
    outer: Stage,
) -> None:
    """Both instances lose it, at any moment between two renewals of the Lease."""
    await played_in_turn(outer, KINDS["both-cut"], KINDS["etcd"])


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


@scenario(limit=300)
async def test_after_60_s_of_429_the_standby_writes_within_7_s(outer: Stage) -> None:
    """Whatever they ask for is put off, on every connection."""

    async def go(cast: Cast) -> None:
        port = await cast.held.enter_async_context(refusing(cast.seed, outer.folder))
        for each in cast.ways:
            each.lead_to(port)

    kind = Kind("60 s of 429", go, quicken, (60.0, 60.0), goal=BACK_WITHIN, since="return")
    await played_in_turn(outer, kind)


# Both loops in one process.


@scenario()
async def test_after_a_kill_of_serve_the_other_one_leads_both_loops_within_17_s(
    stage: Stage,
) -> None:
    """The weeder's Lease is watched from the start, and taken as soon as the prober's is won."""
    async with weeding(stage) as seed:
        await seed.grant_both_loops()
        command = things.both()

        async def holder(lease: str) -> str:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{GARDEN}/leases/{lease}"
            found = await seed.api.find(path) or {"spec": {}}
            return found["spec"].get("holderIdentity") or ""

        async def led() -> str:
            found = {await holder(each) for each in (objects.LEASE, things.LEASE)}
            return found.pop() if len(found) == 1 else ""

        async with Kept(seed.prepare(command), seed.prepare(command)) as both:
            before = await eventually(led, "one leads both", within=60)
            leader = await leader_of_both(both)
            await asyncio.sleep(CHANCE.uniform(4, 6))
            await leader.kill()
            killed = time.time()

            async def follows(lease: str) -> float:
                async def another() -> bool:
                    return await holder(lease) not in {"", before}

                await eventually(another, f"another one holds {lease}", within=60, every=0.05)
                return time.time() - killed

            took = await asyncio.gather(follows(objects.LEASE), follows(things.LEASE))
    stage.figure(f"serve killed: prober and weeder are led {took[0]:.1f} and {took[1]:.1f} s after")
    assert max(took) <= LEASE + RETRY


async def leader_of_both(both: Kept) -> Program:
    async def found() -> Program | None:
        for each in both.programs:
            with contextlib.suppress(OSError, TimeoutError):
                if await each.metric("leader_election_master_status") == len(("prober", "weeder")):
                    return each
        return None

    leader = await eventually(found, "one leads both", within=60)
    assert leader is not None
    return leader
