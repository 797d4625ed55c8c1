"""How many pods of one owner may be deleted within the last `watchDuration` (rules 6, Caps).

One ledger for all recoveries: a pod that the selectors of two services match is counted once.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from app.core.limits import Backoff
from app.core.model.pods import PodView
from app.weeder.rules.deletion import DeletedBefore

_REMEMBERED: Final = 2
"""A uid is remembered for so many windows: longer than a recovery that knows the pod can last."""


class _Sent(NamedTuple):
    """A deletion."""

    at: float
    key: str


class _Opening(NamedTuple):
    """An owner's pods at the start of a recovery."""

    at: float
    pods: int


class Ledger:
    """What was deleted, and what there was to delete; forgets what no longer counts.

    The key of an owner is its uid and its namespace: who writes pods writes their owner references, and could use up
    the cap of another control plane's workload by naming its uid.  A bare pod is its own owner: it is allowed the
    least, and its uid uses one of it.
    An owner of which no recovery within the window found a pod at its start is allowed the least, too.

    Instants must not go back; where they do, the latest one that was given holds.
    """

    def __init__(self, window: float, least: int) -> None:
        """Allows deletions.

        Args:
            window: seconds for which a deletion and the start of a recovery count (`watchDuration`).
            least: what every owner is allowed (`maxDeletionsPerWorkload`).
        """
        self._window = window
        self._least = least
        self._now = float("-inf")
        # In the order of time, so that forgetting looks at nothing but what it forgets; a plain dict would look at the
        # holes that are left at its front, each time.
        self._sent: OrderedDict[str, _Sent] = OrderedDict()
        """By uid: what counts."""
        self._known: OrderedDict[str, float] = OrderedDict()
        """By uid, when it was sent: for longer than it counts."""
        self._used: dict[str, int] = {}
        """By owner, how many of `_sent` are its."""
        self._opened: deque[tuple[float, tuple[str, ...]]] = deque()
        """The owners that each start of a recovery has seen."""
        self._openings: dict[str, deque[_Opening]] = {}

    def opened(self, now: float, pods: Iterable[PodView]) -> None:
        """A recovery begins, and finds these pods; those that are being deleted are not counted."""
        self._advance(now)
        counts = Counter(_key(pod) for pod in pods if pod.owner is not None and not pod.terminating)
        for key, count in counts.items():
            self._openings.setdefault(key, deque()).append(_Opening(self._now, count))
        if counts:
            self._opened.append((self._now, tuple(counts)))

    def deleted_before(self, pod: PodView, now: float) -> DeletedBefore:
        """What was deleted before, as far as it concerns this pod; of deletions, those in (now - window, now] count."""
        self._advance(now)
        key = _key(pod)
        return DeletedBefore(pod.uid in self._known, self._used.get(key, 0), self._allowed(key))

    def deleted_before_retry(self, pod: PodView, now: float) -> DeletedBefore:
        """The same as if the pod's own deletion had not been sent: for one that got no answer and is sent again."""
        found = self.deleted_before(pod, now)
        sent = self._sent.get(pod.uid)  # none where it no longer counts
        own = 1 if sent is not None and sent.key == _key(pod) else 0
        return DeletedBefore(already=False, used=found.used - own, allowed=found.allowed)

    def enter(self, pod: PodView, now: float) -> None:
        """A deletion of this pod is about to be sent: it counts from now on.

        One that is sent again counts once, from the latest time on, as any of them may be the one that deletes.
        """
        self._advance(now)
        self.take_back(pod.uid)
        key = _key(pod)
        self._sent[pod.uid] = _Sent(self._now, key)
        self._known[pod.uid] = self._now
        self._used[key] = self._used.get(key, 0) + 1

    def take_back(self, uid: str) -> None:
        """No deletion of this pod counts: the server has said that it deleted nothing; unknown ones are none."""
        self._known.pop(uid, None)
        if (sent := self._sent.pop(uid, None)) is not None:
            self._give_back(sent.key)

    def _allowed(self, key: str) -> int:
        openings = self._openings.get(key)
        return self._least if openings is None else max(self._least, openings[0].pods)

    def _advance(self, now: float) -> None:
        self._now = max(self._now, now)
        counts_after = self._now - self._window
        while self._sent and next(iter(self._sent.values())).at <= counts_after:
            _, sent = self._sent.popitem(last=False)
            self._give_back(sent.key)
        known_after = self._now - _REMEMBERED * self._window
        while self._known and next(iter(self._known.values())) <= known_after:
            self._known.popitem(last=False)
        while self._opened and self._opened[0][0] <= counts_after:
            for key in self._opened.popleft()[1]:
                self._close(key)

    def _give_back(self, key: str) -> None:
        self._used[key] -= 1
        if not self._used[key]:
            del self._used[key]

    def _close(self, key: str) -> None:
        """Forgets the owner's oldest count."""
        self._openings[key].popleft()
        if not self._openings[key]:
            del self._openings[key]


def _key(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.uid if pod.owner is None else pod.owner.uid}"


# How soon a service that comes and goes is weeded for again (rules 6, Caps).


_FREE: Final = 3
"""So many recoveries within the window begin at once."""
_WAIT: Final = Backoff(first=30.0, most=120.0)


def wait(begun: Sequence[float], now: float, window: float) -> float:
    """Seconds before the next recovery of the same service begins: 0 for the first three within `window`.

    Then 30, 60, 120, 120 …  `begun` are the instants at which its recoveries began, after their own waits, in any
    order; one that was lost while it waited is not among them.  One as old as `window` no longer counts.
    """
    recent = sum(1 for each in begun if each > now - window)
    return 0.0 if recent < _FREE else _WAIT.delay(recent - _FREE + 1)
