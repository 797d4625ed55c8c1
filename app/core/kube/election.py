"""Leader election by a Lease (`ports.Leadership`).

The protocol is that of client-go: replicas compete for a Lease, and its holder renews it every retry period. What it
guarantees is that at most one replica starts writes. A leader whose last successful renewal *began* longer ago than the
renew deadline (10 s) starts no more writes: `leading` compares with the clock at each call, so it turns false at that
instant even if the event loop was blocked until then. A standby takes over no earlier than one lease duration (15 s)
after that renewal. Each replica counts on its own monotonic clock.

The times in the Lease were written by another machine's clock, so a standby normally counts from when it *saw* the
Lease change. It counts from earlier only if two independent clocks, the holder's and the API server's, both say that
the renewal is older (docs/decisions/0041). Without that, a standby that saw a renewal late, because the seed was away,
would wait for another lease duration.

Of several standbys that could take a free Lease, the best prepared one goes first: a replica that has not listed the
seed yet would lead without being able to act.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import msgspec
import structlog

from app.core.clock import Clock
from app.core.errors import (
    UNSURE,
    BadAnswer,
    ClusterError,
    Conflict,
    Forbidden,
    LeadershipLost,
    NotFound,
)
from app.core.kube.decoding.envelope import Raw
from app.core.kube.resources import LEASES
from app.core.kube.seed_api import Budget, SeedApi, or_none
from app.core.metrics import Metrics
from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.ports import Leadership, Preparation
from app.core.tasks import tell, wait_until_set

log = structlog.get_logger(__name__)

# The Lease as an API object: read, acquire, renew, release.


CLOCK_RESOLUTION: Final = 1.5
"""Seconds by which times of the API server may be off: its timestamps and `Date` are in whole seconds."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The relevant fields of a Lease; `whole` is the complete object, for writing it back."""

    holder: str
    """Empty if nobody holds it."""
    duration: float | None
    """Seconds after which a holder that has not renewed may be replaced."""
    renewed: str
    """`renewTime` as text, by the holder's clock."""
    transitions: int
    whole: dict[str, Any]
    written: float | None = None
    """When the API server received the last change, by its own clock in whole seconds; None if unknown."""
    read: float | None = None
    """When it answered, by the same clock, to half a second."""

    @property
    def age(self) -> float | None:
        """Seconds from the last change to the answer, by the API server's clock; None if unknown."""
        if self.written is None or self.read is None:
            return None
        return self.read - self.written


def _term(
    before: LeaseRecord | None, holder: str, duration: float, now: float, *, new: bool
) -> dict[str, Any]:
    """Returns the `spec` that a holder writes; `new`: it begins a term, so `acquireTime` is now."""
    spec = {} if before is None else before.whole.get("spec") or {}
    text = rfc3339(now, micro=True)
    transitions = 0 if before is None else min(before.transitions + new, _MOST_TRANSITIONS)
    return spec | {
        "holderIdentity": holder,
        "leaseDurationSeconds": max(round(duration), 1),
        "leaseTransitions": transitions,
        "acquireTime": text if new else spec.get("acquireTime") or text,
        "renewTime": text,
    }


class LeaseStore:
    """Reads and writes one Lease."""

    def __init__(self, api: SeedApi, namespace: str, name: str) -> None:
        self._api = api
        self.name = name
        self._namespace = namespace
        self._under_way = self._failures = 0
        self._outdated = 0
        """How many failures lie before the begin of a request that was answered."""

    async def read(self, within: float) -> LeaseRecord | None:
        """Reads the Lease; returns None if it does not exist."""
        return await or_none(self._ask("get", None, within))

    async def create(self, spec: dict[str, Any], within: float) -> LeaseRecord:
        """Creates the Lease.

        Raises:
            Conflict: it exists already.
        """
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.name, "namespace": self._namespace},
            "spec": spec,
        }
        return await self._ask("create", body, within)

    async def replace(
        self, record: LeaseRecord, spec: dict[str, Any], within: float
    ) -> LeaseRecord:
        """Replaces the `spec` of the Lease, under the resourceVersion of `record`.

        Raises:
            Conflict: the Lease has changed since.
        """
        return await self._ask("update", record.whole | {"spec": spec}, within)

    async def _ask(self, verb: str, body: object, within: float) -> LeaseRecord:
        request = LEASES.request(verb, self._namespace, self.name, within=within, body=body)
        # A write is never repeated. So kept-alive connections are trusted only if each request was answered, or else
        # one that began after it had failed.
        failures, fresh = self._failures, self._under_way > 0 or self._failures > self._outdated
        self._under_way += 1
        try:
            record = await self._api.call(request, _record, Budget.LEASE, new_connection=fresh)
        except BaseException:  # a request that was cancelled is not answered either
            self._failures += 1
            raise
        finally:
            self._under_way -= 1
        self._outdated = max(self._outdated, failures)
        return replace(record, read=self._api.server_time)


