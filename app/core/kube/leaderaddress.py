"""Where the leader is: it says so in an EndpointSlice, and a standby reads it there.

A leader that ends leaves its address behind: the next one writes its own over it, at once.
"""

import asyncio
from typing import Final

import structlog

from app.core.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    LeadershipLost,
    NotFound,
    Unreachable,
)
from app.core.kube.access import ADDRESS_FEATURE
from app.core.kube.leader_slice import LeaderSlice, LeaderSliceStore, Place
from app.core.ports import Ownership
from app.core.clock import Clock
from app.core.metrics import Metrics

log = structlog.get_logger(__name__)

_LOOKS_EVERY: Final = 60.0
"""Seconds between two looks of a leader at its slice."""
_ASKS_EVERY: Final = 10.0
"""Seconds between two looks of a standby, and from a leader's failure to its next try."""
_BELIEVED: Final = 60.0
"""Seconds for which a standby believes what it read, while it can read no more."""
_TRIES: Final = 3
"""Of a leader whose write met another one."""
_OFF: Final = (Forbidden, NotFound, Invalid)
"""What only a person can mend; anything else passes."""


class LeaderAddressOff:
    """No leader's address is written or read here."""

    def __init__(self, off: str, metrics: Metrics) -> None:
        """`off` says why."""
        self.off: str | None = off
        metrics.feature_off.labels(ADDRESS_FEATURE).set(1)
        log.info("the leader's address is not told", feature=ADDRESS_FEATURE, error=off)

    def address(self) -> str | None:
        """Nobody's."""
        return None


class LeaderAddress:
    """Keeps the slice right while we lead, and what it says in memory while we do not."""

    def __init__(
        self,
        store: LeaderSliceStore,
        own: Place,
        ownership: Ownership,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """Asks for nothing yet.

        Args:
            store: the slice.
            own: where our API is, as others reach it.
            ownership: whether we lead.
            clock: the time line.
            metrics: where it shows that this does not work.
        """
        self._store, self._own, self._ownership, self._clock = store, own, ownership, clock
        self._gauge = metrics.feature_off.labels(ADDRESS_FEATURE)
        self._changed = asyncio.Event()
        self._read: Place | None = None
        self._read_at = float("-inf")
        self.off: str | None = None
        """Why this does not work; None while it does, or nothing is known yet."""
        ownership.subscribe(self._changed.set)

    def address(self) -> str | None:
        """`host:port` of the leader's API, from memory; None where it is not known."""
        if self._ownership.leading:
            return str(self._own)
        if self._read is None or self._clock.now() - self._read_at > _BELIEVED:
            return None
        return str(self._read)

    async def run(self) -> None:
        """Looks for ever: at once after each change of leadership, and again and again in between."""
        while True:
            self._changed.clear()
            try:
                await self._look()
            except ClusterError as error:
                self._suffer(error)
                pause = _LOOKS_EVERY if isinstance(error, _OFF) else _ASKS_EVERY
            else:
                self._well()
                pause = _LOOKS_EVERY if self._ownership.leading else _ASKS_EVERY
            await self._wait(pause)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _look(self) -> None:
        for _ in range(_TRIES):
            found = await self._store.read()
            self._read, self._read_at = found.place, self._clock.now()
            if not self._ownership.leading or (found.exact and found.place == self._own):
                return
            if await self._write(found):
                return
        raise Unreachable(f"{self._store} changes all the time")

    async def _write(self, found: LeaderSlice) -> bool:
        """Whether it is written, or need not be any more."""
        try:
            await self._store.replace(found, self._own, self._leading_still)
        except Conflict:
            return False
        except LeadershipLost:
            return True
        log.info("the leader's address is written", slice=str(self._store), address=str(self._own))
        return True

    def _leading_still(self) -> None:
        if not self._ownership.leading:
            raise LeadershipLost("somebody else leads")

    def _suffer(self, error: ClusterError) -> None:
        problem = str(error)
        if not isinstance(error, _OFF):
            log.warning("the leader's address is out of reach", error=problem)
            return
        if self.off != problem:
            log.warning("the leader's address is not told", feature=ADDRESS_FEATURE, error=problem)
        self.off = problem
        self._gauge.set(1)

    def _well(self) -> None:
        self.off = None
        self._gauge.set(0)
