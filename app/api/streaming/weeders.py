"""Which services have news of their recoveries."""

from collections.abc import Iterable

from app.api.schemas.events import EventName, NewestRecovery, WeederChange
from app.api.streaming import wire
from app.api.streaming.told import Told
from app.api.times import time
from app.api.views import WeedersView
from app.core.errors import trimmed
from app.core.model.instants import rfc3339
from app.core.model.weeding import RecoveryStatus, ServiceKey, ServiceStatus
from app.core.reporting.changes import ChangeKind


class WeederNews:
    """The services of the weeder that have recoveries."""

    def __init__(self, view: WeedersView) -> None:
        self._view = view
        self._told: dict[ServiceKey, WeederChange] = {}

    def keys(self) -> set[ServiceKey]:
        """All that there are."""
        return {each.key for each in self._view.statuses()}

    @property
    def drawn(self) -> set[ServiceKey]:
        """Those that were drawn."""
        return set(self._told)

    @property
    def running(self) -> set[ServiceKey]:
        """Those that had a running recovery when they were drawn last: not all it does comes with a notice."""
        return {key for key, told in self._told.items() if _runs(told)}

    def draw(self, key: ServiceKey) -> Iterable[Told]:
        """The event that tells of it, where there is something to tell."""
        status = self._view.status(key)
        if status is None:
            self._told.pop(key, None)
            return ()
        change = _change(status)
        if self._told.get(key) == change:
            return ()
        self._told[key] = change
        return (_told(change),)

    def snapshot(self) -> Iterable[Told]:
        """Those that have a running recovery."""
        return [_told(each) for each in self._told.values() if _runs(each)]


def _runs(change: WeederChange) -> bool:
    return change.recovery is not None and change.recovery.ended is None


def _told(change: WeederChange) -> Told:
    return Told(ChangeKind.WEEDER, change.namespace, wire.body(EventName.WEEDER, change))


def _change(status: ServiceStatus) -> WeederChange:
    newest = next(iter(status.recoveries), None)
    return WeederChange(
        namespace=status.key.namespace,
        service=status.key.service,
        ready=status.ready,
        since=time(status.since),
        failing=None if status.failing is None else trimmed(status.failing),
        recovery=None if newest is None else _recovery(newest),
    )


def _recovery(status: RecoveryStatus) -> NewestRecovery:
    return NewestRecovery(
        id=status.id,
        cause=status.cause,
        author=None if status.asked is None else trimmed(status.asked.author),
        phase=status.phase,
        began=rfc3339(status.began),
        due=rfc3339(status.due),
        until=rfc3339(status.until),
        ended=time(status.ended),
        end=status.end,
        trouble=None if status.trouble is None else trimmed(status.trouble),
        queued=status.queued,
        deletions=len(status.deletions),
        spared=len(status.spared),
    )
