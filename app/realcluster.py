"""The adapters to a real seed for the loops of one process, with one life cycle for all of them.

`RealCluster.begin` opens the watches and enters the elections, `end` leaves them and releases the Leases, and `close`
closes the connections. All adapters share one `SeedApi`, so that the limits on requests hold for the whole process.
"""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from app.core.config.settings import ProberOptions, SeedSettings, of_loop, own_namespace
from app.core.config.values import AuthMode
from app.core.errors import ClusterError
from app.core.handlers.handlers import NetworkHandlers
from app.core.kube.connections import Network
from app.core.kube.custom_objects import PAUSE, SCALE_REQUEST, CustomObjects
from app.core.kube.election import ElectionTimes, LeaseElection, LeaseStore, SoleOwner
from app.core.kube.kubeconfig import ExternalServerPolicy, ServerPolicy
from app.core.kube.leader_slice import ApiEndpoint, LeaderAddress, LeaderAddressOff
from app.core.kube.pods import ContainerExec, ProbedPods
from app.core.kube.resources import ApiResource, assumed
from app.core.kube.reviews import (
    Reviewer,
    permissions_needed,
    process_permissions,
    weeder_permissions,
)
from app.core.kube.seed import SeedCluster
from app.core.kube.seed_api import MOST_SKEW, SeedApi, SeedCredentials
from app.core.kube.shoot import ShootConnector
from app.core.kube.weeder_view import WeederSeed
from app.core.model.policy import Loop, ProberPolicy
from app.core.model.weeding import WeederPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import PODS_FEATURE, Leadership, Permission
from app.core.tasks import cancelled
from app.prober.environment import EndpointAdapters
from app.service.parts import Cluster, Core, ProberAdapters, Rights, WeederAdapters

LEASES: Final[Mapping[Loop, str]] = MappingProxyType(
    {Loop.PROBER: "dwd-prober-leader-election", Loop.WEEDER: "dwd-weeder-leader-election"}
)


@dataclass(frozen=True, slots=True)
class _Part:
    """The life cycle of one group of adapters, its current troubles by name, and the permissions that it needs."""

    begin: Callable[[], Awaitable[None]]
    troubles: Callable[[], Mapping[str, str]]
    close: Callable[[], Awaitable[None]] | None = None
    """Closes the connections that are its own; its tasks have ended by then."""
    needed: Callable[[], Awaitable[tuple[Permission, ...]]] | None = None