class _Manager(msgspec.Struct):
    time: str | None = None


class _LeaseMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    """Required: a Lease that is written back without it overwrites whatever others have changed since."""
    managed_fields: list[_Manager] | None = None


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    kind: str
    metadata: _LeaseMeta
    spec: _LeaseSpec | None = None


_decoder: Final = msgspec.json.Decoder(_Lease)


def _record(raw: Raw) -> LeaseRecord:
    lease = _decoder.decode(raw)
    if lease.kind != "Lease":
        raise BadAnswer("the answer is not a Lease")
    meta, spec = lease.metadata, lease.spec or _LeaseSpec()
    written = [parse_rfc3339(each.time or "") for each in meta.managed_fields or ()]
    duration = spec.lease_duration_seconds
    return LeaseRecord(
        holder=spec.holder_identity or "",
        duration=None if duration is None else float(duration),
        renewed=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
        whole=msgspec.json.decode(raw),
        written=max(filter(None, written), default=None),
    )


# Share by which a standby's attempts come early, at random, so that two do not always collide.
_JITTER: Final = 0.2
_RELEASE_WITHIN: Final = 1.0
# Retry periods that a standby waits for a read of the Lease: a request that hangs because the seed went away goes on
# hanging when it is back.
_READ_WITHIN: Final = 1.5
# Share of the renew deadline after which the answer to a renewal is late: ten times what one usually takes, at least.
_LATE: Final = 0.1
# Share of the renew deadline that an attempt may take: with more of it there would be no time for another one, with
# less an answer would be given up that is on its way.
_ATTEMPT: Final = 2 / 3
# `leaseTransitions` is an int32 and the API server rejects larger values, so the count stops there.
_MOST_TRANSITIONS: Final = 2**31 - 1
# Seconds between two checks of our own preparation, while only that keeps us from taking a free Lease.
_CHECK_INTERVAL: Final = 0.1
# How many observed renewals are kept to relate the holder's clock to ours.
_SIGHTINGS: Final = 10
# Seconds for which an observed renewal is used: two clocks that drift by 0.1 ‰ differ by 60 ms after that.
_SIGHTED_WITHIN: Final = 600.0


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """Timing of the election in seconds; lease duration > renew deadline > 1.2 × retry period."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class SoleOwner:
    """No election: this replica always leads."""

    leading = True
    may_probe = True
    leader_identity: str | None = None
    trouble: str | None = None

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Never calls `listener`, because nothing ever changes."""

    def prepare(self, prepared: Callable[[], Preparation]) -> None:
        """Does nothing: it leads whether it is prepared or not."""


