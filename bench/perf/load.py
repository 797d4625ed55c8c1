"""The load: a simulated seed and its shoots over HTTPS, in a process of their own; steered by lines on its pipe.

`python -m bench.perf.load --shoots 300 --nodes 10 --folder DIR` writes into DIR what its clients need, says so in one
line, and then answers one line of JSON for each that it reads. Its clock is the machine's, as that of its clients is.
"""

import argparse
import asyncio
import base64
import gc
import json
import math
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import uvloop
import yaml
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from app.core.clock import Clock
from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.overrides import LONGEST
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.identities import OPERATOR, WATCHDOG
from app.simulation.manifests import EXTERNAL_SECRET_NAME
from app.simulation.server import Loopback, SimulatedServers
from app.simulation.store import Happened, ObjectKey, StoreEvent
from app.simulation.traffic import Host, SimulatedRequest, Trouble, Write
from app.simulation.workloads import API_SERVER, Workload
from bench.perf.pipe import answer

KCM: Final = "kube-controller-manager"
COUNTS: Final[dict[str | ResourceRef, int]] = {
    KCM: 1,
    "machine-controller-manager": 2,
    "cluster-autoscaler": 3,
}
"""Different ones, so that a count which is lost, or restored to the wrong resource, shows."""
DRIPPING, LARGE = "shoot--bench--dripping", "shoot--bench--large"
_LARGE_NODES: Final = 5_000
_OFTEN: Final = 0.02
_LATENCY: Final = 0.0
"""Of the simulation itself: the servers' own work and loopback take what they take."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a client of one shoot needs; written to the file `shoots.json`."""

    namespace: str
    server: str
    ca: str
    token: str


@dataclass(frozen=True, slots=True)
class Outage:
    """What became of one shoot since it was cut."""

    known: float | None
    """When its outage could be known."""
    first: float | None
    """When the first write of the watchdog was accepted."""
    zero: float | None
    """When kube-controller-manager was to have 0 replicas."""
    not_ready: int
    """Nodes that are marked NotReady now."""
    deleted: int
    """Machines that were deleted."""


@dataclass(frozen=True, slots=True)
class Told:
    """One Event that the watchdog wrote."""

    reason: str
    at: float
    """When what it tells of happened, by its own word."""
    there: float
    """When it was there to be seen."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What became of one shoot since its path was mended."""

    began: float | None
    """When the first scale-up was accepted."""
    whole: bool
    """Whether each dependent has its count again."""
    clean: bool
    """Whether no annotation of ours is left."""


def _names(shoots: int) -> list[str]:
    return [f"shoot--bench--{number:04d}" for number in range(shoots)]


