"""The weeder's decisions, as pure functions of frozen values, and the ledger of deletions (rules 6).

When a service has become ready, and until when its dependants are weeded; whether a pod is deleted; what the answer to
a deletion means; how many pods of one owner may be deleted, and how soon a service is weeded for again.

Deleting a pod pays only while the kubelet would let its container wait for long: the new pod starts at once. So what
counts is how much of the back-off remains.
"""

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from app.core import errors
from app.core.limits import Backoff
from app.core.model.names import LabelSelector
from app.core.model.weeding import (
    CRASH_LOOP,
    LONGEST_BACKOFF,
    ContainerView,
    Delete,
    DeletionResult,
    Judgement,
    Keep,
    KeepReason,
    PodView,
    SliceEndpoint,
    SliceView,
    WeederPolicy,
)

# Readiness of services. A slice without the label `kubernetes.io/service-name` belongs to no service.

# Conditions have times that are cut to whole seconds: 12:00:00 may mean any instant before 12:00:01.
_WHOLE_SECOND: Final = 1.0


class ReadinessChange(StrEnum):
    """How the readiness of a service has changed."""

    NONE = "None"
    BECAME_READY = "BecameReady"
    LOST = "Lost"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a service is ready, and since when."""

    ready: bool
    since: float | None
    """When this process saw it change; None if it did not."""


def is_ready(slices: Iterable[SliceView]) -> bool:
    """Whether at least one endpoint in any of the service's slices is ready."""
    return any(True for _ in _ready_endpoints(slices))


def pods_behind(slices: Iterable[SliceView]) -> tuple[str, ...]:
    """The names of the pods behind the ready endpoints, each once, sorted; endpoints without a pod are left out."""
    return tuple(sorted({each.pod for each in _ready_endpoints(slices) if each.pod}))


def _ready_endpoints(slices: Iterable[SliceView]) -> Iterable[SliceEndpoint]:
    return (each for one in slices if one.service for each in one.endpoints if each.ready)


def first_seen(slices: Iterable[SliceView]) -> Readiness:
    """The readiness of a service at the first list, when it is not known since when."""
    return Readiness(is_ready(slices), None)


def next_readiness(
    before: Readiness | None, slices: Iterable[SliceView], now: float
) -> tuple[Readiness, ReadinessChange]:
    """Returns the readiness now, and the change from `before`.

    It does not matter whether an event, a list or a deletion has changed the slices. A service that was never seen
    before (None) counts as not ready, so its first ready endpoint is a change.
    """
    ready = is_ready(slices)
    if before is None:
        before = Readiness(ready=False, since=None)
    if ready is before.ready:
        return before, ReadinessChange.NONE
    return Readiness(ready, now), ReadinessChange.BECAME_READY if ready else ReadinessChange.LOST


def weeds_until(
    since: float, last_heard: float | None, now: float, watch_duration: float
) -> float | None:
    """Until when to weed for a service that was found ready, and became so unseen at `since`; None to leave it alone.

    A recovery gets what remains of `watch_duration` since the service became ready. A service that has been ready for
    longer is left alone: no back-off outlasts that. A `since` in the future comes from another machine's clock, and
    counts as now.

    After a gap in the watch it needs a recovery only if it became ready after `last_heard`, the last contact before
    the gap: it was lost and came back unseen. Without an earlier contact (None), as when this instance begins to lead,
    any instant is after it.
    """
    if last_heard is not None and since + _WHOLE_SECOND <= last_heard:
        return None
    until = min(since, now) + watch_duration
    return until if until > now else None


# The wait of recoveries.

# How many recoveries of a service within the window begin without a wait.
_FREE: Final = 3
_WAIT: Final = Backoff(first=30.0, most=120.0)


