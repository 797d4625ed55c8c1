"""Endpoint mode on the real kube-apiserver: a load balancer before it that is dead, slow or back.

No Machine, Node or Lease is read in any of it: the audit logs of both API servers say so.
"""

import asyncio
import time

from tests.e2e.parallel import scenario
from tests.e2e.paths import Paths, two_paths
from tests.e2e.stage import Stage

FIRST_WRITE = 0.5
"""Seconds from the third failure in a row to the first write."""
ATTEMPT, SPARE = 5.0, 0.1
"""Seconds of an attempt that is not answered, and how much earlier its request ends."""


async def the_state_is_told(stage: Stage, reason: str) -> None:
    shoot = await stage.until_state(stage.programs[0], "Protected", within=15)
    assert shoot["reason"] == reason


async def protects_and_releases(stage: Stage, paths: Paths, *, failing_for: float) -> None:
    """The external path does not answer any more: so long lasts each failure; it comes back in the end."""
    began = time.time()
    await stage.until_down(within=60)
    tries = [at for at in paths.external.opened if at >= began]
    first = stage.writes(began)[0].at
    if len(tries) >= 3:  # what is refused never comes to the proxy
        late = first - (tries[2] + failing_for)
        stage.figure(f"first write {late:.2f} s after the third failure in a row")
        assert -0.3 < late <= FIRST_WRITE
    stage.figure(f"first write {first - began:.1f} s after the external path was cut")
    await the_state_is_told(stage, "ExternalUnreachable")
    await asyncio.sleep(12)
    assert set((await stage.shoot.replicas()).values()) == {0}, "as long as it lasts"
    healed = time.time()
    await paths.external.heal()
    await stage.until_up(within=60)
    stage.figure(f"all back {time.time() - healed:.1f} s after the external path")
    await stage.until_state(stage.programs[0], "Healthy", within=20)
    paths.assert_only_versions_were_asked_for()


async def a_probe_is_two_requests(stage: Stage, paths: Paths) -> None:
    """The internal connection stays, the external one is new each time."""
    inner, outer = len(paths.internal.opened), len(paths.external.opened)
    began = time.time()
    await asyncio.sleep(20)
    asked = [each for each in stage.requests_to_shoot(began) if each.resource == "/version"]
    looks = len(paths.external.opened) - outer
    stage.figure(f"{len(asked)} requests in {looks} probes of 20 s")
    assert looks >= 3
    assert len(paths.internal.opened) == inner
    assert abs(len(asked) - 2 * looks) <= 1


@scenario()
async def test_a_load_balancer_that_swallows_everything(stage: Stage) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        await paths.healthy()
        await asyncio.sleep(5)
        await a_probe_is_two_requests(stage, paths)
        paths.external.stall(new=True)
        await protects_and_releases(stage, paths, failing_for=ATTEMPT - SPARE)


@scenario()
async def test_while_the_internal_path_is_dead_nothing_is_scaled_whatever_the_external_says(
    stage: Stage,
) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        prober = await paths.healthy()
        await paths.internal.cut()
        await stage.until_state(prober, "Unreachable", within=25)
        await asyncio.sleep(6)
        seen = len(paths.external.opened)
        paths.external.reset()
        await asyncio.sleep(15)
        assert len(paths.external.opened) == seen, "it is not even asked"
        stage.assert_nothing_was_scaled()
        await paths.internal.heal()  # now it is known which of the two is dead
        await stage.until_down(within=60)
        await the_state_is_told(stage, "ExternalUnreachable")
        await paths.internal.cut()
        await asyncio.sleep(20)
        assert set((await stage.shoot.replicas()).values()) == {0}, "nothing is known any more"
        await paths.internal.heal()
        await paths.external.heal()
        await stage.until_up(within=60)
        paths.assert_only_versions_were_asked_for()
