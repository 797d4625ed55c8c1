"""All API servers of a world, over HTTPS or in memory: the seed's, and one for each route of each shoot."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.core.kube.seed_api import SeedIdentity
from app.core.model.shoots import Route
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.identities import API_SERVER, MASTERS, OPERATOR, WATCHDOG, WEEDER
from app.simulation.memory import MemoryPlace, MemoryPort, MemoryTlsContext
from app.simulation.network import SEED, ServerPlace
from app.simulation.server.front import ServerFront
from app.simulation.server.loopback import HOST, Loopback
from app.simulation.store import ObjectKey
from app.simulation.traffic import ApiServer, ConnectionLoss

# Seconds for which an idle connection is kept; a real API server keeps it for 90 s.
_KEEP_ALIVE: Final = 100.0


Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class ServerWatcher:
    """Stands between the API servers of a world and their requests; this one leaves them as they are."""

    def handler(self, handle: Handle) -> Handle:
        """Returns what answers the requests of a server in the place of `handle`."""
        return handle

    def api(self, api: ApiServer) -> ApiServer:
        """Returns what a server asks in the place of `api`."""
        return api


class Fronts:
    """Makes the API servers of a world: what they serve, for whom, and what is written down of it."""

    def __init__(
        self,
        world: World,
        place: ServerPlace,
        watcher: ServerWatcher | None = None,
        watch_delay: float = 0.0,
    ) -> None:
        """Makes nothing yet; `world` was made with this `place`."""
        self._world, self._watcher = world, watcher or ServerWatcher()
        self._watch_delay = watch_delay
        self.seed_ca = place.authority(SEED)
        self.tokens = {
            WATCHDOG: "token-of-the-watchdog",
            OPERATOR: "token-of-the-operator",
            WEEDER: "token-of-the-weeder",
        }
        """A token of each user of the seed."""
        self._users = {token: user for user, token in self.tokens.items()}
        for user, token in self.tokens.items():
            groups = (MASTERS,) if user == OPERATOR else ()
            world.identities.add(token, user, *groups, audiences=(API_SERVER,))

    def server(
        self, name: str, route: Route, loop: asyncio.AbstractEventLoop | None = None
    ) -> tuple[web.Server, ApiServer]:
        """Makes the API server of a shoot, or of the seed, for a route; `loop` None: the one that is running."""
        shoot = self._world.shoots.get(name)
        api = self._world.api if shoot is None else shoot.api
        front = ServerFront(
            self._world, shoot, route, self._watcher.api(api), self._users, self._watch_delay
        )
        return web.Server(
            self._watcher.handler(front.handle),
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=_KEEP_ALIVE,
            loop=loop,
        ), api

    def prepare(self, name: str) -> None:
        """Creates the Namespace of a shoot, for clients that list them; the store itself needs none."""
        store, key = self._world.store, ObjectKey("Namespace", "", name)
        if store.find(key) is None:
            store.create(key, {"apiVersion": "v1", "status": {"phase": "Active"}})


class SimulatedServers:
    """The API servers of a world, on the ports of its `ServerPlace`."""

    def __init__(self, world: World, place: Loopback) -> None:
        """Prepares the servers; `start` starts them.

        Args:
            world: was made with this `place`.
            place: the ports.
        """
        self._world, self._place = world, place
        self._served: set[str] = set()
        self._fronts = Fronts(world, place)

    async def start(self) -> None:
        """Starts the servers of the seed and of all shoots that have none yet; call it again after adding shoots."""
        if SEED not in self._served:
            self._place.show(SEED, self._fronts.seed_ca)
            await self._serve(SEED, Route.INTERNAL)
        for name in self._world.shoots:
            if name not in self._served:
                self._fronts.prepare(name)
                for route in self._world.secret_names:
                    await self._serve(name, route)

    async def stop(self) -> None:
        """Stops all servers and releases their ports."""
        await self._place.close()

    @property
    def shoot_server_pattern(self) -> str:
        """The value of `--shoot-server-pattern`, and of `--external-server-pattern`, that permits all shoots."""
        return re.escape(HOST) + r":\d+"

    def kubeconfig(self, user: str = WATCHDOG) -> str:
        """Returns a kubeconfig for the seed, for the watchdog or for the operator."""
        url, user_info = self._place.url(SEED), {"token": self._fronts.tokens[user]}
        return manifests.kubeconfig("simulated-seed", url, self._fronts.seed_ca, user_info).decode()

    def cut(self) -> None:
        """Cuts all connections to the seed's API server, including watches."""
        self._place.port(SEED).cut()

    async def _serve(self, name: str, route: Route) -> None:
        self._served.add(name)
        server, api = self._fronts.server(name, route)
        port, changed = self._place.port(name, route), asyncio.Event()

        async def follow() -> None:
            """Applies faults: closes the port if connections are refused, stops answering if packets are dropped."""
            while True:
                match api.loss(route):
                    case ConnectionLoss.REFUSED:
                        port.shut()
                    case ConnectionLoss.SWALLOWED:
                        if not port.swallows:
                            port.swallow()
                    case None | ConnectionLoss.RESET:  # for a reset, connections are accepted first
                        if not port.is_open:
                            await port.open(server)
                changed.clear()
                await changed.wait()

        api.subscribe(changed.set)
        await port.open(server)
        _ = self._world.tasks.shared(follow, f"simulated {route} port of {name}")


class MemoryServers:
    """The API servers of a world, reached in memory: each listens from its first connection on."""

    def __init__(
        self,
        world: World,
        place: MemoryPlace,
        watcher: ServerWatcher | None = None,
        watch_delay: float = 0.0,
    ) -> None:
        """Prepares the servers; needs the event loop running that they are to run on.

        Args:
            world: was made with this `place`.
            place: leads to them.
            watcher: stands between them and their requests.
            watch_delay: seconds from a change in the seed to its delivery by a watch.
        """
        self.world, self.place = world, place
        self._loop = asyncio.get_running_loop()
        self._fronts = Fronts(world, place, watcher, watch_delay)
        place.show(SEED, self._fronts.seed_ca)
        place.serve = self._serve

    def _serve(self, port: MemoryPort) -> None:
        if port.name != SEED:
            self._fronts.prepare(port.name)
        server, api = self._fronts.server(port.name, port.route, self._loop)
        port.listen(server, api, self._loop)

    def credentials(self, user: str = WATCHDOG) -> "MemoryCredentials":
        """Returns the credentials of a user of the seed."""
        context = MemoryTlsContext.in_bundle(self._fronts.seed_ca)
        return MemoryCredentials(
            SeedIdentity(self.place.url(SEED), context, self._fronts.tokens[user])
        )


@dataclass(frozen=True, slots=True)
class MemoryCredentials:
    """`SeedCredentials` that never change."""

    identity: SeedIdentity

    async def current(self) -> SeedIdentity:
        return self.identity

    async def refresh(self) -> None:
        """Does nothing: they are the same again."""