def recovery_wait(begun: Sequence[float], now: float, window: float) -> float:
    """Seconds before the next recovery of a service begins: 0 for the first three within `window`, then 30, 60, 120.

    Args:
        begun: when the service's recoveries began, after their own waits, in any order; without those that ended while
            they still waited.
        now: the present instant.
        window: `watchDuration`; a recovery that began as long ago no longer counts.
    """
    recent = sum(1 for each in begun if each > now - window)
    return 0.0 if recent < _FREE else _WAIT.delay(recent - _FREE + 1)


# Pods.

# The kubelet's back-off after an exit, by the number of restarts, unless it begins anew or the node has another one.
_KUBELET: Final = Backoff(first=10.0, most=LONGEST_BACKOFF)
# A container runtime that does not know an instant writes 1970, or year 1.
_EPOCH: Final = 0.0
# The owner of the mirror of a static pod.
_NODE: Final = ("v1", "Node")
# How many waiting containers a message names; the others are counted.
_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class DeletedBefore:
    """What was deleted before, as far as it concerns one pod."""

    already: bool
    """A deletion of this very pod was sent, and not refused."""
    used: int
    """How many pods of its owner were deleted within the last `watchDuration`."""
    allowed: int
    """How many may be (the cap)."""


def remaining_backoff(container: ContainerView, now: float) -> float | None:
    """Seconds until the kubelet restarts this container, which has crashed; None if that is not known.

    The whole back-off, at most 5 min, counts from the last exit. It is 10 s × 2^(restarts-1), or what the kubelet says
    that it is if that is shorter: it begins anew after ten minutes without a crash and when the kubelet is restarted,
    and some nodes have shorter ones, while the restart count goes on.

    It is not known without an exit time, or where neither the kubelet nor a valid restart count tells how long it is.
    An exit in the future comes from another machine's clock, and counts as now.
    """
    if container.last_exit is None or container.last_exit <= _EPOCH:
        return None
    told = [] if container.backoff is None else [min(container.backoff, LONGEST_BACKOFF)]
    if container.restarts is not None and container.restarts >= 0:
        told.append(_KUBELET.delay(max(container.restarts, 1)))
    if not told:
        return None
    return max(min(told) - max(now - container.last_exit, 0.0), 0.0)


def judge(
    pod: PodView,
    selectors: Sequence[LabelSelector],
    policy: WeederPolicy,
    deleted_before: DeletedBefore,
    now: float,
) -> Judgement:
    """Decides to delete the pod, or to keep it, for the first reason in the order in which an operator would look.

    Of several containers that wait, the one that would wait longest counts; an unknown wait is the longest.
    """
    if not selected(pod, selectors):
        return Keep(KeepReason.NOT_SELECTED, "no selector of the service matches its labels")
    if pod.terminating:
        return Keep(KeepReason.TERMINATING, "it is being deleted already")
    crashed = (each for each in pod.containers if each.crash_loops)
    waits = [Delete(each.name, remaining_backoff(each, now)) for each in crashed]
    if (longest := max(waits, key=_length, default=None)) is None:
        return Keep(KeepReason.NOT_WAITING, _who_waits(pod.containers))
    return _spared(pod, longest, policy, deleted_before) or longest


def selected(pod: PodView, selectors: Sequence[LabelSelector]) -> bool:
    """Whether one of the service's selectors matches the pod."""
    return any(each.matches(pod.labels) for each in selectors)


def too_short(wait: Delete, policy: WeederPolicy, ago: float = 0.0) -> bool:
    """Whether the container, judged `ago` seconds before now, will be restarted soon by the kubelet itself."""
    return _length(wait) - ago <= policy.min_backoff_remaining


def _length(wait: Delete) -> float:
    return math.inf if wait.remaining is None else wait.remaining


