"""What the scaling runs of one shoot leave for the next ones."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober.rules import scaling


class AtZero(NamedTuple):
    """Verdicts SCALE UP at which a resource was at 0 without our keys: the instants of the first and the last."""

    first: float
    last: float


class Size(NamedTuple):
    """The replicas that a `scale` subresource showed, and of which object that was."""

    uid: str
    generation: int
    replicas: int


class Newer(NamedTuple):
    """What a write of ours left or a live read showed, and which version the watch had shown before that."""

    view: WorkloadView | None
    shown: str | None


@dataclass(slots=True)
class SavedCounts:
    """Of one shoot, for as long as it is probed."""

    could_start: dict[tuple[Direction, ResourceRef], float] = field(default_factory=dict)
    """When the level of a resource that had something to do could first start: `initialDelay` counts from it."""
    waiting_since: dict[ResourceRef, float] = field(default_factory=dict)
    """Since when a resource that was scaled up is awaited."""
    _at_zero: dict[ResourceRef, AtZero] = field(default_factory=dict)
    _sizes: dict[ResourceRef, Size] = field(default_factory=dict)
    _newer: dict[ResourceRef, Newer] = field(default_factory=dict)

    def turned(self, direction: Direction) -> None:
        """The verdict asks for `direction`: what the other one remembered is over."""
        self.could_start = {key: at for key, at in self.could_start.items() if key[0] is direction}
        if direction is Direction.DOWN:
            self.waiting_since.clear()
            self._at_zero.clear()

    def at_zero(self, refs: Iterable[ResourceRef], now: float) -> None:
        """A verdict SCALE UP, at which just these are at 0 without our keys."""
        self._at_zero = {ref: AtZero(self._first(ref, now), now) for ref in refs}

    def _first(self, ref: ResourceRef, now: float) -> float:
        known = self._at_zero.get(ref)
        return now if known is None else known.first

    def found_at_zero(self, ref: ResourceRef) -> bool:
        """Whether two such verdicts lay far enough apart (rules 4.3, step 1)."""
        known = self._at_zero.get(ref)
        return known is not None and known.last - known.first >= scaling.FOUND_AT_ZERO_APART

    def shown(self, watched: WorkloadView | None) -> WorkloadView | None:
        """`watched`, or what is known beside the watch where that is newer; with replicas that only `scale` knows."""
        if not self._newer and (watched is None or watched.replicas is not None):
            return watched  # as almost always
        return self.sized(self.newest(watched))

    def note(
        self, ref: ResourceRef, view: WorkloadView | None, watched: WorkloadView | None
    ) -> None:
        """`view` is what a write of ours left, or a live read showed: None, it is gone.

        The watch, which showed `watched` before the request was made, may show it later.
        """
        self._newer[ref] = Newer(view, None if watched is None else watched.resource_version)

    def newest(self, watched: WorkloadView | None) -> WorkloadView | None:
        """`watched`, or what is known beside the watch where that does not show it yet.

        A version of the watch that a write was refused for is not decided on again: that would be refused again.
        """
        if watched is None or (newer := self._newer.get(watched.ref)) is None:
            return watched
        view, shown = newer
        if watched.resource_version == shown:
            return view
        # A write of annotations alone does not count the generation up.
        if view is not None and view.uid == watched.uid and view.generation > watched.generation:
            return view
        del self._newer[watched.ref]
        return watched

    def note_size(self, view: WorkloadView) -> None:
        """`view` has the replicas that its `scale` subresource showed."""
        if view.replicas is not None:
            self._sizes[view.ref] = Size(view.uid, view.generation, view.replicas)

    def sized(self, view: WorkloadView | None) -> WorkloadView | None:
        """`view`, with the replicas that its `scale` showed, if its spec is still the same."""
        if view is None or view.replicas is not None:
            return view
        known = self._sizes.get(view.ref)
        if known is None or (known.uid, known.generation) != (view.uid, view.generation):
            return view
        return replace(view, replicas=known.replicas)
