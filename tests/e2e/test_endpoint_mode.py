"""Endpoint mode on the real kube-apiserver: a load balancer before it that is dead, slow or back.

No Machine, Node or Lease is read in any of it: the audit logs of both API servers say so.
"""

import asyncio
import time
from pathlib import Path

import yaml

from tests.e2e.parallel import scenario
from tests.e2e.paths import Paths, settings, two_paths
from tests.e2e.stage import Stage

SAMPLE = Path(__file__).parents[1] / "core/config/good/endpoint-mode-sample.yaml"
"""The file that the proposal of endpoint mode shows."""
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


@scenario()
async def test_a_load_balancer_that_swallows_everything(stage: Stage) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        await paths.healthy()
        paths.external.stall(new=True)
        await protects_and_releases(stage, paths, failing_for=ATTEMPT - SPARE)


@scenario()
async def test_a_load_balancer_that_refuses(stage: Stage) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        await paths.healthy()
        await paths.external.cut()
        await protects_and_releases(stage, paths, failing_for=0.0)


@scenario()
async def test_a_load_balancer_that_resets(stage: Stage) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        await paths.healthy()
        paths.external.reset()
        await protects_and_releases(stage, paths, failing_for=0.0)


@scenario()
async def test_a_load_balancer_that_is_dead_for_two_probes_and_back_changes_nothing(
    stage: Stage,
) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        prober = await paths.healthy()
        for _ in range(2):
            paths.external.reset()
            seen = len(paths.external.opened)
            await until(lambda seen=seen: len(paths.external.opened) >= seen + 2)
            await paths.external.heal()
            seen = len(paths.external.opened)
            await until(lambda seen=seen: len(paths.external.opened) >= seen + 1)
        await stage.until_state(prober, "Healthy", within=15)
        stage.assert_nothing_was_scaled()
        paths.assert_only_versions_were_asked_for()


async def until(condition, within: float = 40) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - the proxy tells nobody
            await asyncio.sleep(0.05)


@scenario()
async def test_while_the_internal_path_is_dead_nothing_is_scaled_whatever_the_external_says(
    stage: Stage,
) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        prober = await paths.healthy()
        await paths.internal.cut()
        await stage.until_state(prober, "Unreachable", within=25)
        await asyncio.sleep(10)
        seen = len(paths.external.opened)
        paths.external.stall(new=True)
        await asyncio.sleep(25)
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


@scenario()
async def test_a_token_that_is_not_accepted_says_nothing_about_a_path(stage: Stage) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        prober = await paths.healthy()
        for way in (paths.external, paths.internal):
            await paths.write_secret(way, token="of-nobody")
            shoot = await stage.until_state(prober, "Failing", within=20)
            assert shoot["reason"] == "CredentialsInvalid"
            await asyncio.sleep(20)
            stage.assert_nothing_was_scaled()
            await paths.write_secret(way)
            await stage.until_state(prober, "Healthy", within=20)
        paths.external.reset()
        await stage.until_down(within=60)
        assert stage.shoot.token not in prober.child.log.read_text()


@scenario()
async def test_a_slow_load_balancer_is_good_enough_and_one_that_is_too_slow_is_dead(
    stage: Stage,
) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        prober = await paths.healthy()
        paths.external.slow(1.0)
        await asyncio.sleep(25)
        stage.assert_nothing_was_scaled()
        await stage.until_state(prober, "Healthy", within=1)
        paths.external.slow(4.0)  # for each of the two answers of a new connection
        await stage.until_down(within=60)
        await the_state_is_told(stage, "ExternalUnreachable")
        paths.external.slow(0.0)
        await stage.until_up(within=60)
        paths.assert_only_versions_were_asked_for()


@scenario(limit=300)
async def test_the_sample_of_the_proposal_protects_a_shoot_and_releases_it(stage: Stage) -> None:
    file = yaml.safe_load(SAMPLE.read_text())
    names = (file["internalKubeConfigSecretName"], file["externalKubeConfigSecretName"])
    async with two_paths(stage) as paths:
        await paths.build(names)
        prober = await paths.healthy(file)
        paths.external.stall(new=True)
        began = time.time()
        await stage.until_down(within=120)
        stage.figure(f"the sample: all at 0 {time.time() - began:.1f} s after the cut")
        await the_state_is_told(stage, "ExternalUnreachable")
        await paths.external.heal()
        await stage.until_up(within=150)
        await stage.until_state(prober, "Healthy", within=40)
        paths.assert_only_versions_were_asked_for()


@scenario()
async def test_in_the_steady_state_the_internal_connection_stays_and_the_external_is_new(
    stage: Stage,
) -> None:
    async with two_paths(stage) as paths:
        await paths.build()
        await paths.healthy(settings(probeInterval="2s", suspectProbeInterval="2s"))
        await asyncio.sleep(5)
        inner, outer = len(paths.internal.opened), len(paths.external.opened)
        began = time.time()
        await asyncio.sleep(20)
        asked = [each for each in stage.requests_to_shoot(began) if each.resource == "/version"]
        looks = len(paths.external.opened) - outer
        stage.figure(f"probeInterval 2s: {len(asked)} requests in {looks} probes of 20 s")
        assert looks >= 6
        assert len(paths.internal.opened) == inner
        assert abs(len(asked) - 2 * looks) <= 1
        paths.assert_only_versions_were_asked_for()