def _spared(
    pod: PodView, wait: Delete, policy: WeederPolicy, deleted_before: DeletedBefore
) -> Keep | None:
    """Why a pod with a container that waits is kept all the same."""
    if deleted_before.already:
        return Keep(
            KeepReason.ALREADY_DELETED, "its deletion was sent already; no pod is deleted twice"
        )
    if pod.owner is not None and pod.owner[:2] == _NODE:
        text = "it is a static pod, which the kubelet goes on running: a deletion starts nothing"
        return Keep(KeepReason.BARE_POD, text)
    if pod.owner is None and not policy.weed_bare_pods:
        return Keep(
            KeepReason.BARE_POD,
            "it has no controller that would recreate it; weedBarePods is false",
        )
    if too_short(wait, policy):
        least = _seconds(policy.min_backoff_remaining)
        text = f"{wait.container} waits {_seconds(_length(wait))} more"
        return Keep(
            KeepReason.SHORT_BACKOFF,
            f"{text}, which is no longer than minBackoffRemaining ({least})",
        )
    if deleted_before.used >= deleted_before.allowed:
        whose = "this bare pod" if pod.owner is None else f"pods of {pod.owner}"
        within = f"within {_seconds(policy.watch_duration)} (watchDuration)"
        used = f"{deleted_before.used} deletions of {whose} {within}"
        return Keep(KeepReason.CAP_REACHED, f"{used}; {deleted_before.allowed} are allowed")
    return None


def _who_waits(containers: Sequence[ContainerView]) -> str:
    """Says how many containers there are, and what they wait for instead of a back-off."""
    if not containers:
        return "it lists no containers"
    others = [
        f"{each.name} for {each.waiting or 'no reason'}"
        for each in containers
        if each.waiting is not None
    ]
    text = f"none of its {len(containers)} containers waits in {CRASH_LOOP}"
    if others:
        more = f" and {len(others) - _NAMES} more" if len(others) > _NAMES else ""
        text += f"; waiting: {', '.join(others[:_NAMES])}{more}"
    return errors.trimmed(text)


def _seconds(seconds: float) -> str:
    """`4.2 s`, `300 s`."""
    return f"{seconds:.1f}".removesuffix(".0") + " s"


@dataclass(frozen=True, slots=True)
class DeletionAnswer:
    """What became of a request to delete a pod, and what to do next (rules 6, the table of answers)."""

    result: DeletionResult
    counts: bool
    """The pod was deleted, or may have been, so the request counts to the cap."""
    next_version: bool = False
    """The pod is judged again when its next version is seen."""
    again: bool = False
    """The same request is sent again, after a back-off of this pod's own; a 403 is paced by `RefusalCount`."""
    retry_after: float | None = None
    """Seconds to wait before that; None if the server named none."""


_DONE: Final = DeletionAnswer(DeletionResult.DELETED, counts=True)
UNKNOWN: Final = DeletionAnswer(DeletionResult.ERROR, counts=True, again=True)
"""It is not known whether the pod was deleted."""


def answer(error: errors.ClusterError | None) -> DeletionAnswer:
    """Interprets the error of a deletion; None stands for success."""
    match error:
        case None:
            return _DONE
        case errors.NotFound():
            return DeletionAnswer(DeletionResult.GONE, counts=False, next_version=True)
        case errors.Conflict():
            return DeletionAnswer(DeletionResult.CONFLICT, counts=False, next_version=True)
        case errors.Forbidden():
            return DeletionAnswer(DeletionResult.ERROR, counts=False)
        case errors.Throttled() | errors.ServerFault(status=503):
            pause = error.retry_after
            return DeletionAnswer(DeletionResult.ERROR, counts=False, again=True, retry_after=pause)
        case _:
            # The pod may have been deleted if there was no answer, if it could not be understood, or if the API server
            # waited for its storage in vain (500, 504).
            refused = error.status is not None and 400 <= error.status < 500  # noqa: PLR2004 - a class of statuses
            pause = error.retry_after
            return DeletionAnswer(
                DeletionResult.ERROR, counts=not refused, again=True, retry_after=pause
            )


# Caps.

# How many windows a uid is remembered for: longer than a recovery that knows the pod can last.
_REMEMBERED: Final = 2


