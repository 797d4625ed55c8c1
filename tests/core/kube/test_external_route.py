"""The external route over real sockets: a new connection each time, to an address that was checked (T3, T5-T8)."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from app.core import errors
from app.core.kube import kubeconfig as kubeconfig_module
from app.core.kube.kubeconfig import ExternalServerPolicy, ServerPolicy
from app.core.model.shoots import Route, SecretView
from app.core.name_lookup import IpAddress
from tests.core.kube import test_shoot
from tests.core.kube.server import Asked, serving, until
from tests.core.kube.test_kubeconfig import NAMESPACE
from tests.core.kube.test_shoot import api, kubeconfig
from tests.core.kube.test_shoot import secret as internal
from tests.support.certs import Authority
from tests.support.resolver import Resolver

pytestmark = pytest.mark.looptime(False)

LOCAL = ExternalServerPolicy(r"(127\.0\.0\.1|\[::1\]):[0-9]+")
NAME = "localhost"
"""The name in the certificate of the servers here."""


class Named:
    """A server that is called by a name."""

    def __init__(self, port, name=NAME):
        self.origin = f"https://{name}:{port}"


def external(server, version="1", namespace=NAMESPACE, **more) -> SecretView:
    return SecretView(namespace, version, kubeconfig(server, **more), Route.EXTERNAL)


def connecting(policy=LOCAL, **more):
    inner = ServerPolicy(pattern=r"(127\.0\.0\.1|localhost):[0-9]+")
    return test_shoot.connecting(inner, external=policy, **more)


async def version(connector, server, within=1.0, **more):
    """What one attempt by the external route brings."""
    return await (await connector.connect(external(server, **more))).version(within=within)


@pytest.fixture
def dns(monkeypatch):
    """The DNS: addresses by name, and who asked; loopback is allowed, but for 127.0.0.2."""
    found = Resolver(lambda _: False)
    found.instead_of_the_systems(monkeypatch)
    monkeypatch.setattr(kubeconfig_module, "is_forbidden", lambda text: text != "127.0.0.1")
    yield found
    found.end()


def addresses(*texts):
    return tuple(IpAddress(socket.AF_INET, each) for each in texts)


@pytest.mark.parametrize("times", [{"within": 0.2}, {"within": 60.0, "probe_timeout": 0.2}])
async def test_an_attempt_ends_when_its_time_or_that_of_the_probe_is_over(times):
    within, began = times.pop("within"), asyncio.get_running_loop().time()
    async with serving(Asked.hang) as server, connecting(**times) as connector:
        with pytest.raises(errors.Unreachable) as caught:
            await version(connector, server, token="canary-77", within=within)
    assert type(caught.value) is errors.Unreachable
    assert "canary-77" not in repr(caught.value)
    assert asyncio.get_running_loop().time() - began < 1.0


# New connections.


async def test_each_probe_is_made_on_a_new_connection_that_is_closed():
    async with serving(api()) as server, connecting() as connector:
        shoot = await connector.connect(external(server))
        for new_connection in (False, True, False):
            assert await shoot.version(new_connection=new_connection) == "v1.35.4"
        assert [asked.connection for asked in server.asked] == [1, 2, 3]
        assert {asked.turn for asked in server.asked} == {1}
        await until(lambda: not server.open)


async def test_the_routes_of_a_shoot_are_two_clusters_with_credentials_of_their_own():
    async with serving(api()) as inner, serving(api()) as outer, connecting() as connector:
        near = await connector.connect(internal(inner, token="in"))
        far = await connector.connect(external(outer, token="out"))
        await asyncio.gather(near.version(), far.version())
        assert await connector.connect(external(outer, token="out")) is far
        assert inner.asked[0].headers["authorization"] == "Bearer in"
        assert outer.asked[0].headers["authorization"] == "Bearer out"
        with pytest.raises(errors.CredentialRefused):
            await connector.connect(SecretView(NAMESPACE, "2", b"{", Route.EXTERNAL))
        assert await connector.connect(internal(inner, token="in")) is near
        await near.version()
        assert inner.connections == 1


@pytest.mark.parametrize("new", [False, True], ids=["it is forgotten", "its CA is new"])
async def test_what_a_shoot_has_open_ends_where_it_is_forgotten_and_on_one_route_where_its_ca_is_new(
    new,
):
    async with serving(Asked.hang) as outer, serving(api()) as inner, connecting() as connector:
        await (await connector.connect(internal(inner))).version()
        waiting = asyncio.ensure_future(version(connector, outer, within=5.0))
        await until(lambda: outer.asked)
        if new:
            with pytest.raises(errors.CertificateUntrusted):
                await version(connector, outer, version="2", ca=Authority.create())
        else:
            connector.forget(NAMESPACE)
        with pytest.raises(errors.ClusterError):
            await asyncio.wait_for(waiting, 2)
        await until(lambda: (inner.open, outer.open) == (new, 0))


# Time.


@asynccontextmanager
async def swallowing(name):
    """A load balancer that swallows everything."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        yield Named(deaf.getsockname()[1], name)


