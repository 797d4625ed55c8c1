"""The notices of the weeder, one function for each thing that happens; log, metrics, history and Events use them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from app.core.errors import ClusterError, trimmed
from app.core.model.instants import rfc3339
from app.core.model.probing import NoticeKind
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
from app.core.reporting.notices import Notice, Severity
from app.weeder.environment import WeederEnvironment

_LOOP: Final = "weeder"
# How many characters of a person's name messages have.
_NAME: Final = 100
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def _tell(
    env: WeederEnvironment,
    key: ServiceKey,
    reason: str,
    message: str,
    *,
    severity: Severity = Severity.INFO,
    about: tuple[ResourceRef, str | None] | None = None,
    event: str | None = None,
    numbers: Mapping[str, Any] = _NOTHING,
) -> None:
    env.notice_bus.publish(
        Notice(
            NoticeKind.WEED,
            key.namespace,
            env.clock.now(),
            reason,
            message,
            severity=severity,
            resource=None if about is None else about[0],
            resource_uid=None if about is None else about[1],
            event=event,
            numbers={"service": key.service, **numbers},
        )
    )


def began(env: WeederEnvironment, begun: RecoveryStart) -> None:
    """Reports that a recovery begins, or waits; one that a person asked for is also an Event on the service."""
    wait, what = begun.due - begun.began, _occasion(begun)
    numbers: dict[str, Any] = {"recovery": begun.id}
    if wait > 0:
        reason, numbers["wait_seconds"] = "WeedingDelayed", wait
        text = f"{what}; there were too many recoveries recently: this one waits {wait:.0f} s"
    else:
        reason = "WeedingStarted"
        text = f"{what}: pods that depend on it and wait in CrashLoopBackOff are deleted until "
        text += rfc3339(begun.until)
    if (asked := begun.asked) is None:
        _tell(env, begun.key, reason, text, numbers=numbers)
        return
    about = (ResourceRef("v1", "Service", begun.key.service), None)
    numbers |= {"author": asked.author, "action": "Weed"}
    pods = f"the pods that wait for {begun.key.service} in CrashLoopBackOff"
    note = f"{_who(asked)} requested an immediate restart of {pods}."
    _tell(env, begun.key, reason, text, about=about, event=note, numbers=numbers)


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
    numbers = {"recovery": status.id, "deleted": deleted, "dropped": status.queued}
    _tell(env, status.key, "WeedingEnded", text, severity=severity, numbers=numbers)


def deleted(env: WeederEnvironment, begun: RecoveryStart, deletion: DeletedPod) -> None:
    """Reports that a pod was deleted, was gone already, or would have been deleted (dry run)."""
    key, asked = begun.key, begun.asked
    about = _about(deletion.pod, deletion.uid, deletion.owner)
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
    numbers = {"pod": deletion.pod, "result": deletion.result, "action": "Delete"}
    _tell(env, key, reason, text, about=about, event=note, numbers=numbers)


def capped(
    env: WeederEnvironment, key: ServiceKey, pod: PodView, keep: Keep, *, event: bool
) -> None:
    """Reports a pod that is kept because of its owner's cap; with an Event if `event` is set."""
    numbers = {"pod": pod.name, "result": DeletionResult.CAPPED, "action": "Delete"}
    note = f"Pod {pod.name} waits in CrashLoopBackOff and is left alone: {keep.message}."
    _tell(
        env,
        key,
        "WeedingCapped",
        f"pod {pod.name}: {keep.message}",
        severity=Severity.WARNING if event else Severity.DEBUG,
        about=_about(pod.name, pod.uid, pod.owner),
        event=note if event else None,
        numbers=numbers,
    )


def not_deleted(
    env: WeederEnvironment,
    key: ServiceKey,
    pod: PodView,
    result: DeletionResult,
    error: ClusterError | None,
) -> None:
    """Reports a deletion that was refused, or whose outcome is not known."""
    about = _about(pod.name, pod.uid, pod.owner)
    conflict = result is DeletionResult.CONFLICT
    text = f"pod {pod.name} was not deleted: {error}"
    severity = Severity.INFO if conflict else Severity.WARNING
    numbers = {"pod": pod.name, "result": result}
    _tell(env, key, "PodNotWeeded", text, severity=severity, about=about, numbers=numbers)


def failed(env: WeederEnvironment, key: ServiceKey, error: Exception) -> None:
    """Reports that a recovery failed unexpectedly, and is started again."""
    text = f"the recovery of {key.service} failed and is started again: {type(error).__name__}"
    _tell(env, key, "RunnerFailed", text, severity=Severity.ERROR, numbers={"loop": _LOOP})


def _about(pod: str, uid: str, owner: OwnerView | None) -> tuple[ResourceRef, str]:
    """The object of the Event: the pod's owner, as a deleted pod shows no Events; for a bare pod the pod itself."""
    if owner is None:
        return ResourceRef("v1", "Pod", pod), uid
    return ResourceRef(owner.api_version, owner.kind, owner.name), owner.uid
