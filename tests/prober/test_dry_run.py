"""`--dry-run`: reads, judges and plans as usual, and writes nothing."""

from app.core.model.workloads import Direction
from app.simulation.traffic import Host
from tests.support.harness import CA, KCM, MCM, SHOOT


async def test_nothing_is_written_and_what_it_would_have_written_is_told_once(lab):
    harness = await lab.healthy(dry_run=True)
    with harness.faults.path_cut(SHOOT):
        await harness.run(300)
        assert harness.decision().verdict == "ScaleDown"
    await harness.run(120)
    assert harness.world.requests.live(Host.SEED, "patch") == 0
    assert not harness.writes()
    told = harness.told("ScalingRehearsed")
    assert sorted(n.resource for n in told) == sorted([KCM, MCM, CA])
    why = "nothing is written in a dry run"
    assert {(n.result, n.after, n.message.split(": ")[-1]) for n in told} == {("dry-run", 0, why)}
    assert not any(n.event for n in told)


async def test_a_second_outage_is_told_again(lab):
    harness = await lab.healthy(dry_run=True)
    for _ in range(2):
        with harness.faults.path_cut(SHOOT):
            await harness.run(60)
        await harness.run(60)
    assert len(harness.told("ScalingRehearsed")) == 6


async def test_it_runs_beside_the_live_one_and_rehearses_the_way_up_too(lab):
    harness = await lab.healthy(dry_run=True)
    live = lab.prober(harness.world)
    await live.run(60)
    with harness.faults.path_cut(SHOOT):
        await live.protect()
        await live.kill()
    await harness.run(60)
    assert harness.replicas() == (0, 0, 0)
    up = [n for n in harness.told("ScalingRehearsed") if n.direction is Direction.UP]
    assert KCM in {n.resource for n in up}
