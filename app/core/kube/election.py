"""Who leads: election by a Lease (`ports.Ownership`).

Only changes of the Lease that we see ourselves, on our own clock, tell that its holder lives: the times in it were
written by another clock.  A leader that could not renew within the renew deadline starts no write any more: `leading`
asks the clock, so it ends at that instant whether or not anything of ours runs then.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import structlog

from app.core.errors import ClusterError, Conflict, Forbidden, LeadershipLost, NotFound
from app.core.kube.leases import LeaseRecord, LeaseStore, Term
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics

log = structlog.get_logger(__name__)

_JITTER: Final = 0.2
"""By how much a standby's tries are spread, so that two do not always try together."""
_RELEASE_WITHIN: Final = 1.0


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """Seconds; lease duration > renew deadline > 1.2 × retry period."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class SoleOwner:
    """No election: this instance leads, always."""

    leading = True
    observing = True
    leader_identity: str | None = None
    trouble: str | None = None

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Nothing ever changes, so `listener` is never called."""


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
    ) -> None:
        """Asks for nothing yet.

        Args:
            store: the Lease.
            identity: who we are; no two processes may have the same.
            times: how long a term lasts and how often it is renewed.
            clock: our own time line.
            metrics: where the leader shows.
            random: spreads the tries of standbys.
        """
        self._store, self._identity, self._times = store, identity, times
        self._clock, self._random = clock, random
        self._gauge = metrics.master.labels(store.name)
        self._gauge.set(0)
        self._listeners: list[Callable[[], None]] = []
        self._record: LeaseRecord | None = None
        self._moved_at = clock.now()
        self._renewed_at: float | None = None
        self._released = False
        self._told = (False, False)
        self.trouble: str | None = None
        """What keeps us from reading or writing the Lease, for readiness; None while all is well."""

    @property
    def leading(self) -> bool:
        """Whether this instance leads: it may start a write."""
        return self._renewed_at is not None and self._clock.now() < self._deadline

    @property
    def observing(self) -> bool:
        """Whether it leads, or the leader's Lease has not moved for a third of its duration."""
        return self.leading or self._clock.now() >= self._quiet_at

    @property
    def leader_identity(self) -> str | None:
        """Who holds the Lease, as far as we know."""
        return None if self._record is None else self._record.holder or None

    @property
    def _deadline(self) -> float:
        return (self._renewed_at or 0.0) + self._times.renew_deadline

    @property
    def _quiet_at(self) -> float:
        return self._moved_at + self._duration / 3

    @property
    def _duration(self) -> float:
        theirs = self._record.duration if self._record is not None else None
        return theirs if theirs is not None and theirs > 0 else self._times.lease_duration

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change of `leading` or `observing`."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Stands by, leads, and ends when leadership is lost.

        Raises:
            LeadershipLost: another instance leads, or we could not renew in time.
        """
        while not await self._try_to_acquire():
            await self._stand_by(self._times.retry_period * (1 + _JITTER * self._random.random()))
        log.info("leading", lease=self._store.name, identity=self._identity)
        try:
            await self._lead()
        finally:
            self._renewed_at = None
            self._tell()

    async def release(self) -> None:
        """Gives the Lease back, so that a standby need not wait; at most a second, and never an error.

        To be called when nothing is being written any more.
        """
        held = self._renewed_at is not None or self._holds()
        self._released, self._renewed_at = True, None
        self._tell()
        if not held:
            return
        try:
            async with asyncio.timeout(_RELEASE_WITHIN):
                await self._give_back()
            log.info("leadership released", lease=self._store.name, identity=self._identity)
        except (ClusterError, TimeoutError) as error:
            log.warning(
                "leadership could not be released",
                lease=self._store.name,
                error=str(error) or "no answer",
            )

    async def _give_back(self) -> None:
        for _ in range(2):
            if self._record is None or not self._holds():
                return
            term = Term("", 1.0, self._record.transitions, self._clock.now(), acquired=False)
            try:
                self._record = await self._store.replace(self._record, term, _RELEASE_WITHIN)
            except Conflict:
                # a renewal that was cancelled on its way has arrived all the same
                self._record = await self._store.read(_RELEASE_WITHIN)

    def _holds(self) -> bool:
        return self._record is not None and self._record.holder == self._identity

    async def _stand_by(self, seconds: float) -> None:
        """Waits, and wakes up where the leader's Lease becomes quiet in between."""
        until = self._clock.now() + seconds
        if self._clock.now() < self._quiet_at < until:
            await self._clock.sleep_until(self._quiet_at)
            self._tell()
        await self._clock.sleep_until(until)

    async def _try_to_acquire(self) -> bool:
        """One try; whether we lead now."""
        within = self._times.renew_deadline / 2
        try:
            self._observe(await self._store.read(within))
            began = self._clock.now()
            if self._released or not self._free(began):
                return False
            self._observe(await self._write(began, within))
            self._renewed_at = began
        except Conflict:
            return False  # another one was quicker
        except ClusterError as error:
            self._suffer(error)
            return False
        finally:
            self._tell()
        return True

    def _free(self, now: float) -> bool:
        if self._record is None or not self._record.holder or self._holds():
            return True
        return now >= self._moved_at + self._duration

    def _observe(self, record: LeaseRecord | None) -> None:
        self.trouble = None
        before = self._record
        same = before is not None and record is not None and _state(before) == _state(record)
        self._record = record
        if not same:
            self._moved_at = self._clock.now()

    async def _write(self, now: float, within: float) -> LeaseRecord:
        """Writes our term, as a new one unless we hold the Lease already."""
        record, holds = self._record, self._holds()
        duration = self._times.lease_duration
        if record is None:
            return await self._store.create(
                Term(self._identity, duration, 0, now, acquired=True), within
            )
        transitions = record.transitions + (not holds)
        term = Term(self._identity, duration, transitions, now, acquired=not holds)
        return await self._store.replace(record, term, within)

    async def _lead(self) -> None:
        while True:
            now = self._clock.now()
            await self._clock.sleep_until(min(now + self._times.retry_period, self._deadline))
            await self._renew()
            if not self.leading:
                raise LeadershipLost("the Lease could not be renewed within the renew deadline")

    async def _renew(self) -> None:
        """One try to renew, that ends at the deadline at the latest.

        Raises:
            LeadershipLost: another one holds the Lease.
        """
        began = self._clock.now()
        within = min(self._deadline - began, self._times.renew_deadline / 2)
        if within <= 0:
            return
        try:
            async with asyncio.timeout(within):
                await self._renew_once(began, within)
        except TimeoutError:
            self.trouble = "the Lease could not be renewed in time"
        except ClusterError as error:
            self._suffer(error)

    async def _renew_once(self, began: float, within: float) -> None:
        try:
            self._observe(await self._write(began, within))
        except (Conflict, NotFound):
            # perhaps it was our own write, of which the answer got lost: only the Lease itself can tell
            self._observe(await self._store.read(within))
            if self._record is not None and not self._holds():
                raise LeadershipLost(f"{self._record.holder or 'nobody'} holds the Lease") from None
            return
        self._renewed_at = None if self._released else began

    def _suffer(self, error: ClusterError) -> None:
        if self.trouble != str(error):
            refused = isinstance(error, Forbidden)
            (log.error if refused else log.warning)(
                "the Lease is out of reach", lease=self._store.name, error=str(error)
            )
        self.trouble = str(error)

    def _tell(self) -> None:
        """Calls the listeners where something has changed since the last time."""
        state = (self.leading, self.observing)
        if state == self._told:
            return
        self._told = state
        self._gauge.set(1 if state[0] else 0)
        for listener in self._listeners:
            try:
                listener()
            except Exception as error:
                log.exception("a listener failed", exc_info=error)


def _state(record: LeaseRecord) -> tuple[str, str, int]:
    return (record.holder, record.renewed, record.transitions)
