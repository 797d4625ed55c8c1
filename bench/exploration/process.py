"""One run of the prober: the whole of it, with its own event loop, watches, connections and election."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from app.core.errors import WatchdogError
from app.core.model.endpoints import EndpointProbeSpec, Ran, TargetAddress
from app.core.model.policy import ProberPolicy
from app.core.reporting.metering import Metering
from app.core.reporting.notices import Notice
from app.prober.controller import Prober
from app.prober.environment import EndpointAdapters
from app.service.loops import OverrideFeature, ProberLoop, RunningLoop
from app.service.parts import Cluster, Configured, Core, ProberAdapters
from app.simulation.identities import WATCHDOG
from bench.exploration.life import Grounds, Life
from bench.exploration.paths import LinedHandlers
from bench.exploration.timeline import Machine
from bench.exploration.wishes import Told

if TYPE_CHECKING:
    from app.core.overrides.cache import OverrideCache
    from app.core.overrides.service import OverrideService

LEASE: Final = ("garden", "dwd-prober-leader-election")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every process of a world is given."""

    grounds: Grounds
    policy: ProberPolicy
    told: Callable[[str], Told]
    """What a process was told of the overrides, by its name."""
    ran: Callable[["Process", EndpointProbeSpec, TargetAddress, Ran], None]
    """An endpoint probe of it has run."""
    heard: Callable[["Process", Notice], None]
    failed: Callable[["Process", str], None]
    """Something in it failed that never should."""
    answered: Callable[["Process", str], None]
    """What somebody asked of it has come to this."""


class Process(Life):
    """One run of the prober."""

    user = WATCHDOG

    def __init__(self, around: Surroundings, name: str, machine: Machine, seed: str) -> None:
        """Does nothing yet; the arguments are those of `Life`."""
        super().__init__(around.grounds, name, machine, seed, around.told(name))
        self._surroundings = around
        self.prober: Prober | None = None
        """None before its start."""
        self.overrides: OverrideCache
        self.override_service: OverrideService
        """There as soon as the prober is, both."""

    def failed(self, text: str) -> None:
        """Something in it failed that never should."""
        self._surroundings.failed(self, text)

    def asked(self, what: str, call: Callable[["Process", Prober], Awaitable[object]]) -> None:
        """Somebody asks it for something, as through its API; one that stands still hears of it when it goes on."""

        async def serve() -> None:
            if self.prober is None:
                return
            try:
                await call(self, self.prober)
            except WatchdogError as error:
                self._surroundings.answered(self, f"{what}: {type(error).__name__}: {error}")
            else:
                self._surroundings.answered(self, f"{what}: done")

        self.machine.call_soon(lambda: self._tasks.once(serve, what))

    def _policies(self) -> dict[str, Any]:
        return {"prober": self._surroundings.policy}

    def _loop(
        self, core: Core, cluster: Cluster, configured: Configured, decisions: OverrideFeature
    ) -> RunningLoop:
        around, adapters = self._surroundings, cluster.prober
        if adapters is None:
            raise RuntimeError("a process of the prober has its adapters")
        core.notice_bus.subscribe(lambda notice: around.heard(self, notice))
        self.overrides, self.override_service = decisions.view, decisions.override_service
        loop = ProberLoop(
            configured,
            around.policy,
            core,
            self._with_handlers(adapters),
            decisions,
            Metering(core.metrics),
        )
        self.prober = loop.prober
        return loop

    def _with_handlers(self, adapters: ProberAdapters) -> ProberAdapters:
        """Endpoint probes are run in the world: their targets are no API servers."""
        around, found = self._surroundings, adapters.endpoints
        if found is None:
            return adapters
        handlers = LinedHandlers(
            around.grounds.servers.world.handlers,
            self.machine,
            around.grounds.machine,
            lambda probe, address, ran: around.ran(self, probe, address, ran),
        )
        return replace(adapters, endpoints=EndpointAdapters(handlers, found.pods))
