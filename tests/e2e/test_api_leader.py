"""Two replicas and one leader: its address in the EndpointSlice, who is sent there, and what any replica takes."""

import json

import pytest

from app.core.model.callers import Role
from tests.e2e import apirights
from tests.e2e.apiclient import ApiClient
from tests.e2e.apirights import AUDIENCE, LEADER_SLICE, Callers
from tests.e2e.apiserving import Serving, own_address
from tests.e2e.canaries import assert_nothing_secret_was_told
from tests.e2e.kubectl import Kubectl
from tests.e2e.objects import Json
from tests.e2e.parallel import scenario
from tests.e2e.people import dwd
from tests.e2e.processes import eventually
from tests.e2e.program import Program
from tests.e2e.stage import Stage


def slices(stage: Stage) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{stage.garden}/endpointslices"


def slice_of_chart() -> Json:
    """As the chart makes it, with the Service that has no selector."""
    return {
        "metadata": {
            "name": LEADER_SLICE,
            "labels": {"kubernetes.io/service-name": "dwd-prober-leader"},
        },
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "https", "protocol": "TCP", "port": 1}],
    }


async def address_in_slice(stage: Stage) -> str:
    """The one place that it sends to; empty where there is none."""
    found = await stage.seed.api.get(f"{slices(stage)}/{LEADER_SLICE}")
    endpoints = found.get("endpoints") or []
    ready = [each["addresses"] for each in endpoints if each["conditions"]["ready"]]
    return f"{ready[0][0]}:{found['ports'][0]['port']}" if len(ready) == 1 else ""


async def until_in_slice(stage: Stage, program: Program, within: float) -> None:
    where = program.api.url.removeprefix("https://")

    async def is_so() -> bool:
        return await address_in_slice(stage) == where

    await eventually(is_so, f"the slice sends to {where}", within=within, every=0.25)


@scenario()
async def test_the_leader_is_found_through_its_slice_and_dwd_goes_on_there(stage: Stage) -> None:
    host = own_address()
    if host == "127.0.0.1":
        pytest.skip("this machine has no address but its loopback")
    await apirights.furnish(stage)
    await stage.shoot.build(nodes=3, grace=16, duration=16)
    await stage.seed.api.create(slices(stage), slice_of_chart())
    serving = Serving(stage, host)
    told = {"advertise_address": host, "leader_endpointslice": LEADER_SLICE}
    leader = await serving.leader(**told)
    await until_in_slice(stage, leader, within=5)
    standby = await serving.start(**told)
    token = await viewer(stage)
    await the_standby_names_the_leader(stage, standby.api.as_caller(token), leader)
    token_file = stage.folder / f"{stage.garden}.token"
    token_file.write_text(token)
    known = (f"--ca-file={serving.ca_file}", f"--token-file={token_file}")
    printed = await dwd(standby, "shoots", "-o", "json", *known)
    assert stage.shoot.namespace in {each["namespace"] for each in json.loads(printed)["items"]}
    assert await leader.terminate(within=3) == 0
    await eventually(standby.leads, "the standby leads", within=8)
    await until_in_slice(stage, standby, within=5)
    status = (await standby.api.as_caller(token).get("status")).body
    assert status["missingPermissions"] == []
    assert "leader-address" not in {each["feature"] for each in status["featuresOff"]}
    heard = ApiClient("", heard=[printed])
    await assert_nothing_secret_was_told(stage, token, keys=[serving.key], clients=[heard])


async def viewer(stage: Stage) -> str:
    """The token of somebody who may read everything."""
    callers = Callers(stage)
    await callers.begin()
    await callers.add("reader")
    await callers.everywhere("reader", f"dependency-watchdog-{Role.VIEWER}")
    return await Kubectl(stage, stage.garden).token("reader", AUDIENCE)


async def the_standby_names_the_leader(stage: Stage, client: ApiClient, leader: Program) -> None:
    lease = (
        f"/apis/coordination.k8s.io/v1/namespaces/{stage.garden}/leases/dwd-prober-leader-election"
    )
    identity = (await stage.seed.api.get(lease))["spec"]["holderIdentity"]

    async def named() -> Json | None:
        answer = await client.get("shoots")
        assert (answer.status, answer.problem) == (503, "not-the-leader"), answer
        found: Json = answer.body["leader"]
        return found if found["identity"] and found["address"] else None

    found = await eventually(named, "the standby knows who leads", within=15)
    assert found == {"identity": identity, "address": leader.api.url.removeprefix("https://")}
