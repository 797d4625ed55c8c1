"""One probe of one shoot: requests go out, facts come back. It decides what to read, but no verdict.

In lease mode a probe is `GET /version`, then Leases, which are always read consistently: without etcd, `/version` and
the watch cache go on answering while no kubelet can renew (rules 3). Nodes and Machines are read only where the verdict
could differ because of them and something would be written on it (rules 3.2); Leases are then read last. What a probe
learns stays for the next one.

In endpoint mode it is `GET /version` by the internal path, then by the external one (rules 4.2). The internal path
tells whether the API server itself is up, so the external one is asked only while the internal one is healthy.
Machines, Nodes and Leases are not read. The results of the internal path are counted here, from one probe to the next;
those of the external path are counted with the verdict.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from app.core import errors
from app.core.model.policy import ATTEMPT
from app.core.model.probing import (
    Failure,
    Judgement,
    PathReading,
    PathView,
    Reading,
    RequestKind,
    Tally,
    VerdictReason,
)
from app.core.model.shoots import LeaseReading, MachineView, NodeReading, Route, ShootView
from app.core.ports import Watched
from app.prober.environment import ProberEnvironment
from app.prober.rules import candidates, leases, lifecycle, paths, schedule
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.paths import InternalPath
from app.prober.rules.scaling import PendingWrites

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
_ASKS_FOR_VERSION: Final = _PATHS | {RequestKind.API_SERVER}
_MENDED_BY_CREDENTIALS: Final = frozenset(
    {
        VerdictReason.CERTIFICATE_UNTRUSTED,
        VerdictReason.CREDENTIALS_INVALID,
        VerdictReason.CREDENTIALS_REFUSED,
    }
)


class ShootProbe(ABC):
    """Probes one shoot: decides what must be read, but makes no verdict; `LeaseProbe` and `PathProbe` are the modes."""

    blamed: RequestKind
    """The kind of request under which a failure is reported that none of the requests caused."""
    candidacy: candidates.Candidacy | None = None
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
        self, shoot: ProbedShoot, pending: PendingWrites, /, *, with_nodes: bool, counts: bool
    ) -> Reading:
        """Makes one probe; never raises, whatever the clusters answer.

        Args:
            shoot: the facts of the Shoot.
            pending: what a scaling run of either direction would write.
            with_nodes: read Nodes in any case (lease mode).
            counts: the probe may count towards a threshold.
        """

    @abstractmethod
    async def confirm(self, shoot: ProbedShoot, /, first: Reading) -> Reading:
        """Takes a second reading, before anything is scaled down because of `first`."""

    def backoff(self, _failure: Failure, /) -> float | None:
        """Seconds to the next probe after this failure unless something wakes the runner; None if it demands none."""
        return None

    # Contacts keep the ages of leases: endpoint mode reads none, and makes none.

    async def contact(self, _shoot: ProbedShoot, /) -> Failure | None:
        """Makes contact with the shoot's storage between two probes; returns the failure, or None if it succeeded."""
        return None

    def gap_at(self, _shoot: ProbedShoot, /) -> float | None:
        """The instant from which a contact would come too late to avoid a gap; None if there can be no gap."""
        return None

    def resume(self, _shoot: ProbedShoot, _rested: float, /) -> None:
        """Called before a standby probes again, after it has rested for so many seconds."""
        return

    def next_contact(self, _probe_at: float, _shoot: ProbedShoot, /) -> float | None:
        """When to make contact, after the last one and before the next probe; None if none is due before that."""
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
        too_long = f"reading live took longer than {leases.READING:g}s"
        try:
            # No longer than a reading may be old: after that, what was read of the leases may be untrue.
            async with asyncio.timeout(leases.READING):
                if seed.watch_state(Watched.CLUSTERS).stale(now):
                    shoot = await self._live_shoot(shoot, urgent=down)
                await self._env.overrides.refresh(self._namespace, urgent=down)
                if down and seed.watch_state(Watched.SECRETS).stale(now):
                    await self._take_live_secrets()
        except TimeoutError:
            return self._stale(too_long)
        except errors.ClusterError as error:
            return self._stale(f"reading live failed: {error}")
        except ProbeError as failed:
            return failed.failure
        # A process that was frozen takes an answer that was there before it hears that its time is over.
        return shoot if self._env.clock.now() - now <= leases.READING else self._stale(too_long)

    def _stale(self, what: str) -> Failure:
        """The failure `SeedStale`; `what` completes its message."""
        text = f"a watch of the seed is stale, and {what}"
        return Failure(VerdictReason.SEED_STALE, text, self.blamed)

    async def _live_shoot(self, shoot: ProbedShoot, *, urgent: bool) -> ProbedShoot:
        live = await self._env.seed.read_cluster(self._namespace, urgent=urgent)
        found = lifecycle.decide(live)
        if live is not None and live.uid != shoot.uid:
            found = lifecycle.MADE_AGAIN
        if live is None or found.action is lifecycle.LifecycleAction.STOP:
            raise ProbeError(self._stale(found.message))
        if not isinstance(live.shoot, ShootView):
            return shoot  # the Shoot cannot be decoded, so nothing changes (rules 2)
        return ProbedShoot.of(live, live.shoot, self._env.policy)

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
    if kind in _ASKS_FOR_VERSION and isinstance(error, errors.Unreachable):
        unnamed = kind in _PATHS and isinstance(error, errors.NameUnresolved)
        reason = VerdictReason.NAME_UNRESOLVED if unnamed else VerdictReason.UNREACHABLE
    found = Failure(reason, str(error), kind)
    if reason is VerdictReason.THROTTLED:
        return replace(found, retry_after=error.retry_after or 0.0)
    return replace(found, at_once_when_credentials_change=reason in _MENDED_BY_CREDENTIALS)


