"""What people decide, through the API of a whole process: it is in force at once, for both loops."""

import asyncio
import json
from typing import Any

import pytest

from app.core.model.probing import VerdictReason
from app.simulation.store import ObjectKey
from tests.core.kube.server import until
from tests.prober.people import newer_version
from tests.service.lives import BOTH, PROBER, call, living
from tests.support.harness import SHOOT

pytestmark = pytest.mark.looptime(False)

PAUSE = f"/api/v1/shoots/{SHOOT}/pause"


async def ask(found, method, path, body=None):
    """Status and what came back, as JSON where it is."""
    code, payload = await call(found.service.address("API"), method, path, body)
    return code, json.loads(payload) if payload else None


async def test_a_pause_of_all_is_in_the_history_of_each_shoot_in_its_place():
    async with living(loops=BOTH) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        told: list[str] = []
        found.core.notice_bus.subscribe(lambda notice: told.append(notice.message))
        for reason, path in (("one", PAUSE), ("two", "/api/v1/pause"), ("three", PAUSE)):
            body = {"reason": f"reason {reason}", "scope": "scaleDown"}
            assert (await ask(found, "PUT", path, body))[0] == 200
            await until(lambda reason=reason: any(f"reason {reason}" in each for each in told))
        items = (await ask(found, "GET", f"/api/v1/shoots/{SHOOT}/history"))[1]["items"]
        decided = [each["message"] for each in items if each["type"] == "Override"]
        assert [each.rpartition(" ")[2] for each in decided] == ["three", "two", "one"]


@pytest.mark.parametrize("fault", ["overrides_forbidden", "crds_removed"])
async def test_a_process_whose_overrides_are_forbidden_or_not_served_says_that_they_are_off(fault):
    def troubled(faults):
        getattr(faults, fault)()

    async with living(loops=PROBER, troubled=troubled) as found:
        runner = found.service.prober.prober.registry.runner
        await until(lambda: runner(SHOOT), within=10)
        await until(
            lambda: runner(SHOOT).status().reason == VerdictReason.LEASES_RENEWED, within=10
        )
        status = (await ask(found, "GET", "/api/v1/status"))[1]
        assert {"pauses", "scalerequests"} <= {each["feature"] for each in status["featuresOff"]}
        code, problem = await ask(found, "PUT", PAUSE, {"reason": "hands off"})
        assert (code, problem["feature"]) == (503, "pauses")
        body = {"reason": "x", "direction": "down"}
        code, problem = await ask(found, "POST", f"/api/v1/shoots/{SHOOT}/scale", body)
        assert (code, problem["feature"]) == (503, "scalerequests")


async def test_readiness_waits_for_the_overrides():
    away: list[Any] = []

    def troubled(faults):
        away.append(faults.overrides_away())

    async with living(loops=PROBER, troubled=troubled) as found:
        code, text = await found.get("health", "/readyz?verbose")
        assert code == 503
        assert "[-]overrides-synced failed: not listed yet" in text
        away[0].lift()
        await found.ready()


async def test_what_kubectl_makes_is_shown_by_the_api_beside_its_own():
    async with living(loops=BOTH) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        await ask(found, "PUT", PAUSE, {"reason": "by the api", "scope": "scaleDown"})
        found.world.people.create("Pause", SHOOT, "mine", reason="by kubectl", author="carol")
        pauses = found.service.weeder.weeder.registry._env.pauses
        await until(lambda: pauses.paused(SHOOT))
        items = (await ask(found, "GET", f"{PAUSE}s"))[1]["items"]
        assert {each["name"]: each["verified"] for each in items} == {"api": True, "mine": False}
        shown = (await ask(found, "GET", f"/api/v1/shoots/{SHOOT}"))[1]["pause"]
        assert (shown["author"], shown["reason"]) == ("carol", "by kubectl")
        assert (await ask(found, "DELETE", f"{PAUSE}s/mine"))[0] == 204
        assert not found.world.store.find(ObjectKey("Pause", SHOOT, "mine"))


@pytest.mark.parametrize("dry_run", [False, True])
async def test_in_a_dry_run_not_even_the_status_of_a_pause_by_kubectl_is_written(dry_run):
    async with living(loops=PROBER, flags={"dry_run": dry_run}) as found:
        found.world.people.create("Pause", SHOOT, "mine", reason="by kubectl", author="carol")
        overrides = found.service.prober.prober.registry._env.overrides
        await until(lambda: overrides.effective(SHOOT).pause)
        await asyncio.sleep(2)
        pause = found.world.store.get(ObjectKey("Pause", SHOOT, "mine"))
        assert ("status" in pause) is not dry_run


async def test_objects_that_cannot_be_decoded_are_named_by_readyz_and_no_reason_to_be_unready():
    async with living(loops=PROBER) as found:
        newer_version(found.world)
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        for number in range(7):
            fields = {"reason": "r", "scope": "weekends"}
            found.world.people.create("Pause", f"shoot--{number}", "newer", **fields)
        overrides = found.service.prober.prober.registry._env.overrides
        await until(lambda: len(overrides.undecodable()) == 7)
        code, text = await found.get("health", "/readyz?verbose")
        assert code == 200
        (line,) = [each for each in text.splitlines() if "overrides warning" in each]
        assert line.startswith(
            "[!]overrides warning: 7 objects cannot be decoded: shoot--0/newer: "
        )
        for number in range(7):
            found.world.people.delete("Pause", f"shoot--{number}", "newer")
        await until(lambda: not overrides.undecodable())
        assert "[+]overrides ok" in (await found.get("health", "/readyz?verbose"))[1]
