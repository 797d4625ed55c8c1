"""What one recovery did and left, for the API: bounded, and small once it has ended."""

from collections.abc import Set as AbstractSet
from typing import Final

from app.core.model.pods import OwnerView, PodView
from app.core.model.weeding import Cull, Deletion, Reason, Result, Skip, SparedPod

_MOST: Final = 500
"""Deletions and spared pods that are kept of one recovery."""
_SILENT: Final = frozenset({Reason.NOT_SELECTED, Reason.NOT_WAITING})
"""What is of no interest once the recovery has ended: pods that were well all the time."""


class Diary:
    """The pods of one recovery."""

    def __init__(self) -> None:
        self.deletions: list[Deletion] = []
        self._spared: dict[str, SparedPod] = {}
        self._failed: dict[str, SparedPod] = {}
        """Pods that were to be deleted, and are still there: kept until something else becomes of them."""
        self.number = 0
        """How many were deleted, or would have been."""
        self._deleted: set[str] = set()
        self._capped: set[str] = set()
        self._owners: set[OwnerView] = set()

    @property
    def spared(self) -> tuple[SparedPod, ...]:
        """Those that are not deleted, by name, with the last reason."""
        both = self._failed | self._spared
        return tuple(both[name] for name in sorted(both))

    def names(self) -> AbstractSet[str]:
        """Of those that are not deleted."""
        return self._spared.keys() | self._failed.keys()

    def deleted(self, pod: PodView, cull: Cull, result: Result, at: float) -> Deletion:
        """A pod was deleted, or would have been."""
        found = Deletion(pod.name, pod.uid, pod.owner, at, result, cull.container, cull.remaining)
        self.deletions = [*self.deletions[1 - _MOST :], found]
        self.number += result is not Result.GONE
        self._deleted.add(pod.uid)
        self.gone(pod.name)
        return found

    def failed(self, name: str, why: Skip, at: float) -> None:
        """A pod that was to be deleted is not, for now or for good."""
        if name in self._failed or len(self._failed) < _MOST:
            self._failed[name] = SparedPod(name, at, why.reason, why.message)

    def dropped(self, name: str, why: Skip, at: float) -> None:
        """A pod was still queued when the recovery ended; one that was asked for in vain keeps the reason of that."""
        if name not in self._failed:
            self.failed(name, why, at)

    def skipped(self, pod: PodView, skip: Skip, at: float) -> None:
        """A pod is left alone; what became of one that was deleted here is told by its deletion."""
        if pod.uid in self._deleted or skip.reason is Reason.NOT_SELECTED:
            return
        self._failed.pop(pod.name, None)
        before = self._spared.get(pod.name)
        if before is not None and (before.reason, before.message) == (skip.reason, skip.message):
            return
        if before is None and len(self._spared) >= _MOST and not self._make_room(skip):
            return
        self._spared[pod.name] = SparedPod(pod.name, at, skip.reason, skip.message)

    def _make_room(self, skip: Skip) -> bool:
        """Whether there is some: one of no interest makes room for one of which somebody may ask."""
        if skip.reason in _SILENT:
            return False
        silent = (name for name, each in self._spared.items() if each.reason in _SILENT)
        if (first := next(silent, None)) is None:
            return False
        del self._spared[first]
        return True

    def unspared(self, name: str) -> None:
        """It is to be deleted after all."""
        self._spared.pop(name, None)

    def gone(self, name: str) -> None:
        """It is deleted, or there is no pod of this name any more."""
        self._spared.pop(name, None)
        self._failed.pop(name, None)

    def newly_capped(self, pod: PodView) -> bool:
        """Whether it is the first time that this pod was left alone for the cap of its owner."""
        if pod.uid in self._capped:
            return False
        self._capped.add(pod.uid)
        return True

    def first_of_owner(self, pod: PodView) -> bool:
        """Whether it is the first pod of its owner of which that is asked."""
        if pod.owner is None or pod.owner in self._owners:
            return pod.owner is None
        self._owners.add(pod.owner)
        return True

    def close(self) -> None:
        """The recovery has ended: only what one would ask about is kept."""
        kept = {k: v for k, v in self._spared.items() if v.reason not in _SILENT}
        self._spared = kept
        self._deleted.clear()
        self._capped.clear()
        self._owners.clear()
