"""Swapped in for the original: Gardener's Deployments, arguments, ConfigMaps and rights, another image; and back."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from tests.chart.rendering import CHART
from tests.e2e import chart_world, gardener, weeder_objects
from tests.e2e.api import deployments
from tests.e2e.apiclient import ApiClient
from tests.e2e.gardener import GARDEN, WEEDER
from tests.e2e.landscape import PROBER
from tests.e2e.objects import CA, GROUP, KCM, LEASE, MCM
from tests.e2e.parallel import scenario
from tests.e2e.podrunner import Pod
from tests.e2e.stage import Stage

OURS = "registry.example.org/dependency-watchdog:0.1.0"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{GARDEN}/leases"
# Rights for what the original has not: each is off without them, which a metric says.
NOT_GRANTED = {
    ("list", GROUP, "pauses"),
    ("list", GROUP, "scalerequests"),
    ("create", "events.k8s.io", "events"),
}


@scenario()
async def test_the_image_is_swapped_and_swapped_back(stage: Stage) -> None:
    async with chart_world.installed_world(stage) as world:
        quick = gardener.prober_settings(interval="5s", mcm_delay="2s")
        await gardener.deploy(world.api, quick, weeder_objects.settings())
        await the_original_was_here(world)
        swapped = time.time()
        await gardener.swap(world.api, OURS)
        prober = await world.node.run(GARDEN, PROBER)
        weeder = await world.node.run(GARDEN, WEEDER)
        await world.until_verdict(prober)
        stage.figure(f"from the swap of the image to the verdict: {time.time() - swapped:.1f} s")
        down, up = await world.protected_and_back()
        stage.figure(f"with Gardener's objects: at 0 after {down:.2f} s, back after {up:.1f} s")
        await world.weeded("shoot--weed--gardener", told=False)
        await nothing_else_was_refused(world, prober, weeder)
        await back_to_the_original(world, prober, weeder)


async def the_original_was_here(world: chart_world.InstalledWorld) -> None:
    """It leaves its saved counts on the Deployments for ever, and a Lease that has run out."""
    for name in (KCM, MCM, CA):
        await world.shoot.annotate(name, {ann.REPLICAS: "1"})
    long_ago = "2026-01-01T00:00:00.000000Z"
    spec = {
        "holderIdentity": "dependency-watchdog-prober-6f7d5c7c9-x2x4k_2f0c",
        "leaseDurationSeconds": 15,
        "acquireTime": long_ago,
        "renewTime": long_ago,
        "leaseTransitions": 3,
    }
    await world.api.create(LEASES, {"metadata": {"name": LEASE}, "spec": spec})


async def nothing_else_was_refused(
    world: chart_world.InstalledWorld, prober: Pod, weeder: Pod
) -> None:
    """Save what Gardener does not grant, and what is off for that is told."""
    assert await prober.metric("dwd_feature_off", feature="scalerequests") == 1
    for account, pod in {PROBER: prober, WEEDER: weeder}.items():
        refused = chart_world.rbac_refusals(world.requests(account, GARDEN))
        assert refused <= NOT_GRANTED, refused
        for feature in ("pauses", "events", "token-review", "api"):
            assert await pod.metric("dwd_feature_off", feature=feature) == 1, (account, feature)
        needed = {"clusters", "secrets", "machines", "deployments", "leases", "pods"}
        missing = [await pod.metric("dwd_missing_permissions", resource=each) for each in needed]
        assert not any(missing), account


async def back_to_the_original(world: chart_world.InstalledWorld, prober: Pod, weeder: Pod) -> None:
    """In the middle of a protection: what it needs to end it is there, in its own words, and its Lease is free."""
    await world.stage.outage(within=40)
    assert (await prober.delete(), await weeder.delete()) == (0, 0)
    await gardener.swap(world.api, gardener.ORIGINAL)
    for item in await world.api.items(deployments(world.shoot.namespace)):
        found = chart_world.annotations_of(item)
        assert item["spec"]["replicas"] == 0
        assert found[ann.REPLICAS] == "1", "what it scales back to"
        assert ann.MELTDOWN in found, "what keeps gardenlet away, and what it removes"
    for name in (LEASE, weeder_objects.LEASE):
        lease = await world.api.get(f"{LEASES}/{name}")
        assert not lease["spec"].get("holderIdentity"), "it does not have to wait"


BESIDE = "dependency-watchdog-next"
WEEDED = "shoot--weed--beside"


@scenario(limit=300)
async def test_the_chart_beside_the_original_stands_by_until_that_is_gone(stage: Stage) -> None:
    """Both want the same Leases, so one of them acts at any time, whatever their names are.

    Then its weeder weeds, and takes pauses, with exactly its rights.
    """
    async with chart_world.installed_world(stage) as world:
        await gardener.deploy(world.api, gardener.prober_settings(), weeder_objects.settings())
        helm = chart_world.Helm(world, "helm4")
        refused = await helm.refusal("install", chart_world.RELEASE, str(CHART))
        assert "cannot be imported into the current release" in refused, "the names are taken"
        await helm("install", BESIDE, str(CHART), values=chart_world.quick())
        async with original(world):
            ours = await world.node.run(GARDEN, f"{BESIDE}-prober")
            weeder = await world.node.run(GARDEN, f"{BESIDE}-weeder")
            world.shoot.kubelets.path.cut()
            await world.shoot.wait_until_expired(extra=5)
            assert not await ours.leads()
            assert world.scaled_by(f"{BESIDE}-prober", GARDEN) == []
        await world.stage.until_down(within=40)
        assert len(world.scaled_by(f"{BESIDE}-prober", GARDEN)) == 3
        await weeder.until_leads()
        await world.weeded(WEEDED)
        await the_weeder_takes_pauses_itself(world, weeder)
        asked = world.requests(f"{BESIDE}-weeder", GARDEN)
        await chart_world.assert_exact(world.api, f"{BESIDE}-weeder", GARDEN, asked)


async def the_weeder_takes_pauses_itself(world: chart_world.InstalledWorld, weeder: Pod) -> None:
    """With the API inside of the pod only nobody can tell it where the prober is."""
    token = (await chart_world.Caller.admin(world, release=BESIDE)).token
    client = ApiClient(f"http://127.0.0.1:{weeder.port(8080)}", token=token)
    why = {"reason": "a proof", "force": True}  # it cannot know whether the shoot is protected
    path = f"shoots/{WEEDED}/pause"
    for scope in ("all", "scaleDown"):
        answer = await client.put(path, {**why, "scope": scope})
        assert answer.status == 200, answer
    assert (await client.delete(path)).status == 204


@asynccontextmanager
async def original(world: chart_world.InstalledWorld) -> AsyncIterator[None]:
    """Holds the Lease, and does nothing else."""
    name = "dependency-watchdog-prober-6f7d5c7c9-x2x4k_2f0c"

    async def renew() -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 15}
        await world.api.create(LEASES, {"metadata": {"name": LEASE}, "spec": spec})
        while True:
            moment = rfc3339(time.time(), micro=True)
            await world.api.patch(f"{LEASES}/{LEASE}", {"spec": {"renewTime": moment}})
            await asyncio.sleep(2)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
