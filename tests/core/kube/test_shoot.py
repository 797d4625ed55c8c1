"""The hot path: what a probe asks a shoot's API server, and which connections it does it on."""

import asyncio
import base64
import itertools
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from app.core.clock import Clock
from app.core.errors import CredentialRefused, LimitExceeded
from app.core.kube import shoot as shoot_module
from app.core.kube.client import ResponseLimits
from app.core.kube.kubeconfig import ServerPolicy
from app.core.kube.shoot import ShootConnector
from app.core.metrics import Metrics
from app.core.model.shoots import NodeView, SecretView
from tests.core.kube.server import AUTHORITY, Asked, page_of, server_context, serving, until
from tests.core.kube.test_kubeconfig import CERT, KEY, NAMESPACE, config

pytestmark = pytest.mark.looptime(False)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def kubeconfig(server, token="t1", ca=AUTHORITY, **user) -> bytes:  # noqa: S107 - nobody's token
    cluster = {
        "server": server.origin,
        "certificate-authority-data": base64.b64encode(ca.pem).decode(),
    }
    user |= {} if token is None else {"token": token}
    return json.dumps(config(cluster=cluster, user=user)).encode()


def secret(server, version="1", **more) -> SecretView:
    return SecretView(NAMESPACE, version, kubeconfig(server, **more))


LOCAL = ServerPolicy(pattern=r"127\.0\.0\.1:[0-9]+")


@asynccontextmanager
async def connecting(policy=LOCAL, **more):
    metrics = Metrics()
    connector = ShootConnector(Clock.system(), metrics, policy, **more)
    connector.metrics = metrics  # type: ignore[attr-defined]  # for the tests to look at
    try:
        yield connector
    finally:
        await connector.close()
        await asyncio.sleep(0.01)


def lease(number):
    spec = {"renewTime": datetime.now(UTC).isoformat(), "leaseDurationSeconds": 40}
    return {"metadata": {"name": f"n{number}"}, "spec": spec}


def api(*, leases=3, nodes=2):
    """A shoot's API server that is well."""

    async def handle(asked):
        match asked.path:
            case "/version":
                await asked.answer({"gitVersion": "v1.35.4"})
            case "/api/v1/nodes":
                items = [{"metadata": {"name": f"n{i}"}} for i in range(nodes)]
                await asked.answer(page_of("Node", items, asked.query))
            case _:
                await asked.answer(page_of("Lease", [*map(lease, range(leases))], asked.query))

    return handle


async def test_a_steady_probe_is_two_small_requests_on_one_connection():
    async with serving(api()) as server, connecting() as connector:
        for _ in range(3):
            shoot = await connector.connect(secret(server))
            await shoot.version()
            await shoot.leases()
        assert server.connections == 1
        assert server.paths() == ["/version", LEASES] * 3


async def test_leases_are_read_consistently_and_in_pages_of_500():
    async with serving(api(leases=1203)) as server, connecting() as connector:
        reading = await (await connector.connect(secret(server))).leases()
        assert len(reading.leases) == 1203
        assert {lease.name for lease in reading.leases} == {f"n{i}" for i in range(1203)}
        assert [asked.query.get("limit") for asked in server.asked] == ["500"] * 3
        assert all("resourceVersion" not in asked.query for asked in server.asked)


async def test_a_reading_in_pages_is_as_old_as_its_first_page():
    async def slow(asked):
        await asyncio.sleep(0.05)
        await api(leases=1200)(asked)

    async with serving(slow) as server, connecting() as connector:
        reading = await (await connector.connect(secret(server))).leases()
        assert reading.received - reading.sent >= 0.15, "three pages of 50 ms each"


async def test_a_contact_is_one_lease_read_consistently():
    async with serving(api(leases=700)) as server, connecting() as connector:
        begun = Clock.system().now()
        sent = await (await connector.connect(secret(server))).contact()
        assert begun <= sent <= Clock.system().now()
        assert server.asked[0].query == {"limit": "1"}


async def test_the_confirming_read_uses_a_new_connection_that_is_closed():
    async with serving(api()) as server, connecting() as connector:
        shoot = await connector.connect(secret(server))
        await shoot.leases()
        await shoot.leases(new_connection=True)
        await shoot.leases()
        assert [asked.connection for asked in server.asked] == [1, 2, 1]
        await asyncio.sleep(0.05)
        assert server.open == 1


async def test_nodes_come_from_the_cache_on_a_connection_that_is_closed():
    async with serving(api()) as server, connecting() as connector:
        assert await (await connector.connect(secret(server))).nodes() == (
            NodeView("n0"),
            NodeView("n1"),
        )
        assert server.asked[0].query == {"resourceVersion": "0"}
        await asyncio.sleep(0.05)
        assert server.open == 0


async def test_more_nodes_than_any_shoot_has_are_refused(monkeypatch):
    monkeypatch.setattr("app.core.kube.shoot.MAX_NODES", 1)
    async with serving(api()) as server, connecting() as connector:
        with pytest.raises(LimitExceeded, match="list nodes: more than 1"):
            await (await connector.connect(secret(server))).nodes()


async def test_consistent_nodes_come_in_pages():
    async with serving(api(nodes=600)) as server, connecting() as connector:
        assert len(await (await connector.connect(secret(server))).nodes(consistent=True)) == 600
        assert [asked.query for asked in server.asked] == [
            {"limit": "500"},
            {"limit": "500", "continue": "500"},
        ]