# Lease mode.

Steps = Generator[None, None, T]
# How many Leases or Nodes are judged in one step of some 2 ms, so that no shoot holds the event loop (threat T18).
_TOGETHER: Final = 250
# Failures before the first request: they tell nothing of the shoot's storage.
_NOTHING_ASKED: Final = frozenset(
    {
        VerdictReason.NOT_SYNCED,
        VerdictReason.CREDENTIALS_MISSING,
        VerdictReason.CREDENTIALS_REFUSED,
    }
)


class LeaseProbe(ShootProbe):
    """Probes one shoot in lease mode."""

    blamed = RequestKind.LEASE

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        super().__init__(environment, namespace)
        # What one probe leaves to the next; the values are replaced, never changed.
        self._history, self._contacts = leases.LeaseHistory(), leases.Contacts()
        self._exclusions = candidates.ExclusionMemory()
        self._failed_before = False
        """The last probe in which the shoot was asked anything failed."""
        self._slow_readings = 0
        """How many readings in a row were thrown away because they took too long."""
        self._known: tuple[Judgement, ...] = ()
        self._leases_asked: float | None = None
        """When the leases that this reading has judged were asked for."""
        self._protected = False
        """Whether protection was active when the probe began."""
        self._probes: dict[RequestKind, float] = {}
        self._consumer = environment.connector.consumer(namespace)

    async def probe(
        self,
        shoot: ProbedShoot,
        pending: PendingWrites,
        /,
        *,
        with_nodes: bool = False,
        counts: bool = True,  # noqa: ARG002 - the modes' signature: leases are counted with the verdict
    ) -> Reading:
        self._protected = pending.protected

        async def read() -> Tally:
            version = self._request(
                lambda cluster: cluster.version(), VerdictReason.BAD_ANSWER, RequestKind.API_SERVER
            )
            await self._timed(RequestKind.API_SERVER, version)
            if with_nodes:
                every = self._with_nodes(shoot, consistent=False)
                return await self._timed(RequestKind.LEASE, every)
            return await self._timed(RequestKind.LEASE, self._read_leases(shoot, pending))

        return await self._bounded(read)

    async def confirm(self, shoot: ProbedShoot, /, first: Reading) -> Reading:
        """Reads Leases and Nodes again, consistently and on new connections, in what is left of `probeTimeout`.

        A lagging etcd member or a caching proxy must not decide over a scale-down.
        """

        async def read() -> Tally:
            return await self._timed(RequestKind.LEASE, self._with_nodes(shoot, consistent=True))

        return await self._bounded(read, began=first.started)

    async def contact(self, shoot: ProbedShoot, /) -> Failure | None:
        """Reads one page of one Lease consistently; returns the failure, or None if it succeeded."""

        async def read() -> None:
            request = self._request(
                lambda cluster: cluster.contact(), VerdictReason.LEASES_UNREADABLE
            )
            sent = await self._timed(RequestKind.LEASE, request)
            self._contacted(sent, self._env.clock.now(), shoot.timings)

        return await self._in_time(read, self._env.policy.probe_timeout)

    def gap_at(self, shoot: ProbedShoot, /) -> float | None:
        return self._contacts.gap_at(shoot.timings)

    def resume(self, shoot: ProbedShoot, rested: float, /) -> None:
        """After a rest longer than a gap it knows no more of the leases than a process that has just begun.

        What it knew would only make it slower, in mid-outage: after a gap, ages count from its end (rules 3.1). But the
        offsets of the nodes' clocks stay, and that the last probe failed: the storage may have been away since.
        """
        if rested > shoot.timings.gap:
            self._history, self._contacts = replace(self._history, sent=None), leases.Contacts()

    def next_contact(self, probe_at: float, shoot: ProbedShoot, /) -> float | None:
        # From when the last one was sent: a slow answer must not make a gap of the distance to the next.
        last = self._contacts.last
        return None if last is None else schedule.next_contact(last, probe_at, shoot.timings)

    # One probe, within its time.

    async def _bounded(
        self, read: Callable[[], Awaitable[Tally]], *, began: float | None = None
    ) -> Reading:
        started = self._env.clock.now()
        left = self._env.policy.probe_timeout - (0.0 if began is None else started - began)
        self._leases_asked = None
        result = await self._in_time(read, left)
        ended = self._env.clock.now()
        return Reading(
            started,
            ended,
            result,
            dict(self._probes),
            self._known,
            leases_asked=self._leases_asked,
        )

    async def _in_time(self, read: Callable[[], Awaitable[T]], within: float) -> T | Failure:
        """Awaits `read` for at most so many seconds; returns what it returned, or why it did not."""
        self._probes = {}
        result: T | Failure
        try:
            async with asyncio.timeout(within):
                result = await read()
        except ProbeError as failed:
            result = failed.failure
        except TimeoutError:
            result = self._timed_out()
        if not isinstance(result, Failure) or result.reason not in _NOTHING_ASKED:
            self._failed_before = isinstance(result, Failure)
        return result

    def _timed_out(self) -> Failure:
        limit = self._env.policy.probe_timeout
        asked_for_leases = RequestKind.LEASE in self._probes
        return Failure(
            VerdictReason.TOO_SLOW if asked_for_leases else VerdictReason.UNREACHABLE,
            f"the probe took longer than probeTimeout ({limit:g}s)",
            RequestKind.LEASE if asked_for_leases else RequestKind.API_SERVER,
        )

    async def _read_leases(self, shoot: ProbedShoot, pending: PendingWrites) -> Tally:
        judgements = await self._judged(shoot, new_connection=False)
        now, limit = self._env.clock.now(), self._env.policy.limit
        self._exclusions = self._exclusions.under(shoot.conditions)
        counted = candidates.tally_without_nodes(judgements, self._exclusions, now)
        read_at = None if self.candidacy is None else self.candidacy.at
        if not candidates.nodes_needed(counted, limit, pending, read_at, now):
            return counted
        return await self._with_nodes(shoot, consistent=False)

    async def _with_nodes(self, shoot: ProbedShoot, *, consistent: bool) -> Tally:
        """Reads Nodes, Machines and then Leases, so that no lease is older than what is known of its node."""
        nodes = await self._request(
            lambda cluster: cluster.nodes(consistent=consistent), VerdictReason.NODES_UNREADABLE
        )
        reading = NodeReading(nodes, await self._machines(), self._env.clock.now())
        judgements = await self._judged(shoot, new_connection=consistent)
        return await self._consumer.finish(self._tallied(reading, judgements, shoot.conditions))

    def _tallied(
        self,
        reading: NodeReading,
        judgements: tuple[Judgement, ...],
        conditions: candidates.PoolConditions,
    ) -> Steps[Tally]:
        """Remembers which nodes count and counts their leases, in steps that the event loop can interleave."""
        candidacy = yield from _judge_nodes(reading, conditions)
        yield
        exclusions = self._exclusions.under(conditions).with_reading(
            judgements, candidacy, self._env.clock.now()
        )
        self.candidacy, self._exclusions = candidacy, exclusions
        yield
        return candidates.tally_with_nodes(judgements, candidacy)

    async def _machines(self) -> tuple[MachineView, ...]:
        state = self._env.seed.watch_state(Watched.MACHINES)
        if state.synced and not state.stale(self._env.clock.now()):
            return self._env.seed.machines(self._namespace)
        try:
            return await self._env.seed.read_machines(self._namespace, urgent=True)
        except errors.ClusterError as error:
            raise ProbeError(self._stale(f"reading Machines live failed: {error}")) from error

    async def _judged(self, shoot: ProbedShoot, *, new_connection: bool) -> tuple[Judgement, ...]:
        """Reads, learns and judges all Leases.

        Raises:
            ProbeError: they could not be read, or took longer than `READING`, so that they may be outdated.
        """
        reading: LeaseReading = await self._request(
            lambda cluster: cluster.leases(new_connection=new_connection),
            VerdictReason.LEASES_UNREADABLE,
        )
        self._contacted(reading.sent, reading.received, shoot.timings)
        took = self._env.clock.now() - reading.sent
        if took > leases.READING:
            raise ProbeError(self._slow(took))
        self._slow_readings, self._leases_asked = 0, reading.sent
        self._known = await self._consumer.finish(self._judge_leases(reading, shoot.timings))
        return self._known

    def _judge_leases(
        self, reading: LeaseReading, timings: leases.Timings
    ) -> Steps[tuple[Judgement, ...]]:
        """Updates what is known of the leases and judges them, in steps that the event loop can interleave."""
        tracks: dict[str, leases.LeaseTrack] = {}
        judged: list[Judgement] = []
        # A list that changes between two pages may have a lease twice; the later one counts.
        by_name = {lease.name: lease for lease in reading.leases}
        for part in _parts(tuple(by_name.values())):
            some = LeaseReading(part, reading.sent, reading.received)
            learnt = leases.learn(self._history, some)
            contacts, protected = self._contacts, self._protected
            judged += leases.judge_all(learnt, some, contacts, timings, protected=protected)
            tracks |= learnt.tracks
            yield
        self._history = leases.LeaseHistory(tracks, reading.sent)
        return tuple(judged)

    def _slow(self, took: float) -> Failure:
        self._slow_readings += 1
        enough = self._slow_readings >= leases.SLOW_READINGS
        reason = VerdictReason.TOO_SLOW if enough else VerdictReason.STALE_READING
        return Failure(
            reason, f"the leases took {took:.1f} s to read, and may be outdated", RequestKind.LEASE
        )

    def _contacted(self, sent: float, received: float, timings: leases.Timings) -> None:
        self._contacts = leases.contact(
            self._contacts, sent, received, timings, failed_before=self._failed_before
        )

    async def _timed(self, probe: RequestKind, work: Awaitable[T]) -> T:
        began = self._env.clock.now()
        try:
            return await work
        finally:
            self._probes[probe] = self._env.clock.now() - began


