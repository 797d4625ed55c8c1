"""Endpoint mode's two routes to a shoot: their Secrets in the seed, and what each says of its path."""

import asyncio

import pytest

from app.core.errors import (
    BadAnswer,
    CertificateUntrusted,
    ServerFault,
    Unreachable,
)
from app.core.model.shoots import Route
from app.core.ports import SeedChange, Watched
from app.simulation.traffic import ConnectionLoss
from tests.contract.arena import BOTH_ROUTES, EXTERNAL, REAL_TIME, Told, until
from tests.contract.served import ServedShoot
from tests.e2e import objects

pytestmark = REAL_TIME

WITHIN = 0.3
"""Seconds for an attempt that must fail."""
INTERNAL_SECRET = objects.SECRET
NAMES = {Route.INTERNAL: INTERNAL_SECRET, Route.EXTERNAL: EXTERNAL}
BY_EACH_ROUTE = pytest.mark.parametrize("route", list(Route))


@pytest.fixture
def policy():
    return BOTH_ROUTES


def body(route, content):
    made = objects.secret(content)
    return made | {"metadata": {"name": NAMES[route]}}


def other(route):
    return next(each for each in Route if each is not route)


async def connected(arena, shoot):
    """Both routes, each with what is right for it."""
    return {route: await arena.connector.connect(shoot.secret(route=route)) for route in Route}


async def answers(cluster):
    """Waits for the first answer of a way that is just coming back."""

    async def once():
        try:
            return await cluster.version(within=WITHIN)
        except Unreachable:
            return None

    async with asyncio.timeout(5):
        while not (version := await once()):
            pass
    return version


# The seed.


@BY_EACH_ROUTE
async def test_each_route_has_a_secret_of_its_own(arena, route):
    await arena.admin.create("Secret", body(route, "of this route"))
    view = await arena.seed.read_secret(arena.namespace, route=route)
    assert (view.route, view.kubeconfig) == (route, b"of this route")
    assert await arena.seed.read_secret(arena.namespace, route=other(route)) is None
    await until(lambda: arena.seed.secret(arena.namespace, route) == view, "the watch has it too")
    assert arena.seed.secret(arena.namespace, other(route)) is None


@BY_EACH_ROUTE
async def test_a_change_of_either_secret_is_told(arena, route):
    told = Told.by(arena.seed)
    await arena.admin.create("Secret", body(route, "first"))
    change = SeedChange(Watched.SECRETS, arena.namespace)
    await until(lambda: told.changes.count(change) == 1, "its creation is told")
    await arena.admin.patch("Secret", NAMES[route], body(route, "second"))
    await until(lambda: told.changes.count(change) == 2, "its change is told")
    assert arena.seed.secret(arena.namespace, route).kubeconfig == b"second"
    await arena.admin.delete("Secret", NAMES[route])
    await until(lambda: arena.seed.secret(arena.namespace, route) is None, "it is gone")


async def test_machines_are_not_watched_and_nobody_waits_for_them(arena):
    told = Told.by(arena.seed)
    await arena.admin.create("Machine", {"metadata": {"name": "m", "labels": {"node": "n"}}})
    await arena.admin.create("Secret", body(Route.EXTERNAL, "later"))
    await until(lambda: arena.seed.secret(arena.namespace, Route.EXTERNAL), "what came later")
    assert arena.seed.machines(arena.namespace) == ()
    assert Watched.MACHINES not in {change.what for change in told.changes}
    state = arena.seed.watch_state(Watched.MACHINES)
    assert state.synced
    assert not state.stale(arena.clock.now(), after=0.1)


async def test_the_watch_of_secrets_is_as_old_as_the_older_of_the_two(arena):
    reflectors = arena.seed._secrets
    oldest = min(each.state.last_contact for each in reflectors.values())
    assert arena.seed.watch_state(Watched.SECRETS).last_contact == oldest
    reflectors[Route.EXTERNAL]._synced = False
    assert not arena.seed.watch_state(Watched.SECRETS).synced


