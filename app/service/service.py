"""The process: what starts, what stops, in which order.

Start: the addresses, so that one that is taken ends the start before anything was done; HTTP, so that a process that
hangs in its start is seen; the cluster's watches and the election; the check of rights; the loops.

Stop: the loops, whose running requests are finished; the cluster, which releases its Leases; HTTP; what
serves all loops; the connections.  A stop takes two seconds at most.
"""

import asyncio
import gc
import platform
from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

import structlog

from app.api.application import create_api, create_health_app, create_metrics_app
from app.api.dependencies import Context
from app.api.health import Check
from app.core.config.flagvalues import Address
from app.core.model.workloads import ResourceRef
from app.core.records.events import EventWriter
from app.core.records.history import History
from app.core.records.journal import journal
from app.core.records.metering import Metering
from app.core.records.notices import Kind, Notice
from app.core.runtime.lag import LagSampler
from app.core.runtime.permissions import PermissionCheck
from app.core.runtime.serving import HttpServer
from app.core.runtime.tasks import SharedLoopDied
from app.service.loops import ProberLoop, RunningLoop, WeederLoop
from app.service.parts import Cluster, Configured, Core
from app.service.selfview import Finders, SelfView, health

log = structlog.get_logger(__name__)

_API_CONNECTIONS: Final = 256
_STOP_LOOPS: Final = 0.7
_STOP_CLUSTER: Final = 0.6
_CLOSE_CLUSTER: Final = 0.2


