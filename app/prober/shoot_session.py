"""Requests to one shoot's API server, with the credentials of its kubeconfig Secret (rules 3, step 1).

The watch of Secrets may lag behind a rotation: after a 401 the Secret is read live, once, and the request repeated if
that is another kubeconfig. The one that was read live is then used until the watch shows a change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

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
from app.core.ports import Watched
from app.prober.environment import ProberEnvironment
from app.prober.rules import candidates, lifecycle
from app.prober.rules.candidates import Candidacy, PoolConditions
from app.prober.rules.consecutive import PendingWrites
from app.prober.rules.timings import READING, Timings

if TYPE_CHECKING:
    from app.core.kube.shoot import ShootCluster

T = TypeVar("T")


class ProbeError(Exception):
    """Ends a probe; `failure` is its result, with the reason that operators read."""

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
    """Makes the requests of one shoot's probes on one route."""

    def __init__(
        self,
        environment: ProberEnvironment,
        namespace: str,
        route: Route = Route.INTERNAL,
        probe: RequestKind = RequestKind.API_SERVER,
    ) -> None:
        """`probe`: the kind of request that failures of the credentials are reported as."""
        self._env = environment
        self._namespace = namespace
        self._route, self._probe = route, probe
        self._secret: SecretView | None = None
        """The Secret that was used last."""
        self._live: SecretView | None = None
        """The Secret as read live when the watch lagged behind; dropped when the watch shows a change."""
        self._outdated: str | None = None
        """The resourceVersion that the watch showed at that time."""

    async def read(
        self,
        request: "Callable[[ShootCluster], Awaitable[T]]",
        otherwise: VerdictReason,
        probe: RequestKind = RequestKind.LEASE,
    ) -> T:
        """Makes a request, and repeats it once with the live Secret after a 401.

        Args:
            request: what to ask the shoot for.
            otherwise: the reason of the failure where the type of the error implies none.
            probe: the kind of request that a failure is reported as.

        Raises:
            ProbeError: the request failed, or there are no credentials to make it with.
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
        """Reads the Secret live; None if that fails, or shows the kubeconfig that was used already."""
        try:
            live = await self._env.seed.read_secret(self._namespace, route=self._route)
        except errors.ClusterError:
            return None
        return live if live is not None and self.take(live) else None

    def take(self, live: SecretView) -> bool:
        """Uses `live` from now on; returns False, and does nothing, if its kubeconfig is the one that was used."""
        used = self._secret
        if used is not None and live.kubeconfig == used.kubeconfig:
            return False
        watched = self._env.seed.secret(self._namespace, self._route)
        self._live, self._outdated = live, None if watched is None else watched.resource_version
        return True

    async def _connect(self, secret: SecretView | None) -> "ShootCluster":
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
    """Translates `error`; its reason is `otherwise` where the type of the error implies none."""
    reason = next((word for kind, word in _REASONS if isinstance(error, kind)), otherwise)
    if probe in _ASKS_THE_SERVER and isinstance(error, errors.Unreachable):
        unnamed = probe in _PATHS and isinstance(error, errors.NameUnresolved)
        reason = VerdictReason.NAME_UNRESOLVED if unnamed else VerdictReason.UNREACHABLE
    found = Failure(reason, str(error), probe)
    if reason is VerdictReason.THROTTLED:
        return replace(found, retry_after=error.retry_after or 0.0)
    return replace(found, at_once_when_credentials_change=reason in _MENDED_BY_CREDENTIALS)


@dataclass(frozen=True, slots=True)
class ProbedShoot:
    """The facts of a Shoot that its probes depend on; a change takes effect at the next probe."""

    namespace: str
    timings: Timings
    conditions: PoolConditions

    @classmethod
    def of(cls, namespace: str, shoot: ShootView, policy: ProberPolicy) -> Self:
        """Extracts the facts from a Shoot; `policy` has the grace period of one that sets none."""
        grace = shoot.node_monitor_grace or policy.grace
        return cls(namespace, Timings(grace), candidates.pool_conditions(shoot.workers))


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of a probe."""

    started: float
    ended: float
    result: Tally | PathReading | Failure
    probes: Mapping[RequestKind, float] = field(default_factory=dict)
    """Seconds that each kind of request took; only those that were made."""
    known: tuple[Judgement, ...] = ()
    """The judgements of all leases that were read, candidates or not."""
    paths: Mapping[Route, PathView] = field(default_factory=dict)
    """Endpoint mode: the last attempt that this probe made on each route."""


