"""One probe of one shoot in lease mode: requests go out, facts come back. It decides what to read, but no verdict.

A probe is `GET /version`, then Leases, which are always read consistently: without etcd, `/version` and the watch cache
go on answering while no kubelet can renew (rules 3). Nodes and Machines are read only where the verdict could differ
because of them and something would be written on it (rules 3.2); Leases are then read last. What a probe learns stays
in `Memory` for the next one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from app.core import errors
from app.core.model.nodes import LeaseReading, MachineView, NodeReading
from app.core.model.probing import Failure, Judgement, Reading, RequestKind, Tally, VerdictReason
from app.core.ports import Watched
from app.prober.environment import ProberEnvironment
from app.prober.rules import candidates, leases, schedule
from app.prober.rules.candidates import Candidacy, ExclusionMemory, PoolConditions
from app.prober.rules.leases import (
    READING,
    SLOW_READINGS,
    Contacts,
    LeaseHistory,
    LeaseTrack,
    Timings,
)
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.protection import PendingWrites
from app.prober.shoot_probe import ProbeError, ShootProbe

T = TypeVar("T")
Steps = Generator[None, None, T]
# How many Leases or Nodes are judged in one step of some 2 ms, so that no shoot holds the event loop (threat T18).
_TOGETHER: Final = 250


@dataclass(slots=True)
class Memory:
    """What one probe passes on to the next; the values in it are replaced, never changed."""

    history: LeaseHistory = field(default_factory=LeaseHistory)
    contacts: Contacts = field(default_factory=Contacts)
    exclusions: ExclusionMemory = field(default_factory=ExclusionMemory)
    failed_before: bool = False
    """A probe failed before the first contact."""
    slow_readings: int = 0
    """How many readings in a row were thrown away because they took too long."""


class LeaseProbe(ShootProbe):
    """Probes one shoot in lease mode."""

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        super().__init__(environment, namespace)
        self.memory = Memory()
        self._known: tuple[Judgement, ...] = ()
        self._protected = False
        """Whether protection was active when the probe began."""
        self._probes: dict[RequestKind, float] = {}
        self._consumer = environment.connector.consumer(namespace)

    async def probe(
        self,
        shoot: ProbedShoot,
        pending: PendingWrites,
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

    async def confirm(self, shoot: ProbedShoot, first: Reading) -> Reading:
        """Reads Leases and Nodes again, consistently and on new connections, in what is left of `probeTimeout`.

        A lagging etcd member or a caching proxy must not decide over a scale-down.
        """

        async def read() -> Tally:
            return await self._timed(RequestKind.LEASE, self._with_nodes(shoot, consistent=True))

        return await self._bounded(read, began=first.started)

    async def contact(self, shoot: ProbedShoot) -> Failure | None:
        """Reads one page of one Lease consistently; returns the failure, or None if it succeeded."""

        async def read() -> Tally:
            request = self._request(
                lambda cluster: cluster.contact(), VerdictReason.LEASES_UNREADABLE
            )
            sent = await self._timed(RequestKind.LEASE, request)
            self._contacted(sent, self._env.clock.now(), shoot.timings)
            return Tally(candidates.counts(()), None, nodes_read=False, judgements=())

        result = (await self._bounded(read)).result
        return result if isinstance(result, Failure) else None

    def gap_at(self, shoot: ProbedShoot) -> float | None:
        return self.memory.contacts.gap_at(shoot.timings)

    def next_contact(self, last: float, probe_at: float, shoot: ProbedShoot) -> float | None:
        return schedule.next_contact(last, probe_at, shoot.timings)

    # One probe, within its time.

    async def _bounded(
        self, read: Callable[[], Awaitable[Tally]], *, began: float | None = None
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

    async def _read_leases(self, shoot: ProbedShoot, pending: PendingWrites) -> Tally:
        judgements = await self._judged(shoot, new_connection=False)
        now, limit = self._env.clock.now(), self._env.policy.limit
        self.memory.exclusions = self.memory.exclusions.under(shoot.conditions)
        counted = candidates.tally_without_nodes(judgements, self.memory.exclusions, now)
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
        return await self._consumer.finish(self._weigh(reading, judgements, shoot.conditions))

    def _weigh(
        self, reading: NodeReading, judgements: tuple[Judgement, ...], conditions: PoolConditions
    ) -> Steps[Tally]:
        """Remembers which nodes count and counts their leases, in steps that the event loop can interleave."""
        candidacy = yield from _judge_nodes(reading, conditions)
        yield
        exclusions = self.memory.exclusions.under(conditions).with_reading(
            judgements, candidacy, self._env.clock.now()
        )
        self.candidacy, self.memory.exclusions = candidacy, exclusions
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
        if took > READING:
            raise ProbeError(self._slow(took))
        self.memory.slow_readings = 0
        self._known = await self._consumer.finish(self._judge_leases(reading, shoot.timings))
        return self._known

    def _judge_leases(
        self, reading: LeaseReading, timings: Timings
    ) -> Steps[tuple[Judgement, ...]]:
        """Updates what is known of the leases and judges them, in steps that the event loop can interleave."""
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
            reason, f"the leases took {took:.1f} s to read, and may be outdated", RequestKind.LEASE
        )

    def _contacted(self, sent: float, received: float, timings: Timings) -> None:
        known = self.memory.contacts
        self.memory.contacts = leases.contact(
            known, sent, received, timings, failed_before=self.memory.failed_before
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
    """Splits `items` into parts that are small enough to be judged in one step."""
    return (items[start : start + _TOGETHER] for start in range(0, len(items), _TOGETHER))
