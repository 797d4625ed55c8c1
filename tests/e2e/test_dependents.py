"""What is scaled, and what is left alone."""

from app.core.model import workloads as ann
from tests.e2e import landscape, objects
from tests.e2e.api import CRDS
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, config, dependent, gardener_dependents
from tests.e2e.stage import Stage


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
    """In mid-outage it is scaled then, by its subresource `scale` alone."""
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
    found = (await stage.shoot.scaler("extra"))["metadata"]["annotations"]
    assert (found[ann.REPLICAS], found[ann.MELTDOWN]) == ("2", "")
    restored = stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    await eventually(lambda: scaler_has(stage, 2), "the scaler is back", within=30)
    await eventually(lambda: scaler_is_clean(stage), "its keys are removed", within=10)
    await stage.until_state(prober, "Healthy", within=20)
    writes = [each for each in stage.writes() if each.name == "extra" and each.code == 200]
    down = [each.resource for each in writes if each.at < restored]
    up = [each.resource for each in writes if each.at >= restored]
    assert down == ["scalers", "scalers/scale"], "the saved count is there before the 0"
    assert up == ["scalers/scale", "scalers"], "and until after it"


async def scaler_has(stage: Stage, replicas: int) -> bool:
    return bool((await stage.shoot.scaler("extra"))["spec"]["replicas"] == replicas)


async def scaler_is_clean(stage: Stage) -> bool:
    found = (await stage.shoot.scaler("extra"))["metadata"].get("annotations") or {}
    return not ann.OURS & found.keys()
