"""Whether a service is ready and since when, and which changes begin a recovery (rules 6: Ready, At the start, Gaps).

A slice without the label `kubernetes.io/service-name` belongs to no service.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.model.pods import PodView, SliceEndpoint, SliceView

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


def step(
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


def became_ready(pods: Iterable[PodView]) -> float | None:
    """When the service became ready: the earliest Ready transition of the pods behind it; None if none has one."""
    return min((pod.ready_since for pod in pods if pod.ready_since is not None), default=None)


def at_start(since: float | None, now: float, watch_duration: float) -> float | None:
    """Until when to weed for a service that is ready when this instance begins to lead; None to leave it alone.

    A recovery gets what remains of `watch_duration` since the service became ready. A service that has been ready for
    longer, or for an unknown time, is left alone: no back-off outlasts that. A `since` in the future comes from
    another machine's clock, and counts as now.
    """
    if since is None:
        return None
    until = min(since, now) + watch_duration
    return until if until > now else None


def after_gap(
    since: float | None, last_heard: float | None, now: float, watch_duration: float
) -> float | None:
    """Until when to weed for a service that is ready after a gap in the watch; None if it needs no recovery.

    It needs one if it became ready after `last_heard`, the last contact before the gap: it was lost and came back
    unseen. Without an earlier contact (None) any instant is after it. The time that remains is that of `at_start`, as
    the back-offs went on during the gap.
    """
    if since is None:
        return None
    if last_heard is not None and since + _WHOLE_SECOND <= last_heard:
        return None
    return at_start(since, now, watch_duration)