class Load:
    """The world, its servers, and what the bench asks them."""

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        namespaces: list[str],
        nodes: int,
        cut_every: int = 1,
        *,
        endpoint_mode: bool = False,
    ) -> None:
        self._place = Loopback()
        self._world = World(
            clock,
            tasks,
            seed=1,
            latency=_LATENCY,
            place=self._place,
            external_secret_name=EXTERNAL_SECRET_NAME if endpoint_mode else None,
        )
        self._asked = ("get", "version") if endpoint_mode else ("list", "leases")
        self._servers = SimulatedServers(self._world, self._place)
        self._clock, self._namespaces = clock, namespaces
        self._cuts, self._cut_every = ExitStack(), cut_every
        self._cut_at = self._mended_at = float("inf")
        self._looked: dict[str, float] = {}
        self._lags: list[float] = []
        self._handshakes: Counter[Route] = Counter()
        routes = [Route.EXTERNAL] if endpoint_mode else []
        self._external = {
            self._place.port(name, route).number for name in namespaces for route in routes
        }
        for namespace in namespaces:
            self._world.add_shoot(namespace, nodes=nodes, replicas=COUNTS)
        self._told: list[Told] = []
        self._world.store.subscribe(self._hear)
        _ = tasks.shared(self._sample, "sampling")

    async def serve(self) -> None:
        """Opens all ports."""
        self._count_connections()
        await self._servers.start()

    def add_services(self, number: int) -> None:
        """The first so many shoots have the service of their API server, and the pod behind it."""
        for namespace in self._namespaces[:number]:
            self._world.add_workload(Workload(namespace, API_SERVER, service=API_SERVER))

    def add_decided(self, number: int) -> None:
        """So many Pauses in force and ScaleRequests that have ended, of the shoots in turn; a leader knows them."""
        people, now = self._world.people, self._clock.now()
        ended = {
            "status": {"phase": "Succeeded", "endedAt": rfc3339(now), "holdUntil": rfc3339(now)}
        }
        for each in range(number):
            namespace = self._namespaces[each % len(self._namespaces)]
            reason, name = f"change {each} of the bench", f"decided-{each}"
            pause = people.create("Pause", namespace, name, reason=reason, scope="scaleDown")
            made = parse_rfc3339(pause["metadata"]["creationTimestamp"]) or now
            told = {"status": {"until": rfc3339(made + LONGEST)}}
            self._world.write(ObjectKey("Pause", namespace, name), told, OPERATOR, status=True)
            people.create("ScaleRequest", namespace, name, reason=reason, direction="Up", hold="0s")
            key = ObjectKey("ScaleRequest", namespace, name)
            self._world.write(key, ended, OPERATOR, status=True)

    async def add_odd(self) -> None:
        """One more shoot whose server sends one byte a second, and one with 5,000 nodes."""
        self._world.add_shoot(DRIPPING, nodes=2, replicas=COUNTS)
        self._world.add_shoot(LARGE, nodes=_LARGE_NODES, replicas=COUNTS)
        await self._servers.start()
        port = self._place.port(DRIPPING)
        port.shut()
        await port.open(web.Server(_drip))

    async def add_hostile(self, number: int, folder: Path) -> None:
        """So many shoots more, whose servers are a process of their own, which finds in `folder` what it needs."""
        names = [f"shoot--bench--hostile-{each:02d}" for each in range(number)]
        for name in names:
            self._world.add_shoot(name, nodes=2, replicas=COUNTS)
        await self._servers.start()
        found = {}
        for name in names:
            _ = self._world.faults.api_down(name)  # leaves its port to the other process
            pair = self._place.certificate(self._world.shoot(name).authority())
            found[name] = {
                "port": self._place.port(name).number,
                "certificate": pair.certificate.decode(),
                "key": pair.key.decode(),
            }
        (folder / "hostile.json").write_text(json.dumps(found))

    def refuse_events(self) -> None:
        """Nobody may write Events from now on."""
        create = frozenset({"create"})
        self._world.faults.seed_trouble(
            Trouble(forbidden=True, verbs=create, what=frozenset({"events"}))
        )

    def _hear(self, event: StoreEvent) -> None:
        if event.key.kind == "Event" and event.happened is Happened.ADDED:
            at = parse_rfc3339(event.object["eventTime"])
            reason = event.object["reason"]
            self._told.append(Told(reason, at or math.nan, self._clock.now()))

    def _count_connections(self) -> None:
        """A connection is made when its handshake is."""
        made = RequestHandler.connection_made

        def counted(handler: RequestHandler, transport: asyncio.BaseTransport) -> None:
            port = transport.get_extra_info("sockname")[1]
            self._handshakes[Route.EXTERNAL if port in self._external else Route.INTERNAL] += 1
            made(handler, transport)

        RequestHandler.connection_made = counted  # type: ignore[assignment, method-assign]

    def write_files(self, folder: Path) -> None:
        """What the clients need: a ServiceAccount's files, and a way into each shoot."""
        config = yaml.safe_load(self._servers.kubeconfig())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        (folder / "ca.crt").write_text(ca)
        (folder / "token").write_text(user["token"])
        shoots = [asdict(self._reach(namespace)) for namespace in self._namespaces]
        found = {
            "seed": cluster["server"],
            "pattern": self._servers.shoot_server_pattern,
            "external_pattern": self._servers.shoot_server_pattern,
            "shoots": shoots,
        }
        (folder / "shoots.json").write_text(json.dumps(found))

    def _reach(self, namespace: str) -> Reach:
        shoot = self._world.shoot(namespace)
        url = self._world.place.url(namespace)
        return Reach(namespace, url, shoot.authority(), shoot.newest_token)

    async def _sample(self) -> None:
        """How late this loop is, and when each shoot was first looked at."""
        while True:
            due = self._clock.now() + _OFTEN
            await self._clock.sleep(_OFTEN)
            now = self._clock.now()
            self._lags.append(now - due)
            if len(self._looked) == len(self._namespaces):
                continue
            counts = self._world.requests.counts
            for namespace in self._namespaces:
                asked = SimulatedRequest(Host.SHOOT, *self._asked, namespace)
                if namespace not in self._looked and counts[asked]:
                    self._looked[namespace] = now

    # What the bench asks, by name.

    def begin(self) -> None:
        """Forgets who was looked at and what was counted."""
        self._looked.clear()
        self._lags.clear()
        self._told.clear()
        self._world.requests.reset()
        self._handshakes.clear()

    def looked(self) -> Mapping[str, float]:
        """When each shoot was first asked what a probe asks for, since `begin`."""
        return self._looked

    def counts(self) -> Mapping[str, float]:
        """Since the last time: requests to shoots and to the seed, handshakes, and the lag of this loop."""
        requests, lags = self._world.requests, list(self._lags)
        found = {
            "shoot": requests.total(Host.SHOOT),
            "seed": requests.total(Host.SEED),
            "handshakes": self._handshakes.total(),
            "external": self._handshakes[Route.EXTERNAL],
            "lag": max(lags, default=0.0),
        }
        self._lags.clear()
        requests.reset()
        self._handshakes.clear()
        return found

    def cut(self) -> float:
        """Cuts the paths of all nodes of all shoots, or of every so manieth; returns when."""
        self._cut_at = self._clock.now()
        for namespace in self._namespaces[:: self._cut_every]:
            self._cuts.enter_context(self._world.faults.path_cut(namespace))
        return self._cut_at

    def mend(self) -> float:
        """Mends all paths; returns when."""
        self._cuts.close()
        self._mended_at = self._clock.now()
        return self._mended_at

    def outage(self) -> list[dict[str, Any]]:
        """What became of each shoot since it was cut."""
        return [asdict(self._outage(namespace)) for namespace in self._namespaces]

    def _outage(self, namespace: str) -> Outage:
        writes = self._ours(namespace, self._cut_at)
        zeros = [each.at for each in writes if each.ref.name == KCM and _replicas(each) == 0]
        return Outage(
            self._world.known_at(namespace, since=self._cut_at),
            min((each.at for each in writes), default=None),
            min(zeros, default=None),
            len(self._world.not_ready_nodes(namespace)),
            len(self._world.machines_deleted(namespace)),
        )

    def told(self) -> list[dict[str, Any]]:
        """The Events since `begin`."""
        return [asdict(each) for each in self._told]

    def recovery(self) -> list[dict[str, Any]]:
        """What became of each shoot since the paths were mended."""
        return [asdict(self._recovery(namespace)) for namespace in self._namespaces]

    def _recovery(self, namespace: str) -> Recovery:
        ups = [each.at for each in self._ours(namespace, self._mended_at) if _replicas(each)]
        counts = {name: self._world.replicas(namespace, name) for name in COUNTS}
        keys = [key for name in COUNTS for key in self._world.annotations(namespace, name)]
        return Recovery(min(ups, default=None), counts == COUNTS, not keys)

    def _ours(self, namespace: str, since: float) -> list[Write]:
        return [w for w in self._world.journal.of(WATCHDOG, namespace) if w.at >= since]


