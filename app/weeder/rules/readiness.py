"""Whether a service is ready, since when, and what of that begins a recovery (rules 6, Ready, Start, Gaps).

A slice without the label `kubernetes.io/service-name` belongs to no service and counts for none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.model.pods import PodView, SliceEndpoint, SliceView

_WHOLE_SECOND: Final = 1.0
"""Conditions tell instants cut to whole seconds: what is told as 12:00:00 happened before 12:00:01."""


class ReadinessChange(StrEnum):
    """What became of a service when its slices were looked at."""

    NONE = "None"
    BECAME_READY = "BecameReady"
    LOST = "Lost"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a service is."""

    ready: bool
    since: float | None
    """When we saw it become what it is; None where nobody saw it."""


def is_ready(slices: Iterable[SliceView]) -> bool:
    """Whether at least one endpoint in any of the service's slices is ready; no endpoints are not."""
    return any(True for _ in _ready_endpoints(slices))


def pods_behind(slices: Iterable[SliceView]) -> tuple[str, ...]:
    """The names of the pods behind its ready endpoints, each once, sorted; endpoints without a pod have none."""
    return tuple(sorted({each.pod for each in _ready_endpoints(slices) if each.pod}))


def _ready_endpoints(slices: Iterable[SliceView]) -> Iterable[SliceEndpoint]:
    return (each for one in slices if one.service for each in one.endpoints if each.ready)


def first_seen(slices: Iterable[SliceView]) -> Readiness:
    """What it is when we begin to look: nobody saw it change."""
    return Readiness(is_ready(slices), None)


def step(
    before: Readiness | None, slices: Iterable[SliceView], now: float
) -> tuple[Readiness, ReadinessChange]:
    """What it is now, and the change from `before`.

    It does not matter how the slices came to be what they are, by an event, a list or a deletion.  A service that was
    never seen before (None) was not ready: its first ready endpoint is a change.
    """
    ready = is_ready(slices)
    if before is None:
        before = Readiness(ready=False, since=None)
    if ready is before.ready:
        return before, ReadinessChange.NONE
    return Readiness(ready, now), ReadinessChange.BECAME_READY if ready else ReadinessChange.LOST


def became_ready(pods: Iterable[PodView]) -> float | None:
    """When the service became ready: the earliest Ready transition of the pods behind it; None where none tells."""
    return min((pod.ready_since for pod in pods if pod.ready_since is not None), default=None)


def at_start(since: float | None, now: float, watch_duration: float) -> float | None:
    """Until when to weed for a service that is ready when we begin to lead; None: leave it alone.

    It is what remains of `watch_duration`, counted from when the service became ready (`since`).  Ready for longer, or
    for an unknown time: no back-off outlasts that.  A `since` in the future is another machine's clock: it is now.
    """
    if since is None:
        return None
    until = min(since, now) + watch_duration
    return until if until > now else None


def after_gap(
    since: float | None, last_heard: float | None, now: float, watch_duration: float
) -> float | None:
    """Until when to weed for a service that is ready after its watch was interrupted; None: it needs no recovery.

    It needs one if it became ready after `last_heard`, the last contact before the gap: it was lost and came back
    unseen.  Where there was no contact before (None), everything is after it.  The time that remains is counted as
    in `at_start`, as its pods have waited no longer because we were blind.
    """
    if since is None:
        return None
    if last_heard is not None and since + _WHOLE_SECOND <= last_heard:
        return None
    return at_start(since, now, watch_duration)
