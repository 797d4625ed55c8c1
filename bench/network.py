"""What a shoot answers to the prober, and when: with the weather that there is."""

import random

from app.core.model.probing import Failure, VerdictReason
from app.core.model.shoots import LeaseReading
from bench.world import World

LATENCY = 0.02
_FIRST_BYTE = 8.0
"""A silent server costs 3 s on the connection that is open and 5 s on a new one."""
_LEASES = 5.0
"""A request for Leases ends after this."""
_UNLUCKY = 0.2


class NoAnswer(Exception):
    """A request that failed, at `at`."""

    def __init__(self, at: float, reason: VerdictReason, retry_after: float | None = None) -> None:
        self.at = at
        self.failure = Failure(reason, str(reason), retry_after=retry_after)
        super().__init__(reason)


class Network:
    """The way to one shoot. Each method takes the instant at which it is asked and says when it was answered."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._weather = world.weather
        self._rng = rng

    def unlucky(self, at: float) -> bool:
        """Whether a probe or contact that begins now is one of those that fail for no reason."""
        return self._weather.failing.at(at) is not None and self._rng.random() < _UNLUCKY

    def version(self, at: float) -> float:
        """`GET /version`, which answers without storage; Nodes from the watch cache do so too.

        Raises:
            NoAnswer: the server is away, or throttles.
        """
        self._throttle(at)
        gone = self._weather.server.at(at)
        if gone is not None:
            raise NoAnswer(at + (_FIRST_BYTE if gone.hangs else LATENCY), VerdictReason.UNREACHABLE)
        return at + min(self._latency(at), 3.0)

    def leases(self, sent: float) -> LeaseReading:
        """All Leases, consistently: as storage had them at some instant between question and answer.

        Raises:
            NoAnswer: server or storage is away, or too slow, or throttles.
        """
        received = self.consistent(sent)
        seen = sent + (received - sent) * self._rng.random()
        if self._weather.away(seen) is not None:
            seen = received
        return LeaseReading(self._world.leases(seen), sent, received)

    def consistent(self, at: float) -> float:
        """Any consistent read.

        Raises:
            NoAnswer: server or storage is away, or too slow, or throttles.
        """
        self._throttle(at)
        answered = self._answered(at)
        if answered is None:
            raise NoAnswer(at + LATENCY, VerdictReason.LEASES_UNREADABLE)
        if answered > at + _LEASES:
            raise NoAnswer(at + _LEASES, VerdictReason.LEASES_UNREADABLE)
        return answered

    def _answered(self, at: float) -> float | None:
        """None where it is refused; a request that hangs is answered when what was away is back."""
        gone = self._weather.away(at)
        if gone is None:
            return at + self._latency(at)
        return gone.end + LATENCY if gone.hangs else None

    def _throttle(self, at: float) -> None:
        for each in self._weather.throttling:
            if each.span.start <= at < each.span.end and self._rng.random() < each.share:
                raise NoAnswer(at + LATENCY, VerdictReason.THROTTLED, each.retry_after)

    def _latency(self, at: float) -> float:
        if self._weather.slow.at(at) is not None:
            return self._rng.uniform(0.1, 7.0)
        return LATENCY * self._rng.uniform(0.75, 1.5)