def _replicas(write: Write) -> int | None:
    spec = write.patch.get("spec")
    found = spec.get("replicas") if isinstance(spec, Mapping) else None
    return found if isinstance(found, int) else None


async def _drip(request: web.BaseRequest) -> web.StreamResponse:
    """Answers one byte a second, for as long as somebody listens."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for byte in b'{"gitVersion": "v1.33.3"}' * 100:
        await response.write(bytes([byte]))
        await asyncio.sleep(1.0)
    return response


async def _serve(options: argparse.Namespace) -> None:
    clock = Clock.system()
    tasks = Tasks(clock)
    load = Load(
        clock,
        tasks,
        _names(options.shoots),
        options.nodes,
        options.cut_every,
        endpoint_mode=options.endpoint_mode,
    )
    load.add_services(options.services)
    load.add_decided(options.decided)
    await load.serve()
    if options.odd:
        await load.add_odd()
    await load.add_hostile(options.hostile, options.folder)
    if options.no_events:
        load.refuse_events()
    load.write_files(options.folder)
    gc.freeze()
    gc.disable()  # a collection over a million objects would keep all servers waiting for half a second
    print("ready", flush=True)
    await answer(
        {
            "begin": load.begin,
            "looked": load.looked,
            "counts": load.counts,
            "cut": load.cut,
            "mend": load.mend,
            "outage": load.outage,
            "recovery": load.recovery,
            "told": load.told,
        }
    )
    await tasks.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoots", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--odd", action="store_true", help="two odd shoots more")
    parser.add_argument("--hostile", type=int, default=0, help="hostile shoots more")
    parser.add_argument("--decided", type=int, default=0, help="Pauses, and ended ScaleRequests")
    parser.add_argument("--services", type=int, default=0, help="of API servers, for a weeder")
    parser.add_argument("--cut-every", type=int, default=1, help="1: `cut` cuts every shoot")
    parser.add_argument("--endpoint-mode", action="store_true", help="with external addresses")
    parser.add_argument("--no-events", action="store_true", help="nobody may write Events")
    parser.add_argument("--folder", type=Path, required=True)
    uvloop.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
