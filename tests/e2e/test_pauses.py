"""What people do to Pauses with kubectl alone: honoured within a second, shown everywhere, and their mistakes told."""

import asyncio
import time
from collections.abc import Callable

from app.core.model.instants import parse_rfc3339
from tests.e2e import apirights, objects
from tests.e2e.canaries import assert_nothing_secret_was_told
from tests.e2e.objects import Json
from tests.e2e.parallel import scenario
from tests.e2e.people import Kubectl, dwd, events, found, watched
from tests.e2e.processes import eventually
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage

HONOURED = 1.0  # seconds from the write
FIRST_WRITE = 1.5  # seconds from the end of a pause: honoured, confirmed, written
DAY = 86_400


async def in_its_garden(stage: Stage) -> tuple[Program, Kubectl]:
    await apirights.furnish(stage)
    await stage.shoot.build(nodes=5, grace=16, duration=16)
    return await stage.healthy(quick()), Kubectl(stage, stage.shoot.namespace)


async def until_shown(stage: Stage, prober: Program, holds: Callable[[Json], bool]) -> float:
    """When the API first shows the shoot so."""

    async def is_so() -> float:
        return time.time() if holds(await prober.shoot(stage.shoot.namespace)) else 0.0

    return await eventually(is_so, "the API shows it", within=10, every=0.02)


@scenario()
async def test_an_operator_with_kubectl_alone_pauses_a_shoot_sees_it_and_ends_it(
    stage: Stage,
) -> None:
    """An outage meanwhile is judged, and acted on as soon as the pause is over."""
    prober, kubectl = await in_its_garden(stage)
    async with watched(stage, "pauses") as seen:
        began = time.time()
        making = asyncio.create_task(kubectl.create(objects.pause("etcd", reason="load test")))
        shown = await until_shown(stage, prober, lambda shoot: shoot["pause"] is not None)
        await making
        took = shown - seen[0][0]
        called = f"{shown - began:.3f} s after kubectl was called"
        stage.figure(f"a pause is in force {took:.3f} s after it can be seen, {called}")
        assert took <= HONOURED
        end = await eventually(lambda: end_in_status(stage), "its end is shown", within=5)
    await the_pause_is_shown(stage, prober, kubectl, end)
    stage.shoot.kubelets.path.cut()
    await an_outage_is_judged_and_not_acted_on(stage, prober)
    async with watched(stage, "pauses") as seen:
        deleting = asyncio.create_task(kubectl("delete", "pause", "etcd", "--wait=false"))
        shown = await until_shown(stage, prober, lambda shoot: shoot["pause"] is None)
        await deleting
        stage.figure(f"the Pause deleted: no pause after {shown - seen[-1][0]:.3f} s")
        assert shown - seen[-1][0] <= HONOURED
        await stage.until_down(within=15)
    first = stage.writes()[0].at - seen[-1][0]
    stage.figure(f"first write {first:.2f} s after the pause was deleted")
    assert 0 < first <= FIRST_WRITE
    await eventually(lambda: events(stage, "Pause", "PauseEnded"), "an Event", within=10)
    assert "paused" not in await row_of_dwd(stage, prober)
    await assert_nothing_secret_was_told(stage)


async def end_in_status(stage: Stage) -> str:
    pause = await found(stage, "pauses", "etcd") or {}
    return str((pause.get("status") or {}).get("until") or "")


async def the_pause_is_shown(stage: Stage, prober: Program, kubectl: Kubectl, end: str) -> None:
    pause = await found(stage, "pauses", "etcd") or {}
    created = parse_rfc3339(pause["metadata"]["creationTimestamp"]) or 0.0
    assert parse_rfc3339(end) == created + DAY
    (row,) = await kubectl.rows("pauses")
    assert row[:-1] == ["etcd", "all", end, "load", "test"]  # nobody named an author
    shown = (await prober.shoot(stage.shoot.namespace))["pause"]
    assert (shown["name"], shown["author"], shown["verified"]) == ("etcd", "unknown", False)
    assert (shown["scope"], shown["reason"], shown["until"]) == ("all", "load test", end)
    listed = await prober.get(f"/api/v1/shoots/{stage.shoot.namespace}/pauses")
    assert [each["name"] for each in listed["items"]] == ["etcd"]
    assert "paused all, 23h left, unknown: load test" in await row_of_dwd(stage, prober)
    assert await prober.metric("dwd_overrides_active", kind="pause"), "others may have theirs"
    await eventually(lambda: events(stage, "Pause", "PauseStarted"), "an Event", within=10)
    assert "PauseStarted" in await kubectl("describe", "pause", "etcd")


async def row_of_dwd(stage: Stage, prober: Program) -> str:
    """What `dwd shoots` says of the stage's shoot."""
    lines = (await dwd(prober, "shoots")).splitlines()
    (found,) = [line for line in lines if line.startswith(stage.shoot.namespace)]
    return found


async def an_outage_is_judged_and_not_acted_on(stage: Stage, prober: Program) -> None:
    async def is_judged() -> Json | None:
        shoot = await prober.shoot(stage.shoot.namespace)
        return shoot if shoot["probe"]["wouldBe"] == "ScaleDown" else None

    await eventually(is_judged, "the leases alone ask for a scale-down", within=45)
    await asyncio.sleep(6)
    stage.assert_nothing_was_scaled()
    shoot = await prober.shoot(stage.shoot.namespace)
    assert shoot["probe"]["verdict"] == "Hold"
    assert "paused" in shoot["message"]
