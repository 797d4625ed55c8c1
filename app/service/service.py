"""The process: starts and stops its parts in a fixed order.

Start:

1. Bind the addresses: one that is in use must end the start before anything has been done.
2. Serve HTTP: health must answer while the rest of the start hangs.
3. Open the cluster's watches and enter the elections.
4. Start the check of permissions and the writer of Events, then the loops.

Stop, in two seconds at most:

1. End the streams of events, which would otherwise hold up the servers.
2. Stop the loops; requests that were sent are awaited for 0.7 s, then cancelled.
3. Leave the elections and release the Leases, so that a standby takes over at once.
4. Stop HTTP, then the background tasks, then close the connections.
"""

import asyncio
import gc
import platform
from collections.abc import Awaitable, Iterable
from functools import partial
from ssl import SSLContext
from typing import Final

import structlog
from prometheus_client import Histogram

from app.api.application import create_api, create_health_app, create_metrics_app
from app.api.auth.gate import AccessGate, open_gate
from app.api.context import Context
from app.api.health import Check, Health
from app.api.stream import EventStreams
from app.core.clock import Clock
from app.core.config.values import ListenAddress
from app.core.reporting.audit import AuditLog
from app.core.reporting.event_writer import EventWriter
from app.core.reporting.history import History
from app.core.reporting.metering import Metering
from app.core.reporting.notices import Notice, ShootForgotten, journal
from app.core.web.peers import Network
from app.core.web.serving import HttpServer
from app.service.loops import OverrideFeature, ProberLoop, RunningLoop, WeederLoop
from app.service.parts import Cluster, Configured, Core
from app.service.selfview import PermissionCheck, SelfView, health

log = structlog.get_logger(__name__)

# Seconds for each step of a stop: together, with the 0.3 s of the servers, they keep it within two seconds.
_STOP_LOOPS: Final = 0.7
_STOP_CLUSTER: Final = 0.6
_CLOSE_CLUSTER: Final = 0.2
# Seconds between two samples of the lag.
_SAMPLED_EVERY: Final = 0.5


