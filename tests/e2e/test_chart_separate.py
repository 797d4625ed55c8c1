"""The chart with its defaults and TLS: prober and weeder as two Deployments, with exactly the rights that they use."""

import asyncio
import time

from tests.e2e import chart_world, weeder_objects
from tests.e2e.chart_world import (
    GARDEN,
    Caller,
    Grant,
    Helm,
    InstalledWorld,
    assert_exact,
    installed_world,
)
from tests.e2e.landscape import PROBER
from tests.e2e.objects import CA, GROUP
from tests.e2e.parallel import scenario
from tests.e2e.people import use_every_right
from tests.e2e.podrunner import Pod
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage
from tests.support.certs import Authority

WEEDER = weeder_objects.WEEDER
SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{GARDEN}/endpointslices/{PROBER}-leader"
LOOKS_EVERY = 60
"""Seconds between two probes of a leader at its slice."""
# Where its peer is told (--peer-url), pauses are taken there; test_chart_gardener has a weeder that takes them itself.
TAKEN_BY_THE_PROBER = {Grant(each, GROUP, "pauses") for each in ("create", "patch", "delete")}


@scenario(limit=300)
async def test_what_is_installed_protects_and_weeds_with_exactly_its_rights(stage: Stage) -> None:
    async with installed_world(stage) as world:
        helm, authority = Helm(world, "helm4"), Authority.create("api-ca")
        await chart_world.furnish_tls(world, authority)
        prober = await first_verdict(world, helm)
        reset = await somebody_resets_the_slice(world, prober)
        standby, weeder = await asyncio.gather(
            world.node.run(GARDEN, PROBER), world.node.run(GARDEN, WEEDER)
        )
        await weeder.until_leads()
        caller = await Caller.admin(world, authority)
        await they_are_called(world, caller, prober, weeder)
        down, up = await world.protected_and_back()
        stage.figure(f"with the chart: at 0 after {down:.2f} s, back after {up:.1f} s")
        await world.weeded("shoot--weed--chart")
        await slice_is_written_again(world, prober, reset)
        await standby_knows_the_leader(world, caller, prober, standby)
        await another_leads(world, prober, standby)
        await assert_exact(world.api, PROBER, GARDEN, world.requests(PROBER, GARDEN))
        asked = world.requests(WEEDER, GARDEN)
        await assert_exact(world.api, WEEDER, GARDEN, asked, spare=TAKEN_BY_THE_PROBER)


async def first_verdict(world: InstalledWorld, helm: Helm) -> Pod:
    began = time.time()
    await helm.install(chart_world.quick(api={"tls": {"secretName": chart_world.TLS}}))
    prober = await world.node.run(GARDEN, PROBER)
    await world.until_verdict(prober)
    seconds = time.time() - began  # while others run; the goal is that of tests/chart
    world.stage.figure(f"from helm install to the first verdict: {seconds:.1f} s")
    return prober


async def address_in_slice(world: InstalledWorld) -> str:
    endpoints = (await world.api.get(SLICE))["endpoints"] or []
    return endpoints[0]["addresses"][0] if endpoints else ""


async def somebody_resets_the_slice(world: InstalledWorld, prober: Pod) -> float:
    """A tool that applies a manifest with `endpoints: []`, for instance; returns when."""

    async def is_written() -> bool:
        return await address_in_slice(world) == prober.sandbox.address

    await eventually(is_written, "the leader has written its address", within=15)
    await world.api.patch(SLICE, {"endpoints": []})
    return time.time()


async def slice_is_written_again(world: InstalledWorld, prober: Pod, reset: float) -> None:
    async def is_written() -> bool:
        return await address_in_slice(world) == prober.sandbox.address

    left = max(reset + LOOKS_EVERY - time.time(), 0)
    await eventually(is_written, "the leader has written its address again", within=left + 10)


async def they_are_called(world: InstalledWorld, caller: Caller, prober: Pod, weeder: Pod) -> None:
    """All that makes the two ask the seed for something else than they do of themselves."""
    shoot, why = f"shoots/{world.shoot.namespace}", {"reason": "a proof"}
    to_prober, to_weeder = caller.of(prober), caller.of(weeder)
    await use_every_right(to_prober, world.stage)
    ignored = f"{shoot}/resources/Deployment/{CA}/ignore-scaling"
    assert (await to_prober.put(ignored, why)).status == 200
    assert (await to_prober.delete(ignored)).status == 200
    assert (await to_weeder.get("weeders")).status == 200
    elsewhere = await to_weeder.get("shoots")
    assert (elsewhere.status, elsewhere.problem) == (503, "loop-not-here")
    assert PROBER in str(elsewhere.body), "and it says where to ask"


async def standby_knows_the_leader(
    world: InstalledWorld, caller: Caller, prober: Pod, standby: Pod
) -> None:
    """It reads the slice every ten seconds; what only the leader can plan is asked of the leader."""
    plan = {"reason": "a proof", "direction": "down", "dryRun": True}

    async def is_named() -> bool:
        answer = await caller.of(standby).post(f"shoots/{world.shoot.namespace}/scale", plan)
        assert answer.status == 503, answer
        return prober.sandbox.address in str(answer.body)

    await eventually(is_named, "the standby names the leader's address", within=15, every=1)


async def another_leads(world: InstalledWorld, prober: Pod, standby: Pod) -> None:
    assert await prober.delete() == 0
    await standby.until_leads()

    async def is_told() -> bool:
        return await address_in_slice(world) == standby.sandbox.address

    await eventually(is_told, "the new leader has written its address", within=15)