class LeaseElection:
    """One candidate for one Lease."""

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        times: ElectionTimes,
        clock: Clock,
        metrics: Metrics,
        random: Random,
        *,
        behind: Leadership | None = None,
        restored: Callable[[], None] = lambda: None,
    ) -> None:
        """Sends nothing yet.

        Args:
            store: reads and writes the Lease.
            identity: the holder identity of this process, which must be unique.
            times: how long a term lasts and how often it is renewed.
            clock: the monotonic time line of this process.
            metrics: exports who leads.
            random: spreads the attempts of standbys.
            behind: another election; this Lease is observed from the start but taken only while that one is held.
            restored: called when the resourceVersion of the Lease has gone back: the seed's storage was restored.
        """
        self._store, self._identity, self._times = store, identity, times
        self._restored, self._version = restored, 0
        self._clock, self._random, self._behind = clock, random, behind
        self._prepared: Callable[[], Preparation] = lambda: Preparation.COMPLETE
        self._gauge = metrics.master.labels(store.name)
        self._gauge.set(0)
        self._listeners: list[Callable[[], None]] = []
        self._record: LeaseRecord | None = None
        self._read = False
        """Whether the Lease was read at all; if so, None in `_record` means that it does not exist."""
        self._observed_at = clock.now()
        """When the Lease was last renewed or given back, as far as we know."""
        self._sightings: deque[tuple[float, float]] = deque(maxlen=_SIGHTINGS)
        """Observed renewals of the holder: when we saw each, and its `renewTime` by the holder's clock."""
        self._stirred = asyncio.Event()
        """Set when something changes that a standby waits for."""
        self._renewed_at: float | None = None
        self._attempts: dict[str, float] = {}
        """When the renewals began that may have arrived though their answers have not, by their `renewTime`."""
        self._taking = False
        """Whether we have asked to hold the Lease and do not know yet whether we do."""
        self._released = False
        self._told = (False, False)
        self.trouble: str | None = None
        """Why the Lease cannot be read or written, for readiness; None while it can."""
        if behind is not None:
            behind.subscribe(self._stirred.set)

    def prepare(self, prepared: Callable[[], Preparation]) -> None:
        """Sets what tells how prepared this process is: the less it is, the longer it leaves a free Lease to others."""
        self._prepared = prepared

    @property
    def leading(self) -> bool:
        """Whether this replica leads, and so may start a write."""
        return self._renewed_at is not None and self._clock.now() < self._deadline

    @property
    def may_probe(self) -> bool:
        """Whether this replica leads, nobody leads, or the Lease was not renewed for a third of its duration."""
        return self.leading or self._clock.now() >= self._quiet_at

    @property
    def leader_identity(self) -> str | None:
        """The holder of the Lease as last seen; None if nobody holds it or it was never read."""
        return None if self._record is None else self._record.holder or None

    @property
    def _deadline(self) -> float:
        return (self._renewed_at or 0.0) + self._times.renew_deadline

    @property
    def _quiet_at(self) -> float:
        return self._observed_at if self._unheld else self._observed_at + self._duration / 3

    @property
    def _unheld(self) -> bool:
        return self._read and (self._record is None or not self._record.holder)

    @property
    def _free_at(self) -> float:
        """The instant from which anybody may take the Lease."""
        return self._observed_at if self._unheld else self._observed_at + self._duration

    def _lets_others_go_first(self) -> float:
        """Returns how many seconds a free Lease is left to replicas that are better prepared.

        Standbys start to probe while a Lease runs out, so one of them may be completely prepared when it expires. A
        Lease that was given back was renewed until then: all standbys have only listed, and waiting would gain nothing.
        """
        match self._prepared():
            case Preparation.LISTED if not self._unheld:
                # A read of theirs may hang in a seed that was away, and they try again only when it is given up.
                return (2 + _READ_WITHIN) * self._times.retry_period
            case Preparation.COMPLETE | Preparation.LISTED:
                return 0.0
            case Preparation.NONE:
                return self._times.lease_duration

    @property
    def _duration(self) -> float:
        theirs = self._record.duration if self._record is not None else None
        return theirs if theirs is not None and theirs > 0 else self._times.lease_duration

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of `leading` or `may_probe`."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Stands by, then leads, and ends when leadership is lost.

        It runs as a shared loop (`core.tasks`): its end ends the process.

        Raises:
            LeadershipLost: another replica holds the Lease, or the renew deadline has passed.
        """
        while not await self._try_to_acquire():
            pass
        log.info("leading", lease=self._store.name, identity=self._identity)
        try:
            await self._lead()
        finally:
            self._renewed_at = None
            self._tell()

    async def release(self) -> None:
        """Gives the Lease back, so that a standby need not wait for it to expire; takes at most a second, never raises.

        To be called when no write is in flight any more.
        """
        self._released, self._renewed_at = True, None
        self._tell()
        if not (self._holds() or self._taking):
            return
        try:
            async with asyncio.timeout(_RELEASE_WITHIN):
                await self._give_back()
        except (ClusterError, TimeoutError) as error:
            log.warning(
                "leadership could not be released",
                lease=self._store.name,
                error=str(error) or "no answer",
            )

    async def _give_back(self) -> None:
        if self._taking:  # it was cancelled in flight, or its answer got lost
            self._record = await self._store.read(_RELEASE_WITHIN)
        for _ in range(2):
            if self._record is None or not self._holds():
                return
            nobody = _term(self._record, "", 1.0, self._clock.now(), new=False)
            try:
                self._record = await self._store.replace(self._record, nobody, _RELEASE_WITHIN)
                log.info("leadership released", lease=self._store.name, identity=self._identity)
            except Conflict:
                # a renewal that was cancelled in flight may have arrived nevertheless
                self._record = await self._store.read(_RELEASE_WITHIN)

    def _holds(self) -> bool:
        return self._record is not None and self._record.holder == self._identity

    async def _try_to_acquire(self) -> bool:
        """Makes one attempt and waits for the next; returns whether we lead now."""
        began = self._clock.now()
        try:
            if await self._acquire():
                return True
            early = True
        except Conflict:
            early = False  # another replica was quicker
        except ClusterError as error:
            self._record_failure(error)
            early = False
        finally:
            self._tell()
        # Counted from the beginning of the attempt: after one that hung in an unreachable seed, the next follows at
        # once.
        pause = self._times.retry_period * (1 - _JITTER * self._random.random())
        await self._stand_by(began + pause, early=early)
        return False

    async def _acquire(self) -> bool:
        """Reads the Lease and takes it if that is allowed; returns whether it did."""
        times = self._times
        within = times.renew_deadline / 2
        self._observe(await self._store.read(min(_READ_WITHIN * times.retry_period, within)))
        if not self._may_take():
            return False
        began, self._taking = self._clock.now(), True
        self._observe(await self._write(began, within))
        self._renewed_at = began
        return True

    def _may_take(self) -> bool:
        """Whether we may take the Lease, which was read before."""
        if self._released or (self._behind is not None and not self._behind.leading):
            return False
        if self._holds():
            return True  # we took it, but the answer got lost
        return self._clock.now() >= self._free_at + self._lets_others_go_first()

    async def _stand_by(self, until: float, *, early: bool) -> None:
        """Waits until `until`, or if `early` until we may take the Lease; notifies of changes of `may_probe`."""
        while (now := self._clock.now()) < until and not (early and self._may_take()):
            marks = [each for each in (self._quiet_at, self._free_at) if now < each < until]
            if now >= self._free_at:
                # Only our own preparation may be missing, and no event announces that.
                marks.append(now + _CHECK_INTERVAL)
            self._stirred.clear()
            _ = await wait_until_set(self._stirred, min([*marks, until]) - now)
            self._tell()

    def _observe(self, record: LeaseRecord | None) -> None:
        self.trouble, self._taking = None, False
        before, known, now = self._record, self._read, self._clock.now()
        self._record, self._read = record, True
        if record is not None:
            self._compare_versions(record)
        if record is None:
            if not known or before is not None:
                self._observed_at = now
            self._sightings.clear()
        elif before is None or _state(before) != _state(record):
            if before is None or before.holder != record.holder:
                self._sightings.clear()
            self._observed_at = self._renewed_by_then(record, now)

    def _compare_versions(self, record: LeaseRecord) -> None:
        """Tells if the resourceVersion has gone back: otherwise they only grow, also of a Lease that is made again."""
        version = record.whole["metadata"]["resourceVersion"]
        before, self._version = self._version, int(version) if version.isdecimal() else 0
        if self._version < before:
            text = "the seed's storage was restored from an older state; everything is listed anew"
            log.warning(text, lease=self._store.name, before=before, after=version)
            self._restored()

    def _renewed_by_then(self, record: LeaseRecord, now: float) -> float:
        """Returns the latest instant at which the holder can have begun a renewal that we see only now.

        If the seed or we were away, that may be long ago. Two estimates exist. By the holder's clock: how much its
        `renewTime` has advanced since renewals that we observed. By the API server's clock: how long before its `Date`
        it stamped the write. The later one counts, so one wrong clock does no harm. The API server's times are whole
        seconds; that rounding error is taken into account as far as the margin between renew deadline and lease
        duration does not cover it.
        """
        renewed = parse_rfc3339(record.renewed)
        if renewed is None:
            return now
        sightings = [each for each in self._sightings if now - each[0] <= _SIGHTED_WITHIN]
        self._sightings.append((now, renewed))
        if not sightings or record.age is None:
            return now
        by_holder = renewed + min(seen - theirs for seen, theirs in sightings)
        room = (self._times.lease_duration - self._times.renew_deadline) / 2
        by_server = now - record.age + max(CLOCK_RESOLUTION - room, 0.0)
        return min(now, max(by_holder, by_server))

    async def _write(self, now: float, within: float) -> LeaseRecord:
        """Writes our term: a new one, or a renewal if we hold the Lease already."""
        record, duration = self._record, self._times.lease_duration
        term = _term(record, self._identity, duration, now, new=not self._holds())
        if record is None:
            return await self._store.create(term, within)
        return await self._store.replace(record, term, within)

    async def _lead(self) -> None:
        began = self._clock.now()
        while True:
            await self._clock.sleep_until(min(began + self._times.retry_period, self._deadline))
            began = self._clock.now()
            await self._renew()
            if not self.leading:
                raise LeadershipLost("the Lease could not be renewed within the renew deadline")

    async def _renew(self) -> None:
        """Makes one attempt to renew, which ends at the renew deadline at the latest.

        Raises:
            LeadershipLost: another replica holds the Lease.
        """
        began = self._clock.now()
        within = min(self._deadline - began, self._times.renew_deadline * _ATTEMPT)
        if within <= 0:
            return
        try:
            async with asyncio.timeout(within):
                await self._renew_once(began, within)
        except TimeoutError:
            self.trouble = "the Lease could not be renewed in time"
        except ClusterError as error:
            self._record_failure(error)

    async def _renew_once(self, began: float, within: float) -> None:
        self._attempts[rfc3339(began, micro=True)] = began
        try:
            record = await self._write_or_find_renewal(began, within)
        except (Conflict, NotFound):
            # the conflicting write may be our own, whose answer got lost: only the Lease itself can tell
            record = await self._store.read(within)
        self._observe(record)
        if record is None:
            return  # it was deleted: the next attempt makes it again
        if not self._holds():
            raise LeadershipLost(f"{record.holder or 'nobody'} holds the Lease")
        if (arrived := self._attempts.get(record.renewed)) is not None:
            self._attempts.clear()
            self._renewed_at = None if self._released else arrived

    async def _write_or_find_renewal(self, began: float, within: float) -> LeaseRecord | None:
        """Renews the Lease and returns it, as the answer has it or, where that is late, as a read shows it.

        On a slow seed leadership would otherwise be lost again and again, though each renewal arrives. A write that is
        given up may still land later: it conflicts then, or the next one does, and reads the Lease.
        """
        write = asyncio.ensure_future(self._write(began, within))
        read = asyncio.ensure_future(self._read_later(within))
        try:
            await asyncio.wait((write, read), return_when=asyncio.FIRST_COMPLETED)
            if write.done() and not isinstance(write.exception(), UNSURE):
                return write.result()
            await asyncio.wait((read,))
            if read.exception() is None:
                found = read.result()
                if found is None or found.holder != self._identity:
                    return found  # it was deleted, or another one has taken it
                if found.renewed in self._attempts:
                    return found
            return await write
        finally:
            for each in (write, read):
                each.cancel()
            await asyncio.gather(write, read, return_exceptions=True)

    async def _read_later(self, within: float) -> LeaseRecord | None:
        await self._clock.sleep(_LATE * self._times.renew_deadline)
        return await self._store.read(within)

    def _record_failure(self, error: ClusterError) -> None:
        if self.trouble != str(error):
            refused = isinstance(error, Forbidden)
            (log.error if refused else log.warning)(
                "the Lease cannot be read or written", lease=self._store.name, error=str(error)
            )
        self.trouble = str(error)

    def _tell(self) -> None:
        """Calls the listeners if `leading` or `may_probe` has changed since the last time."""
        state = (self.leading, self.may_probe)
        if state == self._told:
            return
        self._told = state
        self._gauge.set(1 if state[0] else 0)
        tell(self._listeners, {})


def _state(record: LeaseRecord) -> tuple[str, str, int]:
    return (record.holder, record.renewed, record.transitions)
