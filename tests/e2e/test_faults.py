"""What looks like an outage and is none, or hides one: nothing may be scaled on it."""

import asyncio

from tests.e2e.api import LEASES
from tests.e2e.parallel import scenario
from tests.e2e.program import quick
from tests.e2e.stage import Stage


async def stays_unharmed(stage: Stage, seconds: float) -> None:
    """For so long no dependent is written to."""
    await asyncio.sleep(seconds)
    stage.assert_nothing_was_scaled()


@scenario()
async def test_an_api_server_that_hangs_or_is_down_changes_nothing(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    stage.plane.child.pause()
    await stage.until_state(prober, "Unreachable", within=30)
    await stays_unharmed(stage, 15)
    stage.plane.child.resume()
    await stays_unharmed(stage, 15)
    await stage.until_state(prober, "Healthy", within=15)
    await stage.plane.child.stop()
    await stage.until_state(prober, "Unreachable", within=20)
    await stays_unharmed(stage, 15)
    await stage.plane.start()
    await stays_unharmed(stage, 15)
    await stage.until_state(prober, "Healthy", within=10)


@scenario(own_storage=True)
async def test_storage_that_is_away_for_60_seconds_changes_nothing(stage: Stage) -> None:
    """The storage of a shoot stops for so long, at the grace period that shoots have.

    What the kubelets had asked for meanwhile is lost: they come back one by one, after their time limits and pauses,
    and a prober that looks at once sees Leases that are older than any limit.
    """
    await stage.shoot.build()
    prober = await stage.healthy()
    await asyncio.sleep(15)
    stage.plane.storage.child.pause()
    stage.shoot.kubelets.path.cut()
    for _ in range(12):
        assert await stage.plane.api.answers("/version"), "the API server goes on answering"
        await asyncio.sleep(5)
    stage.assert_nothing_was_scaled()
    stage.plane.storage.child.resume()
    stage.shoot.kubelets.path.restore()
    await stays_unharmed(stage, 40)
    await stage.until_state(prober, "Healthy", within=25)
    assert len(await stage.plane.api.items(LEASES)) == len(stage.shoot.nodes)


@scenario()
async def test_an_outage_is_found_after_the_token_was_rotated(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    former = stage.shoot.token
    await stage.shoot.write_secret()
    assert stage.shoot.token != former, "both are valid for now"
    await stays_unharmed(stage, 8)
    await stage.shoot.revoke_token()
    shoot = await stage.until_state(prober, "Failing", within=20)
    assert shoot["reason"] == "CredentialsInvalid"
    await stage.shoot.write_secret()
    await stage.until_state(prober, "Healthy", within=15)
    stage.assert_nothing_was_scaled()
    await stage.outage(within=40)
    assert stage.shoot.token not in prober.child.log.read_text()
