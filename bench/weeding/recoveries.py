"""From the write of an EndpointSlice to 50 pods of 10 owners deleted: how long that takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.api import all_of
from tests.e2e.controlplane import ControlPlane, Etcd
from tests.e2e.landscape import furnish_shoot
from tests.e2e.processes import eventually
from tests.e2e.program import Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Place
from tests.e2e.weeder_stage import WeederSeed, weeding

OWNERS, EACH = 10, 5
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Weeded:
    """Seconds from right before the slice was written until the server had deleted the first and the last pod."""

    first: float
    last: float


async def one_recovery(seed: WeederSeed) -> Weeded:
    """A service of a new control plane becomes ready, and its 50 waiting pods are deleted."""
    place = await seed.place()
    waiting = await place.workloads(OWNERS, EACH)
    await place.service(ready=False)
    await asyncio.sleep(1.1)  # deletions of the run before are no longer counted to the rate
    since = await place.service(ready=True)
    await asyncio.sleep(0.9)  # the log is read as little as possible while it is measured
    await _until_gone(seed, place, len(waiting))
    done = [each.done for each in seed.deleted() if each.namespace == place.namespace]
    if len(done) != len(waiting):
        raise RuntimeError("a pod was deleted twice")
    await _forget(place)
    return Weeded(min(done) - since, max(done) - since)


async def _until_gone(seed: WeederSeed, place: Place, number: int) -> None:
    async def all_are() -> bool:
        return len([e for e in seed.deleted() if e.namespace == place.namespace]) >= number

    await eventually(all_are, "all are deleted", within=PATIENCE, every=0.2)


async def _forget(place: Place) -> None:
    """The service is lost: its recovery ends, so that every run has one watch of pods."""
    await place.clear()


@asynccontextmanager
async def lone_seed(assets: Path, folder: Path, figures: list[str]) -> AsyncIterator[WeederSeed]:
    """An API server and an etcd for the weeder alone."""
    storage = Etcd(assets / "etcd", folder, "etcd")
    plane = ControlPlane(assets / "kube-apiserver", folder, "seed", storage)
    try:
        await storage.start()
        await plane.start()
        await furnish_shoot(plane.api)  # waits for the system's namespaces
        # There are no Deployments: nobody is asked to follow them.
        stage = Stage(0, folder, plane, plane, None, figures)  # type: ignore[arg-type]
        async with weeding(stage) as seed:
            seed.kubelet.replaces = False
            try:
                yield seed
            finally:
                await all_of(each.child.kill() for each in stage.programs)
    finally:
        await plane.stop()
        await storage.stop()


async def measured(seed: WeederSeed, weeder: Program, runs: int) -> list[Weeded]:
    """So many recoveries, one after the other, after one that warms up the machine."""
    await one_recovery(seed)
    found = [await one_recovery(seed) for _ in range(runs)]
    if not await weeder.leads():
        raise RuntimeError("it does not lead any more")
    return found