# Addresses.


INSIDE = [
    (ExternalServerPolicy(), "127.0.0.1"),
    (ExternalServerPolicy(), "[::1]"),
    (ExternalServerPolicy(), NAME),
    (ExternalServerPolicy(".*"), NAME),  # the flag allows literals only
]


@pytest.mark.parametrize(("policy", "host"), INSIDE)
async def test_what_leads_inside_is_never_connected_to(policy, host):
    async with serving(api()) as server, connecting(policy) as connector:
        with pytest.raises(errors.AddressForbidden, match="--external-server-pattern"):
            await version(connector, Named(server.port, host))
        assert server.connections == 0


async def test_an_ipv6_literal_is_connected_to():
    async with connecting() as connector:
        with pytest.raises(errors.Unreachable, match="no connection"):
            await version(connector, Named(1, "[::1]"))


async def test_only_the_allowed_addresses_of_a_name_are_connected_to(dns):
    dns.answers[NAME] = addresses("127.0.0.2", "127.0.0.1", "127.0.0.3")
    async with serving(api()) as server, connecting(ExternalServerPolicy()) as connector:
        async with inside(server) as touched:
            assert (
                await (await connector.connect(external(Named(server.port)))).version() == "v1.35.4"
            )
        assert not touched
        assert server.connections == 1


@asynccontextmanager
async def inside(server):
    """What else listens on the same port of this machine, where nobody may come."""
    touched = []

    async def touch(_, writer):
        touched.append(writer)
        writer.close()

    listeners = [
        await asyncio.start_server(touch, host, server.port) for host in ("127.0.0.2", "127.0.0.3")
    ]
    yield touched
    for each in listeners:
        each.close()


async def test_a_name_that_changes_between_check_and_connection_changes_nothing(dns):
    dns.answers[NAME] = map(addresses, ("127.0.0.1", "127.0.0.2", "127.0.0.1"))
    async with serving(api()) as server, connecting(ExternalServerPolicy()) as connector:
        async with inside(server) as touched:
            shoot = await connector.connect(external(Named(server.port)))
            assert await shoot.version() == "v1.35.4"
            assert dns.asked == [NAME]
            with pytest.raises(errors.AddressForbidden):
                await shoot.version(within=1.0)
            assert await shoot.version() == "v1.35.4"
        assert not touched
        assert dns.asked == [NAME] * 3


async def test_the_certificate_must_have_the_name_and_not_the_address(dns):
    async with serving(api()) as server, connecting(ExternalServerPolicy()) as connector:
        with pytest.raises(errors.CertificateUntrusted):
            await version(connector, Named(server.port, "other.example"))


async def test_the_internal_route_may_lead_wherever_its_own_rule_allows(dns):
    async with serving(api()) as server, connecting(ExternalServerPolicy()) as connector:
        shoot = await connector.connect(internal(Named(server.port)))
        assert await shoot.version() == await shoot.version()
        assert dns.asked == [NAME]  # a kept connection needs no name


# Names.


@pytest.mark.parametrize("code", [socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_FAIL])
@pytest.mark.parametrize("route", list(Route))
async def test_a_name_without_address_is_unresolved_on_both_routes(dns, code, route):
    dns.answers[NAME] = socket.gaierror(code, "nobody knows")
    secret = SecretView(NAMESPACE, "1", kubeconfig(Named(443)), route)
    async with connecting(ExternalServerPolicy()) as connector:
        with pytest.raises(errors.NameUnresolved, match="cannot be resolved"):
            await (await connector.connect(secret)).version(within=1.0)


@pytest.mark.parametrize("route", list(Route))
async def test_a_resolver_that_hangs_says_nothing_about_the_path(dns, route):
    dns.silent = lambda _: True
    secret = SecretView(NAMESPACE, "1", kubeconfig(Named(443)), route)
    async with connecting(ExternalServerPolicy()) as connector:
        with pytest.raises(errors.NameUnresolved, match="not resolved in time"):
            await (await connector.connect(secret)).version(within=0.2)
        dns.open.set()
        await until(
            lambda: not connector._pools[route].single.connector._resolver._lookups._running
        )


@pytest.mark.parametrize(
    ("seconds", "blamed"), [(0.45, errors.NameUnresolved), (0.1, errors.Unreachable)]
)
async def test_a_resolver_that_took_most_of_the_time_and_no_other_is_to_blame(dns, seconds, blamed):
    dns.silent = lambda _: True
    async with swallowing(NAME) as where, connecting(ExternalServerPolicy()) as connector:
        asyncio.get_running_loop().call_later(seconds, dns.open.set)
        with pytest.raises(blamed) as caught:
            await version(connector, where, within=0.6)
        assert type(caught.value) is blamed
