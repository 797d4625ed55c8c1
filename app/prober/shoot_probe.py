"""What probes of both modes have in common: requests whose failures have reasons, and live reads of what is stale."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from app.core import errors
from app.core.model.probing import Failure, PathView, Reading, RequestKind, VerdictReason
from app.core.model.shoots import Route, ShootView
from app.core.ports import Watched
from app.prober.environment import ProberEnvironment
from app.prober.rules import lifecycle
from app.prober.rules.candidates import Candidacy
from app.prober.rules.leases import READING
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.protection import PendingWrites

if TYPE_CHECKING:
    from app.core.kube.shoot import ShootCluster

T = TypeVar("T")


PROBES: Final[Mapping[Route, RequestKind]] = {
    Route.INTERNAL: RequestKind.INTERNAL,
    Route.EXTERNAL: RequestKind.EXTERNAL,
}
"""Endpoint mode: the kind of request that an attempt on each route is reported as."""


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


class ShootProbe(ABC):
    """Probes one shoot: decides what must be read, but makes no verdict; `LeaseProbe` and `PathProbe` are the modes."""

    candidacy: Candidacy | None = None
    """Which nodes count, as of the last reading that had Nodes; None in endpoint mode."""
    paths: tuple[PathView, ...] | None = None
    """The last attempt on each route; None in lease mode."""

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        self._env = environment
        self._namespace = namespace
        self._by_paths = environment.policy.endpoint_mode
        self._sessions = {
            route: environment.connector.session(environment.seed, namespace, route, name)
            for route, name in environment.policy.secret_names.items()
        }

    # What a mode does in its own way.

    @abstractmethod
    async def probe(
        self, shoot: ProbedShoot, pending: PendingWrites, *, with_nodes: bool, counts: bool
    ) -> Reading:
        """Makes one probe; never raises, whatever the clusters answer.

        Args:
            shoot: the facts of the Shoot.
            pending: what a scaling run of either direction would write.
            with_nodes: read Nodes in any case (lease mode).
            counts: the probe may count towards a threshold.
        """

    @abstractmethod
    async def confirm(self, shoot: ProbedShoot, first: Reading) -> Reading:
        """Takes a second reading, before anything is scaled down because of `first`."""

    # Contacts keep the ages of leases: endpoint mode reads none, and makes none.

    async def contact(self, shoot: ProbedShoot) -> Failure | None:  # noqa: ARG002 - see above
        """Makes contact with the shoot's storage between two probes; returns the failure, or None if it succeeded."""
        return None

    def gap_at(self, shoot: ProbedShoot) -> float | None:  # noqa: ARG002 - see above
        """The instant from which a contact would come too late to avoid a gap; None if there can be no gap."""
        return None

    def next_contact(self, last: float, probe_at: float, shoot: ProbedShoot) -> float | None:  # noqa: ARG002 - see above
        """When to make contact, after one at `last`, before the probe at `probe_at`; None if none is due before it."""
        return None

    # Requests to the shoot.

    async def _request(
        self,
        call: "Callable[[ShootCluster], Awaitable[T]]",
        otherwise: VerdictReason,
        kind: RequestKind = RequestKind.LEASE,
        route: Route = Route.INTERNAL,
    ) -> T:
        """Makes a request with the shoot's present credentials.

        Args:
            call: what to ask the shoot for.
            otherwise: the reason of the failure where the type of the error implies none.
            kind: the kind of request that a failure is reported as.
            route: the way to the shoot.

        Raises:
            ProbeError: the request failed, or there are no credentials to make it with.
        """
        of_credentials = PROBES[route] if self._by_paths else RequestKind.API_SERVER
        try:
            return await self._sessions[route].request(call)
        except errors.ClusterError as error:
            raise ProbeError(_failure(error, otherwise, kind)) from error
        except errors.CredentialRefused as error:
            missing = error.missing
            reason = (
                VerdictReason.CREDENTIALS_MISSING if missing else VerdictReason.CREDENTIALS_REFUSED
            )
            raise ProbeError(_of_credentials(reason, error, of_credentials)) from error
        except errors.NotKnownYet as error:
            failure = _of_credentials(VerdictReason.NOT_SYNCED, error, of_credentials)
            raise ProbeError(failure) from error

    # Reading live what a decision needs of stale watches (rules 4.1); if that fails, the decision is HOLD. A watch that
    # was silent for 90 s may have missed a change: the shoot may be hibernated by now, or its Secret replaced.

    async def live_where_stale(self, shoot: ProbedShoot, *, down: bool) -> ProbedShoot | Failure:
        """Returns `shoot` itself, or as it was read live, or the failure because of which nothing may be written."""
        seed, now = self._env.seed, self._env.clock.now()
        try:
            # No longer than a reading may be old: after that, what was read of the leases may be untrue.
            async with asyncio.timeout(READING):
                if seed.watch_state(Watched.CLUSTERS).stale(now):
                    shoot = await self._live_shoot(shoot, urgent=down)
                await self._env.overrides.refresh(self._namespace, urgent=down)
                if down and seed.watch_state(Watched.SECRETS).stale(now):
                    await self._take_live_secrets()
        except TimeoutError:
            return self._stale(f"reading live took longer than {READING:g}s")
        except errors.ClusterError as error:
            return self._stale(f"reading live failed: {error}")
        except ProbeError as failed:
            return failed.failure
        return shoot

    def _stale(self, what: str) -> Failure:
        """The failure `SeedStale`; `what` completes its message."""
        text = f"a watch of the seed is stale, and {what}"
        kind = RequestKind.INTERNAL if self._by_paths else RequestKind.LEASE
        return Failure(VerdictReason.SEED_STALE, text, kind)

    async def _live_shoot(self, shoot: ProbedShoot, *, urgent: bool) -> ProbedShoot:
        live = await self._env.seed.read_cluster(self._namespace, urgent=urgent)
        found = lifecycle.decide(live)
        if live is None or found.action is lifecycle.LifecycleAction.STOP:
            raise ProbeError(self._stale(found.message))
        if not isinstance(live.shoot, ShootView):
            return shoot  # the Shoot cannot be decoded, so nothing changes (rules 2)
        return ProbedShoot.of(self._namespace, live.shoot, self._env.policy)

    async def _take_live_secrets(self) -> None:
        for route, session in self._sessions.items():
            live = await self._env.seed.read_secret(self._namespace, route=route, urgent=True)
            if live is None:
                raise ProbeError(self._stale("the kubeconfig Secret is gone"))
            # A scale-down is confirmed by the internal path only, so nothing would try the external path with this one.
            if session.take(live) and route is Route.EXTERNAL:
                text = "the Secret of the external path has changed: its failures are counted anew"
                raise ProbeError(self._stale(text))


def _of_credentials(
    reason: VerdictReason, error: errors.WatchdogError, kind: RequestKind
) -> Failure:
    return Failure(reason, str(error), kind, at_once_when_credentials_change=True)


def _failure(error: errors.ClusterError, otherwise: VerdictReason, kind: RequestKind) -> Failure:
    """Translates `error`; its reason is `otherwise` where the type of the error implies none."""
    reason = next((word for of, word in _REASONS if isinstance(error, of)), otherwise)
    if kind in _ASKS_THE_SERVER and isinstance(error, errors.Unreachable):
        unnamed = kind in _PATHS and isinstance(error, errors.NameUnresolved)
        reason = VerdictReason.NAME_UNRESOLVED if unnamed else VerdictReason.UNREACHABLE
    found = Failure(reason, str(error), kind)
    if reason is VerdictReason.THROTTLED:
        return replace(found, retry_after=error.retry_after or 0.0)
    return replace(found, at_once_when_credentials_change=reason in _MENDED_BY_CREDENTIALS)
