"""How often in a row a watch has failed."""

from typing import Final

from app.core.errors import ClusterError
from app.core.kube.lines import Silent

STEADY: Final = 5.0
"""Seconds that a watch must have lived for its end to be no failure."""


class Streak:
    """Failures in a row, as they count for the next pause.

    A failure of another kind than before begins a new count: an API server that starts is first not there, then refuses
    (403, 429), then has forgotten (410), and is well a second later.  Each kind does so once, until the watch is well.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._kinds: set[type[ClusterError] | None] = set()

    def after(self, error: ClusterError | None, lived: float) -> int:
        """How many they are, after a watch that lived for so many seconds and ended well or with `error`."""
        kind = None if error is None else type(error)
        if lived >= STEADY:
            self._failures, self._kinds = 0, set()
        else:
            self._failures = self._failures + 1 if kind in self._kinds else 1
        self._kinds.add(kind)
        if error is not None and not isinstance(error, Silent):
            self._failures = max(self._failures, 1)  # after silence the next try is made at once
        return self._failures
