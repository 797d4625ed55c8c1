"""Defects of the weeder that are made on purpose, from outside, to see that the exploration finds them."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from app.core.clock import Clock
from app.core.errors import ClusterError, Unreachable
from app.core.kube import resources
from app.core.kube.client import ApiRequest
from app.core.kube.election import SoleOwner
from app.core.model.weeding import (
    DeletionResult,
    End,
    Judgement,
    Keep,
    KeepReason,
    PodView,
    ServiceKey,
)
from app.core.ports import Relisted
from app.weeder import environment, recovery, rules
from app.weeder.controller import WeederController
from app.weeder.deletions import FairRateLimiter
from app.weeder.environment import WeederEnvironment
from app.weeder.recovery import RecoveryRegistry, RecoveryRunner
from app.weeder.rules import DeletedBefore, DeletionAnswer, Ledger, answer

Plant = Callable[[], Any]
_PLENTY: Final = 1_000_000


def _sent_with(*kept: str) -> Any:  # noqa: ANN401  a patch
    """Deletions with these preconditions alone."""

    def request(*first: Any, **more: Any) -> ApiRequest:  # noqa: ANN401  as it has them
        body = more.get("body")
        if more.get("method") == "DELETE" and body is not None:
            conditions = {k: v for k, v in body["preconditions"].items() if k in kept}
            more["body"] = {**body, "preconditions": conditions}
        return ApiRequest(*first, **more)

    return patch.object(resources, "ApiRequest", request)


def preconditions_dropped() -> Any:  # noqa: ANN401  a patch
    """A deletion names the pod and nothing else."""
    return _sent_with()


def uid_forgotten() -> Any:  # noqa: ANN401  a patch
    """What was deleted already is asked for once more, by its uid alone."""
    both, original = ExitStack(), Ledger.deleted_before

    def deleted_before(self: Ledger, pod: PodView, now: float) -> DeletedBefore:
        return replace(original(self, pod, now), already=False)

    both.enter_context(patch.object(Ledger, "deleted_before", deleted_before))
    both.enter_context(_sent_with("uid"))
    return both


def cap_ignored() -> Any:  # noqa: ANN401  a patch
    """Any number of pods of one owner is deleted."""
    original = Ledger.deleted_before

    def deleted_before(self: Ledger, pod: PodView, now: float) -> DeletedBefore:
        return replace(original(self, pod, now), allowed=_PLENTY)

    return patch.object(Ledger, "deleted_before", deleted_before)


def loss_ignored() -> Any:  # noqa: ANN401  a patch
    """A recovery goes on although its service is no longer ready."""
    original = RecoveryRegistry.end

    def end(self: RecoveryRegistry, key: ServiceKey, why: End) -> None:
        if why is not End.LOST:
            original(self, key, why)

    return patch.object(RecoveryRegistry, "end", end)


def pause_ignored() -> Any:  # noqa: ANN401  a patch
    """What is paused is deleted all the same."""
    original = RecoveryRunner._held  # noqa: SLF001  a defect in its very midst

    def held(self: RecoveryRunner) -> Keep | None:
        found = original(self)
        return None if found is not None and found.reason is KeepReason.PAUSED else found

    return patch.object(RecoveryRunner, "_held", held)


def leader_not_asked() -> Any:  # noqa: ANN401  a patch
    """Every instance weeds, whoever leads."""
    original = WeederEnvironment.__post_init__

    def led_by_all(self: WeederEnvironment) -> None:
        self.leadership = SoleOwner()
        original(self)

    return patch.object(WeederEnvironment, "__post_init__", led_by_all)


def relist_lost() -> Any:  # noqa: ANN401  a patch
    """What was missed while the watch of slices was away is never looked at."""
    original = WeederController.services_relisted

    def services_relisted(self: WeederController, relisted: Relisted) -> None:
        if not self._listed:
            original(self, relisted)

    return patch.object(WeederController, "services_relisted", services_relisted)


def start_ignored() -> Any:  # noqa: ANN401  a patch
    """What became ready just before a process leads, or while its watch was away, is left to itself."""
    return patch.object(WeederController, "_begin_late", lambda *_: None)


def no_answer_does_not_count() -> Any:  # noqa: ANN401  a patch
    """A deletion without an answer counts for nothing, as if it had never been sent."""

    def found(error: ClusterError | None) -> DeletionAnswer:
        if isinstance(error, Unreachable):
            return DeletionAnswer(DeletionResult.ERROR, counts=False, again=True)
        return answer(error)

    return patch.object(recovery, "answer", found)


def budget_ignored() -> Any:  # noqa: ANN401  a patch
    """Deletions are sent as they come."""

    class Endless(FairRateLimiter):
        def __init__(self, clock: Clock, per_second: float, **more: Any) -> None:  # noqa: ANN401  as it has them
            super().__init__(clock, 50 * per_second, **more)

    return patch.object(environment, "FairRateLimiter", Endless)


def terminating_ignored() -> Any:  # noqa: ANN401  a patch
    """What is terminating already, by somebody else's hand, is deleted once more."""
    original = rules.judge

    def judge(pod: PodView, *rest: Any) -> Judgement:  # noqa: ANN401  as it has them
        return original(replace(pod, terminating=False), *rest)

    return patch.object(rules, "judge", judge)


def bare_pods_deleted() -> Any:  # noqa: ANN401  a patch
    """Pods that nobody makes anew are deleted, whatever the policy says."""
    return _judged_with(weed_bare_pods=True)


def short_waits_deleted() -> Any:  # noqa: ANN401  a patch
    """Pods that would be started again as soon without us are deleted."""
    return patch.object(rules, "too_short", lambda *_: False)


def _judged_with(**changes: Any) -> Any:  # noqa: ANN401  members of the policy, a patch
    original = rules.judge

    def judge(pod: PodView, selectors: Any, policy: Any, *rest: Any) -> Judgement:  # noqa: ANN401  as it has them
        return original(pod, selectors, replace(policy, **changes), *rest)

    return patch.object(rules, "judge", judge)


def replaced_not_ended() -> Any:  # noqa: ANN401  a patch
    """A recovery goes on beside the one that replaces it."""
    original = RecoveryRegistry.end

    def end(self: RecoveryRegistry, key: ServiceKey, why: End) -> None:
        if why is not End.REPLACED:
            original(self, key, why)

    return patch.object(RecoveryRegistry, "end", end)


def never_over() -> Any:  # noqa: ANN401  a patch
    """A recovery does not end with `watchDuration`."""
    original = RecoveryRegistry.begin

    def begin(self: RecoveryRegistry, key: ServiceKey, cause: Any, seconds: float) -> Any:  # noqa: ANN401  as it has them
        return original(self, key, cause, 10 * seconds)

    return patch.object(RecoveryRegistry, "begin", begin)


PLANTS: Final[dict[str, Plant]] = {
    "preconditions-dropped": preconditions_dropped,
    "uid-forgotten": uid_forgotten,
    "cap-ignored": cap_ignored,
    "loss-ignored": loss_ignored,
    "pause-ignored": pause_ignored,
    "leader-not-asked": leader_not_asked,
    "relist-lost": relist_lost,
    "start-ignored": start_ignored,
    "no-answer-does-not-count": no_answer_does_not_count,
    "budget-ignored": budget_ignored,
    "terminating-ignored": terminating_ignored,
    "bare-pods-deleted": bare_pods_deleted,
    "short-waits-deleted": short_waits_deleted,
    "replaced-not-ended": replaced_not_ended,
    "never-over": never_over,
}