class _CountedDeletion(NamedTuple):
    """A deletion that counts: when it was sent, and its owner's key."""

    at: float
    key: str


class Ledger:
    """Records deletions of all recoveries, and how many pods each owner had; forgets what no longer counts.

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
        self._unanswered: set[str] = set()
        """Uids of `_known` whose deletion got no answer, so that it may be sent again."""
        self._in_flight: set[str] = set()
        self._used: dict[str, int] = {}
        """How many entries of `_sent` each owner has, by its key."""
        self._opened: deque[tuple[float, tuple[str, ...]]] = deque()
        """The keys of the owners that each start of a recovery found, with its instant."""
        self._openings: dict[str, list[int]] = {}
        """How many pods each owner had at those starts, by its key, the oldest first; for most only one, for which a
        deque would take eight times as much."""

    def opened(self, now: float, pods: Iterable[PodView]) -> None:
        """Records the pods that a recovery finds at its start; terminating ones are not counted."""
        self._advance(now)
        counts = Counter(_key(pod) for pod in pods if pod.owner is not None and not pod.terminating)
        for key, count in counts.items():
            self._openings.setdefault(key, []).append(count)
        if counts:
            self._opened.append((self._now, tuple(counts)))

    def deleted_before(self, pod: PodView, now: float) -> DeletedBefore:
        """What was deleted before, as far as it concerns this pod; deletions in (now - window, now] count.

        A deletion of the pod itself that got no answer does not, unless it is in flight again: it may be sent again.
        """
        self._advance(now)
        key, uid = _key(pod), pod.uid
        used, allowed = self._used.get(key, 0), self._least
        if (openings := self._openings.get(key)) is not None:
            allowed = max(allowed, openings[0])
        if uid not in self._unanswered or uid in self._in_flight:
            return DeletedBefore(uid in self._known, used, allowed)
        sent = self._sent.get(uid)  # None if it no longer counts
        own = 1 if sent is not None and sent.key == key else 0
        return DeletedBefore(already=False, used=used - own, allowed=allowed)

    def sending(self, pod: PodView, now: float) -> None:
        """Counts a deletion that is about to be sent."""
        self._in_flight.add(pod.uid)
        self.enter(pod, now)

    def called_off(self, pod: PodView) -> None:
        """Stops counting a deletion that deleted nothing, unless an earlier request may have deleted the pod."""
        self._in_flight.discard(pod.uid)
        if pod.uid not in self._unanswered:
            self.take_back(pod.uid)

    def answered(self, pod: PodView, found: DeletionAnswer) -> None:
        """Records the answer to a deletion; one that may have been carried out counts, and may be sent again."""
        self._in_flight.discard(pod.uid)
        if not found.counts:
            self.called_off(pod)
        elif found.again and pod.uid in self._known:
            self._unanswered.add(pod.uid)
        else:
            self._unanswered.discard(pod.uid)

    def enter(self, pod: PodView, now: float) -> None:
        """Counts a deletion, or one that a dry run does not send, so that it is reported only once.

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

    def _advance(self, now: float) -> None:
        self._now = max(self._now, now)
        counts_after = self._now - self._window
        while self._sent and next(iter(self._sent.values())).at <= counts_after:
            _, sent = self._sent.popitem(last=False)
            self._give_back(sent.key)
        known_after = self._now - _REMEMBERED * self._window
        while self._known and next(iter(self._known.values())) <= known_after:
            uid, _ = self._known.popitem(last=False)
            self._unanswered.discard(uid)
        while self._opened and self._opened[0][0] <= counts_after:
            for key in self._opened.popleft()[1]:
                del self._openings[key][0]
                if not self._openings[key]:
                    del self._openings[key]

    def _give_back(self, key: str) -> None:
        self._used[key] -= 1
        if not self._used[key]:
            del self._used[key]


def _key(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.uid if pod.owner is None else pod.owner.uid}"