# The ways.


async def test_both_routes_lead_to_the_same_server(arena):
    shoot = await arena.shoot()
    versions = {await each.version(within=5.0) for each in (await connected(arena, shoot)).values()}
    assert len(versions) == 1
    assert next(iter(versions)).startswith("v1.")


@BY_EACH_ROUTE
@pytest.mark.parametrize("how", list(ConnectionLoss))
async def test_a_way_that_is_cut_is_unreachable_and_the_other_is_as_good_as_before(
    arena, route, how
):
    shoot = await arena.shoot()
    ways = await connected(arena, shoot)
    for way in ways.values():
        await way.version()
    async with shoot.cut(route, how):
        for _ in range(2):
            with pytest.raises(Unreachable) as caught:
                await ways[route].version(within=WITHIN)
            assert type(caught.value) is Unreachable
            assert await ways[other(route)].version()
    assert await answers(ways[route])


# The credentials.


async def test_a_route_whose_server_has_another_authority_is_untrusted(where, arena):
    shoot = await arena.shoot()
    if where == "kube":
        async with shoot.impostor() as secret:
            with pytest.raises(CertificateUntrusted):
                await (await arena.connector.connect(secret)).version()
        return
    assert isinstance(shoot, ServedShoot)
    far = shoot.secret(route=Route.EXTERNAL)
    with arena.world.faults.route_untrusted(arena.namespace, Route.EXTERNAL):
        with pytest.raises(CertificateUntrusted):
            await (await arena.connector.connect(far)).version(within=5.0)
        assert await (await arena.connector.connect(shoot.secret(route=Route.INTERNAL))).version()
    assert await (await arena.connector.connect(far)).version(within=5.0)


async def test_the_same_content_is_the_same_cluster_for_each_route(arena):
    shoot = await arena.shoot()
    assert await connected(arena, shoot) == await connected(arena, shoot)
    ways = await connected(arena, shoot)
    assert ways[Route.INTERNAL] is not ways[Route.EXTERNAL]


# What stands before an API server.


@pytest.mark.parametrize(("status", "kind"), [(503, ServerFault), (200, BadAnswer)])
async def test_a_load_balancer_that_answers_by_itself_is_no_api_server(where, arena, status, kind):
    if where == "kube":
        pytest.skip("nothing that answers by itself stands before it there")
    shoot = await arena.shoot()
    ways = await connected(arena, shoot)
    with arena.world.faults.page_instead(arena.namespace, status):
        with pytest.raises(kind) as caught:
            await ways[Route.EXTERNAL].version(within=5.0)
        if kind is ServerFault:
            assert caught.value.status == status
        assert await ways[Route.INTERNAL].version()
    assert await ways[Route.EXTERNAL].version()


async def test_the_secrets_in_the_seed_lead_to_the_shoot(where, arena):
    if where == "kube":
        pytest.skip("nobody writes the Secrets there but the test itself")
    await arena.shoot()
    await until(
        lambda: all(arena.seed.secret(arena.namespace, route) for route in Route), "they are there"
    )
    for route in Route:
        secret = arena.seed.secret(arena.namespace, route)
        assert await (await arena.connector.connect(secret)).version(within=5.0)


async def test_without_its_way_out_the_seed_reaches_no_shoot_by_the_external_route(where, arena):
    if where == "kube":
        pytest.skip("the same as a way that is cut")
    shoot = await arena.shoot()
    ways = await connected(arena, shoot)
    await ways[Route.EXTERNAL].version()
    with arena.world.faults.seed_network_cut():
        await asyncio.sleep(0.01)
        with pytest.raises(Unreachable):
            await ways[Route.EXTERNAL].version(within=WITHIN)
        assert await ways[Route.INTERNAL].version()
    assert await answers(ways[Route.EXTERNAL])
