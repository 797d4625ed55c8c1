"""What the scaling runs of one shoot remember for later runs.

The watch may lag behind: for a moment after a write or a live read it still shows the object as it was. `ScalingMemory`
keeps the newer view until the watch has caught up, the replicas that only a `scale` subresource shows, and the instants
from which delays and waits count.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober.rules import scaling


class AtZero(NamedTuple):
    """When a resource was found at 0 without our keys at SCALE UP: the instants of the first and the last verdict."""

    first: float
    last: float


class Size(NamedTuple):
    """The replicas that a `scale` subresource showed, and the object and generation that they belong to."""

    uid: str
    generation: int
    replicas: int


class Newer(NamedTuple):
    """An object as a write of ours left it or a live read showed it; `view` is None if it is gone."""

    view: WorkloadView | None
    shown: str | None
    """The resourceVersion that the watch showed before that."""


@dataclass(slots=True)
class ScalingMemory:
    """What the runs of one shoot remember, for as long as it is probed; the saved counts themselves are annotations."""

    could_start: dict[tuple[Direction, ResourceRef], float] = field(default_factory=dict)
    """When the level of a resource with something to do could first start: `initialDelay` counts from then."""
    waiting_since: dict[ResourceRef, float] = field(default_factory=dict)
    """When the wait for a resource that was scaled up began: its `timeout` counts from then, also in later runs."""
    _at_zero: dict[ResourceRef, AtZero] = field(default_factory=dict)
    _sizes: dict[ResourceRef, Size] = field(default_factory=dict)
    _newer: dict[ResourceRef, Newer] = field(default_factory=dict)

    def turned(self, direction: Direction) -> None:
        """Forgets what runs in the other direction remembered, as the verdict now asks for `direction`."""
        self.could_start = {key: at for key, at in self.could_start.items() if key[0] is direction}
        if direction is Direction.DOWN:
            self.waiting_since.clear()
            self._at_zero.clear()

    def at_zero(self, refs: Iterable[ResourceRef], now: float) -> None:
        """Notes that at a SCALE UP verdict exactly these resources are at 0 without our keys."""
        self._at_zero = {ref: AtZero(self._first(ref, now), now) for ref in refs}

    def _first(self, ref: ResourceRef, now: float) -> float:
        known = self._at_zero.get(ref)
        return now if known is None else known.first

    def found_at_zero(self, ref: ResourceRef) -> bool:
        """Whether the resource was at 0 without our keys at two verdicts far enough apart (rules 4.3, step 1)."""
        known = self._at_zero.get(ref)
        return known is not None and known.last - known.first >= scaling.FOUND_AT_ZERO_APART

    def shown(self, watched: WorkloadView | None) -> WorkloadView | None:
        """Returns `watched` or a newer view of the object (`newest`), with the replicas that only `scale` shows."""
        if not self._newer and (watched is None or watched.replicas is not None):
            return watched  # the usual case
        return self.sized(self.newest(watched))

    def note(
        self, ref: ResourceRef, view: WorkloadView | None, watched: WorkloadView | None
    ) -> None:
        """Remembers an object as a write of ours left it, or a live read showed it.

        Args:
            ref: the resource.
            view: the object; None if it is gone.
            watched: what the watch showed before the request was made.
        """
        self._newer[ref] = Newer(view, None if watched is None else watched.resource_version)

    def newest(self, watched: WorkloadView | None) -> WorkloadView | None:
        """Returns `watched`, or the newer view that was noted, as long as the watch does not show that yet.

        So after a conflict a run does not decide on the same old version again, which would be refused again.
        """
        if watched is None or (newer := self._newer.get(watched.ref)) is None:
            return watched
        view, shown = newer
        if watched.resource_version == shown:
            return view
        # Only a change of the spec increments the generation: after a write of annotations alone, any other version
        # that the watch shows counts as newer.
        if view is not None and view.uid == watched.uid and view.generation > watched.generation:
            return view
        del self._newer[watched.ref]
        return watched

    def note_size(self, view: WorkloadView) -> None:
        """Remembers the replicas of `view`, which come from its `scale` subresource."""
        if view.replicas is not None:
            self._sizes[view.ref] = Size(view.uid, view.generation, view.replicas)

    def sized(self, view: WorkloadView | None) -> WorkloadView | None:
        """Returns `view` with the replicas that its `scale` showed, if its spec has not changed since."""
        if view is None or view.replicas is not None:
            return view
        known = self._sizes.get(view.ref)
        if known is None or (known.uid, known.generation) != (view.uid, view.generation):
            return view
        return replace(view, replicas=known.replicas)
