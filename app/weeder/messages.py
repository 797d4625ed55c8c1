"""The notices of the weeder, one function for each thing that happens; log, metrics, history and Events use them."""

from functools import partial
from typing import Final

from app.core.errors import ClusterError, trimmed
from app.core.model.instants import rfc3339
from app.core.model.weeding import (
    DeletedPod,
    DeletionResult,
    End,
    Keep,
    OwnerView,
    PodView,
    RecoveryStart,
    RecoveryStatus,
    ServiceKey,
    WeedRequest,
)
from app.core.model.workloads import ResourceRef
from app.core.reporting.notices import (
    PodJudged,
    RecoveryBegan,
    RecoveryEnded,
    RecoveryFailed,
    Severity,
    report,
)
from app.weeder.environment import WeederEnvironment

# How many characters of a person's name messages have.
_NAME: Final = 100


def began(env: WeederEnvironment, begun: RecoveryStart) -> None:
    """Reports that a recovery begins, or waits; one that a person asked for is also an Event on the service."""
    wait, what, asked = begun.due - begun.began, _occasion(begun), begun.asked
    if wait > 0:
        reason = "WeedingDelayed"
        text = f"{what}; there were too many recoveries recently: this one waits {wait:.0f} s"
    else:
        reason = "WeedingStarted"
        text = f"{what}: pods that depend on it and wait in CrashLoopBackOff are deleted until "
        text += rfc3339(begun.until)
    note, service = None, begun.key.service
    if asked is not None:
        pods = f"the pods that wait for {service} in CrashLoopBackOff"
        note = f"{_who(asked)} requested an immediate restart of {pods}."
    report(
        env,
        RecoveryBegan,
        begun.key.namespace,
        reason,
        text,
        resource=None if asked is None else ResourceRef("v1", "Service", service),
        event=note,
        service=service,
        recovery=begun.id,
        wait_seconds=wait if wait > 0 else None,
        author=None if asked is None else asked.author,
        action=None if asked is None else "Weed",
    )


def _occasion(begun: RecoveryStart) -> str:
    """Why a recovery begins, and who asked for it, in words."""
    if (asked := begun.asked) is None:
        return f"{begun.key.service} is ready again ({begun.cause})"
    text = f"{_who(asked)} requested weeding for {begun.key.service}"
    if asked.reason:
        text += f" ({trimmed(asked.reason)})"
    return text if asked.despite is None else f"{text}, despite: {trimmed(asked.despite)}"


def _who(asked: WeedRequest) -> str:
    return trimmed(asked.author, _NAME)


def ended(env: WeederEnvironment, status: RecoveryStatus, *, deleted: int) -> None:
    """Reports that a recovery has ended, once each deletion that it sent has been answered."""
    done = "would have been deleted (dry run)" if env.dry_run else "deleted"
    text = f"weeding for {status.key.service} ended ({status.end}): {deleted} pods {done}"
    if status.queued:
        text += f", {status.queued} that were still queued are left alone"
    if status.trouble is not None:
        text += f"; {status.trouble}"
    severity = Severity.ERROR if status.end is End.FORBIDDEN else Severity.INFO
    if status.ended is not None and status.ended < status.due:
        severity = Severity.DEBUG  # it never began: a service that flaps would fill the log
    report(
        env,
        RecoveryEnded,
        status.key.namespace,
        "WeedingEnded",
        text,
        severity,
        service=status.key.service,
        recovery=status.id,
        deleted=deleted,
        dropped=status.queued,
    )


def deleted(env: WeederEnvironment, begun: RecoveryStart, deletion: DeletedPod) -> None:
    """Reports that a pod was deleted, was gone already, or would have been deleted (dry run)."""
    key, asked = begun.key, begun.asked
    spared = "an unknown time" if deletion.remaining is None else f"{deletion.remaining:.0f} s"
    waited = f"{deletion.container} would have waited {spared} more"
    reason, note = "PodNotWeeded", None
    match deletion.result:
        case DeletionResult.DRY_RUN:
            text = f"would delete pod {deletion.pod} for {key.service}: {waited} (dry run)"
        case DeletionResult.GONE:
            text = (
                f"pod {deletion.pod} was already gone when it was to be deleted for {key.service}"
            )
        case _:
            reason, why = "PodWeeded", f"{key.service} is ready again"
            came = f"{key.service}, which it depends on, is ready again"
            if asked is not None:
                why = f"{_who(asked)} requested weeding for {key.service}"
                came = f"{_who(asked)} requested that for {key.service}"
            text = f"deleted pod {deletion.pod} as {why}: {waited}"
            note = f"Pod {deletion.pod} was deleted, so that it starts again at once: "
            note += f"{came}, and its container {waited}."
    judged = _judged(env, key, deletion.pod, deletion.uid, deletion.owner)
    notice = judged(reason, text, event=note, result=deletion.result, action="Delete")
    env.notice_bus.publish(notice)


def capped(
    env: WeederEnvironment, key: ServiceKey, pod: PodView, keep: Keep, *, event: bool
) -> None:
    """Reports a pod that is kept because of its owner's cap; with an Event if `event` is set."""
    note = f"Pod {pod.name} waits in CrashLoopBackOff and is left alone: {keep.message}."
    notice = _judged(env, key, pod.name, pod.uid, pod.owner)(
        "WeedingCapped",
        f"pod {pod.name}: {keep.message}",
        Severity.WARNING if event else Severity.DEBUG,
        event=note if event else None,
        result=DeletionResult.CAPPED,
        action="Delete",
    )
    env.notice_bus.publish(notice)


def not_deleted(
    env: WeederEnvironment,
    key: ServiceKey,
    pod: PodView,
    result: DeletionResult,
    error: ClusterError,
) -> None:
    """Reports a deletion that was refused, or whose outcome is not known."""
    notice = _judged(env, key, pod.name, pod.uid, pod.owner)(
        "PodNotWeeded",
        f"pod {pod.name} was not deleted: {error}",
        Severity.INFO if result is DeletionResult.CONFLICT else Severity.WARNING,
        result=result,
    )
    env.notice_bus.publish(notice)


def failed(env: WeederEnvironment, key: ServiceKey, error: Exception) -> None:
    """Reports that a recovery failed unexpectedly, and is started again."""
    text = f"the recovery of {key.service} failed and is started again: {type(error).__name__}"
    words = ("RunnerFailed", text, Severity.ERROR)
    report(env, RecoveryFailed, key.namespace, *words, service=key.service)


def _judged(
    env: WeederEnvironment, key: ServiceKey, pod: str, uid: str, owner: OwnerView | None
) -> partial[PodJudged]:
    """Begins a notice about a pod.

    The object of its Event is the pod's owner, as a deleted pod shows no Events; for a bare pod it is the pod itself.
    """
    resource = ResourceRef("v1", "Pod", pod)
    if owner is not None:
        resource, uid = ResourceRef(owner.api_version, owner.kind, owner.name), owner.uid
    return partial(
        PodJudged,
        key.namespace,
        env.clock.now(),
        resource=resource,
        resource_uid=uid,
        service=key.service,
        pod=pod,
    )
