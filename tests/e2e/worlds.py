"""A seed of its own, for scenarios that do to a seed what no other one could stand; and a crowd of shoots in it."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import objects
from tests.e2e.actors import WorkloadController
from tests.e2e.api import CLUSTERS, NODES, Api, all_of, deployments, machines, secrets
from tests.e2e.controlplane import ControlPlane, Etcd
from tests.e2e.kubelets import Kubelets
from tests.e2e.landscape import PROBE, furnish_people, furnish_seed, furnish_shoot
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.program import Program
from tests.e2e.proxies import TcpProxy
from tests.e2e.stage import Stage

_AT_ONCE = 40  # requests, as an administrator's pool has connections


@dataclass(frozen=True, slots=True)
class World:
    """A stage whose seed is its own."""

    stage: Stage
    """The same shoot's API server, and another seed."""
    way: TcpProxy
    """The way from programs to the seed."""
    neighbour: ControlPlane
    """One more API server of shoots, for those that `stage` does not act on."""


@asynccontextmanager
async def own_seed(
    outer: Stage, *, neighbour: bool = False, people: bool = True
) -> AsyncIterator[World]:
    """A seed in which nobody else lives, with a storage of its own that is reached through a proxy.

    Pauses and ScaleRequests are defined in it unless `people` is False, for charts that bring them.
    """
    name, server = f"seed-{outer.number:02}", Path(outer.seed.child.command[0])
    binary = Path(outer.seed.storage.child.command[0])
    storage = Etcd(binary, outer.folder, f"etcd-{name}", proxied=True)
    seed = ControlPlane(server, outer.folder, name, storage)
    beside = ControlPlane(server, outer.folder, f"{name}-neighbour", storage)
    way = TcpProxy(seed.port)
    try:
        await storage.start()
        await all_of(plane.start() for plane in ((seed, beside) if neighbour else (seed,)))
        await furnish_seed(seed.api)
        if people:
            await furnish_people(seed.api)
        if neighbour:
            await furnish_shoot(beside.api)
        await way.start()
        async with WorkloadController(seed.api) as controller:
            stage = outer.moved_to(seed, controller)
            stage.way_to_seed = f"https://127.0.0.1:{way.port}"
            try:
                yield World(stage, way, beside)
            except BaseException as error:
                error.add_note(stage.report())
                raise
            finally:
                await _leave(stage)
    finally:
        await way.stop()
        await _end(storage, seed, beside)


async def _leave(stage: Stage) -> None:
    """The seed goes as a whole: what has to end is what acts on it, and on the shoot's API server."""
    for each in stage.programs:
        await each.child.kill()
    if hasattr(stage.shoot, "kubelets"):
        await stage.shoot.kubelets.stop()


async def _end(storage: Etcd, *planes: ControlPlane) -> None:
    for plane in planes:
        await plane.child.kill()
        await plane.api.close()
    await storage.child.kill()
    await storage.stop()


# A crowd.


async def crowd(seed: Api, plane: ControlPlane, count: int, nodes: Sequence[str]) -> list[str]:
    """So many shoots in a seed, as far as a watchdog can see, all on one API server with these nodes.

    Returns:
        Their namespaces.
    """
    names = [f"shoot--crowd--c{n:03}" for n in range(count)]
    token = await plane.api.token_of("kube-system", PROBE)
    made = (_one_of_crowd(seed, plane, each, nodes, token) for each in names)
    await all_of(made, at_once=_AT_ONCE)
    return names


async def _one_of_crowd(
    seed: Api, plane: ControlPlane, namespace: str, nodes: Sequence[str], token: str
) -> None:
    await seed.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for name in (KCM, MCM, CA):
        await seed.create(deployments(namespace), objects.deployment(name, 1))
    for node in nodes:
        await seed.create(machines(namespace), objects.machine(node))
    config = objects.kubeconfig(namespace, plane.url, plane.authority.pem, token)
    await seed.create(secrets(namespace), objects.secret(config))
    shoot = objects.shoot(namespace, grace=40)
    await seed.create(CLUSTERS, objects.cluster(namespace, shoot))


@asynccontextmanager
async def renewed_leases(plane: ControlPlane, prefix: str, count: int) -> AsyncIterator[None]:
    """So many nodes of an API server, and kubelets that renew their Leases meanwhile."""
    names = [f"{prefix}{n}" for n in range(count)]
    await all_of(plane.api.create(NODES, objects.node(each)) for each in names)
    kubelets = Kubelets(plane, names, 40, random.Random(plane.name))
    await kubelets.start()
    try:
        yield
    finally:
        await kubelets.stop()


# What shows of a program from outside.


async def watches_are_well(prober: Program) -> bool:
    """Whether it has nothing to say about its watches."""
    return "[!]watches" not in await prober.readiness()


def resident(prober: Program) -> float:
    """MiB that it has in memory."""
    return _memory(prober, "VmRSS")


def resident_at_most(prober: Program) -> float:
    """MiB that it ever had in memory, since `forget_peak`."""
    return _memory(prober, "VmHWM")


def forget_peak(prober: Program) -> None:
    """`resident_at_most` counts anew from here."""
    Path(f"/proc/{prober.child.pid}/clear_refs").write_text("5")


def _memory(prober: Program, field: str) -> float:
    for line in Path(f"/proc/{prober.child.pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no {field} in the status of a process")