def _judge_nodes(
    reading: NodeReading, conditions: candidates.PoolConditions
) -> Steps[candidates.Candidacy]:
    judged = []
    for part in _parts(reading.nodes):
        judged.append(candidates.judge_nodes(replace(reading, nodes=part), conditions))
        yield
    return candidates.joined(judged, reading)


def _parts(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """Splits `items` into parts that are small enough to be judged in one step."""
    return (items[start : start + _TOGETHER] for start in range(0, len(items), _TOGETHER))


# Endpoint mode.

# Seconds by which a request ends before its attempt does: whatever the end of the attempt cuts off is then something
# else, such as reading a Secret live, and says nothing about the path.
_SPARE: Final = 0.1
# An attempt that took this many seconds longer than it may says nothing (rules 4.2): the process stood still, or its
# event loop runs so late that a new connection takes longer than an attempt, while the one that is kept open is well.
_FROZEN: Final = 0.5


class PathProbe(ShootProbe):
    """Probes one shoot in endpoint mode."""

    blamed = RequestKind.INTERNAL

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        super().__init__(environment, namespace)
        self._limit = min(ATTEMPT, environment.policy.probe_timeout)
        self._internal = InternalPath()
        self._seen: dict[Route, PathView] = {}
        self.paths = ()

    async def probe(
        self,
        _shoot: ProbedShoot,
        _pending: PendingWrites,
        /,
        *,
        with_nodes: bool = False,  # noqa: ARG002 - the modes' signature: there are none to be read
        counts: bool = True,
    ) -> Reading:
        """Tries the internal path and, if it is healthy, the external one; never raises, whatever a cluster answers."""
        started = self._env.clock.now()
        internal = await self._internal_path(started, counts=counts)
        if internal.failure is not None:
            return self._reading(started, internal.failure, internal)
        lacking = self._internal.missing(self._env.policy.success_threshold)
        if lacking is not None:
            return self._reading(started, PathReading(counting=lacking), internal)
        external = await self._attempt(Route.EXTERNAL)
        if external.failure is not None and not external.counted:
            return self._reading(started, external.failure, internal, external)
        return self._reading(started, PathReading(external.failure), internal, external)

    async def confirm(self, _shoot: ProbedShoot, /, first: Reading) -> Reading:
        """Tries the internal path once more: a seed whose own network is down must not blame the load balancer."""
        started = self._env.clock.now()
        internal = await self._internal_path(started, counts=False)
        return self._reading(started, internal.failure or first.result, internal)

    def backoff(self, failure: Failure, /) -> float | None:
        of_path = failure.kind is RequestKind.INTERNAL
        failed = of_path and paths.counts(Route.INTERNAL, failure.reason)
        return self._env.policy.internal_failure_backoff if failed else None

    async def _internal_path(self, at: float, *, counts: bool) -> PathView:
        seen = await self._attempt(Route.INTERNAL)
        self._internal = self._internal.after(seen.failure, at, self._env.policy, counts_now=counts)
        return seen

    async def _attempt(self, route: Route) -> PathView:
        began = self._env.clock.now()
        failure = await self._failure(route)
        ended = self._env.clock.now()
        took = ended - began
        if took > self._limit + _FROZEN:
            failure = _as_stale(took, failure, PROBES[route])
        counted = failure is None or paths.counts(route, failure.reason)
        seen = self._seen[route] = PathView(route, ended, took, failure, counted)
        self.paths = tuple(self._seen.values())
        return seen

    async def _failure(self, route: Route) -> Failure | None:
        """Asks for the version by this route; returns why none came in the time of one attempt, or None if one did."""
        within = self._limit - min(_SPARE, self._limit / 10)
        ends = asyncio.get_running_loop().time() + self._limit

        async def version(shoot: "ShootCluster") -> str:
            try:
                return await shoot.version(new_connection=route is Route.EXTERNAL, within=within)
            except errors.Unauthorized:
                attempt.reschedule(ends)
                raise

        try:
            # A request ends by its own timeout, so only what follows a 401 is cut off here: a busy event loop could
            # otherwise mistake the one for the other.
            async with asyncio.timeout(None) as attempt:
                await self._request(version, VerdictReason.BAD_ANSWER, PROBES[route], route)
        except ProbeError as failed:
            return failed.failure
        except TimeoutError:
            text = f"no version within {self._limit:g}s: a 401 came first, and the Secret was read again"
            return Failure(VerdictReason.CREDENTIALS_INVALID, text, PROBES[route])
        return None

    def _reading(
        self, started: float, result: Tally | PathReading | Failure, *seen: PathView
    ) -> Reading:
        probes = {PROBES[each.route]: each.seconds for each in seen}
        attempts = {each.route: each for each in seen}
        return Reading(started, self._env.clock.now(), result, probes, paths=attempts)


def _as_stale(took: float, failure: Failure | None, probe: RequestKind) -> Failure:
    """Makes the result of an attempt that took too long a stale reading: an answer may be as old as that, too."""
    text = f"the attempt took {took:.1f} s, as this process was frozen"
    if failure is None:
        return Failure(VerdictReason.STALE_READING, text, probe)
    return replace(
        failure, reason=VerdictReason.STALE_READING, message=f"{text}: {failure.message}"
    )
