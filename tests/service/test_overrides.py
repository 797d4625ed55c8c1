"""What people decide, through the API of a whole process: it is in force at once, for both loops."""

import asyncio
import json
from typing import Any

import pytest

from app.api.dependencies import PageKey, PageQuery, cut
from app.core.model.overrides import ALL_SHOOTS
from app.core.model.probing import NoticeKind, VerdictReason
from app.core.reporting.history import History
from app.core.reporting.notices import OverrideNotice
from app.simulation.store import ObjectKey
from tests.core.kube.server import until
from tests.prober.people import newer_version
from tests.service.lives import BOTH, PROBER, call, living
from tests.support.harness import SHOOT
from tests.support.notices import OF_KIND

pytestmark = pytest.mark.looptime(False)

PAUSE = f"/api/v1/shoots/{SHOOT}/pause"


async def ask(found, method, path, body=None):
    """Status and what came back, as JSON where it is."""
    code, payload = await call(found.service.address("API"), method, path, body)
    return code, json.loads(payload) if payload else None


async def test_a_pause_through_the_api_is_in_force_when_the_call_returns():
    async with living(loops=BOTH) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        code, _ = await ask(found, "PUT", PAUSE, {"reason": "hands off"})
        assert code == 200
        status = found.service.prober.prober.registry.status(SHOOT)
        assert status.effective.covering.reason == "hands off"
        shoot = (await ask(found, "GET", f"/api/v1/shoots/{SHOOT}"))[1]
        assert shoot["pause"]["author"] == "anonymous"
        paused = {each["type"]: each["status"] for each in shoot["conditions"]}["Paused"]
        assert paused == "True"
        assert (await ask(found, "DELETE", PAUSE))[0] == 204
        assert (await ask(found, "GET", f"/api/v1/shoots/{SHOOT}"))[1]["pause"] is None


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


async def test_what_was_decided_about_all_stands_between_what_happened_to_the_shoot():
    history = History()
    for number, namespace in enumerate((SHOOT, ALL_SHOOTS, "shoot--other", SHOOT)):
        history.note(OverrideNotice(namespace, 0.0, "OverrideSet", str(number)))
    found = history.about(SHOOT)
    assert [each.message for each in found] == ["3", "1", "0"]


def tell(history, *told):
    """Each at its second: a look at the shoot, or what was decided about all."""
    for at, kind in told:
        namespace = SHOOT if kind is NoticeKind.LOOK else ALL_SHOOTS
        history.note(OF_KIND[kind](namespace, at, str(kind), "the same"))


async def test_like_probes_before_and_after_what_was_decided_about_all_stand_newest_first():
    history = History()
    probes = [(float(at), NoticeKind.LOOK) for at in range(10)]
    tell(
        history,
        *probes[:4],
        (3.5, NoticeKind.OVERRIDE),
        *probes[4:8],
        (7.5, NoticeKind.OVERRIDE),
        *probes[8:],
    )
    found = history.about(SHOOT)
    assert [(each.at, each.times) for each in found] == [
        (9.0, 2),
        (7.5, 1),
        (7.0, 4),
        (3.5, 1),
        (3.0, 4),
    ]


async def test_pages_of_a_history_that_goes_on_have_each_entry_once():
    history = History()
    token, seen = None, []
    tell(
        history,
        *((float(at), NoticeKind.OVERRIDE if at % 3 == 2 else NoticeKind.LOOK) for at in range(20)),
    )
    before = {each.number for each in history.about(SHOOT)}
    for page in range(20, 60):
        found = cut(history.about(SHOOT), _place, "history", PageQuery(limit=2, token=token))
        seen += [each.number for each in found.items]
        token = found.metadata.continue_
        tell(
            history,
            (page, NoticeKind.LOOK),
            (page + 0.5, NoticeKind.OVERRIDE if page % 4 else NoticeKind.LOOK),
        )
        if token is None:
            break
    assert sorted(seen) == sorted(before)


def _place(entry):
    """As the router of the history has it."""
    return PageKey(-float(entry.number), "")


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


async def test_a_manual_run_through_the_api_scales_and_is_an_operation():
    async with living(loops=PROBER) as found:
        await until(lambda: found.service.prober.prober.registry.runner(SHOOT))
        runner = found.service.prober.prober.registry.runner(SHOOT)
        await until(lambda: runner.status().reason == VerdictReason.LEASES_RENEWED)
        path, order = f"/api/v1/shoots/{SHOOT}/scale", {"direction": "down", "reason": "a test"}
        code, plan = await ask(found, "POST", path, order | {"dryRun": True})
        assert code == 200, plan
        code, operation = await ask(found, "POST", path, order)
        assert code == 202, operation
        name = f"/api/v1/operations/{operation['id']}"

        async def phase():
            return (await ask(found, "GET", name))[1]["phase"]

        for _ in range(200):
            if await phase() == "Done":
                break
            await asyncio.sleep(0.02)
        assert await phase() == "Done"
        assert found.world.replicas(SHOOT, "kube-controller-manager") == 0
        audit = (await ask(found, "GET", "/api/v1/audit"))[1]["items"]
        assert [(each["action"], each["status"]) for each in audit] == [
            ("scale", 202),
            ("plan", 200),
        ]


async def test_a_dry_run_refuses_every_write_and_changes_nothing():
    async with living(loops=PROBER, dry_run=True) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        for method, path, body in (
            ("PUT", PAUSE, {"reason": "x"}),
            ("DELETE", PAUSE, None),
            ("PUT", "/api/v1/pause", {"reason": "x"}),
            ("DELETE", f"/api/v1/shoots/{SHOOT}/hold", None),
            ("POST", f"/api/v1/shoots/{SHOOT}/scale", {"direction": "up", "reason": "x"}),
        ):
            code, problem = await ask(found, method, path, body)
            assert code == 503, (method, path, problem)
        assert not found.world.store.list("Pause")
        assert not found.world.store.list("ScaleRequest")


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