class RealCluster:
    """A real seed; call `with_prober` and `with_weeder` for the loops that run before `adapters`."""

    def __init__(
        self,
        settings: SeedSettings,
        core: Core,
        credentials: SeedCredentials,
        *,
        network: Network | None = None,
        identity: str | None = None,
    ) -> None:
        self._settings, self._core, self._network = settings, core, network
        self._api = SeedApi(
            credentials,
            core.clock,
            core.metrics,
            qps=settings.kube_api_qps,
            burst=settings.kube_api_burst,
            scale_down_qps=of_loop(settings, ProberOptions).scale_down_qps,
            network=network,
        )
        self._identity = identity or f"{platform.node()}_{uuid4()}"
        self._prober: ProberAdapters | None = None
        self._weeder: WeederAdapters | None = None
        self._parts: list[_Part] = []
        self._candidates: list[LeaseElection] = []
        self._standing: list[Any] = []
        self._namespace = own_namespace(settings)
        shared = (self._api, self._identity, core.tasks, core.chance)
        self._pauses = CustomObjects(PAUSE, *shared)
        self._requests = CustomObjects(SCALE_REQUEST, *shared)
        """Followed where the prober runs."""
        self._leader: LeaderAddress | LeaderAddressOff | None = None

    @property
    def api(self) -> SeedApi:
        """What all adapters to the seed send their requests through."""
        return self._api

    def with_prober(self, options: ProberOptions, policy: ProberPolicy) -> None:
        """Create the prober's adapters; `begin` opens them."""
        core = self._core
        seed = SeedCluster(self._api, policy, core.tasks, core.chance)
        connector = ShootConnector(
            core.clock,
            core.metrics,
            ServerPolicy(options.cluster_domain, options.shoot_server_pattern),
            external=ExternalServerPolicy(options.external_server_pattern),
            probe_timeout=policy.probe_timeout,
            network=self._network,
        )
        adapters = ProberAdapters(seed, connector, self._leadership(Loop.PROBER), seed.unconfigured)
        self._prober = self._with_endpoints(adapters, options, policy)

        async def needed() -> tuple[Permission, ...]:
            return permissions_needed(
                policy,
                {each.ref: await _resource(seed, each.ref) for each in policy.dependents},
                lease=self._lease(Loop.PROBER),
                dry_run=self._settings.dry_run,
                allow_exec=options.allow_exec,
            )

        self._parts.append(_Part(seed.start, seed.troubles, connector.close, needed))

    def _with_endpoints(
        self, adapters: ProberAdapters, options: ProberOptions, policy: ProberPolicy
    ) -> ProberAdapters:
        if not policy.endpoint_probes:
            return adapters
        core = self._core
        selectors = [each.pods for each in policy.endpoint_probes if each.pods is not None]
        pods = ProbedPods(self._api, selectors, core.tasks, core.chance)
        execs = ContainerExec(self._api) if options.allow_exec else None
        handlers = NetworkHandlers(core.clock, execs)

        def features_off() -> Mapping[str, str]:
            return {} if pods.forbidden is None else {PODS_FEATURE: pods.forbidden}

        # `permissions_needed` derives the rights of endpoint probes from the policy.
        self._parts.append(_Part(pods.start, pods.troubles, handlers.close))
        return replace(
            adapters, endpoints=EndpointAdapters(handlers, pods), features_off=features_off
        )

    def with_weeder(self, policy: WeederPolicy) -> None:
        """Create the weeder's adapters; `begin` opens them."""
        core, services = self._core, tuple(policy.services)
        seed = WeederSeed(self._api, services, core.tasks, core.chance)
        self._weeder = WeederAdapters(seed, self._leadership(Loop.WEEDER))

        async def needed() -> tuple[Permission, ...]:
            lease, dry_run = self._lease(Loop.WEEDER), self._settings.dry_run
            return weeder_permissions(lease=lease, dry_run=dry_run)

        self._parts.append(_Part(seed.start, seed.troubles, needed=needed))

    def _lease(self, loop: Loop) -> tuple[str, str] | None:
        """Namespace and name of the loop's Lease; None without leader election."""
        if not self._settings.enable_leader_election:
            return None
        return (self._settings.leader_election_namespace, LEASES[loop])

    def _leadership(self, loop: Loop) -> LeaseElection | SoleOwner:
        """The loop's election; a dry run takes part in none (rules 1).

        Where both loops run, the weeder's Lease is taken only while the prober's is held (rules 8).
        """
        settings, core = self._settings, self._core
        if settings.dry_run or not settings.enable_leader_election:
            return SoleOwner()
        times = ElectionTimes(
            settings.leader_elect_lease_duration,
            settings.leader_elect_renew_deadline,
            settings.leader_elect_retry_period,
        )
        store = LeaseStore(self._api, settings.leader_election_namespace, LEASES[loop])
        found = LeaseElection(
            store,
            self._identity,
            times,
            core.clock,
            core.metrics,
            core.chance,
            behind=self._candidates[-1] if self._candidates else None,
            restored=self._api.restored,
        )
        self._candidates.append(found)
        return found

    def _address(self, leadership: Leadership) -> LeaderAddress | LeaderAddressOff:
        """The publisher of the leader's address in an EndpointSlice, or the reason why that feature is off."""
        settings, core = self._settings, self._core
        own, name = settings.advertise_address, settings.leader_endpointslice
        api = settings.exposure.address
        if own is None or name is None:
            why = "--advertise-address or --leader-endpointslice is not given"
        elif api.loopback:
            why = f"the API is on {api}, which only this machine can reach"
        elif settings.dry_run:
            why = "a dry run does not lead"
        else:
            place = ApiEndpoint(own, api.port)
            return LeaderAddress(self._api, self._namespace, name, place, leadership)
        return LeaderAddressOff(why, core.metrics)

    async def _needed(self) -> tuple[Permission, ...]:
        """The permissions that the process needs whichever loops it runs."""
        settings = self._settings
        told = isinstance(self._leader, LeaderAddress)
        return process_permissions(
            self._namespace,
            reviews=settings.auth_mode is AuthMode.KUBERNETES or settings.metrics_auth,
            leader_slice=settings.leader_endpointslice if told else None,
            dry_run=settings.dry_run,
        )

    def adapters(self) -> Cluster:
        """All adapters, as the service takes them."""
        leading = self._prober or self._weeder
        if leading is not None and self._leader is None:
            self._leader = self._address(leading.leadership)

        async def needed() -> tuple[Permission, ...]:
            """The permissions of each loop and of the process, without duplicates."""
            parts = (*(each.needed for each in self._parts), self._needed)
            return tuple(dict.fromkeys([each for part in parts if part for each in await part()]))

        reviewer = Reviewer(self._api)
        return Cluster(
            prober=self._prober,
            weeder=self._weeder,
            begin=self.begin,
            end=self.end,
            identity=self._identity,
            home=self._namespace,
            pauses=self._pauses,
            requests=None if self._prober is None else self._requests,
            leader=self._leader,
            reviewer=reviewer,
            rights=Rights(reviewer, needed),
            events=self._api.create_event,
            troubles=self._troubles,
            close=self.close,
        )

    def _troubles(self) -> Mapping[str, str]:
        found = [*(each.troubles() for each in self._parts), self._clock_troubles()]
        found += [self._pauses.troubles(), self._requests.troubles()]
        return {name: text for troubles in found for name, text in troubles.items()}

    def _clock_troubles(self) -> Mapping[str, str]:
        """A warning if our clock differs from the seed's: pauses and holds end by ours (rules 7)."""
        skew = self._api.clock_skew
        if skew is None or abs(skew) <= MOST_SKEW:
            return {}
        return {"clock": f"the local clock and the seed's differ by {skew:+.1f} s"}

    async def begin(self) -> None:
        """Open the watches and enter the elections."""
        for each in self._parts:
            await each.begin()
        await self._pauses.start()
        if self._prober is not None:
            await self._requests.start()
        if isinstance(self._leader, LeaderAddress):
            _ = self._core.tasks.shared(self._leader.run, "leader address")
        tasks = self._core.tasks
        self._standing = [tasks.shared(each.run, "leader election") for each in self._candidates]

    async def end(self) -> None:
        """Leave the elections and release the Leases, all at once: on a slow seed there is time for one request."""
        await cancelled(*self._standing)
        await asyncio.gather(*(each.release() for each in self._candidates))

    async def close(self) -> None:
        """Close all connections; to be called when all tasks have ended."""
        for each in self._parts:
            if each.close is not None:
                await each.close()
        await self._api.close()


async def _resource(seed: SeedCluster, ref: ResourceRef) -> ApiResource:
    """The resource under which the seed serves a dependent; a guess from its kind if discovery fails."""
    try:
        return await seed.resources.find(ref)
    except ClusterError:
        return assumed(ref)
