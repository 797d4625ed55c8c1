"""Processes that die, and others that go on where they stopped."""

import asyncio
import time

from tests.e2e.landscape import Dependent
from tests.e2e.objects import CA, KCM, LEASE, MCM
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, config, dependent, quick
from tests.e2e.stage import Stage

COUNTS = {KCM: 3, MCM: 2, CA: 1}
# One level for each, and time to kill the process after each write.
ONE_BY_ONE = config(
    [
        dependent(CA, down=0, up=2, up_delay="3s"),
        dependent(MCM, down=1, up=1, down_delay="3s", up_delay="3s"),
        dependent(KCM, down=2, up=0, down_delay="3s"),
    ],
    interval="5s",
)
# The Lease of a process that was killed has to run out before the next one leads.
SHORT_LEASE = {
    "leader_elect_lease_duration": "4s",
    "leader_elect_renew_deadline": "3s",
    "leader_elect_retry_period": "1s",
}


async def kill_and_restart(prober: Program) -> None:
    await prober.kill()
    await asyncio.sleep(1)
    await prober.start()


def nothing_is_lost(state: dict[str, Dependent]) -> None:
    """Whoever finds this can undo it: at 0 with key and count, or running as before."""
    for name, each in state.items():
        if each.replicas == 0:
            assert (each.protected, each.saved) == (True, str(COUNTS[name])), name
        else:
            assert each.replicas == COUNTS[name], name


@scenario(limit=360)
async def test_kill_9_after_each_write_loses_no_count(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16, replicas=COUNTS)
    prober = await stage.healthy(ONE_BY_ONE, **SHORT_LEASE)
    stage.shoot.kubelets.path.cut()
    for name in (CA, MCM, KCM):
        nothing_is_lost(await stage.until_down(name, within=60))
        await kill_and_restart(prober)
    nothing_is_lost(await stage.until_down(within=5))
    stage.shoot.kubelets.path.restore()
    for name in (KCM, MCM, CA):
        nothing_is_lost(await stage.until_up(name, within=90))
        await kill_and_restart(prober)
    state = await stage.until_up(within=5)
    assert {name: each.replicas for name, each in state.items()} == COUNTS
    assert [each.name for each in stage.writes()] == [CA, MCM, KCM, KCM, MCM, CA]


async def leader_and_standby(stage: Stage) -> tuple[Program, Program]:
    first = await stage.healthy(ONE_BY_ONE)
    second = await stage.start(ONE_BY_ONE)
    assert await first.leads()
    assert not await second.leads()
    return first, second


@scenario()
async def test_the_standby_protects_when_the_leader_dies_in_mid_outage(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16, replicas=COUNTS)
    leader, standby = await leader_and_standby(stage)
    stage.shoot.kubelets.path.cut()
    await leader.kill()
    killed = time.time()
    await stage.until_down(CA, within=40)
    first = stage.writes()[0].at
    stage.figure(f"first write by the standby {first - killed:.1f} s after the leader died")
    assert first - killed < 15 + 2 * 2 + 2, "the Lease, two retries, and no new watching"
    assert await standby.leads()
    nothing_is_lost(await stage.until_down(within=20))
    stage.shoot.kubelets.path.restore()
    state = await stage.until_up(within=90)
    assert {name: each.replicas for name, each in state.items()} == COUNTS


@scenario()
async def test_the_standby_goes_on_between_two_patches_of_the_leader(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16, replicas=COUNTS)
    leader, standby = await leader_and_standby(stage)
    stage.shoot.kubelets.path.cut()
    await stage.until_down(CA, within=40)
    await leader.kill()
    assert (await stage.shoot.replicas())[KCM] == 3, "killed between two patches"
    nothing_is_lost(await stage.until_down(within=50))
    assert await standby.leads()
    assert [each.name for each in stage.writes()] == [CA, MCM, KCM], "each by one of them only"


@scenario()
async def test_a_standby_writes_nothing_while_the_leader_lives(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16, replicas=COUNTS)
    leader, standby = await leader_and_standby(stage)
    await stage.outage(within=50)
    assert not await standby.metric("dwd_scale_operations_total")

    async def all_done() -> bool:
        done = await leader.metric("dwd_scale_operations_total", direction="down", result="done")
        return done == 3

    await eventually(all_done, "three are done", within=10)
    assert [each.name for each in stage.writes()] == [CA, MCM, KCM]


@scenario()
async def test_sigterm_releases_the_lease_within_2_seconds(stage: Stage) -> None:
    await stage.shoot.build(nodes=3, grace=16, duration=16)
    leader, standby = await leader_and_standby(stage)
    assert await leader.terminate(within=2) == 0
    stopped = time.monotonic()
    await eventually(standby.leads, "the standby leads", within=8)
    stage.figure(f"the standby leads {time.monotonic() - stopped:.1f} s after SIGTERM")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{stage.garden}/leases/{LEASE}"
    assert (await stage.seed.api.get(path))["spec"]["holderIdentity"]


@scenario()
async def test_a_process_that_was_frozen_for_longer_than_its_lease_ends(stage: Stage) -> None:
    await stage.shoot.build(nodes=3, grace=16, duration=16)
    leader, standby = await leader_and_standby(stage)
    leader.child.pause()
    await eventually(standby.leads, "the standby leads", within=25)
    since = time.time()
    leader.child.resume()
    assert await leader.child.ended(within=5) == 1
    stage.assert_nothing_was_scaled(since)


@scenario()
async def test_an_outage_that_recurs_while_a_scale_up_waits_is_protected(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16, replicas=COUNTS)
    await stage.healthy(config(interval="5s"))
    await stage.outage(within=40)
    stage.shoot.kubelets.path.restore()
    await stage.until_up(KCM, within=60)
    again = stage.shoot.kubelets.path.cut()
    await stage.until_down(within=30)
    nothing_is_lost(await stage.shoot.state())
    assert [each.name for each in stage.writes(again)] == [KCM], "the others had not come back yet"
    stage.shoot.kubelets.path.restore()
    state = await stage.until_up(within=120)
    assert {name: each.replicas for name, each in state.items()} == COUNTS


@scenario()
async def test_a_process_that_starts_in_mid_outage_protects(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    stage.shoot.kubelets.path.cut()
    await stage.shoot.wait_until_expired()
    await stage.start(quick())
    await stage.until_down(within=25)
