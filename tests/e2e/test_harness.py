"""The harness itself: what the scenarios rely on."""

import asyncio
import time

import pytest

from app.core.model import workloads as ann
from tests.e2e.api import LEASES, NODES, deployments, machines, secrets
from tests.e2e.kubelets import spread
from tests.e2e.landscape import PROBE_USER, garden
from tests.e2e.objects import CA, KCM, MCM, SECRET
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage


@scenario()
async def test_a_shoot_is_built_with_ready_dependents_and_machines(stage: Stage) -> None:
    await stage.shoot.build(nodes=3, replicas={KCM: 3, MCM: 1, CA: 1})
    state = await stage.shoot.state()
    assert {name: each.ready for name, each in state.items()} == {KCM: 3, MCM: 1, CA: 1}
    found = await stage.seed.api.items(machines(stage.shoot.namespace))
    assert [item["status"]["currentStatus"]["phase"] for item in found] == ["Running"] * 3


@scenario()
async def test_kubelets_renew_until_their_path_is_cut_and_again_after(stage: Stage) -> None:
    await stage.shoot.build(nodes=6, grace=8, duration=8)
    kubelets = stage.shoot.kubelets
    await asyncio.sleep(5)
    cut = kubelets.path.cut(["node-000", "node-001"])
    await asyncio.sleep(5)
    late = {name for name, at in kubelets.renewed.items() if at < cut}
    assert late == {"node-000", "node-001"}
    kubelets.path.restore()

    async def all_back() -> bool:
        return all(at > cut for at in kubelets.renewed.values())

    await eventually(all_back, "all renew again", within=8)
    await eventually(lambda: _within(kubelets.renewed, 3), "all renew in step", within=5)


async def _within(renewed: dict[str, float], seconds: float) -> bool:
    return spread(renewed) < seconds


@scenario()
async def test_the_probe_may_read_leases_and_nodes_and_nothing_else(stage: Stage) -> None:
    await stage.shoot.build(nodes=2)
    async with stage.plane.api.as_user(stage.shoot.token) as probe:
        assert len(await probe.items(LEASES)) == 2
        assert len(await probe.items(NODES)) == 2
        for refused in ("/api/v1/pods", secrets("kube-system"), NODES + "?watch=1"):
            assert await probe.refusal("GET", refused) == 403, refused


@scenario()
async def test_the_seed_grants_the_prober_what_gardener_grants_and_no_more(stage: Stage) -> None:
    await stage.shoot.build(nodes=1)
    token = await garden(stage.seed.api, stage.garden)
    here, kcm = stage.shoot.namespace, f"{deployments(stage.shoot.namespace)}/{KCM}"
    async with stage.seed.api.as_user(token) as prober:
        assert (await prober.get(f"{secrets(here)}/{SECRET}"))["type"] == "Opaque"
        await prober.patch(kcm, {"metadata": {"annotations": {ann.MELTDOWN: ""}}})
        for refused in (kcm, f"{secrets(here)}/{SECRET}"):
            assert await prober.refusal("DELETE", refused) == 403, refused
    assert (await stage.shoot.state())[KCM].protected
    assert [write.body["metadata"] for write in stage.writes() if write.code == 200] == [
        {"annotations": {ann.MELTDOWN: ""}}
    ]


@scenario()
async def test_the_audit_log_names_who_asked_for_what(stage: Stage) -> None:
    await stage.shoot.build(nodes=1)
    async with stage.plane.api.as_user(stage.shoot.token) as probe:
        await probe.get("/version")
        await probe.get(LEASES)
    seen = [(each.verb, each.resource, each.code) for each in stage.requests_to_shoot()]
    assert seen == [("get", "/version", 200), ("list", "leases", 200)], PROBE_USER


@scenario()
async def test_a_revoked_token_is_refused_and_a_new_one_accepted(stage: Stage) -> None:
    await stage.shoot.build(nodes=1)
    await stage.shoot.revoke_token()
    await stage.shoot.write_secret()
    async with stage.plane.api.as_user(stage.shoot.token) as probe:
        assert await probe.items(NODES)


@scenario()
async def test_an_api_server_can_be_stopped_and_started_again(stage: Stage) -> None:
    await stage.shoot.build(nodes=2, grace=8, duration=8)
    await stage.plane.child.stop()
    assert not await stage.plane.api.answers("/version")
    assert stage.plane.child.exit_code == 0
    stopped = time.time()
    await stage.plane.start()
    kubelets = stage.shoot.kubelets

    async def all_back() -> bool:
        return all(at > stopped for at in kubelets.renewed.values())

    await eventually(all_back, "the kubelets are back", within=15)


@scenario(own_storage=True)
async def test_without_storage_the_version_is_told_and_leases_are_not(stage: Stage) -> None:
    await stage.shoot.build(nodes=2)
    stage.plane.storage.child.pause()
    assert await stage.plane.api.answers("/version")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await stage.plane.api.items(LEASES)
    assert await stage.seed.api.answers("/readyz"), "the seed's storage is another one"
    stage.plane.storage.child.resume()
    await eventually(lambda: _two_leases(stage), "Leases are read again", within=15)


async def _two_leases(stage: Stage) -> bool:
    return len(await stage.plane.api.items(LEASES)) == 2


@scenario()
async def test_another_kind_is_scaled_through_its_scale_subresource(stage: Stage) -> None:
    await stage.shoot.build(nodes=1)
    await stage.shoot.add_scaler("extra", 2)
    path = f"/apis/example.org/v1/namespaces/{stage.shoot.namespace}/scalers/extra"
    await stage.seed.api.patch(f"{path}/scale", {"spec": {"replicas": 0}})
    assert (await stage.seed.api.get(f"{path}/scale"))["spec"] == {}, "a zero is left out"

    async def at_zero() -> bool:
        return bool((await stage.shoot.scaler("extra")).get("status") == {"replicas": 0})

    await eventually(at_zero, "the controller followed", within=5)


@scenario()
async def test_an_outage_can_be_known_when_that_share_of_the_leases_is_old(stage: Stage) -> None:
    await stage.shoot.build(nodes=5, grace=8, duration=8)
    stage.shoot.kubelets.path.cut()
    oldest_first = sorted(stage.shoot.kubelets.renewed.values())
    assert stage.shoot.known_at(0.6) == oldest_first[2] + 6
    assert stage.shoot.known_at(0.61) == oldest_first[3] + 6
