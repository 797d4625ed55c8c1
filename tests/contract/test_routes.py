"""Endpoint mode's two routes to a shoot: their Secrets in the seed, and what each says of its path."""

import asyncio

import pytest

from app.core.errors import (
    Unreachable,
)
from app.core.model.shoots import Route
from app.core.ports import SeedChange, Watched
from app.simulation.traffic import ConnectionLoss
from tests.contract.arena import BOTH_ROUTES, EXTERNAL, REAL_TIME, Told, until
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
    return {route: await arena.connector.connect(shoot.secret(route)) for route in Route}


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
async def test_each_route_has_a_secret_of_its_own_whose_changes_are_told(arena, route):
    told = Told.by(arena.seed)
    await arena.admin.create("Secret", body(route, "first"))
    change = SeedChange(Watched.SECRETS, arena.namespace)
    await until(lambda: told.changes.count(change) == 1, "its creation is told")
    view = await arena.seed.read_secret(arena.namespace, route=route)
    assert (view.route, view.kubeconfig) == (route, b"first")
    assert arena.seed.secret(arena.namespace, route) == view
    assert await arena.seed.read_secret(arena.namespace, route=other(route)) is None
    assert arena.seed.secret(arena.namespace, other(route)) is None
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


# The ways.


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
