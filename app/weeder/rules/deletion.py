"""Whether a pod is deleted, or why not (rules 6, "A pod is deleted")."""

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

_KUBELET: Final = Backoff(first=10.0, most=300.0)
"""How long the kubelet lets a container wait after an exit, by its restarts."""
_EPOCH: Final = 0.0
"""What a container runtime writes that does not know an instant: 1970, or year 1."""
_NAMES: Final = 3
"""So many waiting containers are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class DeletedBefore:
    """What was deleted before, as far as it concerns one pod."""

    already: bool
    """A deletion of this very pod was sent, and not refused."""
    used: int
    """Deletions of its owner's pods within the last `watchDuration`."""
    allowed: int
    """How many there may be."""


def remaining_backoff(container: ContainerView, now: float) -> float | None:
    """Seconds until the kubelet starts this container again, which crashed; None where that is not known.

    It is 10 s × 2^(restarts-1), at most 5 min, from the last exit.  Not known: no restart count or a negative one, no
    exit time.  An exit in the future is another machine's clock: it is now.
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
    """To delete the pod, or the first reason why not, in the order in which an operator would look for it.

    Of several containers that wait, the one that would wait longest counts; one whose wait is not known is longest.
    """
    if (keep := _out_of_reach(pod, selectors)) is not None:
        return keep
    longest = _longest_wait(pod.containers, now)
    if longest is None:
        return Keep(KeepReason.NOT_WAITING, _who_waits(pod.containers))
    return _spared(pod, longest, policy, deleted_before) or longest


def too_short(wait: Delete, policy: WeederPolicy, ago: float = 0.0) -> bool:
    """Whether what was judged so many seconds `ago` is started again soon without us."""
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
    """Why a pod that waits is left alone all the same."""
    if deleted_before.already:
        return Keep(
            KeepReason.ALREADY_DELETED, "its deletion was sent already; no pod is deleted twice"
        )
    if pod.owner is None and not policy.weed_bare_pods:
        return Keep(
            KeepReason.BARE_POD,
            "it has no controller that would make it anew; weedBarePods is false",
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
    """Which containers there are, and what they wait for instead."""
    if not containers:
        return "it tells of no container"
    others = [
        f"{each.name} for {each.waiting or 'no told reason'}"
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


# What the answer to a deletion means (rules 6, answers).


@dataclass(frozen=True, slots=True)
class DeletionAnswer:
    """What became of a request to delete a pod, and what is to be done about it."""

    result: DeletionResult
    counts: bool
    """Whether the pod was deleted, or may have been: it counts to the caps then."""
    next_version: bool = False
    """It is judged again when another version of it is seen."""
    again: bool = False
    """The same is asked for again."""
    retry_after: float | None = None
    """The pause before that, in seconds, where the server named one."""


_DONE: Final = DeletionAnswer(DeletionResult.DELETED, counts=True)
UNKNOWN: Final = DeletionAnswer(DeletionResult.ERROR, counts=True, again=True)
"""Nobody knows whether the pod was deleted."""


def answer(error: ClusterError | None) -> DeletionAnswer:
    """The meaning of an error, or of none."""
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
            # The pod may be deleted where there is no answer, none that can be understood, or one of a server that
            # waited in vain for its storage (500, 504).
            refused = error.status is not None and 400 <= error.status < 500  # noqa: PLR2004 - a class of statuses
            pause = error.retry_after
            return DeletionAnswer(
                DeletionResult.ERROR, counts=not refused, again=True, retry_after=pause
            )
