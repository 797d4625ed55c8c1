"""What faults of an API server, of a route to it or of the seed's way out do to a process, and what they spare."""

import pytest

from app.core import errors
from app.core.model.shoots import Route
from app.simulation import manifests
from app.simulation.actors import KCM
from app.simulation.builders import World
from app.simulation.memory import MemoryPlace
from app.simulation.traffic import ConnectionLoss, Trouble
from tests.simulation.worlds import connect, simulated

A, B = "shoot--dev--a", "shoot--dev--b"
INTERNAL, EXTERNAL = Route.INTERNAL, Route.EXTERNAL
BY_EACH_ROUTE = pytest.mark.parametrize("route", list(Route))


def both(world, *namespaces, nodes=4):
    """A world in endpoint mode beside the one of the test, on its time line."""
    made = World(
        world.clock,
        world.tasks,
        external_secret_name=manifests.EXTERNAL_SECRET_NAME,
        seed=1,
        place=MemoryPlace(),
    )
    for namespace in namespaces or (A,):
        made.add_shoot(namespace, nodes=nodes)
    return made


def other(route):
    return EXTERNAL if route is INTERNAL else INTERNAL


async def version(world, route, namespace=A, within=5.0):
    return await (await connect(world, namespace, route)).version(within=within)


@simulated()
@pytest.mark.parametrize("some", [{"fraction": 0.5}, {"zone": "zone-a"}, {"nodes": ["node-0"]}])
async def test_where_some_nodes_are_cut_off_the_load_balancer_is_there(world, some):
    made = both(world)
    with made.faults.path_cut(A, **some):
        assert await version(made, EXTERNAL)


def meets(**trouble):
    return lambda faults, route: faults.route_trouble(A, route, Trouble(**trouble))


@simulated()
@BY_EACH_ROUTE
@pytest.mark.parametrize(
    ("begin", "error"),
    [
        (meets(throttled=True, retry_after=7.0), errors.Throttled),
        (meets(forbidden=True), errors.Forbidden),
        (meets(error_rate=1.0), errors.ServerFault),
        (meets(page=503), errors.ServerFault),
        (meets(page=200), errors.BadAnswer),
        (meets(refused=True), errors.Unreachable),
        (meets(silent=True), errors.Unreachable),
        (meets(lost=ConnectionLoss.SWALLOWED), errors.Unreachable),
        (meets(lost=ConnectionLoss.RESET), errors.Unreachable),
        (meets(latency=6.0), errors.Unreachable),
        (lambda faults, route: faults.credentials_wrong(A, route), errors.Unauthorized),
        (lambda faults, route: faults.kubeconfig_without_token(A, route), errors.CredentialRefused),
        (lambda faults, route: faults.kubeconfig_absent(A, route), errors.NotFound),
    ],
    ids=[
        *("429", "403", "500", "503-page", "200-page", "refused", "silent", "cut", "reset", "slow"),
        *("wrong-token", "no-token", "no-secret"),
    ],
)
async def test_what_is_wrong_with_one_route_is_not_with_the_other(world, route, begin, error):
    made = both(world)
    with begin(made.faults, route):
        with pytest.raises(error):
            await version(made, route)
        assert await version(made, other(route))
        await world.clock.sleep(120)
        assert not made.not_ready_nodes(A)
    assert await version(made, route)


@simulated()
async def test_a_name_that_is_gone_is_told_from_a_path_that_is_dead(world):
    made = both(world)
    with made.faults.name_gone(A):
        with pytest.raises(errors.NameUnresolved):
            await version(made, EXTERNAL)
        assert await version(made, INTERNAL)
    assert await version(made, EXTERNAL)


@simulated()
async def test_a_read_that_hangs_is_answered_when_the_storage_is_back_in_time(world, clock, tasks):
    world.add_shoot(A, nodes=4)
    fault, shoot = world.faults.storage_away(A), await connect(world, A)

    async def later() -> None:
        await clock.sleep(2)
        fault.lift()

    lifting = tasks.once(later, "lift")
    reading = await shoot.leases()
    await lifting
    assert reading.received - reading.sent == pytest.approx(2.01, abs=0.02)


@simulated()
async def test_trouble_of_some_requests_is_not_that_of_others_or_of_kubelets(world, clock):
    world.add_shoot(A, nodes=4)
    shoot = await connect(world, A)
    with world.faults.trouble(A, Trouble(refused=True, what=frozenset({"nodes"}))):
        with pytest.raises(errors.Unreachable):
            await shoot.nodes()
        await clock.sleep(300)
        assert (await shoot.leases()).leases
        assert world.journal.of(KCM) == ()
