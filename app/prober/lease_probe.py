"""One probe of one shoot in lease mode: requests in, facts out.  It decides nothing but what must be read.

A probe is `GET /version`, then Leases; Nodes and Machines only where the verdict could differ because of them and
something would be written on it (rules 3, 3.2).  What it learns of leases stays in its `Memory` for the next probe.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from app.core import errors
from app.core.model.nodes import LeaseReading, MachineView, NodeReading
from app.core.model.probing import Failure, Judgement, PathView, RequestKind, Tally, VerdictReason
from app.core.model.shoots import Route
from app.core.ports import Watched
from app.prober.environment import ProberEnvironment
from app.prober.live_reads import LiveReads
from app.prober.rules import candidates, consecutive, leases, schedule
from app.prober.rules.candidates import Candidacy, ExclusionMemory, PoolConditions
from app.prober.rules.consecutive import PendingWrites
from app.prober.rules.leases import Contacts, LeaseHistory, LeaseTrack
from app.prober.rules.timings import READING, SLOW_READINGS, Timings
from app.prober.shoot_session import ProbedShoot, ProbeError, Reading, ShootSession

T = TypeVar("T")
Steps = Generator[None, None, T]
_TOGETHER: Final = 250
"""Leases or Nodes that are judged in one step, of some 2 ms."""


@dataclass(slots=True)
class Memory:
    """What one probe leaves for the next; values that are replaced, never changed."""

    history: LeaseHistory = field(default_factory=LeaseHistory)
    contacts: Contacts = field(default_factory=Contacts)
    exclusions: ExclusionMemory = field(default_factory=ExclusionMemory)
    candidacy: Candidacy | None = None
    """As of the last reading that had Nodes."""
    failed_before: bool = False
    """A probe failed and none has succeeded yet."""
    slow_readings: int = 0
    """Thrown away in a row."""


class LeaseProbe:
    """Probes one shoot in lease mode (an `Observer`)."""

    paths: tuple[PathView, ...] | None = None
    """There is only one."""

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        self._env = environment
        self._namespace = namespace
        self.memory = Memory()
        self._session = ShootSession(environment, namespace)
        sessions = {Route.INTERNAL: self._session}
        self._seed = LiveReads(environment, namespace, sessions, RequestKind.LEASE)
        self._known: tuple[Judgement, ...] = ()
        self._protected = False
        """Whether protection was active when the probe began."""
        self._probes: dict[RequestKind, float] = {}
        self._consumer = environment.connector.consumer(namespace)

    async def probe(
        self,
        subject: ProbedShoot,
        pending: PendingWrites,
        *,
        with_nodes: bool = False,
        counts: bool = True,  # noqa: ARG002 - the protocol's signature: leases are counted with the verdict
    ) -> Reading:
        """One probe, with Nodes where they could matter, or always; never raises for anything that a cluster may do."""
        self._protected = pending.protected
        return await self._bounded(lambda: self._probe(subject, pending, with_nodes=with_nodes))

    async def confirm(self, subject: ProbedShoot, first: Reading) -> Reading:
        """Leases and Nodes once more, by consistent reads on new connections, in what is left of the probe's time."""
        return await self._bounded(lambda: self._confirm(subject), began=first.started)

    async def contact(self, subject: ProbedShoot) -> Failure | None:
        """Makes contact with the shoot's storage between two probes; the failure where there was none."""

        async def read() -> Tally | Failure:
            sent = await self._timed(
                RequestKind.LEASE,
                self._session.read(lambda shoot: shoot.contact(), VerdictReason.LEASES_UNREADABLE),
            )
            self._contacted(sent, subject.timings)
            return Tally(consecutive.counts(()), None, nodes_read=False, judgements=())

        result = (await self._bounded(read)).result
        return result if isinstance(result, Failure) else None

    async def live_where_stale(self, subject: ProbedShoot, *, down: bool) -> ProbedShoot | Failure:
        """Reads live what a verdict needs of watches that are stale."""
        return await self._seed.live_where_stale(subject, down=down)

    @property
    def candidacy(self) -> Candidacy | None:
        """Which nodes count, as of the last reading that had Nodes."""
        return self.memory.candidacy

    def gap_at(self, subject: ProbedShoot) -> float | None:
        """When there will be a gap, if there is no contact before; None where there was none at all yet."""
        return self.memory.contacts.gap_at(subject.timings)

    def next_contact(self, last: float, probe_at: float, subject: ProbedShoot) -> float | None:
        """When to make contact before the probe at `probe_at`; None: not before it."""
        return schedule.next_contact(last, probe_at, subject.timings)

    # One probe, within its time.

    async def _bounded(
        self, read: Callable[[], Awaitable[Tally | Failure]], *, began: float | None = None
    ) -> Reading:
        started = self._env.clock.now()
        left = self._env.policy.probe_timeout - (0.0 if began is None else started - began)
        self._probes = {}
        result: Tally | Failure
        try:
            async with asyncio.timeout(left):
                result = await read()
        except ProbeError as failed:
            result = failed.failure
        except TimeoutError:
            result = self._timed_out()
        if isinstance(result, Failure) and self.memory.contacts.last is None:
            self.memory.failed_before = True
        ended = self._env.clock.now()
        return Reading(started, ended, result, dict(self._probes), self._known)

    def _timed_out(self) -> Failure:
        limit = self._env.policy.probe_timeout
        asked_for_leases = RequestKind.LEASE in self._probes
        return Failure(
            VerdictReason.TOO_SLOW if asked_for_leases else VerdictReason.UNREACHABLE,
            f"the probe took longer than probeTimeout ({limit:g}s)",
            RequestKind.LEASE if asked_for_leases else RequestKind.API_SERVER,
        )

    async def _probe(
        self, subject: ProbedShoot, pending: PendingWrites, *, with_nodes: bool
    ) -> Tally:
        await self._timed(RequestKind.API_SERVER, self._version())
        if with_nodes:
            return await self._timed(RequestKind.LEASE, self._with_nodes(subject, consistent=False))
        return await self._timed(RequestKind.LEASE, self._read_leases(subject, pending))

    async def _version(self) -> None:
        await self._session.read(
            lambda shoot: shoot.version(), VerdictReason.BAD_ANSWER, RequestKind.API_SERVER
        )

    async def _read_leases(self, subject: ProbedShoot, pending: PendingWrites) -> Tally:
        judgements = await self._judged(subject, new_connection=False)
        now, limit = self._env.clock.now(), self._env.policy.limit
        self.memory.exclusions = self.memory.exclusions.under(subject.conditions)
        counted = consecutive.tally_without_nodes(judgements, self.memory.exclusions, now)
        read_at = None if self.memory.candidacy is None else self.memory.candidacy.at
        if not consecutive.nodes_needed(counted, limit, pending, read_at, now):
            return counted
        return await self._with_nodes(subject, consistent=False)

    async def _confirm(self, subject: ProbedShoot) -> Tally:
        return await self._timed(RequestKind.LEASE, self._with_nodes(subject, consistent=True))

    async def _with_nodes(self, subject: ProbedShoot, *, consistent: bool) -> Tally:
        """A reading with Nodes: Leases last, so that no lease is older than what is known of its node."""
        nodes = await self._session.read(
            lambda shoot: shoot.nodes(consistent=consistent), VerdictReason.NODES_UNREADABLE
        )
        reading = NodeReading(nodes, await self._machines(), self._env.clock.now())
        judgements = await self._judged(subject, new_connection=consistent)
        candidacy = await self._consumer.finish(_judge_nodes(reading, subject.conditions))
        now = self._env.clock.now()
        self.memory.candidacy = candidacy
        self.memory.exclusions = self.memory.exclusions.under(subject.conditions).with_reading(
            judgements, candidacy, now
        )
        return consecutive.tally_with_nodes(judgements, candidacy)

    async def _machines(self) -> tuple[MachineView, ...]:
        state = self._env.seed.watch_state(Watched.MACHINES)
        if state.synced and not state.stale(self._env.clock.now()):
            return self._env.seed.machines(self._namespace)
        try:
            return await self._env.seed.read_machines(self._namespace, urgent=True)
        except errors.ClusterError as error:
            raise ProbeError(self._seed.stale(f"reading Machines live failed: {error}")) from error

    async def _judged(self, subject: ProbedShoot, *, new_connection: bool) -> tuple[Judgement, ...]:
        """All Leases, learnt and judged; thrown away where that took too long."""
        reading: LeaseReading = await self._session.read(
            lambda shoot: shoot.leases(new_connection=new_connection),
            VerdictReason.LEASES_UNREADABLE,
        )
        self._contacted(reading.sent, subject.timings)
        took = self._env.clock.now() - reading.sent
        if took > READING:
            raise ProbeError(self._slow(took))
        self.memory.slow_readings = 0
        self._known = await self._consumer.finish(self._judge_leases(reading, subject.timings))
        return self._known

    def _judge_leases(
        self, reading: LeaseReading, timings: Timings
    ) -> Steps[tuple[Judgement, ...]]:
        """Learns of all leases what there is to learn, and judges them."""
        tracks: dict[str, LeaseTrack] = {}
        judged: list[Judgement] = []
        by_name = {lease.name: lease for lease in reading.leases}
        for part in _parts(tuple(by_name.values())):
            some = LeaseReading(part, reading.sent, reading.received)
            learnt = leases.learn(self.memory.history, some)
            contacts, protected = self.memory.contacts, self._protected
            judged += leases.judge_all(learnt, some, contacts, timings, protected=protected)
            tracks |= learnt.tracks
            yield
        self.memory.history = LeaseHistory(tracks, reading.sent)
        return tuple(judged)

    def _slow(self, took: float) -> Failure:
        self.memory.slow_readings += 1
        enough = self.memory.slow_readings >= SLOW_READINGS
        reason = VerdictReason.TOO_SLOW if enough else VerdictReason.STALE_READING
        return Failure(
            reason, f"the leases took {took:.1f} s to read, and may be untrue", RequestKind.LEASE
        )

    def _contacted(self, sent: float, timings: Timings) -> None:
        known = self.memory.contacts
        self.memory.contacts = leases.contact(
            known, sent, timings, failed_before=self.memory.failed_before
        )

    async def _timed(self, probe: RequestKind, work: Awaitable[T]) -> T:
        began = self._env.clock.now()
        try:
            return await work
        finally:
            self._probes[probe] = self._env.clock.now() - began


def _judge_nodes(reading: NodeReading, conditions: PoolConditions) -> Steps[Candidacy]:
    judged = []
    for part in _parts(reading.nodes):
        judged.append(candidates.judge_nodes(replace(reading, nodes=part), conditions))
        yield
    return candidates.joined(judged, reading)


def _parts(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """As many together as can be judged in one stretch."""
    return (items[start : start + _TOGETHER] for start in range(0, len(items), _TOGETHER))
