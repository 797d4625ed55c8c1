"""The composition root: the only module that names both adapters, the real cluster and the simulated one."""

import asyncio
import platform
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO
from uuid import uuid4

from app import commands
from app.core.config.files import read_prober_file
from app.core.config.settings import ProberSettings
from app.core.errors import ClusterError
from app.core.kube.access import KubeAccessReviewer, permissions_needed
from app.core.kube.credentials import ServerPolicy
from app.core.kube.election import ElectionTimes, LeaseElection, SoleOwner
from app.core.kube.events import KubeEvents
from app.core.kube.leases import LeaseStore
from app.core.kube.resources import ApiResource, assumed
from app.core.kube.scan import UnconfiguredScan
from app.core.kube.seed import KubeSeed
from app.core.kube.seedapi import SeedApi
from app.core.kube.seedcredentials import (
    InClusterCredentials,
    KubeconfigCredentials,
    SeedCredentials,
)
from app.core.kube.shoot import KubeConnector
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import Permission
from app.core.runtime.about import own_version
from app.core.runtime.logs import configure_logs
from app.core.runtime.tasks import cancelled
from app.service.parts import Cluster, Configured, Core
from app.service.service import Service

LEASE: Final = "dwd-prober-leader-election"
_HERE: Final = Path(__file__).resolve().parent.parent
_SHARE: Final = Path("share", "dependency-watchdog", "prober.yaml")
_DEMO_CONFIGS: Final = (_HERE / "config" / "prober.yaml", _HERE / _SHARE, sys.prefix / _SHARE)
"""Where the demo's file is: in a checkout, beside an installed package, in its environment."""


async def run_prober(command: commands.Prober, environ: Mapping[str, str]) -> None:
    """Runs the prober on a real seed until a signal stops it.

    Raises:
        ConfigurationError: the configuration or our own credentials are wrong.
        WatchdogError: it cannot run.
        SharedLoopDied: a loop that serves all shoots has ended.
    """
    settings = command.settings
    configure_logs(settings.log_level, settings.log_format)
    loaded = read_prober_file(settings.config_file, strict=settings.strict_config)
    core = Core.create(per_shoot_metrics=settings.per_shoot_metrics)
    credentials = await _credentials(settings, core, environ)
    configured = Configured(
        settings,
        loaded.policy,
        own_version(),
        (*command.warnings, *loaded.warnings),
        settings.concurrent_reconciles,
        settings.dry_run,
    )
    cluster = RealCluster(settings, loaded.policy, core, credentials)
    await _run(Service(configured, core, cluster.doors()))


async def run_demo(command: commands.Demo, environ: Mapping[str, str], out: TextIO) -> None:
    """Runs the prober as a process of its own on a simulated seed, and lets things happen there.

    Raises:
        ConfigurationError: the scenario is wrong.
        WatchdogError: it cannot run, or the prober has ended by itself.
        SharedLoopDied: a loop of the demo has ended.
    """
    # Imported here: the terminal's library and the simulated servers are nothing that a prober should carry.
    from app.demo.demo import Demo, Invocation  # noqa: PLC0415 - see above

    sys.stderr.writelines(f"dwd demo: warning: {warning}\n" for warning in command.warnings)
    found = (path for path in _DEMO_CONFIGS if path.is_file())
    config = next(found, _DEMO_CONFIGS[0])
    stop = _stop_signal(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    await Demo(Invocation(command.settings, config, environ, out), stop).run()


async def _credentials(
    settings: ProberSettings, core: Core, environ: Mapping[str, str]
) -> SeedCredentials:
    if settings.kubeconfig is not None:
        return await KubeconfigCredentials.load(core.clock, settings.kubeconfig)
    return await InClusterCredentials.load(core.clock, environ)


class RealCluster:
    """The doors to a real seed: built here, opened by `begin`, left by `end`, shut by `close`."""

    def __init__(
        self,
        settings: ProberSettings,
        policy: ProberPolicy,
        core: Core,
        credentials: SeedCredentials,
    ) -> None:
        self._settings, self._policy, self._core = settings, policy, core
        self._api = SeedApi(
            credentials,
            core.clock,
            core.metrics,
            qps=settings.kube_api_qps,
            burst=settings.kube_api_burst,
            scale_down_qps=settings.scale_down_qps,
        )
        self._seed = KubeSeed(self._api, policy, core.clock, core.tasks, core.metrics, core.chance)
        servers = ServerPolicy(settings.cluster_domain, settings.shoot_server_pattern)
        self._connector = KubeConnector(
            core.clock, core.metrics, servers, probe_timeout=policy.probe_timeout
        )
        self._identity = f"{platform.node()}_{uuid4()}"
        self._ownership = _ownership(settings, core, self._api, self._identity)
        self._election: asyncio.Task[None] | None = None

    def doors(self) -> Cluster:
        """What the service is given."""
        return Cluster(
            self._seed,
            self._connector,
            self._ownership,
            self.begin,
            self.end,
            self._identity,
            KubeRights(self._settings, self._policy, self._api, self._seed),
            KubeEvents(self._api),
            UnconfiguredScan(self._api, self._seed.resources, self._policy),
            self._seed.troubles,
            self.close,
        )

    async def begin(self) -> None:
        """Opens the watches, and takes part in the election."""
        await self._seed.start()
        if isinstance(self._ownership, LeaseElection):
            self._election = self._core.tasks.shared(self._ownership.run, "leader election")

    async def end(self) -> None:
        """Leaves the election, and releases the Lease."""
        if self._election is not None:
            await cancelled(self._election)
        if isinstance(self._ownership, LeaseElection):
            await self._ownership.release()

    async def close(self) -> None:
        """Closes every connection."""
        await self._connector.close()
        await self._api.close()


def _ownership(
    settings: ProberSettings, core: Core, api: SeedApi, identity: str
) -> LeaseElection | SoleOwner:
    """A dry run takes part in no election."""
    if settings.dry_run or not settings.enable_leader_election:
        return SoleOwner()
    times = ElectionTimes(
        settings.leader_elect_lease_duration,
        settings.leader_elect_renew_deadline,
        settings.leader_elect_retry_period,
    )
    store = LeaseStore(api, settings.leader_election_namespace, LEASE)
    return LeaseElection(store, identity, times, core.clock, core.metrics, core.chance)


@dataclass(frozen=True, slots=True)
class KubeRights:
    """The rights that the configuration needs in a real seed."""

    settings: ProberSettings
    policy: ProberPolicy
    api: SeedApi
    seed: KubeSeed

    @property
    def reviewer(self) -> KubeAccessReviewer:
        """Asks the seed itself."""
        return KubeAccessReviewer(self.api)

    async def needed(self) -> tuple[Permission, ...]:
        """Those of the configured dependents, as the seed serves them."""
        lease = (self.settings.leader_election_namespace, LEASE)
        return permissions_needed(
            self.policy,
            {each.ref: await self._resource(each.ref) for each in self.policy.dependents},
            lease=lease if self.settings.enable_leader_election else None,
            dry_run=self.settings.dry_run,
        )

    async def _resource(self, ref: ResourceRef) -> ApiResource:
        try:
            return await self.seed.resources.find(ref)
        except ClusterError:
            return assumed(ref)


async def _run(service: Service) -> None:
    """Runs until SIGTERM or SIGINT."""
    stop = _stop_signal(signal.SIGTERM, signal.SIGINT)
    try:
        await service.start()
        await service.run(stop)
    finally:
        await service.stop("a signal" if stop.is_set() else "an error")


def _stop_signal(*numbers: signal.Signals) -> asyncio.Event:
    """What each of these signals sets from now on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    return stop
