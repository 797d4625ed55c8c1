"""The kubelets of one shoot: each renews its Lease by a clock of its own, and comes back from an absence as a real one.

No task runs them.  Whoever is about to look at the shoot, or to change it, first calls `Fleet.advance`, which lets
everything happen that was due until now, each thing at its own instant.  So 3,000 kubelets cost what their renewals do.

The rhythm is that of the kubelet's lease controller: a renewal each quarter of the duration, up to 4 % later; five
tries at once; then it asks for the Lease with pauses of 0.2 s, doubling to 7 s, until it gets it.  A request that is
not answered costs it a quarter of the duration.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from app.simulation.traffic import Renewal

JITTER: Final = 0.04
TRIES: Final = 5
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 7.0
_LISTEN: Final = 0.25
"""How often a request that is held looks whether its answer has come, seconds."""
_RETRY: Final = 0.01
"""What a try costs that fails at once, seconds."""


class NodeClock:
    """What the clock of a node shows."""

    def __init__(self, offset: float = 0.0) -> None:
        self._offset = offset
        self._drift = 0.0
        self._since = 0.0

    def read(self, now: float) -> float:
        """What it shows at the true instant `now`."""
        return now + self._offset + self._drift * (now - self._since)

    def step(self, seconds: float) -> None:
        """Sets it forward, or back."""
        self._offset += seconds

    def drift(self, now: float, rate: float) -> None:
        """Lets it gain `rate` seconds a second from `now` on."""
        self._offset = self.read(now) - now
        self._drift, self._since = rate, now


class RenewalGap(NamedTuple):
    """A time without a renewal, between two renewals; true instants."""

    begin: float
    end: float


@dataclass(slots=True, eq=False)
class Kubelet:
    """One kubelet and what it is in the middle of."""

    node: str
    zone: str
    clock: NodeClock
    last: float
    """The true instant of its last renewal."""
    alive: bool = True
    gaps: list[RenewalGap] = field(default_factory=list)
    """Renewals that came more than half an interval late."""
    tries: int = 0
    pause: float = FIRST_PAUSE
    begun: float | None = None
    """When the request was sent that has no answer yet."""
    lost: bool = False
    """Whether that request will never be answered."""
    turn: int = 0
    """Which of its entries in the heap is the valid one."""


class PathCut(NamedTuple):
    """A path that is cut: from these nodes to their API server."""

    hits: Callable[[Kubelet], bool]


class Fleet:
    """All kubelets of one shoot."""

    def __init__(
        self,
        rng: random.Random,
        meets: Callable[[random.Random], Renewal],
        renewed: Callable[[Kubelet, float], None],
        duration: float = 40.0,
    ) -> None:
        """Makes a fleet without kubelets.

        Args:
            rng: where all jitter comes from.
            meets: what a renewal meets at the API server.
            renewed: called with each renewal and its true instant.
            duration: `leaseDurationSeconds`.
        """
        self._rng = rng
        self._meets = meets
        self._renewed = renewed
        self._interval = duration * 0.25
        self._kubelets: dict[str, Kubelet] = {}
        self._heap: list[tuple[float, int, int, Kubelet]] = []
        self._order = count()
        self._cuts: list[PathCut] = []

    @property
    def kubelets(self) -> tuple[Kubelet, ...]:
        """All of them, dead ones too, in the order in which they joined."""
        return tuple(self._kubelets.values())

    def has(self, node: str) -> bool:
        """Whether the node is there."""
        return node in self._kubelets

    def of(self, node: str) -> Kubelet:
        """The kubelet of a node; KeyError where there is none."""
        return self._kubelets[node]

    def join(self, node: str, zone: str, now: float, *, phase: float) -> Kubelet:
        """A kubelet joins that last renewed `phase` intervals before `now`."""
        kubelet = Kubelet(node, zone, NodeClock(), now - phase * self._interval)
        self._kubelets[node] = kubelet
        self._renewed(kubelet, kubelet.last)
        self._later(kubelet, max(now, kubelet.last + self._period()))
        return kubelet

    def leave(self, node: str) -> None:
        """The node is gone."""
        self.die(node)
        del self._kubelets[node]

    def die(self, node: str) -> None:
        """The kubelet stops; its Lease stays."""
        kubelet = self._kubelets[node]
        kubelet.alive = False
        kubelet.turn += 1

    def revive(self, node: str, now: float) -> None:
        """The kubelet starts again, and renews at once."""
        kubelet = self._kubelets[node]
        kubelet.alive, kubelet.tries, kubelet.pause, kubelet.begun = True, 0, FIRST_PAUSE, None
        kubelet.lost = False
        self._later(kubelet, now)

    def out_of_reach(self) -> tuple[Kubelet, ...]:
        """Those that are dead, or whose path is cut: they could not renew if they wanted to."""
        return tuple(
            kubelet
            for kubelet in self._kubelets.values()
            if not kubelet.alive or any(cut.hits(kubelet) for cut in self._cuts)
        )

    def cut(self, cut: PathCut) -> None:
        """From now on the packets of these nodes vanish."""
        self._cuts.append(cut)

    def mend(self, cut: PathCut) -> None:
        """The path is back; requests that were lost on it stay lost."""
        self._cuts.remove(cut)

    def advance(self, now: float) -> None:
        """Lets everything happen that is due until `now`."""
        while self._heap and self._heap[0][0] <= now:
            due, _, turn, kubelet = heapq.heappop(self._heap)
            if turn == kubelet.turn:
                self._step(kubelet, due)

    def _step(self, kubelet: Kubelet, at: float) -> None:
        if kubelet.lost:
            return self._failed(kubelet, at)
        match self._outcome(kubelet):
            case Renewal.ANSWERED:
                return self._success(kubelet, at)
            case Renewal.FAILED:
                return self._failed(kubelet, at)
            case Renewal.LOST:
                return self._lose(kubelet, at)
            case Renewal.HELD:
                return self._hold(kubelet, at)

    def _outcome(self, kubelet: Kubelet) -> Renewal:
        if any(cut.hits(kubelet) for cut in self._cuts):
            return Renewal.LOST
        return self._meets(self._rng)

    def _success(self, kubelet: Kubelet, at: float) -> None:
        sent = at if kubelet.begun is None else kubelet.begun
        if at - kubelet.last > 1.5 * self._interval:
            kubelet.gaps.append(RenewalGap(kubelet.last, at))
        kubelet.last = at
        kubelet.tries, kubelet.pause, kubelet.begun = 0, FIRST_PAUSE, None
        self._renewed(kubelet, sent)
        self._later(kubelet, at + self._period())

    def _lose(self, kubelet: Kubelet, at: float) -> None:
        kubelet.lost = True
        begun = at if kubelet.begun is None else kubelet.begun
        self._later(kubelet, begun + self._interval)

    def _hold(self, kubelet: Kubelet, at: float) -> None:
        kubelet.begun = at if kubelet.begun is None else kubelet.begun
        if at >= kubelet.begun + self._interval:
            return self._failed(kubelet, at)
        return self._later(kubelet, min(at + _LISTEN, kubelet.begun + self._interval))

    def _failed(self, kubelet: Kubelet, at: float) -> None:
        kubelet.lost, kubelet.begun = False, None
        kubelet.tries += 1
        if kubelet.tries <= TRIES:
            return self._later(kubelet, at + _RETRY)
        kubelet.pause = min(2 * kubelet.pause, LONGEST_PAUSE)
        return self._later(kubelet, at + kubelet.pause)

    def _period(self) -> float:
        return self._interval * (1 + JITTER * self._rng.random())

    def _later(self, kubelet: Kubelet, due: float) -> None:
        kubelet.turn += 1
        heapq.heappush(self._heap, (due, next(self._order), kubelet.turn, kubelet))
