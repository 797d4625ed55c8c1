"""`--dry-run`: reads, judges and plans as usual, and writes nothing."""

from app.core.model.workloads import Direction
from app.simulation.traffic import Host
from tests.support.stands import CA, KCM, MCM, SHOOT


async def rehearse(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, dry_run=True)
    await stand.run(60)
    return stand


async def test_nothing_is_written(stage):
    stand = await rehearse(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(120)
        assert stand.decision().verdict == "ScaleDown"
    await stand.run(120)
    assert stand.world.requests.live(Host.SEED, "patch") == 0
    assert not stand.writes()


async def test_what_it_would_have_written_is_told_once(stage):
    stand = await rehearse(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(300)
    told = stand.told("ScalingRehearsed")
    assert {n.resource for n in told} == {KCM, MCM, CA}
    assert len(told) == 3
    assert all(n.numbers["result"] == "dry-run" for n in told)
    assert all(n.numbers["after"] == 0 for n in told)
    assert not any(n.event for n in told)


async def test_a_second_outage_is_told_again(stage):
    stand = await rehearse(stage)
    for _ in range(2):
        with stand.world.faults.path_cut(SHOOT):
            await stand.run(60)
        await stand.run(60)
    assert len(stand.told("ScalingRehearsed")) == 6


async def test_it_runs_beside_the_live_one_and_rehearses_the_way_up_too(stage):
    stand = await rehearse(stage)
    live = stage.prober(stand.world)
    await live.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await live.protect()
        await live.kill()
    await stand.run(60)
    assert stand.replicas() == (0, 0, 0)
    up = [n for n in stand.told("ScalingRehearsed") if n.numbers["direction"] is Direction.UP]
    assert KCM in {n.resource for n in up}
