"""The interfaces through which routes see loops, process and overrides, and the cache of rendered shoots.

Only `ResourcesView` and the methods of `ScalingRunsView` that plan and act send requests to the seed; the rest is in
memory.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from app.api import presenting
from app.api.auth.authorization import Call
from app.api.limits import ReadLocks
from app.api.page.plots import Plots
from app.api.presenting import NOTHING, Endpoints
from app.core.config.settings import ServiceSettings
from app.core.model.callers import Caller
from app.core.model.overrides import API_PAUSE, EffectiveOverrides, IgnoreRequest, Pause
from app.core.model.policy import ConfigWarning, Loop, ProberPolicy
from app.core.model.scaling_runs import ScaleSpec, ScalingPlan, ScalingRunStatus
from app.core.model.weeding import RecoveryStatus, ServiceKey, ServiceStatus, WeederPolicy
from app.core.model.workloads import ResourceRef, WorkloadView
from app.core.overrides.cache import OverrideCache
from app.core.overrides.service import OverrideService
from app.core.ports import Permission
from app.core.reporting.audit import AuditRecord
from app.core.reporting.history import HistoryRecord
from app.prober.endpoints.results import EndpointResultView, GateView
from app.prober.status import ShootStatus, ShootSummary

# Shoots as JSON. A shoot changes with each probe and hardly ever between two, so that one rendering serves all readers.


class _Rendered(NamedTuple):
    status: ShootStatus
    effective: EffectiveOverrides
    endpoints: Endpoints
    body: bytes


class RenderedShoots:
    """Cache of the last rendering of each shoot that somebody asked for; some 2 KiB for each."""

    def __init__(self) -> None:
        self._known: dict[str, _Rendered] = {}

    def shoot(
        self,
        status: ShootStatus,
        policy: ProberPolicy,
        effective: EffectiveOverrides,
        endpoints: Endpoints = NOTHING,
    ) -> bytes:
        """The JSON of a shoot as `schemas.Shoot`; rendered only if its inputs differ from the last time."""
        known, facts = self._known.get(status.namespace), (status, effective, endpoints)
        if known is None or known[:-1] != facts:
            body = presenting.shoot(status, policy, effective, endpoints).model_dump_json(
                by_alias=True
            )
            known = self._known[status.namespace] = _Rendered(*facts, body.encode())
        return known.body

    def keep(self, shoots: Sequence[ShootSummary]) -> None:
        """Drop shoots that are gone, if there are more in the cache than in `shoots`."""
        if len(self._known) > len(shoots):
            names = (each.namespace for each in shoots)
            self._known = {each: self._known[each] for each in names if each in self._known}

    def __len__(self) -> int:
        return len(self._known)


class AccessAuthority(Protocol):
    """Decides whether a caller may make a call."""

    async def check(
        self, caller: Caller, call: Call, namespace: str = "", *, again: bool = False
    ) -> None:
        """Raise a `Problem` unless the caller may make this call; counts the decision.

        Args:
            caller: The authenticated caller.
            call: The kind of call.
            namespace: The control plane; empty for all.
            again: Check during a long-running answer, for which a recent yes does not count.

        Raises:
            Problem: 403; or 503 or 429 if the seed cannot be asked.
        """
        ...

    async def may(self, caller: Caller, call: Call, namespace: str = "") -> bool:
        """Whether the caller may make this call, for pages that show only permitted actions.

        Does not count as a decision; False also if the seed cannot be asked.
        """
        ...


class ShootsView(Protocol):
    """The shoots of the seed."""

    @property
    def listed(self) -> bool:
        """Whether the Clusters were listed once, so that all shoots are known."""
        ...

    def statuses(self) -> Sequence[ShootStatus]:
        """Every shoot, probed or not, in no order."""
        ...

    def summaries(self) -> Sequence[ShootSummary]:
        """A summary of every shoot, in no order; cheaper than `statuses`, for filtering and sorting."""
        ...

    def status(self, namespace: str) -> ShootStatus | None:
        """One shoot; None if the seed has none in this namespace."""
        ...

    def history(self, namespace: str) -> Sequence[HistoryRecord]:
        """The history of a shoot, newest first."""
        ...


class ScalingRunsView(Protocol):
    """Scaling runs (operations), running and past, and the means to start and cancel manual ones.

    Each method that acts may raise a `ClusterError`, a `Refused` if a rule forbids the action, a `FeatureUnavailable`
    if ScaleRequests cannot be written, and a `NotKnownYet` before they have been read. In each case nothing has been
    changed.
    """

    def operations(self) -> Sequence[ScalingRunStatus]:
        """ScaleRequests, and the automatic runs that this process remembers; in no order."""
        ...

    def operation(self, name: str) -> ScalingRunStatus | None:
        """One scaling run by its id; None if there never was such a run.

        Raises:
            OperationGone: It is an automatic one of an earlier leader, or was forgotten.
            NotKnownYet: The ScaleRequests have not been read yet.
        """
        ...

    async def plan(
        self, namespace: str, spec: ScaleSpec, *, if_match: str | None = None
    ) -> ScalingPlan:
        """What `begin` would do now; reads live and writes nothing.

        Raises:
            RunInProgress: Another manual scaling run is under way.
            VersionChanged: The resources differ from what the caller saw (`If-Match`).
        """
        ...

    async def begin(
        self, namespace: str, spec: ScaleSpec, *, if_match: str | None = None
    ) -> ScalingRunStatus:
        """Create a ScaleRequest, whose run ends an automatic one; raises the errors of `plan`."""
        ...

    async def cancel(self, name: str, *, by: str) -> ScalingRunStatus:
        """Delete the ScaleRequest of a run, and its hold with it; a request that was sent is finished.

        Raises:
            Refused: The run is automatic, or has ended.
            OperationGone: It is an automatic one of an earlier leader.
        """
        ...

    def probe_now(self, namespace: str) -> float:
        """Request a probe as soon as the rules allow it (rules 7); returns the instant at which it is due.

        Raises:
            Refused: The shoot is not probed.
        """
        ...


class ResourcesView(Protocol):
    """The dependents of a shoot, read live; each method may raise a `ClusterError`."""

    async def live(self, namespace: str) -> Mapping[ResourceRef, WorkloadView | None]:
        """Each configured dependent, with replicas from its `scale` subresource if need be; None if it is missing.

        Raises:
            Throttled: Others need all of the request budget (rules 4.3, live reads of resources).
        """
        ...

    async def set_ignored(self, order: IgnoreRequest) -> tuple[WorkloadView, WorkloadView]:
        """Write or remove ignore-scaling; returns the resource before and after, which are equal if nothing changed.

        An order with `dry_run` goes through the same checks on the same live read, and writes nothing.

        Raises:
            NotFound: The resource does not exist, or is not a configured dependent.
            Refused: The resource is at 0 and would stay there, and the order has no `force`.
            VersionChanged: The resource differs from what the caller saw (`If-Match`).
        """
        ...


class WeedersView(Protocol):
    """The services that the weeder follows."""

    def statuses(self) -> Sequence[ServiceStatus]:
        """Services with recoveries, running or past, in no order."""
        ...

    def status(self, key: ServiceKey) -> ServiceStatus | None:
        """One service; None if it is not configured, or has no EndpointSlices."""
        ...

    def namespaces(self) -> Collection[str] | None:
        """The control-plane namespaces with a configured service; None before EndpointSlices were listed once."""
        ...

    def check_weed_now(self, key: ServiceKey, *, force: bool) -> str | None:
        """Raise what `weed_now` would raise now; returns the pause that `force` overrides, if there is one."""
        ...

    def weed_now(self, key: ServiceKey, *, author: str, reason: str, force: bool) -> RecoveryStatus:
        """Begin a manual recovery, with the same rules and caps as any other; it replaces a running one.

        Raises:
            LeadershipLost: This instance does not lead the weeder.
            NotFound: The service is not configured, or has no EndpointSlices.
            Refused: The service is not ready, or a pause of scope `all` covers its namespace and `force` is not set.
        """
        ...


class AuditView(Protocol):
    """The audit records of this process."""

    @property
    def since(self) -> float:
        """Instant since which this process has kept records."""
        ...

    def entries(self) -> Sequence[AuditRecord]:
        """All records, newest first."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each attempt; it must return at once."""
        ...


