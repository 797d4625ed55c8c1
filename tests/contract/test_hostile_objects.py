"""What a real API server takes of a shoot's owner, and what of it must not hide the objects of others."""

from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

from app.core.kube import resources
from app.core.kube.reflector import Reflector
from app.core.kube.seed import SeedCluster
from app.core.model.shoots import ShootView
from app.core.tasks import Tasks
from tests.contract.arena import KCM, POLICY, REAL_ALONE, REAL_TIME, SCALER, until, whole
from tests.contract.wire import MERGE
from tests.core.kube.test_hostile_objects import CUT_SHORT, UNDECODABLE, named
from tests.e2e import objects
from tests.e2e.api import CLUSTERS, machines, scalers

pytestmark = [*REAL_TIME, REAL_ALONE]

DEEP = b"[" * 1_500 + b"]" * 1_500
HIBERNATED = b'"shoot": {"spec": {"hibernation": {"enabled": true}}}'


async def furnish(arena):
    """An object of each kind whose owner may write what he likes into it, and one of another shoot."""
    await arena.admin.create("Cluster", objects.cluster(arena.namespace, {"spec": {}}))
    await arena.admin.create("Cluster", objects.cluster(f"{arena.namespace}-b", {"spec": {}}))
    await arena.admin.create("Machine", objects.machine("n"))
    await arena.admin.create("Machine", objects.machine("m"))
    await arena.admin.create("Scaler", objects.scaler(SCALER.name, 1))
    await arena.admin.create("Deployment", objects.deployment(KCM.name, 1))


@asynccontextmanager
async def deepened(arena, wire):
    """1,500 levels in a field that nobody knows, by merge patches of raw JSON; what has them is gone at the end."""
    places = {
        f"{CLUSTERS}/{arena.namespace}": b'{"spec": {%s, "providerConfig": %s}}'
        % (HIBERNATED, DEEP),
        f"{machines(arena.namespace)}/machine-n": b'{"spec": {"providerSpec": %s}}' % DEEP,
        f"{scalers(arena.namespace)}/{SCALER.name}": b'{"spec": {"more": %s}}' % DEEP,
    }
    try:
        for path, patch in places.items():
            answer = await wire.ask("PATCH", path, patch, kind=MERGE)
            assert answer.status == 200, answer.text
        yield
    finally:
        for path in places:
            await wire.ask("DELETE", path)


def hibernated(cluster):
    return isinstance(cluster.shoot, ShootView) and cluster.shoot.hibernation_enabled


def seen(seed, namespace):
    clusters = {name: each for name, each in seed.clusters().items() if namespace in name}
    return (
        {name: hibernated(each) for name, each in clusters.items()},
        {each.name for each in seed.machines(namespace)},
        seed.dependent(namespace, SCALER) is not None,
        seed.dependent(namespace, KCM) is not None,
    )


@asynccontextmanager
async def restarted(arena):
    """The watches of a process that starts now."""
    tasks = Tasks(arena.clock)
    made = SeedCluster(arena.adapter.api, POLICY, tasks, Random(2))
    await made.start()
    try:
        yield made
    finally:
        await tasks.stop()


async def test_objects_of_1500_levels_are_taken_and_hide_nothing_from_watches_lists_and_live_reads(
    arena, wire, lines
):
    await furnish(arena)
    other = f"{arena.namespace}-b"
    async with deepened(arena, wire):
        expected = ({arena.namespace: True, other: False}, {"machine-n", "machine-m"}, True, True)
        await until(lambda: seen(arena.seed, arena.namespace) == expected, "what is deep shows")
        await arena.admin.patch("Cluster", other, HIBERNATION)
        await arena.admin.delete("Machine", "machine-m")
        expected = ({arena.namespace: True, other: True}, {"machine-n"}, True, True)
        await until(lambda: seen(arena.seed, arena.namespace) == expected, "the others go on")
        assert arena.seed.troubles() == {}
        assert hibernated(await arena.seed.read_cluster(arena.namespace))
        assert {each.name for each in await arena.seed.read_machines(arena.namespace)} == {
            "machine-n"
        }
        assert await arena.seed.read_dependent(arena.namespace, SCALER) is not None
        assert set(named(lines, CUT_SHORT)) == {arena.namespace, "machine-n", SCALER.name}
        async with restarted(arena) as again:
            await until(lambda: seen(again, arena.namespace) == expected, "so do the lists")
    await arena.admin.delete("Cluster", other)


HIBERNATION = {"spec": {"shoot": {"spec": {"hibernation": {"enabled": True}}}}}


async def test_pages_become_shorter_and_of_what_is_too_long_alone_the_server_tells_the_name(
    arena, lines
):
    sizes = {"a": 60, "b": 60, "c": 300, "d": 60, "e": 60, "f": 60}
    names = {f"{arena.namespace}-{letter}": size for letter, size in sizes.items()}
    for name, size in names.items():
        body = objects.cluster(name, {"spec": {"ballast": "x" * (size - 55) * 1_000}})
        await arena.api.create(CLUSTERS, whole("Cluster", body, ""))
    source = replace(resources.clusters(), most=200_000)
    reflector = Reflector(source, arena.adapter.api, Random(3), lambda *_: None)
    watching = arena.tasks.shared(reflector.run, "watch clusters")
    try:
        await until(lambda: reflector.state.synced, "all are listed")
        found = {name for name in reflector.of("") if arena.namespace in name}
        assert found == set(names) - {f"{arena.namespace}-c"}
        assert f"{arena.namespace}-c" in named(lines, UNDECODABLE)
        await arena.api.patch(f"{CLUSTERS}/{arena.namespace}-f", HIBERNATION)
        await until(
            lambda: hibernated(reflector.of("")[f"{arena.namespace}-f"]), "the watch goes on"
        )
    finally:
        watching.cancel()
        for name in names:
            await arena.api.delete(f"{CLUSTERS}/{name}")
