"""Whether a pod is deleted, or why not, and what the answer to a deletion means (rules 6, "A pod is deleted").

Deleting a pod pays only while the kubelet would let its container wait for long: the new pod starts at once. So what
counts is how much of the back-off remains.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    ServerFault,
    Throttled,
    trimmed,
)
from app.core.limits import Backoff
from app.core.model.pods import CRASH_LOOP, ContainerView, PodView
from app.core.model.selectors import LabelSelector
from app.core.model.weeding import Delete, DeletionResult, Judgement, Keep, KeepReason, WeederPolicy

# The kubelet's back-off after an exit, by the number of restarts.
_KUBELET: Final = Backoff(first=10.0, most=300.0)
# A container runtime that does not know an instant writes 1970, or year 1.
_EPOCH: Final = 0.0
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

    The back-off is 10 s × 2^(restarts-1), at most 5 min, from the last exit. It is not known without a restart count,
    with a negative one, or without an exit time. An exit in the future comes from another machine's clock, and counts
    as now.
    """
    if container.restarts is None or container.restarts < 0:
        return None
    if container.last_exit is None or container.last_exit <= _EPOCH:
        return None
    whole = _KUBELET.delay(max(container.restarts, 1))
    return max(whole - max(now - container.last_exit, 0.0), 0.0)


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
    if (keep := _out_of_reach(pod, selectors)) is not None:
        return keep
    longest = _longest_wait(pod.containers, now)
    if longest is None:
        return Keep(KeepReason.NOT_WAITING, _who_waits(pod.containers))
    return _spared(pod, longest, policy, deleted_before) or longest


def too_short(wait: Delete, policy: WeederPolicy, ago: float = 0.0) -> bool:
    """Whether the container, judged `ago` seconds before now, will be restarted soon by the kubelet itself."""
    return _length(wait) - ago <= policy.min_backoff_remaining


def _out_of_reach(pod: PodView, selectors: Sequence[LabelSelector]) -> Keep | None:
    if not any(selector.matches(pod.labels) for selector in selectors):
        return Keep(KeepReason.NOT_SELECTED, "no selector of the service matches its labels")
    if pod.terminating:
        return Keep(KeepReason.TERMINATING, "it is being deleted already")
    return None


def _longest_wait(containers: Iterable[ContainerView], now: float) -> Delete | None:
    waits = [
        Delete(each.name, remaining_backoff(each, now)) for each in containers if each.crash_loops
    ]
    return max(waits, key=_length, default=None)


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
        return Keep(KeepReason.CAP_REACHED, _cap_reached(pod, policy, deleted_before))
    return None


def _cap_reached(pod: PodView, policy: WeederPolicy, deleted_before: DeletedBefore) -> str:
    whose = "this bare pod" if pod.owner is None else f"pods of {pod.owner}"
    within = f"within {_seconds(policy.watch_duration)} (watchDuration)"
    return (
        f"{deleted_before.used} deletions of {whose} {within}; {deleted_before.allowed} are allowed"
    )


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
    return trimmed(text)


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
    """The same request is sent again."""
    retry_after: float | None = None
    """Seconds to wait before that; None if the server named none."""


_DONE: Final = DeletionAnswer(DeletionResult.DELETED, counts=True)
UNKNOWN: Final = DeletionAnswer(DeletionResult.ERROR, counts=True, again=True)
"""It is not known whether the pod was deleted."""


def answer(error: ClusterError | None) -> DeletionAnswer:
    """Interprets the error of a deletion; None stands for success."""
    match error:
        case None:
            return _DONE
        case NotFound():
            return DeletionAnswer(DeletionResult.GONE, counts=False, next_version=True)
        case Conflict():
            return DeletionAnswer(DeletionResult.CONFLICT, counts=False, next_version=True)
        case Forbidden():
            return DeletionAnswer(DeletionResult.ERROR, counts=False)
        case Throttled() | ServerFault(status=503):
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
