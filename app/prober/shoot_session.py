"""The way into one shoot: with what the kubeconfig Secret says now; on a 401, with what it says live (rules 3)."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, Self, TypeVar

from app.core import errors
from app.core.model.policy import ProberPolicy
from app.core.model.probing import (
    Failure,
    Judgement,
    PathReading,
    PathView,
    RequestKind,
    Tally,
    VerdictReason,
)
from app.core.model.shoots import Route, SecretView, ShootView
from app.core.ports import ShootCluster, Watched
from app.prober.environment import ProberEnvironment
from app.prober.rules import candidates
from app.prober.rules.candidates import Candidacy, PoolConditions
from app.prober.rules.consecutive import PendingWrites
from app.prober.rules.timings import Timings

T = TypeVar("T")


class ProbeError(Exception):
    """Ends a probe; what the operator hears of it is in `failure`."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


_REASONS: Final[tuple[tuple[type[errors.ClusterError], VerdictReason], ...]] = (
    (errors.CertificateUntrusted, VerdictReason.CERTIFICATE_UNTRUSTED),
    (errors.Unauthorized, VerdictReason.CREDENTIALS_INVALID),
    (errors.Forbidden, VerdictReason.CREDENTIALS_INVALID),
    (errors.Throttled, VerdictReason.THROTTLED),
    (errors.LimitExceeded, VerdictReason.TOO_LARGE),
    (errors.AddressForbidden, VerdictReason.CREDENTIALS_REFUSED),
)
_PATHS: Final = frozenset({RequestKind.INTERNAL, RequestKind.EXTERNAL})
_ASKS_THE_SERVER: Final = _PATHS | {RequestKind.API_SERVER}
_MENDED_BY_CREDENTIALS: Final = frozenset(
    {
        VerdictReason.CERTIFICATE_UNTRUSTED,
        VerdictReason.CREDENTIALS_INVALID,
        VerdictReason.CREDENTIALS_MISSING,
        VerdictReason.CREDENTIALS_REFUSED,
    }
)


class ShootSession:
    """Makes the requests of one shoot's probes, on one route."""

    def __init__(
        self,
        environment: ProberEnvironment,
        namespace: str,
        route: Route = Route.INTERNAL,
        probe: RequestKind = RequestKind.API_SERVER,
    ) -> None:
        """`probe`: what trouble with the credentials is told to belong to."""
        self._env = environment
        self._namespace = namespace
        self._route, self._probe = route, probe
        self._secret: SecretView | None = None
        """The one that was used last."""
        self._live: SecretView | None = None
        """Read live, as the watch lagged behind, until it shows another one than it did then."""
        self._outdated: str | None = None
        """The version that the watch showed then."""

    async def read(
        self,
        request: Callable[[ShootCluster], Awaitable[T]],
        otherwise: VerdictReason,
        probe: RequestKind = RequestKind.LEASE,
    ) -> T:
        """What `request` brings.

        Raises:
            LookFailed: it brought nothing; `otherwise` is the reason where the error's kind alone does not say enough.
        """
        try:
            shoot = await self._connect(self._current_secret())
            try:
                return await request(shoot)
            except errors.Unauthorized:
                live = await self._changed_secret()
                if live is None:
                    raise
                return await request(await self._connect(live))
        except errors.ClusterError as error:
            raise ProbeError(_failure(error, otherwise, probe)) from error

    def _current_secret(self) -> SecretView | None:
        watched = self._env.seed.secret(self._namespace, self._route)
        if self._live is not None and watched is not None:
            if watched.resource_version == self._outdated:
                return self._live
            self._live = self._outdated = None
        return watched

    async def _changed_secret(self) -> SecretView | None:
        """The Secret as it is live, where it differs from the one that was used."""
        try:
            live = await self._env.seed.read_secret(self._namespace, route=self._route)
        except errors.ClusterError:
            return None
        return live if live is not None and self.take(live) else None

    def take(self, live: SecretView) -> bool:
        """Uses `live` from now on, if it says something else than what was used."""
        used = self._secret
        if used is not None and live.kubeconfig == used.kubeconfig:
            return False
        watched = self._env.seed.secret(self._namespace, self._route)
        self._live, self._outdated = live, None if watched is None else watched.resource_version
        return True

    async def _connect(self, secret: SecretView | None) -> ShootCluster:
        self._secret = secret
        if secret is None and not self._env.seed.watch_state(Watched.SECRETS).synced:
            text = "the kubeconfig Secrets of the seed have not been listed yet"
            raise ProbeError(self._credentials(VerdictReason.NOT_SYNCED, text))
        if secret is None or not secret.kubeconfig:
            name = self._env.policy.secret_names[self._route]
            what = "there is no Secret" if secret is None else "there is no kubeconfig in Secret"
            raise ProbeError(self._credentials(VerdictReason.CREDENTIALS_MISSING, f"{what} {name}"))
        try:
            return await self._env.connector.connect(secret)
        except errors.CredentialRefused as refused:
            absent = refused.reason == "no-token"
            reason = (
                VerdictReason.CREDENTIALS_MISSING if absent else VerdictReason.CREDENTIALS_REFUSED
            )
            raise ProbeError(self._credentials(reason, str(refused))) from refused

    def _credentials(self, reason: VerdictReason, message: str) -> Failure:
        return Failure(reason, message, self._probe, at_once_when_credentials_change=True)


