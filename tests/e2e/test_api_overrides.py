"""What people write into the ConfigMap with kubectl: honoured within a second, completed, and their mistakes told."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.overrides import OVERRIDES
from tests.e2e import apirights
from tests.e2e.canaries import assert_nothing_secret_was_told
from tests.e2e.kubectl import Kubectl
from tests.e2e.objects import Json
from tests.e2e.overrides import entry
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage

HONOURED = 1.0  # seconds from the write
FIRST_WRITE = 1.5  # seconds from the end of a pause: honoured, confirmed, written
LOAD_TEST = {"pause": {"reason": "load test"}}


async def in_its_garden(stage: Stage) -> tuple[Program, Kubectl]:
    await apirights.furnish(stage)
    await stage.shoot.build(nodes=5, grace=16, duration=16)
    return await stage.healthy(quick()), Kubectl(stage, stage.garden)


@asynccontextmanager
async def written(stage: Stage) -> AsyncIterator[list[float]]:
    """When somebody else who watches the ConfigMap saw it change, each time."""
    seen: list[float] = []
    path = f"/api/v1/namespaces/{stage.garden}/configmaps?fieldSelector=metadata.name={OVERRIDES}"
    watching = asyncio.create_task(
        stage.seed.api.watch(path, lambda _, __: seen.append(time.time()))
    )
    await asyncio.sleep(0.5)  # the watch is open
    seen.clear()
    try:
        yield seen
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def until_shown(stage: Stage, prober: Program, holds: Callable[[Json], bool]) -> float:
    """When the API first shows the shoot so."""

    async def is_so() -> float:
        return time.time() if holds(await prober.shoot(stage.shoot.namespace)) else 0.0

    return await eventually(is_so, "the API shows it", within=10, every=0.02)


async def events(stage: Stage, reason: str) -> list[Json]:
    found = await stage.seed.api.items(f"/api/v1/namespaces/{stage.garden}/events")
    return [each for each in found if each["reason"] == reason]


@scenario()
async def test_a_pause_by_kubectl_is_in_force_within_a_second_and_completed_by_the_leader(
    stage: Stage,
) -> None:
    prober, kubectl = await in_its_garden(stage)
    key = stage.shoot.namespace
    async with written(stage) as seen:
        began = time.time()
        making = asyncio.create_task(kubectl.create_overrides(key, LOAD_TEST))
        shown = await until_shown(stage, prober, lambda shoot: shoot["pause"] is not None)
        await making
        took = shown - seen[0]
        called = f"{shown - began:.3f} s after kubectl was called"
        stage.figure(f"a pause is in force {took:.3f} s after it can be seen, {called}")
        assert took <= HONOURED
        completed = await eventually(lambda: is_complete(stage), "it is completed", within=3)
        stage.figure(f"and completed {time.time() - seen[0]:.3f} s after it can be seen")
    assert completed["author"] == "unknown"
    assert completed["scope"] == "all"
    assert completed["reason"] == "load test"
    created = parse_rfc3339(completed["createdAt"]) or 0.0
    assert abs(created - shown) < 3
    assert parse_rfc3339(completed["until"]) == created + 24 * 3600
    pause = (await prober.shoot(key))["pause"]
    assert (pause["author"], pause["until"]) == ("unknown", completed["until"])
    assert await prober.metric("dwd_overrides_active", kind="pause") == 1
    (told,) = await eventually(lambda: events(stage, "OverrideSet"), "an Event", within=10)
    assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == (
        "ConfigMap",
        OVERRIDES,
    )
    assert key in told["message"]
    await assert_nothing_secret_was_told(stage)


async def is_complete(stage: Stage) -> Json:
    found = await entry(stage, "pause")
    return found if "until" in found else {}


@scenario()
async def test_a_mistake_with_kubectl_is_told_and_pauses_until_it_is_mended_or_the_map_is_gone(
    stage: Stage,
) -> None:
    prober, kubectl = await in_its_garden(stage)
    key = stage.shoot.namespace
    await kubectl.create_overrides(key, {"pause": {"reason": "x", "scope": "everything"}})
    shown = await until_shown(stage, prober, lambda shoot: shoot["pause"] is not None)
    shoot = await prober.shoot(key)
    (paused,) = [each for each in shoot["conditions"] if each["type"] == "Paused"]
    assert (paused["status"], paused["reason"]) == ("True", "Unreadable")
    assert "scope" in paused["message"]
    until = parse_rfc3339(shoot["pause"]["until"]) or 0.0
    assert abs(until - shown - 3600) < 5, "an hour, as nothing was known before"
    assert await prober.metric("dwd_overrides_active", kind="invalid") == 1
    (told,) = await eventually(lambda: events(stage, "OverrideSet"), "an Event", within=10)
    assert "scope" in told["message"]
    await kubectl.edit(key, {"pause": {"reason": "mended", "scope": "scaleDown"}})
    await until_shown(stage, prober, lambda shoot: shoot["pause"]["reason"] == "mended")
    assert await prober.metric("dwd_overrides_active", kind="invalid") == 0
    async with written(stage) as seen:
        deleting = asyncio.create_task(kubectl("delete", "configmap", OVERRIDES))
        shown = await until_shown(stage, prober, lambda shoot: shoot["pause"] is None)
        await deleting
        stage.figure(f"the ConfigMap deleted: no pause after {shown - seen[0]:.3f} s")
        assert shown - seen[0] <= HONOURED
    assert any("was deleted" in str(line.get("message")) for line in prober.logs())
    assert await stage.seed.api.items(f"/api/v1/namespaces/{stage.garden}/configmaps") == []
    await assert_nothing_secret_was_told(stage)


async def until_wanted(stage: Stage, prober: Program, verdict: str) -> None:
    """Waits until the leases alone ask for this verdict."""

    async def is_so() -> bool:
        return bool((await prober.shoot(stage.shoot.namespace))["probe"]["wouldBe"] == verdict)

    await eventually(is_so, f"the verdict is {verdict}", within=45)


@scenario()
async def test_an_outage_under_a_pause_by_kubectl_is_not_acted_on_until_the_pause_is_removed(
    stage: Stage,
) -> None:
    prober, kubectl = await in_its_garden(stage)
    key = stage.shoot.namespace
    await kubectl.create_overrides(key, LOAD_TEST)
    await until_shown(stage, prober, lambda shoot: shoot["pause"] is not None)
    stage.shoot.kubelets.path.cut()
    await until_wanted(stage, prober, "ScaleDown")
    await asyncio.sleep(8)
    stage.assert_nothing_was_scaled()
    shoot = await prober.shoot(key)
    probe = shoot["probe"]
    assert (probe["verdict"], probe["wouldBe"]) == ("Hold", "ScaleDown"), "it goes on being judged"
    assert "paused" in shoot["message"]
    async with written(stage) as seen:
        await kubectl.edit(key, None)
        await stage.until_down(within=15)
    first = stage.writes()[0].at - seen[0]
    stage.figure(f"first write {first:.2f} s after the pause was removed")
    assert 0 < first <= FIRST_WRITE
    await assert_nothing_secret_was_told(stage)


@scenario()
async def test_a_pause_of_scaling_down_lets_up_and_its_end_by_the_clock_acts_at_once(
    stage: Stage,
) -> None:
    prober, kubectl = await in_its_garden(stage)
    await stage.outage(within=40)
    await stage.until_state(prober, "Protected", within=10)
    key, until = stage.shoot.namespace, float(int(time.time())) + 75
    only_down = {"pause": {"reason": "x", "scope": "scaleDown", "until": rfc3339(until)}}
    await kubectl.create_overrides(key, only_down)
    await until_shown(stage, prober, lambda shoot: shoot["pause"] is not None)
    restored = stage.shoot.kubelets.path.restore()
    await stage.until_up(within=30)
    again = stage.shoot.kubelets.path.cut()
    await until_wanted(stage, prober, "ScaleDown")
    assert not stage.writes(again), "not while it lasts"
    assert time.time() < until, f"{time.time() - restored:.0f} s after the end of the outage"
    await stage.until_down(within=until - time.time() + 10)
    first = stage.writes(again)[0].at - until
    stage.figure(f"first write {first:.2f} s after the end of a pause by the clock")
    assert 0 <= first <= FIRST_WRITE
    await assert_nothing_secret_was_told(stage)
