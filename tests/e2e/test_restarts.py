"""A process that dies goes on where it stopped."""

import asyncio

from tests.e2e.landscape import Dependent
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.parallel import scenario
from tests.e2e.program import SHORT_LEASE, Program, config, dependent
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
