"""What people decide, through the API of a whole process: it is in force at once, for both loops."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.overrides import MemoryStore

from app.api.parameters import PageKey, cut
from app.core.clock import Clock
from app.core.model.overrides import ALL_SHOOTS
from app.core.model.probing import VerdictReason
from app.core.reporting.history import History
from app.core.reporting.notices import Notice, NoticeKind
from app.service.selfview import ShootViews
from tests.core.kube.server import until
from tests.service.lives import BOTH, PROBER, WEEDER, living
from tests.support.harness import SHOOT

pytestmark = pytest.mark.looptime(False)

PAUSE = f"/api/v1/shoots/{SHOOT}/pause"


async def ask(found, method, path, body=None):
    """Status and what came back, as JSON where it is."""
    host, port = found.service.address("API")
    text = "" if body is None else json.dumps(body)
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection(host, port)
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(text)}"]
        writer.write(("\r\n".join(head) + "\r\n\r\n" + text).encode())
        answer, _, payload = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    return int(answer.split(" ")[1]), json.loads(payload) if payload else None


def store() -> MemoryStore:
    return MemoryStore(Clock.of_loop())


async def test_a_pause_through_the_api_is_in_force_when_the_call_returns():
    async with living(loops=BOTH, overrides=store()) as found:
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
    async with living(loops=BOTH, overrides=store()) as found:
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
        history.note(Notice(NoticeKind.OVERRIDE, namespace, 0.0, "OverrideSet", str(number)))
    registry: Any = None  # nothing of it is asked
    found = ShootViews(registry, history).history(SHOOT)
    assert [each.message for each in found] == ["3", "1", "0"]


def tell(history, *told):
    """Each at its second: a look at the shoot, or what was decided about all."""
    for at, kind in told:
        namespace = SHOOT if kind is NoticeKind.LOOK else ALL_SHOOTS
        history.note(Notice(kind, namespace, at, str(kind), "the same"))


async def test_like_probes_before_and_after_what_was_decided_about_all_stand_newest_first():
    history = History()
    registry: Any = None  # nothing of it is asked
    probes = [(float(at), NoticeKind.LOOK) for at in range(10)]
    tell(
        history,
        *probes[:4],
        (3.5, NoticeKind.OVERRIDE),
        *probes[4:8],
        (7.5, NoticeKind.OVERRIDE),
        *probes[8:],
    )
    found = ShootViews(registry, history).history(SHOOT)
    assert [(each.at, each.times) for each in found] == [
        (9.0, 2),
        (7.5, 1),
        (7.0, 4),
        (3.5, 1),
        (3.0, 4),
    ]


async def test_pages_of_a_history_that_goes_on_have_each_entry_once():
    history = History()
    registry: Any = None
    shoots, token, seen = ShootViews(registry, history), None, []
    tell(
        history,
        *((float(at), NoticeKind.OVERRIDE if at % 3 == 2 else NoticeKind.LOOK) for at in range(20)),
    )
    before = {each.number for each in shoots.history(SHOOT)}
    for page in range(20, 60):
        found = cut(shoots.history(SHOOT), _place, "history", 2, token)
        seen += [each.number for each in found.items]
        token = found.token
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


async def test_the_weeder_heeds_the_same_pauses():
    async with living(loops=BOTH, overrides=store()) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        await ask(found, "PUT", PAUSE, {"reason": "hands off"})
        pauses = found.service.weeder.weeder.registry._env.pauses
        assert "hands off" in pauses.paused(SHOOT)
        assert pauses.paused("shoot--other") is None


async def test_a_weeder_alone_takes_pauses_itself_of_scope_all_only_with_force():
    async with living(loops=WEEDER, overrides=store()) as found:
        await until(lambda: found.service.weeder.weeder.controller.namespaces() is not None)
        body = {"reason": "hands off"}
        assert (await ask(found, "PUT", PAUSE, body))[0] == 409
        assert (await ask(found, "PUT", PAUSE, body | {"force": True}))[0] == 200
        assert (await ask(found, "PUT", PAUSE, body | {"scope": "scaleDown"}))[0] == 200


async def test_a_process_without_the_right_to_read_overrides_says_that_they_are_off():
    refused = store()
    refused.synced = False
    refused.forbid()
    async with living(loops=PROBER, overrides=refused) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        status = (await ask(found, "GET", "/api/v1/status"))[1]
        assert "overrides" in [each["feature"] for each in status["featuresOff"]]
        code, problem = await ask(found, "PUT", PAUSE, {"reason": "hands off"})
        assert (code, problem["feature"]) == (503, "overrides")
        runner = found.service.prober.prober.registry.runner(SHOOT)
        await until(lambda: runner.status().reason == VerdictReason.LEASES_RENEWED)


async def test_readiness_waits_for_the_overrides_and_shows_what_they_suffer_from():
    late = store()
    late.synced = False
    async with living(loops=PROBER, overrides=late) as found:
        code, text = await found.get("health", "/readyz?verbose")
        assert code == 503
        assert "[-]overrides-synced failed: not listed yet" in text
        late.synced = True
        await found.ready()


async def test_a_manual_run_through_the_api_scales_and_is_an_operation():
    async with living(loops=PROBER, overrides=store()) as found:
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
    kept = store()
    async with living(loops=PROBER, overrides=kept, dry_run=True) as found:
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
        assert kept.data == {}


async def test_keys_that_cannot_be_read_are_named_by_readyz_and_no_reason_to_be_unready():
    kept = store()
    async with living(loops=PROBER, overrides=kept) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        for key in (SHOOT, *(f"shoot--{number}" for number in range(6))):
            kept.kubectl_set(key, "{")
        code, text = await found.get("health", "/readyz?verbose")
        assert code == 200
        assert (
            "[!]overrides warning: 7 keys cannot be read, and each pauses its shoot for a while: "
            "shoot--0, shoot--1, shoot--2, shoot--3, shoot--4 and 2 more\n"
        ) in text
        kept.kubectl(None)
        assert "[+]overrides ok" in (await found.get("health", "/readyz?verbose"))[1]
