"""What the API is given: loops, process and overrides as narrow views; nothing here asks a cluster."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from app.api import presenting
from app.api.auth.authorization import Call
from app.api.limits import ReadTurns
from app.api.page.plots import Plots
from app.api.presenting import NOTHING, Endpoints
from app.core.config.settings import ServiceSettings
from app.core.model.callers import Caller
from app.core.model.operations import Operation, Plan, ScaleOrder
from app.core.model.overrides import EffectiveOverrides, IgnoreOrder
from app.core.model.policy import ConfigWarning, Loop, ProberPolicy
from app.core.model.weeding import RecoveryStatus, ServiceKey, ServiceStatus, WeederPolicy
from app.core.model.workloads import ResourceRef, WorkloadView
from app.core.ports import OverridesService, OverridesView, Permission
from app.core.reporting.audit import AuditRecord
from app.core.reporting.history import HistoryRecord
from app.prober.endpoints.results import EndpointResultView, GateView
from app.prober.status import ShootStatus, ShootSummary

# Shoots as JSON, rendered once for all who look: a shoot changes with each look at it, and not between two of them.


class _Rendered(NamedTuple):
    status: ShootStatus
    effective: EffectiveOverrides
    endpoints: Endpoints
    body: bytes


class RenderedShoots:
    """What was rendered last of each shoot that somebody saw; some 2 KiB for each."""

    def __init__(self) -> None:
        self._known: dict[str, _Rendered] = {}

    def shoot(
        self,
        status: ShootStatus,
        policy: ProberPolicy,
        effective: EffectiveOverrides,
        endpoints: Endpoints = NOTHING,
    ) -> bytes:
        """A shoot as `schemas.Shoot` has it, in JSON."""
        known, facts = self._known.get(status.namespace), (status, effective, endpoints)
        if known is None or known[:-1] != facts:
            body = presenting.shoot(status, policy, effective, endpoints).model_dump_json(
                by_alias=True
            )
            known = self._known[status.namespace] = _Rendered(*facts, body.encode())
        return known.body

    def keep(self, shoots: Sequence[ShootSummary]) -> None:
        """Forgets those that are gone, as soon as more are known than there are."""
        if len(self._known) > len(shoots):
            names = (each.namespace for each in shoots)
            self._known = {each: self._known[each] for each in names if each in self._known}

    def __len__(self) -> int:
        return len(self._known)


class AccessAuthority(Protocol):
    """Says who may do what."""

    async def check(
        self, caller: Caller, call: Call, namespace: str = "", *, again: bool = False
    ) -> None:
        """Returns where the caller may make this call on this control plane (empty: on all).

        `again` is for what goes on for long: what was said a moment ago does not count.

        Raises:
            Problem: 403, or 503 where nobody could be asked.
        """
        ...

    async def may(self, caller: Caller, call: Call, namespace: str = "") -> bool:
        """Whether `check` would return, as far as that is known: for those who show only what may be done.

        It counts and logs nothing, and False is also said where nobody could be asked.
        """
        ...


class ShootsView(Protocol):
    """The shoots of the seed."""

    @property
    def listed(self) -> bool:
        """Whether all of them are known: the seed has been listed once."""
        ...

    def statuses(self) -> Sequence[ShootStatus]:
        """Every shoot, probed or not, in no order."""
        ...

    def summaries(self) -> Sequence[ShootSummary]:
        """The same in brief, for who looks at all to find a few."""
        ...

    def status(self, namespace: str) -> ShootStatus | None:
        """One shoot; None where the seed has none of this name."""
        ...

    def history(self, namespace: str) -> Sequence[HistoryRecord]:
        """What happened to a shoot, newest first."""
        ...


class FlowsView(Protocol):
    """The scaling runs, running and past; and those that a person begins.

    Each method that acts may raise a `ClusterError`, a `Refused` where a rule forbids it, a `FeatureOff` where holds
    cannot be written, and a `NotKnownYet` before they have been read; nothing has been changed then.
    """

    def operations(self) -> Sequence[Operation]:
        """Running and past ones, in no order."""
        ...

    def operation(self, name: str) -> Operation | None:
        """One of them; None where there never was one of this id.

        Raises:
            OperationGone: it is one of an earlier leader.
            NotKnownYet: it may be one that is to be carried on.
        """
        ...

    async def plan(self, order: ScaleOrder) -> Plan:
        """What `begin` would do now; reads live, writes nothing.

        Raises:
            RunInProgress: another manual scaling run runs.
            VersionChanged: the resources are not what the caller saw.
        """
        ...

    async def begin(self, order: ScaleOrder) -> Operation:
        """Writes the hold, ends an automatic scaling run, and begins; raises what `plan` raises."""
        ...

    async def cancel(self, name: str, *, by: str) -> Operation:
        """Cancels a manual scaling run between two steps; its hold stays, with `done: true`.

        Raises:
            Refused: it is an automatic one, or has ended.
            OperationGone: it is one of an earlier leader.
        """
        ...

    def probe_now(self, namespace: str) -> float:
        """Has the shoot looked at as soon as that may be; returns the instant of the probe.

        Raises:
            Refused: the shoot is not probed.
        """
        ...


class ResourcesView(Protocol):
    """The dependents of a shoot, live; each method may raise a `ClusterError`."""

    async def live(self, namespace: str) -> Mapping[ResourceRef, WorkloadView | None]:
        """Each configured dependent, with the replicas that only `scale` knows; None where it does not exist.

        Raises:
            Throttled: all of the request budget is needed by others.
        """
        ...

    async def set_ignored(self, order: IgnoreOrder) -> tuple[WorkloadView, WorkloadView]:
        """Writes or removes ignore-scaling; returns the resource before and after, alike where nothing was to do.

        Raises:
            NotFound: it does not exist, or is none of the configured dependents.
            Refused: it is at 0 and would stay there, and there is no `force`.
            VersionChanged: it is not what the caller saw.
        """
        ...


class WeedersView(Protocol):
    """The services that the weeder follows."""

    def statuses(self) -> Sequence[ServiceStatus]:
        """Those that have recoveries, running or past, in no order."""
        ...

    def status(self, key: ServiceKey) -> ServiceStatus | None:
        """One service; None where nothing is known of it."""
        ...

    def namespaces(self) -> Collection[str] | None:
        """The control planes that have a configured service; None while that is not known."""
        ...

    def weed_now(self, key: ServiceKey, *, author: str, reason: str, force: bool) -> RecoveryStatus:
        """Begins a recovery by hand, with the same rules and caps; it replaces one that runs.

        Raises:
            LeadershipLost: this instance does not lead.
            NotFound: nothing is known of the service.
            Refused: the service is not ready, or a pause of scope `all` covers its namespace and there is no `force`.
        """
        ...


class AuditView(Protocol):
    """Who tried to change what."""

    @property
    def since(self) -> float:
        """Since when this process keeps records."""
        ...

    def entries(self) -> Sequence[AuditRecord]:
        """All that is known, newest first."""
        ...


class LeaderView(Protocol):
    """Who leads a loop."""

    @property
    def leading(self) -> bool:
        """Whether this instance does."""
        ...

    @property
    def leader_identity(self) -> str | None:
        """Who does; None where nobody is known to."""
        ...

    @property
    def address(self) -> str | None:
        """`host:port` of its API; None where that is not known."""
        ...


class ConfiguredView(Protocol):
    """What the operator asked for."""

    @property
    def settings(self) -> ServiceSettings:
        """The flags."""
        ...

    @property
    def prober(self) -> ProberPolicy | None:
        """The prober file; None where the prober does not run here."""
        ...

    @property
    def weeder(self) -> WeederPolicy | None:
        """The weeder file; None where the weeder does not run here."""
        ...


class ProcessView(Protocol):
    """This process, and what is wrong with it."""

    @property
    def configured(self) -> ConfiguredView:
        """What the operator asked for."""
        ...

    @property
    def peer_url(self) -> str | None:
        """Where the loop that does not run here is asked; None where nobody said."""
        ...

    def now(self) -> float:
        """The instant that it is, by the process's own clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns after so many seconds by that clock."""
        ...

    @property
    def version(self) -> str:
        """Of the program."""
        ...

    @property
    def started_at(self) -> float:
        """When the process started."""
        ...

    @property
    def dry_run(self) -> bool:
        """Whether nothing is written."""
        ...

    @property
    def leaders(self) -> Mapping[Loop, LeaderView]:
        """Who leads each loop that runs here."""
        ...

    def features_off(self) -> Mapping[str, str]:
        """Each feature that is off, and why."""
        ...

    def missing_permissions(self) -> Sequence[Permission]:
        """Rights that the configuration needs and the process lacks."""
        ...

    def config_warnings(self) -> Sequence[ConfigWarning]:
        """What is accepted in flags and file, and deserves a look."""
        ...

    def found_unconfigured(self) -> Sequence[str]:
        """Objects that carry the meltdown key and are not configured."""
        ...

    def selectors_without_pods(self) -> Sequence[str]:
        """Selectors of the weeder that have matched no pod for an hour, in no order."""
        ...


