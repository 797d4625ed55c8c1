"""How many pods of one owner may be deleted within `watchDuration`, and how soon a service is weeded for again.

An owner may lose as many pods as it had at the start of the first recovery within the window, or
`maxDeletionsPerWorkload` if that is more (rules 6, Caps; docs/decisions/0019). There is one ledger for all recoveries:
a pod that the selectors of two services match is counted once.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from app.core.limits import Backoff
from app.core.model.pods import PodView
from app.weeder.rules.deletion import DeletedBefore

# How many windows a uid is remembered for: longer than a recovery that knows the pod can last.
_REMEMBERED: Final = 2


class _CountedDeletion(NamedTuple):
    """A deletion that counts: when it was sent, and its owner's key."""

    at: float
    key: str


class _Opening(NamedTuple):
    """How many pods an owner had at the start of a recovery."""

    at: float
    pods: int


class Ledger:
    """Records deletions, and how many pods each owner had; forgets what no longer counts.

    The key of an owner is its uid and its namespace: anybody who creates pods writes their owner references, and could
    otherwise use up the cap of another control plane's workload by naming its uid. A bare pod is its own owner, and is
    allowed `least`; so is an owner of which no recovery within the window found a pod at its start.

    Instants must not go back; if one does, the latest that was given is used.
    """

    def __init__(self, window: float, least: int) -> None:
        """Starts empty.

        Args:
            window: seconds for which a deletion and the start of a recovery count (`watchDuration`).
            least: how many deletions every owner is allowed (`maxDeletionsPerWorkload`).
        """
        self._window = window
        self._least = least
        self._now = float("-inf")
        # Ordered by time, so that the oldest entries are removed from the front. A plain dict would each time scan the
        # holes that earlier removals have left at its front.
        self._sent: OrderedDict[str, _CountedDeletion] = OrderedDict()
        """The deletions that count, by uid of the pod."""
        self._known: OrderedDict[str, float] = OrderedDict()
        """When each deletion was sent, by uid of the pod; kept for longer than it counts."""
        self._used: dict[str, int] = {}
        """How many entries of `_sent` each owner has, by its key."""
        self._opened: deque[tuple[float, tuple[str, ...]]] = deque()
        """The keys of the owners that each start of a recovery found, with its instant."""
        self._openings: dict[str, deque[_Opening]] = {}

    def opened(self, now: float, pods: Iterable[PodView]) -> None:
        """Records the pods that a recovery finds at its start; terminating ones are not counted."""
        self._advance(now)
        counts = Counter(_key(pod) for pod in pods if pod.owner is not None and not pod.terminating)
        for key, count in counts.items():
            self._openings.setdefault(key, deque()).append(_Opening(self._now, count))
        if counts:
            self._opened.append((self._now, tuple(counts)))

    def deleted_before(self, pod: PodView, now: float) -> DeletedBefore:
        """What was deleted before, as far as it concerns this pod; deletions in (now - window, now] count."""
        self._advance(now)
        key = _key(pod)
        return DeletedBefore(pod.uid in self._known, self._used.get(key, 0), self._allowed(key))

    def deleted_before_retry(self, pod: PodView, now: float) -> DeletedBefore:
        """The same without the pod's own deletion, for one that got no answer and is to be sent again."""
        found = self.deleted_before(pod, now)
        sent = self._sent.get(pod.uid)  # None if it no longer counts
        own = 1 if sent is not None and sent.key == _key(pod) else 0
        return DeletedBefore(already=False, used=found.used - own, allowed=found.allowed)

    def enter(self, pod: PodView, now: float) -> None:
        """Counts a deletion that is about to be sent.

        One that is sent again counts once, from the latest time on, as any of the requests may be the one that deletes.
        """
        self._advance(now)
        self.take_back(pod.uid)
        key = _key(pod)
        self._sent[pod.uid] = _CountedDeletion(self._now, key)
        self._known[pod.uid] = self._now
        self._used[key] = self._used.get(key, 0) + 1

    def take_back(self, uid: str) -> None:
        """Stops counting the deletion of this pod, as the server said that it deleted nothing; ignores unknown uids."""
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
        """Forgets the owner's oldest start of a recovery."""
        self._openings[key].popleft()
        if not self._openings[key]:
            del self._openings[key]


def _key(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.uid if pod.owner is None else pod.owner.uid}"


# How many recoveries of a service within the window begin without a wait.
_FREE: Final = 3
_WAIT: Final = Backoff(first=30.0, most=120.0)


def wait(begun: Sequence[float], now: float, window: float) -> float:
    """Seconds before the next recovery of a service begins: 0 for the first three within `window`, then 30, 60, 120.

    Args:
        begun: when the service's recoveries began, after their own waits, in any order; without those that ended while
            they still waited.
        now: the present instant.
        window: `watchDuration`; a recovery that began as long ago no longer counts.
    """
    recent = sum(1 for each in begun if each > now - window)
    return 0.0 if recent < _FREE else _WAIT.delay(recent - _FREE + 1)