class ShootProbe(Protocol):
    """Probes one shoot, in lease mode or in endpoint mode; decides what must be read, but makes no verdict."""

    async def probe(
        self,
        subject: ProbedShoot,
        pending: PendingWrites,
        *,
        with_nodes: bool = False,
        counts: bool = True,
    ) -> Reading:
        """Makes one probe; never raises, whatever the clusters answer.

        Args:
            subject: the facts of the Shoot.
            pending: what a scaling run of either direction would write.
            with_nodes: read Nodes in any case (lease mode).
            counts: the probe may count towards a threshold.
        """
        ...

    async def confirm(self, subject: ProbedShoot, first: Reading) -> Reading:
        """Takes a second reading, before anything is scaled down because of `first`."""
        ...

    async def contact(self, subject: ProbedShoot) -> Failure | None:
        """Makes contact with the shoot's storage between two probes; returns the failure, or None if it succeeded."""
        ...

    async def live_where_stale(self, subject: ProbedShoot, *, down: bool) -> ProbedShoot | Failure:
        """Reads live what a verdict needs of stale watches; returns the subject as of now, or why not to act."""
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
        """The instant from which a contact would come too late to avoid a gap; None if there can be no gap."""
        ...

    def next_contact(self, last: float, probe_at: float, subject: ProbedShoot) -> float | None:
        """When to make contact before the probe at `probe_at`; None if none is due before it.

        Args:
            last: when the last contact or probe ended.
            probe_at: when the next probe is due.
            subject: the facts of the Shoot.
        """
        ...


# Reading live what a verdict needs of stale watches (rules 4.1); if that fails, the verdict is HOLD. A watch that was
# silent for 90 s may have missed a change: the shoot may be hibernated by now, or its Secret replaced.


class LiveReads:
    """Reads one shoot's Cluster and Secrets from the seed where their watches are stale."""

    def __init__(
        self,
        environment: ProberEnvironment,
        namespace: str,
        sessions: Mapping[Route, ShootSession],
        probe: RequestKind,
    ) -> None:
        """Keeps what it needs; makes no request.

        Args:
            environment: what all runners share.
            namespace: of the shoot.
            sessions: by route; they are given a Secret that was read live.
            probe: the kind of request that failures are reported as.
        """
        self._env, self._namespace, self._sessions, self._probe = (
            environment,
            namespace,
            sessions,
            probe,
        )

    async def live_where_stale(self, subject: ProbedShoot, *, down: bool) -> ProbedShoot | Failure:
        """Returns the subject as of now, or the failure because of which the verdict may not be acted on."""
        seed, now = self._env.seed, self._env.clock.now()
        try:
            # No longer than a reading may be old: after that, what was read of the leases may be untrue.
            async with asyncio.timeout(READING):
                if seed.watch_state(Watched.CLUSTERS).stale(now):
                    subject = await self._live_subject(subject, urgent=down)
                await self._env.overrides.refresh(self._namespace, urgent=down)
                if down and seed.watch_state(Watched.SECRETS).stale(now):
                    for route, session in self._sessions.items():
                        await self._take_live_secret(route, session)
        except TimeoutError:
            return self.stale(f"reading live took longer than {READING:g}s")
        except errors.ClusterError as error:
            return self.stale(f"reading live failed: {error}")
        except ProbeError as failed:
            return failed.failure
        return subject

    def stale(self, what: str) -> Failure:
        """The failure `SeedStale`; `what` completes its message."""
        text = f"a watch of the seed is stale, and {what}"
        return Failure(VerdictReason.SEED_STALE, text, self._probe)

    async def _live_subject(self, subject: ProbedShoot, *, urgent: bool) -> ProbedShoot:
        live = await self._env.seed.read_cluster(self._namespace, urgent=urgent)
        found = lifecycle.decide(live)
        if live is None or found.action is lifecycle.LifecycleAction.STOP:
            raise ProbeError(self.stale(found.message))
        if not isinstance(live.shoot, ShootView):
            return subject  # the Shoot cannot be decoded, so nothing changes (rules 2)
        return ProbedShoot.of(self._namespace, live.shoot, self._env.policy)

    async def _take_live_secret(self, route: Route, session: ShootSession) -> None:
        live = await self._env.seed.read_secret(self._namespace, route=route, urgent=True)
        if live is None:
            raise ProbeError(self.stale("the kubeconfig Secret is gone"))
        # A scale-down is confirmed by the internal path only, so nothing would try the external path with this Secret.
        if session.take(live) and route is Route.EXTERNAL:
            text = "the Secret of the external path has changed: its failures are counted anew"
            raise ProbeError(self.stale(text))
