"""Upgrades of the chart while its pods run: what is refused, its rollback, a new configuration, and the removal."""

import time

from tests.e2e import charts, weeder_objects
from tests.e2e.api import CRDS, Json
from tests.e2e.apiclient import ApiClient
from tests.e2e.chart_world import InstalledWorld, installed_world
from tests.e2e.charts import GARDEN, Caller, Helm
from tests.e2e.grants import assert_exact
from tests.e2e.landscape import PROBER
from tests.e2e.objects import people_crds
from tests.e2e.parallel import scenario
from tests.e2e.podrunner import Pod
from tests.e2e.stage import Stage

WEEDER = weeder_objects.WEEDER
ENDLESS = "99999999999h"
"""A duration by its probes, and longer than any that Go can hold."""
WEEDED = "shoot--weed--rolled"
CORE = f"/api/v1/namespaces/{GARDEN}"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{GARDEN}/leases"


@scenario(limit=300)
async def test_a_configuration_that_is_refused_is_not_rolled_out_half_way(stage: Stage) -> None:
    async with installed_world(stage) as world:
        helm = Helm(world, "helm4")
        await helm.install(charts.quick())
        before = await world.node.deployment(GARDEN, PROBER)
        old = await world.node.run(GARDEN, PROBER)
        await world.until_verdict(old)
        await the_new_pod_fails(world, helm)
        assert old.child.running
        assert await old.is_ready()
        await old_pods_start_again(world, old, before)
        await helm("rollback", charts.RELEASE, "1")
        assert (await template(world)) == before["spec"]["template"]
        assert world.scaled_by(PROBER, GARDEN) == []


async def the_new_pod_fails(world: InstalledWorld, helm: Helm) -> None:
    """Before the old one goes: none may be missing while a new one is not ready."""
    await helm.upgrade(with_interval(ENDLESS))
    now = await world.node.deployment(GARDEN, PROBER)
    assert now["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    fresh = await world.node.prepare(now)
    await fresh.child.start()
    assert await fresh.child.ended(20) == 2
    told = fresh.child.tail()
    assert "probeInterval" in told, told
    assert ENDLESS in told, told


async def old_pods_start_again(world: InstalledWorld, old: Pod, before: Json) -> None:
    """The container after a crash, and a pod of the old ReplicaSet on another node: each has its own file still."""
    await old.child.kill()
    await old.sync()
    await old.start()
    elsewhere = await world.node.prepare(before)
    await elsewhere.start()
    await world.until_verdict(old, within=40)
    await elsewhere.delete()


def with_interval(interval: str) -> Json:
    values = charts.quick()
    values["prober"]["config"]["probeInterval"] = interval
    return values


async def template(world: InstalledWorld) -> Json:
    found: Json = (await world.node.deployment(GARDEN, PROBER))["spec"]["template"]
    return found


@scenario(limit=300)
async def test_pods_are_rolled_and_removed_and_what_stays_behind_is_known(stage: Stage) -> None:
    async with installed_world(stage) as world:
        helm = Helm(world, "helm3")
        await helm.install(charts.quick())
        old, weeder = await world.node.run(GARDEN, PROBER), await world.node.run(GARDEN, WEEDER)
        await world.until_verdict(old)
        await helm.upgrade(with_interval("6s"))
        new = await world.node.run(GARDEN, PROBER)
        went = time.time()
        assert await old.delete() == 0
        await new.until_leads()
        await world.until_verdict(new)
        stage.figure(f"a rolled pod leads and has a verdict after {time.time() - went:.1f} s")
        await world.weeded(WEEDED)
        await the_weeder_takes_pauses_itself(world, weeder)
        await assert_exact(world.api, WEEDER, GARDEN, world.requests(WEEDER, GARDEN))
        await helm("uninstall", charts.RELEASE)
        assert (await new.delete(), await weeder.delete()) == (0, 0)
        await that_is_left(world)


async def the_weeder_takes_pauses_itself(world: InstalledWorld, weeder: Pod) -> None:
    """With the API inside of the pod only nobody can tell it where the prober is."""
    await weeder.until_leads()
    token = (await Caller.admin(world)).token
    client = ApiClient(f"http://127.0.0.1:{weeder.port(8080)}", token=token)
    why = {"reason": "a proof", "force": True}  # it cannot know whether the shoot is protected
    path = f"shoots/{WEEDED}/pause"
    for scope in ("all", "scaleDown"):
        answer = await client.put(path, {**why, "scope": scope})
        assert answer.status == 200, answer
    assert (await client.delete(path)).status == 204


async def that_is_left(world: InstalledWorld) -> None:
    """What the processes made, the files of each revision, and nothing that could do anything."""

    async def names(path: str) -> set[str]:
        return {each["metadata"]["name"] for each in await world.api.items(path)}

    assert await names(LEASES) == {f"dwd-{each}-leader-election" for each in ("prober", "weeder")}
    maps = await names(f"{CORE}/configmaps")
    files = {each for each in maps if "config" in each}
    assert maps == files
    assert len(files) == 3
    assert await names(f"{CORE}/serviceaccounts") == {"caller"}
    assert await names(f"{CORE}/secrets") == set(), "helm's own are gone, too"
    kinds = {each["metadata"]["name"] for each in people_crds()}
    assert kinds <= await names(CRDS), "the kinds stay, and with them what people made"