class LeaderView(Protocol):
    """The leader of a loop."""

    @property
    def leading(self) -> bool:
        """Whether this instance leads the loop."""
        ...

    @property
    def leader_identity(self) -> str | None:
        """Identity of the leader; None if it is not known."""
        ...

    @property
    def address(self) -> str | None:
        """`host:port` of the leader's API; None if it is not known."""
        ...


class ConfiguredView(Protocol):
    """The effective configuration."""

    @property
    def settings(self) -> ServiceSettings:
        """The flags."""
        ...

    @property
    def prober(self) -> ProberPolicy | None:
        """The prober file; None if the prober does not run in this process."""
        ...

    @property
    def weeder(self) -> WeederPolicy | None:
        """The weeder file; None if the weeder does not run in this process."""
        ...


class ProcessView(Protocol):
    """This process and its troubles."""

    @property
    def configured(self) -> ConfiguredView:
        """The effective configuration."""
        ...

    @property
    def peer_url(self) -> str | None:
        """URL of the process that runs the other loop (`--peer-url`); None if it was not given."""
        ...

    def now(self) -> float:
        """The current instant by the process's own clock (docs/decisions/0001)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep by that clock."""
        ...

    @property
    def version(self) -> str:
        """Version of the program."""
        ...

    @property
    def identity(self) -> str:
        """Holder identity of this process in the elections."""
        ...

    @property
    def started_at(self) -> float:
        """Instant at which the process started."""
        ...

    @property
    def dry_run(self) -> bool:
        """Whether the process writes nothing (`--dry-run`)."""
        ...

    @property
    def leaders(self) -> Mapping[Loop, LeaderView]:
        """The leader of each loop that runs in this process."""
        ...

    def features_off(self) -> Mapping[str, str]:
        """Reasons by name of the features that are off."""
        ...

    def missing_permissions(self) -> Sequence[Permission]:
        """Permissions that the configuration needs and the process lacks."""
        ...

    def config_warnings(self) -> Sequence[ConfigWarning]:
        """Warnings about flags and files."""
        ...

    def found_unconfigured(self) -> Sequence[str]:
        """Objects that carry the meltdown key and are not configured, as `namespace/Kind/name`."""
        ...

    def selectors_without_pods(self) -> Sequence[str]:
        """Selectors of the weeder that have matched no pod for an hour, in no order."""
        ...


