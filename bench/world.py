"""One shoot as it really is: kubelets that renew, a path, a server and its storage that go away, clocks that are wrong.

Everything that goes wrong is laid down before the hour begins, so each kubelet's renewals are known in advance and a
reading is a probe-up. All instants are true time; only a lease's renewTime is told by its node's clock.
"""

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.core.model.shoots import LeaseView, MachineView, NodeView
from app.prober.rules.leases import READING
from bench.spans import Span, Spans

RENEWAL = 10.0
"""A kubelet renews every 0.25 d, and up to 4 % later."""
KUBELET_TIMEOUT = 10.0
"""After which a kubelet gives up a request."""
_TRIES = 5
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 7.0
_WARM_UP = 60.0


@dataclass(frozen=True, slots=True)
class NodeClock:
    """What a node's clock shows."""

    offset: float = 0.0
    drift: float = 0.0
    """Seconds gained in a second."""
    steps: tuple[tuple[float, float], ...] = ()
    """(when, by how much)."""

    def shows(self, instant: float, since: float) -> float:
        """The time on it at `instant`, in microseconds as a Lease has it; it drifts from `since` on."""
        steps = sum(by for when, by in self.steps if when <= instant)
        return round(instant + self.offset + self.drift * (instant - since) + steps, 6)


@dataclass(frozen=True, slots=True)
class Throttling:
    """A stretch in which some requests are answered 429."""

    span: Span
    share: float
    retry_after: float
    """0 where the server does not say."""


@dataclass(frozen=True, slots=True)
class Weather:
    """All that goes wrong in one hour."""

    start: float
    end: float
    server: Spans = field(default_factory=Spans)
    storage: Spans = field(default_factory=Spans)
    slow: Spans = field(default_factory=Spans)
    """Answers take up to 7 s."""
    failing: Spans = field(default_factory=Spans)
    """A fifth of the probes fails."""
    throttling: tuple[Throttling, ...] = ()
    down: Spans = field(default_factory=Spans)
    """Our own process is not running."""

    def away(self, instant: float) -> Span | None:
        """The stretch in which no consistent request is answered."""
        return self.server.at(instant) or self.storage.at(instant)

    def last_away(self, instant: float) -> float | None:
        """When storage last came back, as far as a prober can tell."""
        found = [s.ended_before(instant) for s in (self.server, self.storage)]
        return max((_first_answer(span) for span in found if span is not None), default=None)


def _first_answer(away: Span) -> float:
    """A request that hung may have been sent this long before it was answered, and counts from then."""
    return away.end - (READING if away.hangs else 0.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a node is, apart from its lease."""

    name: str
    clock: NodeClock
    cuts: Spans
    """When its path to the API server is gone."""
    node: NodeView | None
    machine: MachineView | None
    candidate: bool


class Kubelet:
    """A kubelet's renewals over one hour: when each landed, when it was begun, and what it said."""

    def __init__(self, kind: Kind, weather: Weather, rng: random.Random) -> None:
        self.kind = kind
        self.begun: list[float] = []
        self._landed: list[float] = []
        self._leases: list[LeaseView] = []
        at = weather.start - _WARM_UP - rng.random() * RENEWAL
        for began, landed in _renewals(kind, weather, at, rng):
            self.begun.append(began)
            self._landed.append(landed)
            stamp = kind.clock.shows(began, weather.start)
            self._leases.append(LeaseView(kind.name, stamp, 40))

    def lease(self, instant: float) -> LeaseView:
        """The lease as storage has it."""
        return self._leases[bisect_right(self._landed, instant) - 1]

    def renewed(self, instant: float) -> float:
        """When the renewal that storage has at `instant` was really begun."""
        return self.begun[bisect_right(self._landed, instant) - 1]


def _renewals(
    kind: Kind, weather: Weather, at: float, rng: random.Random
) -> Iterator[tuple[float, float]]:
    """(begun, landed) of every renewal: five tries, then a Get with growing waits, as the kubelet does."""
    gone_from = weather.start - _WARM_UP if kind.node is None else weather.end + 2 * RENEWAL
    yield at, at
    while at < gone_from:
        began, landed = _one_round(kind, weather, at)
        yield began, landed
        at = landed + RENEWAL * (1.0 + 0.04 * rng.random())


def _one_round(kind: Kind, weather: Weather, at: float) -> tuple[float, float]:
    for _ in range(_TRIES):
        done, ok = _request(kind, weather, at)
        if ok:
            return at, done
        at = done
    wait = _FIRST_WAIT
    while True:
        done, ok = _request(kind, weather, at)
        if ok:
            began, (done, ok) = done, _request(kind, weather, done)
            if ok:
                return began, done
        at, wait = done + wait, min(2 * wait, _LONGEST_WAIT)


def _request(kind: Kind, weather: Weather, at: float) -> tuple[float, bool]:
    """When a kubelet's request that was sent at `at` ended, and whether it was carried out."""
    gone = kind.cuts.at(at) or weather.server.at(at)
    if gone is not None:
        return at + (KUBELET_TIMEOUT if gone.hangs else 0.05), False
    stuck = weather.storage.at(at)
    if stuck is None:
        return at + 0.01, True
    if stuck.hangs and stuck.end < at + KUBELET_TIMEOUT:
        return stuck.end + 0.02, True  # carried out late: a renewal that is old when it lands
    return at + (KUBELET_TIMEOUT if stuck.hangs else 0.05), False


class World:
    """The shoot: its kubelets and the weather."""

    def __init__(self, kinds: list[Kind], weather: Weather, rng: random.Random) -> None:
        self.weather = weather
        self.kubelets = [Kubelet(kind, weather, rng) for kind in kinds]
        self.candidates = [k for k in self.kubelets if k.kind.candidate]
        self.nodes = tuple(kind.node for kind in kinds if kind.node is not None)
        self.machines = tuple(kind.machine for kind in kinds if kind.machine is not None)

    def leases(self, instant: float) -> tuple[LeaseView, ...]:
        """All leases as storage has them."""
        return tuple([kubelet.lease(instant) for kubelet in self.kubelets])