async def test_nodes_that_do_not_fit_into_one_answer_are_read_in_pages_for_an_hour():
    async with serving(api(nodes=1200)) as server, connecting() as connector:
        connector._limits = ResponseLimits(body=20_000)
        shoot = await connector.connect(secret(server))
        assert len(await shoot.nodes()) == 1200
        assert len(await shoot.nodes()) == 1200
        asked = [each.query.get("resourceVersion", "page") for each in server.asked]
        assert asked == ["0"] + ["page"] * 6
        shoot._link.nodes_paged_until -= shoot_module.PAGED_FOR
        await shoot.nodes()
        assert server.asked[7].query == {"resourceVersion": "0"}


@pytest.mark.parametrize(
    ("items", "pages"),
    [
        pytest.param(500, 20, id="full pages without end"),
        pytest.param(0, 20, id="empty pages without end"),
        pytest.param(9_999, 2, id="two pages of a server that knows no limits"),
    ],
)
async def test_more_leases_than_any_shoot_has_are_refused(items, pages):
    async def endless(asked):
        body = {"kind": "LeaseList", "metadata": {"continue": "x"}, "items": [lease(1)] * items}
        await asked.answer(body)

    async with serving(endless) as server, connecting() as connector:
        with pytest.raises(LimitExceeded) as caught:
            await (await connector.connect(secret(server))).leases()
        assert caught.value.limit == "count"
        assert len(server.asked) == pages
        registry = connector.metrics.registry
        assert registry.get_sample_value("dwd_response_limit_hits_total", {"limit": "count"}) == 1


@pytest.mark.parametrize("before", [0, 1], ids=["the first page", "a later page"])
async def test_a_page_of_leases_that_is_larger_than_any_is_refused(before):
    """Below the cap of all answers: so one shoot cannot hold the bytes that all may hold together."""

    async def large(asked):
        page = {"kind": "LeaseList", "metadata": {"continue": "x"}, "items": [lease(1)] * 500}
        if len(server.asked) > before:
            page["junk"] = "x" * (8 << 20)
        await asked.answer(page)

    async with serving(large) as server, connecting() as connector:
        with pytest.raises(LimitExceeded, match=f"^list leases .*more than {8 << 20} bytes"):
            await (await connector.connect(secret(server))).leases()
        assert len(server.asked) == before + 1


async def test_a_new_token_is_used_on_the_old_connection():
    async with serving(api()) as server, connecting() as connector:
        first = await connector.connect(secret(server))
        assert await connector.connect(secret(server, version="2")) is first, "the same content"
        await first.version()
        await (await connector.connect(secret(server, version="3", token="t2"))).version()
        assert [asked.headers["authorization"] for asked in server.asked] == [
            "Bearer t1",
            "Bearer t2",
        ]
        assert server.connections == 1


async def test_a_shoot_is_shown_its_certificate_and_charged_for_what_its_tls_costs(monkeypatch):
    ours = {"client-certificate-data": CERT, "client-key-data": KEY}
    monkeypatch.setattr(shoot_module, "stopwatch", itertools.count(7, 0.1).__next__)
    context = server_context(clients=AUTHORITY)
    async with serving(api(), context) as server, connecting() as connector:
        shoot = await connector.connect(secret(server, **ours))
        consumer = connector.consumer(NAMESPACE)
        assert (consumer.spent, consumer.may_begin) == (pytest.approx(0.1), True), "in a thread"
        assert shoot._link.client._context.consumer is consumer
        await shoot.version()


async def test_of_a_shoot_that_is_forgotten_nothing_is_kept():
    async with serving(api()) as server, connecting() as connector:
        before = await connector.connect(secret(server))
        await before.version()
        spent = connector.consumer(NAMESPACE).spent
        connector.forget(NAMESPACE)
        connector.forget("never-seen")
        await asyncio.sleep(0.05)
        assert server.open == 0
        assert spent > 0 == connector.consumer(NAMESPACE).spent
        assert await connector.connect(secret(server)) is not before


async def test_a_token_that_is_absent_for_a_while_keeps_the_connection():
    async with serving(api()) as server, connecting() as connector:
        await (await connector.connect(secret(server))).version()
        with pytest.raises(CredentialRefused) as caught:
            await connector.connect(secret(server, version="2", token=None))
        assert caught.value.reason == "no-token"
        await (await connector.connect(secret(server, version="3", token="t3"))).version()
        assert server.connections == 1


async def test_a_refused_kubeconfig_is_counted_once_and_closes_what_was_open():
    async with serving(api()) as server, connecting() as connector:
        await (await connector.connect(secret(server))).version()
        for version in ("2", "2", "3"):
            with pytest.raises(CredentialRefused):
                await connector.connect(SecretView(NAMESPACE, version, b"users: []"))
        with pytest.raises(CredentialRefused) as caught:
            await connector.connect(SecretView(NAMESPACE, "4", None))
        assert caught.value.reason == "no-kubeconfig"
        await asyncio.sleep(0.05)
        assert server.open == 0
        registry = connector.metrics.registry
        name = "dwd_credentials_rejected_total"
        assert registry.get_sample_value(name, {"reason": "ambiguous"}) == 1


async def test_one_silent_shoot_does_not_keep_another_one_waiting():
    async with serving(Asked.hang) as dead, serving(api()) as alive, connecting() as connector:
        waiting = [
            asyncio.ensure_future(
                (await connector.connect(SecretView(f"dead-{i}", "1", kubeconfig(dead)))).version()
            )
            for i in range(30)
        ]
        await until(lambda: dead.open == 30)
        async with asyncio.timeout(1.0):
            await (await connector.connect(secret(alive))).version()
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
