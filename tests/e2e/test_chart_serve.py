"""The chart in the mode `serve`, with callers of a file: both loops in one Deployment, with the rights of both."""

import base64
import hashlib
import json

from tests.e2e import chart_world
from tests.e2e.api import Json
from tests.e2e.apiclient import ApiClient
from tests.e2e.chart_world import GARDEN, Grant, Helm, InstalledWorld, assert_exact, installed_world
from tests.e2e.parallel import scenario
from tests.e2e.people import use_every_right
from tests.e2e.podrunner import Pod
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage
from tests.support.certs import Authority

SERVE = "dependency-watchdog-serve"
TOKEN = "nobody-guesses-a-token-as-long-as-this-one"
CALLERS = "callers"
SCALER = "proxy"
# Read of kinds whose own spec has no `replicas`, as some have it in `spec.size`.
SIZE_ELSEWHERE = Grant("get", "example.org", "scalers/scale", SCALER)
VALUES = {
    "mode": "serve",
    "api": {
        "auth": {"mode": "token", "tokenSecret": {"name": CALLERS}},
        "tls": {"secretName": chart_world.TLS},
    },
}


@scenario(limit=300)
async def test_both_loops_in_one_deployment_protect_and_weed_with_exactly_their_rights(
    stage: Stage,
) -> None:
    async with installed_world(stage) as world:
        authority = Authority.create("api-ca")
        await chart_world.furnish_tls(world, authority)
        await furnish_callers(world)
        await world.shoot.add_scaler(SCALER, 2)
        await Helm(world, "helm3").install(with_a_scaler(chart_world.quick(**VALUES)))
        leader = await world.node.run(GARDEN, SERVE)
        await world.until_verdict(leader)
        await a_caller_pauses_and_scales(world, leader, authority)
        standby = await world.node.run(GARDEN, SERVE)
        down, up = await world.protected_and_back()
        await the_scaler_is_back(world)
        stage.figure(f"with mode serve: at 0 after {down:.2f} s, back after {up:.1f} s")
        await world.weeded("shoot--weed--serve")
        assert await leader.delete() == 0
        await standby.until_leads()
        asked = world.requests(SERVE, GARDEN)
        await assert_exact(world.api, SERVE, GARDEN, asked, spare={SIZE_ELSEWHERE})


def with_a_scaler(values: Json) -> Json:
    """A dependent of a kind that only its subresource scales: the chart has to be told how RBAC names it."""
    ref = {"apiVersion": "example.org/v1", "kind": "Scaler", "name": SCALER, "resource": "scalers"}
    added = {"ref": ref, "scaleUp": {"level": 3}, "scaleDown": {"level": 0}}
    values["prober"]["config"]["dependentResourceInfos"].append(added)
    return values


async def the_scaler_is_back(world: InstalledWorld) -> None:
    """It comes last."""

    async def is_so() -> bool:
        return bool((await world.shoot.scaler(SCALER))["spec"]["replicas"] == 2)

    await eventually(is_so, "the scaler is back", within=15)
    scaled = [each for each in world.scaled_by(SERVE, GARDEN) if each.resource == "scalers/scale"]
    assert [each.body["spec"]["replicas"] for each in scaled] == [0, 2]


async def furnish_callers(world: InstalledWorld) -> None:
    """The Secret with the file of the callers, which nobody else may read."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    file = json.dumps([{"name": "proof", "role": "admin", "sha256": digest}])
    data = {"tokens.yaml": base64.b64encode(file.encode()).decode()}
    secrets = f"/api/v1/namespaces/{GARDEN}/secrets"
    await world.api.create(secrets, {"metadata": {"name": CALLERS}, "data": data})


async def a_caller_pauses_and_scales(world: InstalledWorld, pod: Pod, authority: Authority) -> None:
    client = ApiClient(f"https://127.0.0.1:{pod.port('api')}", token=TOKEN, ca=authority.pem)
    await use_every_right(client, world.stage)
    assert (await client.as_caller("another").get("status")).status == 401
