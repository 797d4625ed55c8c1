"""The rights that Gardener grants suffice; one that is missing is named."""

from tests.e2e import landscape, objects
from tests.e2e.landscape import CANNOT_PATCH
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import quick
from tests.e2e.stage import Stage


@scenario()
async def test_the_rights_that_gardener_grants_suffice(stage: Stage) -> None:
    stage.garden = "garden"
    await stage.furnish(own=objects.garden_rules())
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    await stage.outage(within=40)
    stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    for needed in ("clusters", "secrets", "machines", "deployments", "leases"):
        assert not await prober.metric("dwd_missing_permissions", resource=needed), needed
    refused = [each for each in stage.requests_to_seed() if each.code == 403]
    assert {each.resource for each in refused} <= {"events", "pauses", "scalerequests"}, refused
    for feature in ("pauses", "scalerequests"):
        assert await prober.metric("dwd_feature_off", feature=feature) == 1, "and that is told"
        assert await prober.metric("dwd_missing_permissions", resource=feature), feature
        assert feature in await prober.readiness()
    assert all(each.code < 400 for each in stage.writes())
    assert not [each for each in stage.requests_to_shoot() if each.code in {401, 403}]


@scenario()
async def test_a_missing_right_to_patch_is_reported_and_used_once_it_is_there(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick(), role=CANNOT_PATCH)

    async def reported() -> bool:
        found = await prober.metric("dwd_missing_permissions", verb="patch", resource="deployments")
        return bool(found)

    await eventually(reported, "the missing right is a metric", within=10)
    readiness = await prober.readiness()
    assert "patch" in readiness
    assert "deployments" in readiness
    assert any("patch" in str(line) for line in errors(prober.logs())), "and an error in the log"
    stage.shoot.kubelets.path.cut()
    await stage.until_state(prober, "Failing", within=40)
    assert await stage.shoot.replicas() == {KCM: 1, MCM: 1, CA: 1}
    assert {each.code for each in stage.writes()} == {403}
    rule = objects.rule("apps", ["deployments"], "patch")
    await landscape.grant(stage.seed.api, stage.garden, "patch", [rule])
    await stage.until_down(within=20)


def errors(logs: list[objects.Json]) -> list[objects.Json]:
    return [line for line in logs if line.get("level") in {"error", "critical"}]
