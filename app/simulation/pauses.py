"""What people paused, as the test or the demo says."""

from collections.abc import Callable


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