def _failure(error: errors.ClusterError, otherwise: VerdictReason, probe: RequestKind) -> Failure:
    """What an operator hears of `error`; `otherwise` where its kind alone does not say enough."""
    reason = next((word for kind, word in _REASONS if isinstance(error, kind)), otherwise)
    if probe in _ASKS_THE_SERVER and isinstance(error, errors.Unreachable):
        unnamed = probe in _PATHS and isinstance(error, errors.NameUnresolved)
        reason = VerdictReason.NAME_UNRESOLVED if unnamed else VerdictReason.UNREACHABLE
    found = Failure(reason, str(error), probe)
    if reason is VerdictReason.THROTTLED:
        return replace(found, retry_after=error.retry_after or 0.0)
    return replace(found, at_once_when_credentials_change=reason in _MENDED_BY_CREDENTIALS)


# One probe: what it depends on, what it saw, and who looks.


@dataclass(frozen=True, slots=True)
class ProbedShoot:
    """What of the shoot the probe depends on; a change takes effect at the next probe."""

    namespace: str
    timings: Timings
    conditions: PoolConditions

    @classmethod
    def of(cls, namespace: str, shoot: ShootView, policy: ProberPolicy) -> Self:
        """What of a Shoot there is to know."""
        grace = shoot.node_monitor_grace or policy.grace
        return cls(namespace, Timings(grace), candidates.pool_conditions(shoot.workers))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a probe saw."""

    started: float
    ended: float
    result: Tally | PathReading | Failure
    probes: Mapping[RequestKind, float] = field(default_factory=dict)
    """Seconds that each kind of request took, of those that were made."""
    known: tuple[Judgement, ...] = ()
    """Of every lease that was read, candidate or not."""
    paths: Mapping[Route, PathView] = field(default_factory=dict)
    """Endpoint mode: the attempts that were made, the last on each route."""


class ShootProbe(Protocol):
    """Probes one shoot, in lease mode or in endpoint mode; decides nothing but what must be read."""

    async def probe(
        self,
        subject: ProbedShoot,
        pending: PendingWrites,
        *,
        with_nodes: bool = False,
        counts: bool = True,
    ) -> Reading:
        """One probe; never raises for anything that a cluster may do.

        Args:
            subject: what of the shoot it depends on.
            pending: what a verdict would lead to.
            with_nodes: Nodes are read in any case, where there are any to be read.
            counts: it may count towards a threshold.
        """
        ...

    async def confirm(self, subject: ProbedShoot, first: Reading) -> Reading:
        """Looks once more, before what `first` saw takes anything down."""
        ...

    async def contact(self, subject: ProbedShoot) -> Failure | None:
        """Makes contact with the shoot's storage between two probes; the failure where there was none."""
        ...

    async def live_where_stale(self, subject: ProbedShoot, *, down: bool) -> ProbedShoot | Failure:
        """Reads live what a verdict needs of watches that are stale: the subject now, or why not to act."""
        ...

    @property
    def candidacy(self) -> Candidacy | None:
        """Which nodes count, as of the last reading that had Nodes."""
        ...

    @property
    def paths(self) -> tuple[PathView, ...] | None:
        """The last attempt on each route; None in lease mode."""
        ...

    def gap_at(self, subject: ProbedShoot) -> float | None:
        """When there will be a gap, if there is no contact before; None where there will be none."""
        ...

    def next_contact(self, last: float, probe_at: float, subject: ProbedShoot) -> float | None:
        """When to make contact before the probe at `probe_at`, given the `last` contact or probe; None: not at all."""
        ...
