"""What the program says, over HTTP: pages, and everything that is no answer."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from app.core.model.probing import ShootState, Verdict
from app.simulation.demo.program_api import (
    DemoLeases,
    DemoProbe,
    NoDemoAnswer,
    ShootReport,
    read_shoots,
    session,
)
from tests.demo.scenes import leases, said

pytestmark = pytest.mark.looptime(False)


def shoot(name, leases=None, would_be="Hold"):
    return {
        "namespace": name,
        "state": "Suspect",
        "reason": "LeasesRenewed",
        "message": "words",
        "since": "2026-11-20T14:02:11Z",
        "probe": {"lastTime": None, "verdict": "Hold", "wouldBe": would_be, "count": 0},
        "leases": leases,
    }


def page(items, following=None):
    return {"items": items, "metadata": {"total": 3, "continue": following}}


@asynccontextmanager
async def asking(answer):
    """A client of a server that answers like this."""
    app = web.Application()
    app.router.add_get("/api/v1/shoots", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with session(f"http://{host}:{port}") as program:
            yield program
    finally:
        await runner.cleanup()


async def test_all_shoots_are_read_in_one_request():
    asked = []

    async def answer(request):
        asked.append(dict(request.query))
        counts = {"candidates": 10, "expired": 6, "unknown": 1, "fraction": 0.6}
        found = [shoot("a", counts, "ScaleDown"), shoot("b", would_be=None)]
        return web.json_response(page(found))

    def report(name, leases, would_be):
        probe = DemoProbe(None, would_be)
        return ShootReport(name, ShootState.SUSPECT, "LeasesRenewed", "words", probe, leases)

    async with asking(answer) as program:
        assert await read_shoots(program) == {
            "a": report("a", DemoLeases(10, 6, 1), Verdict.SCALE_DOWN),
            "b": report("b", None, None),
        }
    assert asked == [{"limit": "500"}]


@pytest.mark.parametrize(
    ("read", "would_be", "looked"),
    [
        (leases(1), Verdict.HOLD, True),
        (None, Verdict.SCALE_UP, True),  # endpoint mode reads no leases
        (None, Verdict.SCALE_DOWN, True),
        (None, Verdict.HOLD, False),
        (None, None, False),
    ],
)
def test_a_shoot_was_looked_at_when_a_probe_has_said_something(read, would_be, looked):
    assert said(ShootState.HEALTHY, read=read, would_be=would_be).has_probed is looked


@pytest.mark.parametrize(
    ("as_of", "last", "old"),
    [
        ("2026-11-20T14:02:11Z", "2026-11-20T14:02:11Z", False),
        ("2026-11-20T14:02:11Z", "2026-11-20T14:02:16Z", True),
    ],
)
async def test_leases_from_before_the_last_probe_are_old(as_of, last, old):
    async def answer(request):
        counts = {"asOf": as_of, "candidates": 10, "expired": 0, "unknown": 0}
        found = shoot("a", counts)
        found["probe"]["lastTime"] = last
        return web.json_response(page([found]))

    async with asking(answer) as program:
        assert (await read_shoots(program))["a"].old is old


async def test_more_than_a_page_is_read_page_by_page():
    async def answer(request):
        token = request.query.get("continue")
        return web.json_response(page([shoot("b")]) if token else page([shoot("a")], "next/1"))

    async with asking(answer) as program:
        assert list(await read_shoots(program)) == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, json.dumps(page([])), "it answers 503"),
        (200, "no JSON", "its answer cannot be read"),
        (200, json.dumps(page([{**shoot("a"), "state": "Fine"}])), "its answer cannot be read"),
        (200, json.dumps(page([{**shoot("a"), "probe": None}])), "its answer cannot be read"),
        (200, json.dumps({"items": []}), "its answer cannot be read"),
        (302, "", "it answers 302"),
    ],
    ids=["a problem", "no JSON", "an unknown state", "no probe", "no metadata", "a redirect"],
)
async def test_what_is_no_list_of_shoots_is_no_answer(status, body, said):
    async def answer(_request):
        return web.Response(status=status, text=body, headers={"Location": "/elsewhere"})

    async with asking(answer) as program:
        with pytest.raises(NoDemoAnswer, match=said):
            await read_shoots(program)


async def test_a_server_that_is_not_there_is_no_answer():
    async with session("http://127.0.0.1:1") as program:
        with pytest.raises(NoDemoAnswer, match=r"it does not answer: .*127\.0\.0\.1"):
            await read_shoots(program)


async def test_a_server_that_is_silent_is_no_answer(monkeypatch):
    monkeypatch.setattr("app.simulation.demo.program_api._LIMIT", 0.1)

    async def answer(_request):
        await asyncio.get_running_loop().create_future()

    async with asking(answer) as program:
        with pytest.raises(NoDemoAnswer, match="it does not answer"):
            await read_shoots(program)
