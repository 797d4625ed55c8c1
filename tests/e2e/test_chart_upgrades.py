"""Upgrades of the chart while its pods run: what is refused, its rollback, a new configuration, and the removal."""

import time

from tests.e2e import chart_world, weeder_objects
from tests.e2e.api import CRDS, Json
from tests.e2e.apiclient import ApiClient
from tests.e2e.chart_world import (
    GARDEN,
    Caller,
    Helm,
    InstalledWorld,
    assert_exact,
    installed_world,
)
from tests.e2e.landscape import PROBER
from tests.e2e.objects import people_crds
from tests.e2e.parallel import scenario
from tests.e2e.podrunner import Pod
from tests.e2e.stage import Stage

WEEDER = weeder_objects.WEEDER
WEEDED = "shoot--weed--rolled"
CORE = f"/api/v1/namespaces/{GARDEN}"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{GARDEN}/leases"


def with_interval(interval: str) -> Json:
    values = chart_world.quick()
    values["prober"]["config"]["probeInterval"] = interval
    return values


@scenario(limit=300)
async def test_pods_are_rolled_and_removed_and_what_stays_behind_is_known(stage: Stage) -> None:
    async with installed_world(stage) as world:
        helm = Helm(world, "helm3")
        await helm.install(chart_world.quick())
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
        await helm("uninstall", chart_world.RELEASE)
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
