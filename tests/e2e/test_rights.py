"""The rights that Gardener grants suffice; one that is missing is named, and used once it is there."""

from tests.e2e import landscape, objects
from tests.e2e.landscape import CANNOT_PATCH
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage

NOT_GRANTED = ("pauses", "scalerequests")


@scenario()
async def test_the_rights_that_gardener_grants_suffice_and_a_missing_one_is_named_until_it_is_there(
    stage: Stage,
) -> None:
    stage.garden = "garden"
    await stage.furnish(CANNOT_PATCH, own=objects.garden_rules())
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    await the_right_to_patch_is_named(prober)
    stage.shoot.kubelets.path.cut()
    await stage.until_state(prober, "Failing", within=40)
    assert await stage.shoot.replicas() == {KCM: 1, MCM: 1, CA: 1}
    refused = stage.writes()
    assert {each.code for each in refused} == {403}
    patching = objects.rule("apps", ["deployments", "deployments/scale"], "update patch")
    await landscape.grant(stage.seed.api, stage.garden, "patch", [patching])
    await stage.until_down(within=20)
    assert await prober.terminate() == 0
    await prober.start()  # it asks about its rights once an hour
    stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    await nothing_else_is_missing(stage, prober)


async def the_right_to_patch_is_named(prober: Program) -> None:
    """By a metric, in the verbose answer of /readyz, and as an error in the log."""

    async def reported() -> bool:
        found = await prober.metric("dwd_missing_permissions", verb="patch", resource="deployments")
        return bool(found)

    await eventually(reported, "the missing right is a metric", within=10)
    assert "patch deployments" in await prober.readiness()
    errors = [each for each in prober.logs() if each.get("level") in {"error", "critical"}]
    assert any("patch" in str(line) for line in errors)


async def nothing_else_is_missing(stage: Stage, prober: Program) -> None:
    for needed in ("clusters", "secrets", "machines", "deployments", "leases"):
        assert not await prober.metric("dwd_missing_permissions", resource=needed), needed
    for feature in NOT_GRANTED:
        assert await prober.metric("dwd_feature_off", feature=feature) == 1, "and that is told"
        assert await prober.metric("dwd_missing_permissions", resource=feature), feature
        assert feature in await prober.readiness()
    refused = [each for each in stage.requests_to_seed() if each.code == 403]
    patches = [each for each in refused if each.resource == "deployments"]
    assert {each.verb for each in patches} == {"patch"}, "while that was not allowed"
    others = {each.resource for each in refused} - {"deployments"}
    assert others <= {"events", *NOT_GRANTED}, refused
    assert not [each for each in stage.requests_to_shoot() if each.code in {401, 403}]
