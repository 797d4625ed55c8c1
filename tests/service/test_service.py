"""One process over its life, on real sockets: what starts when, what it says of itself, how it dies."""

import asyncio
import json
import socket
from types import SimpleNamespace

import pytest

from app.core.errors import ConfigWarning, Forbidden
from app.core.ports import Permission
from app.core.tasks import SharedLoopDied
from app.core.web.serving import AddressUnavailable
from app.prober.controller import ProberController
from tests.core.kube.server import until
from tests.service.lives import SERVERS, life, listens, living

pytestmark = [pytest.mark.looptime(False), pytest.mark.usefixtures("lines")]

WARNING = ConfigWarning("probeTimeout", "is longer than probeInterval", 7)
PATCH = Permission("patch", "apps", "deployments", "kube-controller-manager")
EVENTS = Permission("create", "events.k8s.io", "events", feature="events")


class Rights:
    """Rights of which some are missing; `silent`: the seed never says which."""

    def __init__(self, *missing, silent=False):
        self._missing, self._silent = missing, silent
        self.asked = asyncio.Event()

    @property
    def reviewer(self):
        return self

    async def needed(self):
        self.asked.set()
        if self._silent:
            await asyncio.Event().wait()
        return (PATCH, EVENTS)

    async def missing(self, needed):
        return tuple(each for each in needed if each in self._missing)


class Sink:
    """Takes Events, and says nothing of them."""

    async def write(self, namespace, body):
        return


async def refuse():
    raise Forbidden("may not list deployments")


PORTS = [("health", "/livez"), ("metrics", "/metrics"), ("API", "/api/v1/status")]


async def test_on_loopback_no_page_of_elsewhere_reads_any_port():
    async with living() as found:
        for server, path in PORTS:
            for host in ("localhost", "127.0.0.1:9643", "[::1]"):
                assert (await found.get(server, path, host))[0] == 200, server
            for host in ("rebound.example:9643", "10.0.0.1", ""):
                status, body = await found.get(server, path, host)
                kind = json.loads(body)["type"].rpartition(":")[2]
                assert (status, kind) == (403, "host-not-allowed"), server


async def test_elsewhere_health_and_metrics_answer_to_any_name():
    everywhere = {"health_bind_addr": "0.0.0.0:0", "metrics_bind_addr": "0.0.0.0:0"}
    async with living(flags=everywhere) as found:
        for server, path in PORTS[:2]:
            assert (await found.get(server, path, "dwd.garden.svc:9643"))[0] == 200


# Start.


async def test_a_start_that_hangs_is_alive_not_ready_and_probes_nothing():
    hangs = asyncio.Event()
    rights = Rights()
    found = life(begin=hangs.wait, rights=rights)
    starting = asyncio.ensure_future(found.service.start())
    await asyncio.sleep(0.1)
    assert await found.get("health", "/livez") == (200, "ok")
    assert (await found.get("metrics", "/metrics"))[0] == 200
    assert not rights.asked.is_set(), "rights are asked for when the watches are open"
    assert found.service.prober.prober.registry.statuses() == []
    hangs.set()
    await starting
    await rights.asked.wait()
    await until(found.service.prober.prober.registry.statuses)
    await found.service.stop("the test is over")


async def test_the_flag_says_how_many_changed_clusters_are_processed_at_once(monkeypatch):
    begun = []

    async def reconcile(_, namespace):
        begun.append(namespace)
        await asyncio.Event().wait()

    monkeypatch.setattr(ProberController, "_reconcile", reconcile)
    found = life(flags={"concurrent_reconciles": 3})
    for number in range(5):
        found.world.add_shoot(f"shoot--dev--{number}", nodes=1)
    await found.service.start()
    await until(lambda: len(begun) >= 3)
    await asyncio.sleep(0.2)
    assert len(begun) == 3
    await found.service.stop("the test is over")


@pytest.mark.parametrize("server", SERVERS)
async def test_an_address_in_use_is_named_and_nothing_is_started(server):
    begun = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = life(
            flags={f"{server.lower()}_bind_addr": f"127.0.0.1:{port}"},
            begin=lambda: begun.append(1),
        )
        with pytest.raises(AddressUnavailable) as refusal:
            await found.service.start()
        others = [each.address for each in found.service._servers]
        await found.service.stop("an error")
    said = f"cannot serve {server} on 127.0.0.1:{port}: Address already in use"
    assert str(refusal.value).startswith(said)
    assert not begun
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [each for each in others if await listens(each)] == []


# What it says of itself.


