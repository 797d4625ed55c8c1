"""The program on virtual time: the whole service with both loops, on the real adapter over connections in memory."""

import gc
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import generate_latest

from app.core.config.values import AuthMode
from app.core.errors import WatchdogError
from app.core.metrics import Format, Metrics
from app.core.overrides.cache import OverrideCache
from app.core.overrides.service import OverrideService
from app.core.reporting.notices import Notice
from app.prober.controller import Prober
from app.service.parts import Configured
from app.service.service import Service
from app.simulation.identities import WATCHDOG
from app.simulation.process import SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from bench.exploration.life import ReportingTasks
from bench.exploration.timeline import Machine
from bench.longlife.weather import PROBING, WEEDING

if TYPE_CHECKING:
    from app.service.loops import OverrideFeature


class Unserved(Service):
    """The whole service, but its HTTP servers."""

    def _serve(self, *_: object, **__: object) -> None:
        """Binds nothing."""


class Program:
    """One process with both loops, on a machine of its own."""

    name, leading = "program", True

    def __init__(self, servers: MemoryServers, machine: Machine, strays: list[str]) -> None:
        """Starts it; `strays` gets what nobody takes."""
        self.machine, self._strays = machine, strays
        machine.on_stray = strays.append
        self.process: SimulatedProcess
        self.service: Unserved
        self.metrics: Metrics
        _ = machine.create_task(self._main(servers))

    async def _main(self, servers: MemoryServers) -> None:
        tasks = self.tasks = ReportingTasks(servers.world.clock, self._strays.append)
        core = core_of(servers.world.clock, tasks, random.Random("program"))
        process = self.process = SimulatedProcess(
            servers,
            core,
            name=self.name,
            user=WATCHDOG,
            prober=PROBING,
            weeder=WEEDING,
            enable_leader_election=False,
            auth_mode=AuthMode.NONE,
        )
        self.metrics = core.metrics
        core.notice_bus.subscribe(self._hear)
        configured = Configured(process.settings, "longlife", PROBING, WEEDING)
        self.service = Unserved(configured, core, process.adapters)
        await self.service.start()
        gc.unfreeze()  # the world is in this process, too, and has to be let go of
        try:
            await tasks.died()
        except Exception as error:  # noqa: BLE001  whatever it was, it is reported
            self._strays.append(f"the program has ended: {error}: {error.__cause__!r}")

    def _hear(self, notice: Notice) -> None:
        if notice.reason == "RunnerFailed":
            self._strays.append(f"{notice.namespace}: {notice.message}")

    # What operators ask of it, as through its API; they take it for a process of the random worlds.

    @property
    def override_service(self) -> OverrideService:
        """Writes Pauses and ScaleRequests."""
        return self._decisions.override_service

    @property
    def overrides(self) -> OverrideCache:
        """The Pauses and ScaleRequests that it knows."""
        return self._decisions.view

    @property
    def _decisions(self) -> "OverrideFeature":
        found: OverrideFeature = vars(self.service)["_decisions"]
        return found

    def asked(self, what: str, call: Callable[["Program", Prober], Awaitable[object]]) -> None:
        """Somebody asks it for something; a refusal is an answer."""

        async def serve() -> None:
            loop = self.service.prober
            try:
                if loop is not None:
                    await call(self, loop.prober)
            except WatchdogError:
                return

        self.machine.call_soon(lambda: self.tasks.once(serve, what))

    def series(self) -> int:
        """The number of its time series; counting them is a scrape."""
        text = generate_latest(self.metrics.registry).decode()
        for source in self.metrics.sliced:
            text += _whole(source.render(Format.TEXT))
        return sum(not line.startswith("#") for line in text.splitlines())


def _whole(work: Iterator[None]) -> str:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return str(end.value)