class Service:
    """One process: the loops, with the HTTP servers, elections, checks and subscribers around them."""

    def __init__(self, configured: Configured, core: Core, cluster: Cluster) -> None:
        self._configured, self._core, self._cluster = configured, core, cluster
        self._decisions = OverrideFeature(core, cluster, dry_run=configured.settings.dry_run)
        self._metering = Metering(core.metrics)
        self.prober: ProberLoop | None = None
        self.weeder: WeederLoop | None = None
        if configured.prober is not None and cluster.prober is not None:
            self.prober = ProberLoop(
                configured, configured.prober, core, cluster.prober, self._decisions, self._metering
            )
        if configured.weeder is not None and cluster.weeder is not None:
            self.weeder = WeederLoop(
                configured, configured.weeder, core, cluster.weeder, self._decisions
            )
        self._history, self._audit = History(), AuditLog(core.clock.now)
        self._streams: EventStreams | None = None
        self._permissions: PermissionCheck | None = None
        if cluster.rights is not None:
            self._permissions = PermissionCheck(cluster.rights, core.clock, core.metrics)
        self._events = self._event_writer()
        self._dead = False
        self._subscribe()
        self._prepare_metrics()
        self._servers: list[HttpServer] = []
        self._serving: list[asyncio.Task[None]] = []

    @property
    def _loops(self) -> list[RunningLoop]:
        return [each for each in (self.prober, self.weeder) if each is not None]

    def _event_writer(self) -> EventWriter | None:
        prober, elections = self.prober, self._cluster.elections.values()
        if self._cluster.events is None or self._configured.settings.dry_run:
            return None
        return EventWriter(
            self._cluster.events,
            # Where both loops run, this process never leads the weeder without the prober.
            leading=lambda: any(each.leading for each in elections),
            uid_of=lambda *of: None if prober is None else prober.uid_of(*of),
            identity=self._cluster.identity,
            clock=self._core.clock,
            metrics=self._core.metrics,
        )

    def _subscribe(self) -> None:
        subscribers = [journal, self._metering.note]

        def forget(notice: Notice) -> None:
            """Drop the history of a shoot whose Cluster is gone."""
            if isinstance(notice, ShootForgotten):
                self._history.forget(notice.namespace)

        if self.prober is not None:  # the history is that of shoots, which only the prober knows
            subscribers += [self._history.note, forget]
        for subscriber in subscribers:
            self._core.notice_bus.subscribe(subscriber)
        if self._events is not None:
            self._core.notice_bus.subscribe(self._events.note)

    def _prepare_metrics(self) -> None:
        metrics = self._core.metrics
        metrics.build_info.labels(self._configured.version, platform.python_version()).set(1)
        metrics.config_warnings.set(len(self._configured.warnings))
        for warning in self._configured.warnings:
            log.warning(
                "configuration", path=warning.path, line=warning.line, warning=warning.message
            )
        if self.prober is not None:
            self.prober.show()

    # Start.

    async def start(self) -> None:
        """Start everything; returns when the loops follow the seed.

        Raises:
            ConfigurationError: A file of tokens or certificates cannot be used; nothing has been started.
            AddressUnavailable: An address cannot be bound; nothing has been started.
        """
        settings, core = self._configured.settings, self._core
        gate = await open_gate(settings, self._cluster.reviewer, core.clock, core.metrics)
        off = [self._decisions.view.features_off, gate.features_off]
        if self._cluster.prober is not None:
            off.append(self._cluster.prober.features_off)
        view = SelfView(
            self._configured,
            self._cluster,
            core.clock,
            permissions=self._permissions,
            scan=None if self.prober is None else self.prober.scan,
            events=self._events,
            empty_selectors=tuple if self.weeder is None else self.weeder.weeder.selectors.troubles,
            features_off=off,
        )
        checks = self._checks(view, gate)
        at = settings.health_bind_addr
        self._serve(create_health_app(checks, local_only=at.loopback), "health", at)
        at = settings.metrics_bind_addr
        scraped = create_metrics_app(
            core.metrics, core.clock.now, gate.around_metrics, local_only=at.loopback
        )
        self._serve(scraped, "metrics", at)
        self._serve_api(view, checks, gate)
        await self._start_loops(gate)

    def _checks(self, view: SelfView, gate: AccessGate) -> Health:
        alive = Check(
            "loops", lambda: "a loop that serves all shoots has ended" if self._dead else None
        )
        loops = [check for loop in self._loops for check in loop.checks()]

        def troubles() -> str | None:
            found = gate.troubles().items()
            return "; ".join(f"{what}: {text}" for what, text in found) or None

        files = Check("files", troubles, advisory=True)
        return health(view, self._cluster, [alive], [*loops, *self._decisions.checks(), files])

    def _serve_api(self, view: SelfView, checks: Health, gate: AccessGate) -> None:
        core, exposure, settings = self._core, gate.exposure, self._configured.settings
        context = Context(
            view,
            self._decisions.view,
            self._decisions.override_service,
            gate.authority,
            self._audit,
            None if self.prober is None else self.prober.view(self._history),
            None if self.weeder is None else self.weeder.weeder.controller,
            self._cluster.home,
        )
        if context.prober is not None:
            core.notice_bus.subscribe(context.prober.plots.note)
        self._streams = self._event_streams(context)
        api = create_api(
            context,
            health=checks,
            metrics=core.metrics,
            authentication=gate.around_api,
            local_only=exposure.address.loopback,
            origins=settings.cors_allow_origin,
            streams=self._streams,
        )
        # The document is cached on the application. Generating it takes a tenth of a second, for which a request would
        # keep the event loop from the probes.
        api.openapi()
        self._serve(api, "API", exposure.address, tls=gate.tls, proxies=settings.trusted_proxies)

    def _event_streams(self, context: Context) -> EventStreams:
        core, prober = self._core, self._cluster.prober
        streams = EventStreams(context, core.clock, core.chance, core.metrics)
        core.notice_bus.subscribe(streams.publisher.note)
        if prober is not None:
            prober.seed.subscribe(streams.seed_changed)
        if self.prober is not None:
            self.prober.follow_endpoints(streams.publisher.shoot_changed)
        for election in self._cluster.elections.values():
            election.subscribe(streams.publisher.leadership_changed)
        return streams

    def _serve(
        self,
        app: object,
        name: str,
        address: ListenAddress,
        *,
        tls: SSLContext | None = None,
        proxies: Iterable[Network] = (),
    ) -> None:
        server = HttpServer(name, app, address.host, address.port, tls=tls, proxies=proxies)
        self._servers.append(server)
        log.info("serving", what=name, address="{}:{}".format(*server.address))

    async def _start_loops(self, gate: AccessGate) -> None:
        tasks = self._core.tasks
        self._serving = [tasks.shared(each.run, f"{each.name} server") for each in self._servers]
        sampling = partial(sample_lag, self._core.clock, self._core.metrics.loop_lag)
        _ = tasks.shared(sampling, "loop lag")
        gate.start(tasks)
        self._decisions.start()
        if self._streams is not None:
            self._streams.start(tasks)
        await self._cluster.begin()
        if self._permissions is not None:
            _ = tasks.shared(self._permissions.run, "permissions")
        if self._events is not None:
            _ = tasks.shared(self._events.run, "events")
        for loop in self._loops:
            loop.start()
        gc.collect()
        # What exists now lives as long as the process; full collections over it would cost tens of milliseconds each.
        gc.freeze()

    def address(self, name: str) -> tuple[str, int]:
        """Host and port of the server `name` ("API", "health", "metrics"); raises KeyError if there is none."""
        return {server.name: server.address for server in self._servers}[name]

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set.

        Raises:
            SharedLoopDied: A loop that serves all shoots has ended.
        """
        died = asyncio.ensure_future(self._core.tasks.died())
        waiting = [asyncio.ensure_future(stop.wait()), died]
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        self._dead = died in done
        for each in pending:
            each.cancel()
        for each in done:
            await each

    # Stop.

    async def stop(self, why: str) -> None:
        """Stop everything within two seconds; `why` goes into log and reports."""
        log.info("stopping", reason=why)
        self._core.tasks.stopping()
        if self._streams is not None:
            self._streams.stop()
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
        self._audit.flush()
        log.info("stopped")


async def sample_lag(clock: Clock, histogram: Histogram) -> None:
    """Measure for ever how late the event loop returns to a timer: each probe and each answer is late by as much."""
    while True:
        due = clock.now() + _SAMPLED_EVERY
        await clock.sleep(_SAMPLED_EVERY)
        histogram.observe(max(clock.now() - due, 0.0))


async def _within(seconds: float, work: Awaitable[None], what: str) -> None:
    """Wait for `work` for at most `seconds`; log a timeout or an error, so that the steps after it run in any case."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        log.warning("not stopped in time", part=what, seconds=seconds)
    except Exception as error:
        log.exception("stopping failed", part=what, exc_info=error)