async def test_warnings_of_the_configuration_are_logged_counted_and_shown(lines):
    async with living(warnings=[WARNING]) as found:
        _, metrics = await found.get("metrics", "/metrics")
        _, status = await found.get("API", "/api/v1/status")
    (told,) = [line for line in lines if line["event"] == "configuration"]
    assert told["log_level"] == "warning"
    assert (told["path"], told["line"]) == ("probeTimeout", 7)
    assert told["warning"] == "is longer than probeInterval"
    assert "dwd_config_warnings 1.0" in metrics
    assert json.loads(status)["configWarnings"] == [
        {"path": "probeTimeout", "line": 7, "message": "is longer than probeInterval"}
    ]


async def test_missing_rights_and_features_that_are_off_are_shown_and_it_stays_ready():
    adapters = {"rights": Rights(PATCH, EVENTS), "scan": refuse, "events": Sink()}
    leader = SimpleNamespace(off="not published", address=lambda: None)
    async with living(**adapters, leader=leader) as found:
        await until(lambda: found.service.prober.scan.off and found.service._permissions.missing)
        await found.ready()
        status = json.loads((await found.get("API", "/api/v1/status"))[1])
        code, ready = await found.get("health", "/readyz?verbose")
    assert [(each["verb"], each["resource"]) for each in status["missingPermissions"]] == [
        ("patch", "deployments"),
        ("create", "events"),
    ]
    assert {each["feature"]: each["reason"] for each in status["featuresOff"]} == {
        "events": "the right to create events is missing",
        "metadata-scan": "may not list deployments",
        "leader-address": "not published",
    }
    assert code == 200
    assert "[!]permissions warning: missing: patch deployments, create events" in ready
    assert "[!]features warning: events: " in ready


async def test_a_long_reason_of_one_feature_leaves_the_others_their_names():
    async def wordy():
        raise Forbidden("may not " * 100)

    async with living(scan=wordy, events=Sink()) as found:
        await until(lambda: found.service.prober.scan.off)
        found.service._events.off = "may not " * 100
        _, ready = await found.get("health", "/readyz?verbose")
    (line,) = [line for line in ready.splitlines() if line.startswith("[!]features")]
    assert "events: may not" in line
    assert "metadata-scan: may not" in line


async def test_rights_that_the_seed_was_not_asked_for_yet_are_not_called_complete():
    async with living(rights=Rights(silent=True)) as found:
        _, ready = await found.get("health", "/readyz?verbose")
    assert "[!]permissions warning: not known yet" in ready


async def test_what_is_found_with_a_meltdown_key_is_shown():
    async def scan():
        return ["shoot--a/Deployment/other"]

    async with living(scan=scan) as found:
        await until(lambda: found.service.prober.scan.found)
        status = json.loads((await found.get("API", "/api/v1/status"))[1])
    assert status["foundUnconfigured"] == ["shoot--a/Deployment/other"]


async def test_watches_that_suffer_are_told_with_verbose_and_change_nothing():
    async with living(troubles=lambda: {"secrets": "403"}) as found:
        await until(found.service.prober.prober.registry.statuses)
        code, ready = await found.get("health", "/readyz?verbose")
    assert code == 200
    assert "[!]watches warning: secrets: 403" in ready


# Death and stop.


async def test_a_shared_loop_that_dies_ends_the_process_and_its_liveness(lines):
    breaks = asyncio.Event()
    found = life()

    async def loop():
        await breaks.wait()
        raise ValueError("a bug")

    async def begin():
        _ = found.core.tasks.shared(loop, "doomed")

    object.__setattr__(found.service._cluster, "begin", begin)
    await found.service.start()
    running = asyncio.ensure_future(found.service.run(asyncio.Event()))
    assert await found.get("health", "/livez") == (200, "ok")
    breaks.set()
    with pytest.raises(SharedLoopDied, match="the doomed loop ended") as death:
        await running
    assert isinstance(death.value.__cause__, ValueError)
    code, text = await found.get("health", "/livez")
    assert code == 503
    assert "[-]loops failed: a loop that serves all shoots has ended" in text
    await found.service.stop("an error")
    assert [each["loop"] for each in lines if each["log_level"] == "critical"] == ["doomed"]


async def test_http_answers_until_the_cluster_is_left_and_then_no_more():
    answers = []

    async def end():
        answers.append(await found.get("health", "/livez"))

    async with living(end=end) as found:
        stop = asyncio.Event()
        running = asyncio.ensure_future(found.service.run(stop))
        stop.set()
        await running
        addresses = [found.service.address(name) for name in SERVERS]
    assert answers == [(200, "ok")], "a stop is no death"
    assert [each for each in addresses if await listens(each)] == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_whoever_follows_events_is_told_of_a_stop_at_once():
    async with living() as found:
        reader, writer = await asyncio.open_connection(*found.service.address("API"))
        writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(5):
            await reader.readuntil(b"event: shoot\n")
            await found.service.stop("the test is over")
            rest = await reader.read()
        writer.close()
    assert b"event: end\n" in rest
    assert rest.endswith(b"0\r\n\r\n"), "the answer is whole"