class EndpointsView(Protocol):
    """The results of endpoint probes."""

    def views(self, namespace: str) -> tuple[EndpointResultView, ...]:
        """Results of one shoot, one for each probe and target, in no order."""
        ...

    def gates(self, namespace: str) -> tuple[GateView, ...]:
        """Gates of one shoot, in no order."""
        ...


class NoEndpoints:
    """The `EndpointsView` of a prober without endpoint probes."""

    def views(self, namespace: str) -> tuple[EndpointResultView, ...]:  # noqa: ARG002 - the protocol's signature
        return ()

    def gates(self, namespace: str) -> tuple[GateView, ...]:  # noqa: ARG002 - the protocol's signature
        return ()


@dataclass(frozen=True, slots=True)
class ProberView:
    """The prober, as the API sees it."""

    shoots: ShootsView
    policy: ProberPolicy
    overrides: OverrideCache
    scaling_runs: ScalingRunsView
    resources: ResourcesView
    endpoints: EndpointsView = NoEndpoints()  # noqa: RUF009 - it keeps nothing
    rendered: RenderedShoots = field(default_factory=RenderedShoots)
    looks: ReadLocks = field(default_factory=ReadLocks)
    plots: Plots = field(default_factory=Plots)

    def endpoints_of(self, namespace: str) -> Endpoints:
        return Endpoints(self.endpoints.views(namespace), self.endpoints.gates(namespace))


@dataclass(frozen=True, slots=True)
class Context:
    """What every route can use; the view of a loop that does not run in this process is None."""

    process: ProcessView
    overrides: OverrideCache
    override_service: OverrideService
    authority: AccessAuthority
    audit: AuditView
    prober: ProberView | None = None
    weeders: WeedersView | None = None
    home: str = "garden"
    """The watchdog's own namespace; a Pause in it is of all shoots."""

    def place_of(self, call: Call, namespace: str) -> str:
        """The namespace in which a caller needs the right to make this call on a shoot."""
        return self.home if call.at_home else namespace

    def api_pause(self, namespace: str | None) -> Pause | None:
        """The API's own Pause of a shoot, or of all shoots (None), which may have ended."""
        pauses = self.overrides.pauses(namespace)
        return next((each for each in pauses if each.id.name == API_PAUSE), None)

    def has_shoot(self, namespace: str) -> bool:
        """Whether the seed has a shoot with this control plane, as far as the loops of this process know."""
        if self.prober is not None:
            return self.prober.shoots.status(namespace) is not None
        return self.weeders is not None and namespace in (self.weeders.namespaces() or ())
