"""What is scaled, and what is left alone."""

import asyncio

from app.core.model import workloads as ann
from tests.e2e import landscape, objects
from tests.e2e.api import CRDS
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, config, dependent, gardener_dependents, quick
from tests.e2e.stage import Stage


@scenario()
async def test_a_resource_with_ignore_scaling_is_left_alone(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    await stage.shoot.annotate(MCM, {ann.IGNORE_SCALING: "true"})
    await stage.healthy(quick())
    stage.shoot.kubelets.path.cut()
    await stage.until_down(KCM, CA, within=40)
    await asyncio.sleep(5)
    left = (await stage.shoot.state())[MCM]
    assert (left.replicas, left.protected, left.saved) == (1, False, None)
    stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    assert MCM not in {each.name for each in stage.writes()}


@scenario()
async def test_an_optional_resource_may_be_missing(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16, replicas={KCM: 1, MCM: 1})
    prober = await stage.healthy(quick())
    await stage.outage(within=40)
    await stage.until_state(prober, "Protected", within=10)
    stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    await stage.until_state(prober, "Healthy", within=20)
    assert not await prober.metric("dwd_scale_operations_total", result="failed")


@scenario()
async def test_a_missing_resource_is_reported_and_the_rest_protected(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16, replicas={KCM: 2, CA: 1})
    prober = await stage.healthy(quick())
    await stage.outage(within=40)
    await eventually(lambda: has_failed(prober), "the failure is counted", within=10)
    stage.shoot.kubelets.path.restore()
    await stage.until_up(KCM, within=60)
    await asyncio.sleep(10)
    assert (await stage.shoot.replicas())[CA] == 0, "its level comes after the one that fails"
    await stage.shoot.add_deployment(MCM, 1)
    back = await stage.until_up(KCM, MCM, CA, within=60)
    assert (back[KCM].replicas, back[CA].replicas) == (2, 1)


async def has_failed(prober: Program, **labels: str) -> bool:
    return bool(await prober.metric("dwd_scale_operations_total", result="failed", **labels))


@scenario()
async def test_a_kind_that_the_seed_does_not_serve_fails_until_it_does(stage: Stage) -> None:
    gadget = dependent("extra", kind="Gadget", api_version="later.example.org/v1", down=0, up=0)
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(config([gadget, *gardener_dependents("2s")], interval="5s"))
    found = (
        "Gadget/extra fails in each scaling run: the seed serves no Gadget of later.example.org/v1"
    )
    assert f"[!]dependents-available warning: {found}" in await prober.readiness()
    assert await prober.metric("dwd_dependents_unavailable", resource="Gadget/extra") == 1
    await stage.outage(within=40)
    await eventually(
        lambda: has_failed(prober, direction="down"), "its failure is counted", within=10
    )
    stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    await stage.until_state(prober, "Healthy", within=20)
    subresources = {"status": {}, "scale": objects.SCALE}
    await stage.seed.api.create(CRDS, objects.crd(*GADGET, subresources))
    rules = [
        objects.rule(GADGET[0], ["gadgets"], "get list watch patch"),
        objects.rule(GADGET[0], ["gadgets/scale"], "get patch"),
    ]
    await landscape.grant(stage.seed.api, stage.garden, "gadgets", rules)
    await eventually(lambda: is_available(prober), "it is asked for again", within=70)


GADGET = ("later.example.org", "v1", "Gadget")


async def is_available(prober: Program) -> bool:
    return "[+]dependents-available ok" in await prober.readiness()


@scenario()
async def test_a_kind_that_may_not_be_listed_fails_until_it_may_be(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    await stage.shoot.add_scaler("extra", 2)
    extra = dependent("extra", kind="Scaler", api_version="example.org/v1", down=0, up=0)
    prober = await stage.healthy(config([extra, *gardener_dependents("2s")], interval="5s"))
    readiness = await prober.readiness()
    assert (
        "Scaler/extra fails in each scaling run: list Scaler named extra: 403 (Forbidden)"
        in readiness
    )
    assert await prober.metric("dwd_missing_permissions", verb="list", resource="scalers") == 1
    await stage.outage(within=40)
    assert await scaler_has(stage, 2)
    await eventually(
        lambda: has_failed(prober, resource="Scaler/extra"), "its failure is counted", within=10
    )
    await landscape.grant(stage.seed.api, stage.garden, "scalers", objects.scaler_rules())
    await eventually(lambda: scaler_has(stage, 0), "the scaler is at 0", within=70)
    stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    await eventually(lambda: scaler_has(stage, 2), "the scaler is back", within=30)
    await stage.until_state(prober, "Healthy", within=20)


@scenario()
async def test_another_kind_is_scaled_by_its_scale_subresource(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    await stage.shoot.add_scaler("extra", 2)
    extra = dependent("extra", kind="Scaler", api_version="example.org/v1", down=0, up=2)
    prober = await stage.prepare(config([*gardener_dependents("2s"), extra], interval="5s"))
    await landscape.grant(stage.seed.api, stage.garden, "scalers", objects.scaler_rules())
    await prober.start()
    await stage.until_state(prober, "Healthy")
    await stage.outage(within=40)
    await eventually(lambda: scaler_has(stage, 0), "the scaler is at 0", within=10)
    found = (await stage.shoot.scaler("extra"))["metadata"]["annotations"]
    assert (found[ann.REPLICAS], found[ann.MELTDOWN]) == ("2", "")
    restored = stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    await eventually(lambda: scaler_has(stage, 2), "the scaler is back", within=30)
    await eventually(lambda: scaler_is_clean(stage), "its keys are removed", within=10)
    writes = [each for each in stage.writes() if each.name == "extra"]
    down = [each.resource for each in writes if each.at < restored]
    up = [each.resource for each in writes if each.at >= restored]
    assert down == ["scalers", "scalers/scale"], "the saved count is there before the 0"
    assert up == ["scalers/scale", "scalers"], "and until after it"


async def scaler_has(stage: Stage, replicas: int) -> bool:
    return bool((await stage.shoot.scaler("extra"))["spec"]["replicas"] == replicas)


async def scaler_is_clean(stage: Stage) -> bool:
    found = (await stage.shoot.scaler("extra"))["metadata"].get("annotations") or {}
    return not ann.OURS & found.keys()
