"""The simulated seed and its twin, a world with the same shoots and scenes but without a watchdog."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from app.core.clock import Clock
from app.core.config.settings import DemoSettings
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.demo.witness import Witness
from app.simulation.manifests import EXTERNAL_SECRET_NAME
from app.simulation.network import ServerPlace
from app.simulation.scenarios.player import Player
from app.simulation.scenarios.scenario import DemoMode, Part, Scenario, populate

HEALTH_TIMEOUT: Final = 30.0
"""Seconds after which the simulated machine-controller-manager replaces a node that is not Ready. Gardener's default
is 10 min, which is too long for a demo."""
_LATENCY: Final = 0.002


@dataclass(frozen=True, slots=True)
class Seed:
    """Both worlds, the player of the scenario, and a witness of each."""

    world: World
    player: Player
    mine: Witness
    theirs: Witness


async def build(
    clock: Clock,
    tasks: Tasks,
    scenario: Scenario,
    parts: Sequence[Part],
    settings: DemoSettings,
    place: ServerPlace | None = None,
) -> Seed:
    """Builds both worlds; yields to the event loop after each shoot, so that Ctrl-C works meanwhile.

    Args:
        clock: the time line of both worlds.
        tasks: runs the tasks of all actors.
        scenario: what will happen.
        parts: the shoots.
        settings: the random seed and the speed of the scenario.
        place: where the API servers of the world with the watchdog listen; None if they do not.
    """
    external = EXTERNAL_SECRET_NAME if scenario.mode is DemoMode.ENDPOINT else None
    make = partial(
        World,
        clock,
        tasks,
        seed=settings.seed,
        latency=_LATENCY,
        external_secret_name=external,
    )
    world, twin = make(place=place), make()
    for part in parts:
        for each in (world, twin):
            populate(each, (part,), health_timeout=HEALTH_TIMEOUT)
        await clock.sleep(0)
    namespaces = [part.namespace for part in parts]
    player = Player(clock, (world, twin), scenario, parts, speed=settings.speed)
    theirs = Witness(twin, namespaces, watched=False)
    return Seed(world, player, Witness(world, namespaces), theirs)


_HOST: Final = "127.0.0.1"


class Canary:
    """Answers probes while the seed's network works."""

    def __init__(self, through: Callable[[], Awaitable[None]]) -> None:
        """Answers nothing yet.

        Args:
            through: returns when what the seed sends arrives outside; until then a probe waits, most of them in vain.
        """
        self._through = through
        self._server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(self._server)

    async def open(self) -> tuple[str, int]:
        """Begins to answer; returns host and port. Raises OSError where there is no port."""
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, 0).start()
        host, port = self._runner.addresses[0]
        return host, port

    async def close(self) -> None:
        """Ends it, and gives the port back."""
        for connection in tuple(self._server.connections):
            if connection.transport is not None:
                connection.transport.abort()  # waiting clients would delay the stop
        await self._runner.cleanup()

    async def _answer(self, _request: web.BaseRequest) -> web.StreamResponse:
        """Answers 204 when the request has passed the seed's network; cancelled if the client disconnects."""
        await self._through()
        return web.Response(status=204)
