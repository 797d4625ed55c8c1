"""The kubelet's back-off before it starts a container again; pure.

The first restart is at once.  After each restart the next wait doubles, from 10 s to 300 s, counted from the exit; a
container that ran for more than 10 min begins anew.  The real kubelet looks only every few seconds whether a back-off
is over; this one starts the container at that very instant, so that what is compared with it is compared with the best.
"""

from dataclasses import dataclass
from typing import Final

from app.core.model.pods import PodView

FIRST: Final = 10.0
MOST: Final = 300.0
RAN_WELL: Final = 600.0
"""Seconds from a start to an exit beyond which the exit counts as the first."""


def wait_after(restarts: int) -> float:
    """Seconds from an exit to the next start, of a container that was started again `restarts` times before."""
    return min(FIRST * 2.0 ** min(restarts - 1, 10), MOST) if restarts > 0 else 0.0


def started_again(pod: PodView) -> float | None:
    """When the kubelet will start the waiting containers of a pod without anybody's help: exit and back-off.

    Returns:
        The instant, for several containers the last; None where none waits in CrashLoopBackOff or tells its exit.
    """
    due = [
        container.last_exit + wait_after(container.restarts or 1)
        for container in pod.containers
        if container.crash_loops and container.last_exit is not None
    ]
    return max(due, default=None)


@dataclass(slots=True)
class Backoff:
    """What the kubelet remembers of one container."""

    restarts: int = 0
    """Since it last ran well."""
    restarted: float | None = None
    """When it was last started again."""

    def due(self, exited: float) -> float:
        """When a container may be started again that exited at this instant."""
        return exited if self._ran_well(exited) else exited + wait_after(self.restarts)

    def restart(self, exited: float, now: float) -> None:
        """It is started again now."""
        self.restarts = 1 if self._ran_well(exited) else self.restarts + 1
        self.restarted = now

    def _ran_well(self, exited: float) -> bool:
        return self.restarted is None or exited - self.restarted > RAN_WELL
