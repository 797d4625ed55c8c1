"""Who leads and what is allowed, as the test or the demo says."""

from collections.abc import Callable, Iterable

from app.core.ports import Permission


class SimulatedLeadership:
    """An election whose result is set by hand; an `Ownership`."""

    def __init__(self, *, leading: bool = True, observing: bool = True) -> None:
        self._leading = leading
        self._observing = observing
        self._listeners: list[Callable[[], None]] = []

    @property
    def leading(self) -> bool:
        """Whether this instance leads."""
        return self._leading

    @property
    def observing(self) -> bool:
        """Whether this instance looks at shoots; a leader does."""
        return self._leading or self._observing

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change of either."""
        self._listeners.append(listener)

    def become(self, *, leading: bool, observing: bool = True) -> None:
        """Changes both, and tells whoever listens where that makes a difference."""
        before = (self.leading, self.observing)
        self._leading, self._observing = leading, observing
        if before != (self.leading, self.observing):
            for listener in self._listeners:
                listener()


class SimulatedAccess:
    """An `AccessReviewer` that denies what is in `denied`."""

    def __init__(self) -> None:
        self.denied: set[Permission] = set()

    async def missing(self, needed: Iterable[Permission]) -> tuple[Permission, ...]:
        """Those that are denied, in the order of `needed`."""
        return tuple(permission for permission in needed if permission in self.denied)


# What people paused, as the test or the demo says.


class SimulatedPauses:
    """Pauses that are set by hand; a `Pauses`."""

    def __init__(self) -> None:
        self._synced = True
        self._paused: dict[str, str] = {}
        self._listeners: list[Callable[[], None]] = []

    @property
    def synced(self) -> bool:
        """Whether it is known what is paused."""
        return self._synced

    @synced.setter
    def synced(self, known: bool) -> None:
        self._synced = known
        self._tell()

    def paused(self, namespace: str) -> str | None:
        """Why nothing may be deleted in this namespace now."""
        return self._paused.get(namespace)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change."""
        self._listeners.append(listener)

    def pause(self, namespace: str, reason: str = "paused by a person") -> None:
        """From now on nothing may be deleted there."""
        self._paused[namespace] = reason
        self._tell()

    def resume(self, namespace: str) -> None:
        """From now on pods may be deleted there; nothing changes where it was not paused."""
        if self._paused.pop(namespace, None) is not None:
            self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
