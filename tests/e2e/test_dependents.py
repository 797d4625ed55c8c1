"""Dependents of kinds that the seed does not serve, or that may not be listed."""

from app.core.model import workloads as ann
from tests.e2e import landscape, objects
from tests.e2e.api import CRDS
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, config, dependent, gardener_dependents
from tests.e2e.stage import Stage

GADGET = ("later.example.org", "v1", "Gadget")


@scenario()
async def test_a_kind_that_the_seed_does_not_serve_or_let_be_listed_fails_until_it_does(
    stage: Stage,
) -> None:
    """In mid-outage the one that may be listed is scaled, by its subresource `scale` alone."""
    await stage.shoot.build(grace=16, duration=16)
    await stage.shoot.add_scaler("extra", 2)
    gadget = dependent("extra", kind="Gadget", api_version="later.example.org/v1", down=0, up=0)
    scaler = dependent("extra", kind="Scaler", api_version="example.org/v1", down=0, up=0)
    settings = config([gadget, scaler, *gardener_dependents("2s")], interval="5s")
    prober = await stage.healthy(settings)
    await both_are_warned_of(prober)
    await stage.outage(within=40)
    assert await scaler_has(stage, 2)
    await eventually(lambda: both_have_failed(prober), "their failures are counted", within=10)
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
    await gadgets_are_served(stage)
    await eventually(lambda: all_are_available(prober), "it is asked for again", within=70)


async def both_are_warned_of(prober: Program) -> None:
    readiness = await prober.readiness()
    assert "[!]dependents-available warning: " in readiness
    for found in (
        "Gadget/extra fails in each scaling run: the seed serves no Gadget of later.example.org/v1",
        "Scaler/extra fails in each scaling run: list Scaler named extra: 403 (Forbidden)",
    ):
        assert found in readiness
    for resource in ("Gadget/extra", "Scaler/extra"):
        assert await prober.metric("dwd_dependents_unavailable", resource=resource) == 1
    assert await prober.metric("dwd_missing_permissions", verb="list", resource="scalers") == 1


async def gadgets_are_served(stage: Stage) -> None:
    api, subresources = stage.seed.api, {"status": {}, "scale": objects.SCALE}
    await api.create(CRDS, objects.crd(*GADGET, subresources))
    rules = [
        objects.rule(GADGET[0], ["gadgets"], "get list watch patch"),
        objects.rule(GADGET[0], ["gadgets/scale"], "get patch"),
    ]
    await landscape.grant(api, stage.garden, "gadgets", rules)


async def both_have_failed(prober: Program) -> bool:
    labels = [{"result": "failed", "resource": f"{each}/extra"} for each in ("Gadget", "Scaler")]
    return all([await prober.metric("dwd_scale_operations_total", **each) for each in labels])


async def all_are_available(prober: Program) -> bool:
    return "[+]dependents-available ok" in await prober.readiness()


async def scaler_has(stage: Stage, replicas: int) -> bool:
    return bool((await stage.shoot.scaler("extra"))["spec"]["replicas"] == replicas)


async def scaler_is_clean(stage: Stage) -> bool:
    found = (await stage.shoot.scaler("extra"))["metadata"].get("annotations") or {}
    return not ann.OURS & found.keys()