class Service:
    """The loops with everything around them."""

    def __init__(self, configured: Configured, core: Core, cluster: Cluster) -> None:
        self._configured, self._core, self._cluster = configured, core, cluster
        self.prober, self.weeder = self._prober_loop(), self._weeder_loop()
        self._history = History()
        self._metering = Metering(core.metrics)
        self._permissions = self._permission_check()
        self._events = self._event_writer()
        self._dead = False
        self._subscribe()
        self._prepare_metrics()
        self._servers: list[HttpServer] = []
        self._serving: list[asyncio.Task[None]] = []

    def _prober_loop(self) -> ProberLoop | None:
        policy, doors = self._configured.prober, self._cluster.prober
        if policy is None or doors is None:
            return None
        return ProberLoop(self._configured, policy, self._core, doors)

    def _weeder_loop(self) -> WeederLoop | None:
        policy, doors = self._configured.weeder, self._cluster.weeder
        if policy is None or doors is None:
            return None
        return WeederLoop(self._configured, policy, self._core, doors)

    @property
    def _loops(self) -> list[RunningLoop]:
        both: list[RunningLoop | None] = [self.prober, self.weeder]
        return [each for each in both if each is not None]

    def _permission_check(self) -> PermissionCheck | None:
        rights = self._cluster.rights
        if rights is None:
            return None
        return PermissionCheck(rights.reviewer, rights.needed, self._core.clock, self._core.metrics)

    def _event_writer(self) -> EventWriter | None:
        if self._cluster.events is None or self._configured.dry_run:
            return None
        return EventWriter(
            self._cluster.events,
            leading=self._leads,
            uid_of=self._uid_of,
            identity=self._cluster.identity,
            clock=self._core.clock,
            metrics=self._core.metrics,
        )

    def _leads(self) -> bool:
        """Whether it leads a loop; the weeder's is never led here without the prober's, where both run."""
        return any(each.leading for each in self._cluster.elections.values())

    def _uid_of(self, namespace: str, ref: ResourceRef) -> str | None:
        return None if self.prober is None else self.prober.uid_of(namespace, ref)

    def _subscribe(self) -> None:
        subscribers = [journal, self._metering.note]
        if self.prober is not None:  # without shoots there is nobody to show a history to
            subscribers += [self._history.note, self._forget]
        for subscriber in subscribers:
            self._core.board.subscribe(subscriber)
        if self._events is not None:
            self._core.board.subscribe(self._events.note)

    def _forget(self, notice: Notice) -> None:
        """What is known of a shoot goes when its Cluster does."""
        if notice.kind is Kind.LIFECYCLE and notice.reason == "ShootForgotten":
            self._history.forget(notice.namespace)

    def _prepare_metrics(self) -> None:
        metrics = self._core.metrics
        metrics.build_info.labels(self._configured.version, platform.python_version()).set(1)
        metrics.config_warnings.set(len(self._configured.warnings))
        for warning in self._configured.warnings:
            log.warning(
                "configuration", where=warning.path, line=warning.line, problem=warning.message
            )
        if self.prober is not None:
            self.prober.show(self._metering)

    # Start.

    async def start(self) -> None:
        """Starts everything; returns when the loops follow the seed.

        Raises:
            AddressUnavailable: an address cannot be listened on; nothing has been started then.
        """
        view = SelfView(self._configured, self._cluster, self._core.clock.now(), self._finders())
        alive = Check(
            "loops", lambda: "a loop that serves all shoots has ended" if self._dead else None
        )
        loops = [check for loop in self._loops for check in loop.checks()]
        checks = health(view, self._cluster, [alive], loops)
        settings = self._configured.settings
        self._serve(create_health_app(checks), "health", settings.health_bind_addr)
        self._serve(create_metrics_app(self._core.metrics), "metrics", settings.metrics_bind_addr)
        context = Context(
            view,
            None if self.prober is None else self.prober.view(self._history),
            None if self.weeder is None else self.weeder.weeder.controller,
        )
        api = create_api(
            context,
            health=checks,
            metrics=self._core.metrics,
            local_only=settings.api_bind_addr.loopback,
        )
        self._serve(api, "API", settings.api_bind_addr, most=_API_CONNECTIONS)
        await self._start_loops()

    def _finders(self) -> Finders:
        found = Finders(self._permissions, events=self._events)
        if self.prober is not None:
            found = replace(found, scan=self.prober.scan)
        if self.weeder is not None:
            found = replace(found, empty_selectors=self.weeder.weeder.selectors.troubles)
        return found

    def _serve(self, app: object, name: str, address: Address, most: int | None = None) -> None:
        server = HttpServer(name, app, address.host, address.port, most)
        self._servers.append(server)
        log.info("serving", what=name, address="{}:{}".format(*server.address))

    async def _start_loops(self) -> None:
        tasks = self._core.tasks
        self._serving = [tasks.shared(each.run, f"{each.name} server") for each in self._servers]
        sampler = LagSampler(self._core.clock, self._core.metrics.loop_lag)
        _ = tasks.shared(sampler.run, "loop lag")
        await self._cluster.begin()
        if self._permissions is not None:
            _ = tasks.shared(self._permissions.run, "permissions")
        if self._events is not None:
            _ = tasks.shared(self._events.run, "events")
        for loop in self._loops:
            loop.start()
        gc.collect()
        gc.freeze()  # what is there now stays: full collections over it cost tens of milliseconds each

    def address(self, name: str) -> tuple[str, int]:
        """Host and port of the server of this name; KeyError where there is none."""
        return {server.name: server.address for server in self._servers}[name]

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set.

        Raises:
            SharedLoopDied: a loop that serves all shoots has ended.
        """
        waiting = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._died())]
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()
        for each in done:
            await each

    async def _died(self) -> None:
        try:
            await self._core.tasks.died()
        except SharedLoopDied:
            self._dead = True
            raise

    # Stop.

    async def stop(self, why: str) -> None:
        """Stops everything, in two seconds at most."""
        log.info("stopping", reason=why)
        self._core.tasks.stopping()
        stopping = (_within(_STOP_LOOPS, loop.stop(why), loop.name) for loop in self._loops)
        await asyncio.gather(*stopping)
        await _within(_STOP_CLUSTER, self._cluster.end(), "cluster")
        for server in self._servers:
            server.stop()
        if self._serving:
            await asyncio.wait(self._serving, timeout=0.3)
        await self._core.tasks.stop()
        for server in self._servers:
            server.close()
        await _within(_CLOSE_CLUSTER, self._cluster.close(), "connections")
        log.info("stopped")


async def _within(seconds: float, work: Awaitable[None], what: str) -> None:
    """Waits for `work`, but not for long: what comes after it must have its turn too."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        log.warning("not stopped in time", part=what, seconds=seconds)
    except Exception as error:
        log.exception("stopping failed", part=what, exc_info=error)