class EndpointsView(Protocol):
    """What endpoint probes have found out."""

    def views(self, namespace: str) -> tuple[EndpointResultView, ...]:
        """Of one shoot, one for each probe and target, in no order."""
        ...

    def gates(self, namespace: str) -> tuple[GateView, ...]:
        """Of one shoot, one for each probe that is a gate, in no order."""
        ...


class NoEndpoints:
    """No endpoint probe is configured."""

    def views(self, namespace: str) -> tuple[EndpointResultView, ...]:  # noqa: ARG002 - the protocol's signature
        """None."""
        return ()

    def gates(self, namespace: str) -> tuple[GateView, ...]:  # noqa: ARG002 - the protocol's signature
        """None."""
        return ()


@dataclass(frozen=True, slots=True)
class ProberView:
    """The prober."""

    shoots: ShootsView
    policy: ProberPolicy
    overrides: OverridesView
    scaling_runs: FlowsView
    resources: ResourcesView
    endpoints: EndpointsView = NoEndpoints()  # noqa: RUF009 - it keeps nothing
    rendered: RenderedShoots = field(default_factory=RenderedShoots)
    looks: ReadTurns = field(default_factory=ReadTurns)
    plots: Plots = field(default_factory=Plots)

    def endpoints_of(self, namespace: str) -> Endpoints:
        """What endpoint probes have found out of one shoot."""
        return Endpoints(self.endpoints.views(namespace), self.endpoints.gates(namespace))


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to every route; what belongs to a loop that does not run here is None."""

    process: ProcessView
    overrides: OverridesView
    override_service: OverridesService
    authority: AccessAuthority
    audit: AuditView
    prober: ProberView | None = None
    weeders: WeedersView | None = None

    def has_shoot(self, namespace: str) -> bool:
        """Whether the seed has a shoot with this control plane, as far as the loops know that run here."""
        if self.prober is not None:
            return self.prober.shoots.status(namespace) is not None
        return self.weeders is not None and namespace in (self.weeders.namespaces() or ())
