"""Services and their recoveries, from the weeder's words to the shapes of the API; pure."""

from app.api import schemas
from app.api.times import time
from app.core.config.durations import format_duration
from app.core.errors import trimmed
from app.core.model.instants import rfc3339
from app.core.model.weeding import Asked, Deletion, RecoveryStatus, ServiceStatus, SparedPod

_MILLISECONDS = 3
"""Digits of a back-off; its beginning is told in whole seconds anyway."""


def weeder(status: ServiceStatus) -> schemas.Weeder:
    """All that is known of a service."""
    return schemas.Weeder(
        namespace=status.key.namespace,
        service=status.key.service,
        ready=status.ready,
        since=time(status.since),
        failing=_line(status.failing),
        recoveries=[recovery(each) for each in status.recoveries],
    )


def pods(status: ServiceStatus) -> int:
    """How many pods a service has to tell of: that is what it costs to show it."""
    return sum(len(each.deletions) + len(each.spared) for each in status.recoveries)


def recovery(status: RecoveryStatus) -> schemas.Recovery:
    """One recovery, with each pod that was deleted and those that were not."""
    return schemas.Recovery(
        id=status.id,
        cause=status.cause,
        phase=status.phase,
        began=rfc3339(status.began),
        due=rfc3339(status.due),
        until=rfc3339(status.until),
        ended=time(status.ended),
        end=status.end,
        asked=_asked(status.asked),
        trouble=_line(status.trouble),
        queued=status.queued,
        deletions=[_weeded(each) for each in status.deletions],
        spared=[_spared(each) for each in status.spared],
    )


def _asked(asked: Asked | None) -> schemas.Asked | None:
    if asked is None:
        return None
    return schemas.Asked(
        author=trimmed(asked.author), reason=trimmed(asked.reason), despite=_line(asked.despite)
    )


def _weeded(deletion: Deletion) -> schemas.WeededPod:
    left = deletion.remaining
    return schemas.WeededPod(
        pod=deletion.pod,
        owner=None if deletion.owner is None else str(deletion.owner),
        time=rfc3339(deletion.at),
        result=deletion.result,
        container=deletion.container,
        spared_backoff=None if left is None else format_duration(round(left, _MILLISECONDS)),
    )


def _spared(pod: SparedPod) -> schemas.SparedPod:
    return schemas.SparedPod(
        pod=pod.pod, time=rfc3339(pod.at), reason=pod.reason, message=trimmed(pod.message)
    )


def _line(text: str | None) -> str | None:
    return None if text is None else trimmed(text)
