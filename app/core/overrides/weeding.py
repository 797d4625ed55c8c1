"""The pauses as the weeder asks for them: one of scope `all` keeps pods from being deleted."""

from collections.abc import Callable

from app.core.model.instants import rfc3339
from app.core.model.overrides import Scope
from app.core.overrides_ports import OverridesView


class WeederPauses:
    """What may not be weeded (a `Pauses`)."""

    def __init__(self, overrides: OverridesView) -> None:
        self._overrides = overrides

    @property
    def synced(self) -> bool:
        """Whether it is known what is paused: nothing is deleted before."""
        return self._overrides.synced

    def paused(self, namespace: str) -> str | None:
        """Who paused the shoot, or all of them, until when and why; None where pods may be deleted."""
        standing = self._overrides.standing(namespace)
        pause = standing.covering
        if pause is None or pause.scope is not Scope.ALL:
            return None
        what = "all shoots are paused" if pause is standing.global_pause else "the shoot is paused"
        return f"{what} by {pause.author} until {rfc3339(pause.until)}: {pause.reason}"

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change."""
        self._overrides.subscribe(listener)
