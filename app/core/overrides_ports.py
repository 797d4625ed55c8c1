"""The doors to what people decided: the ConfigMap of the overrides, what is read of it, what is written to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.core.errors import FeatureOff
from app.core.model.overrides import NOTHING, Hold, OverrideEntry, Pause, Standing, Unreadable
from app.core.ports import Starting, WatchState


@dataclass(frozen=True, slots=True)
class OverridesDocument:
    """The ConfigMap as it was at one resourceVersion."""

    uid: str
    resource_version: str
    data: Mapping[str, str] = field(default_factory=dict)
    """A JSON object by key: a control-plane namespace, or `_all`."""
    whole: Mapping[str, Any] = field(default_factory=dict)
    """The object itself, for writing it back with all that others put there."""


class OverridesStore(Protocol):
    """The ConfigMap `dependency-watchdog-overrides` of the own namespace.

    Each method may raise a `ClusterError`.
    """

    @property
    def forbidden(self) -> str | None:
        """Why it may not be read; None while it may be, or nobody has said otherwise."""
        ...

    def watch_state(self) -> WatchState:
        """How far its watch can be trusted."""
        ...

    def document(self) -> OverridesDocument | None:
        """As the watch shows it, no request; None where there is none."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called, soon and in the event loop, after each change of the above."""
        ...

    async def read(self) -> OverridesDocument | None:
        """As it is now; None where there is none."""
        ...

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        """Makes it.

        Raises:
            Conflict: somebody else was quicker.
        """
        ...

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        """Writes `data` over the document as it was read.

        Raises:
            Conflict: it has changed since.
        """
        ...


class OverridesView(Protocol):
    """What people decided, as far as it is known now."""

    @property
    def synced(self) -> bool:
        """Whether it has been read, or may count as none: nothing is scaled or deleted before."""
        ...

    @property
    def off(self) -> str | None:
        """Why there are no overrides in this process; None while there are."""
        ...

    def standing(self, namespace: str) -> Standing:
        """What is in force for this shoot now."""
        ...

    def global_pause(self) -> Pause | None:
        """The pause of all shoots that is in force now."""
        ...

    def holds(self) -> Mapping[str, Hold]:
        """The holds by namespace, those that have ended by the clock as well: their flows may have to be ended."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change of what is in force, ends by the clock included."""
        ...


class NoOverrides:
    """Nothing is ever paused or held: of a process that has no ConfigMap (`OverridesView`, `OverridesDesk`)."""

    synced = True
    off: str | None = "this process has no overrides"

    def standing(self, namespace: str) -> Standing:  # noqa: ARG002 - the port's signature
        """Nothing."""
        return NOTHING

    def global_pause(self) -> Pause | None:
        """None."""
        return None

    def holds(self) -> Mapping[str, Hold]:
        """None."""
        return {}

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Nothing ever changes, so `listener` is never called."""

    async def set_pause(self, key: str, pause: Pause) -> "OverrideChange":  # noqa: ARG002 - the port's signature
        """Raises FeatureOff, as all that follow."""
        raise self._refusal()

    async def end_pause(
        self,
        key: str,  # noqa: ARG002 - the port's signature
        *,
        by: str | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideChange":
        """As above."""
        raise self._refusal()

    async def set_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        hold: Hold,  # noqa: ARG002 - as above
        *,
        starting: Starting | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideChange":
        """As above."""
        raise self._refusal()

    def note_done(self, namespace: str, operation: str) -> None:
        """There is none."""

    async def finish_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        operation: str,  # noqa: ARG002 - as above
    ) -> "OverrideChange":
        """As above."""
        raise self._refusal()

    async def end_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        *,
        operation: str | None = None,  # noqa: ARG002 - as above
        by: str | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideChange":
        """As above."""
        raise self._refusal()

    def _refusal(self) -> FeatureOff:
        return FeatureOff("overrides", str(self.off))


@dataclass(frozen=True, slots=True)
class OverrideChange:
    """What a write changed under one key."""

    key: str
    before: OverrideEntry | Unreadable | None
    after: OverrideEntry | None


class OverridesDesk(Protocol):
    """Writes overrides, one entry of one key at a time; what is written is in force here when the call returns.

    Each method may raise a `ClusterError`, `FeatureOff` where there are no overrides, `StoreFull` where the ConfigMap
    would be larger than 900 KiB, and `EntryChanged` where somebody else changed the very same entry meanwhile.
    Nothing has been changed then.
    """

    async def set_pause(self, key: str, pause: Pause) -> OverrideChange:
        """Pauses a shoot, or all; replaces a pause that is there."""
        ...

    async def end_pause(self, key: str, *, by: str | None = None) -> OverrideChange:
        """Removes the pause; `before` and `after` are alike where there was none.  `by` is who ends it, for telling."""
        ...

    async def set_hold(
        self, namespace: str, hold: Hold, *, starting: Starting | None = None
    ) -> OverrideChange:
        """Holds a shoot; replaces a hold that is there.

        Raises:
            FlowRunning: the flow of another operation runs under it, or is to be carried on.
        """
        ...

    def note_done(self, namespace: str, operation: str) -> None:
        """The flow has ended: in this process its hold is done from now on, whether or not that can be written."""
        ...

    async def finish_hold(self, namespace: str, operation: str) -> OverrideChange:
        """Writes `done: true` into the hold, if it still is of this operation."""
        ...

    async def end_hold(
        self, namespace: str, *, operation: str | None = None, by: str | None = None
    ) -> OverrideChange:
        """Removes the hold; only that of `operation`, where one is named.  `by` is who ends it, for telling."""
        ...
