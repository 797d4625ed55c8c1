"""What one process was told of services, when it led, and which recoveries follow from that."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from app.core.kube.weeder_view import WeederSeed
from app.core.model.weeding import ServiceKey, SliceView
from app.core.ports import Leadership, Relisted

PACE: Final = 120.0
"""A recovery waits for no longer than this after too many others, seconds."""
_FREE: Final = 3
_ASKING: Final = 240.0
"""What it may take to ask the pods behind a service since when they are ready, while everything fails, seconds."""
_SOON: Final = 5.0
"""What it takes while nothing fails."""


@dataclass(slots=True)
class Told:
    """What a process was told of one service."""

    ready: bool = False
    starts: list[float] = field(default_factory=list)
    """Instants at which a recovery may have begun."""
    may_until: float = float("-inf")
    """A recovery may run until then, unless the service is lost."""
    must: tuple[float, float] = (float("inf"), float("-inf"))
    """One has to run from the first of these instants to the second."""
    earliest: float = float("inf")
    """When that one began at the earliest: before `must` where others may have been in its way."""
    ended: float = float("-inf")
    """When it was lost while one might run."""


class Sight:
    """Hears what a process hears of services; a `ServiceListener`."""

    def __init__(
        self,
        seed: WeederSeed,
        leadership: Leadership,
        duration: float,
        now: Callable[[], float],
        since: Callable[[ServiceKey], float | None],
        calm: Callable[[], bool],
    ) -> None:
        """Knows nothing yet.

        Args:
            seed: the process's own adapter.
            leadership: whether it leads.
            duration: `watchDuration`.
            now: the instant that it is.
            since: since when a service is truly ready.
            calm: whether nothing goes wrong any more.
        """
        self.services: dict[ServiceKey, Told] = {}
        self._seed, self._leadership, self._duration = seed, leadership, duration
        self._now, self._since, self._calm = now, since, calm
        self._listed = self._led = False

    # What it is told.

    def service_changed(self, key: ServiceKey) -> None:
        """A slice has changed."""
        if self._listed:
            self._step(key)

    def services_relisted(self, relisted: Relisted) -> None:
        """All slices were listed."""
        if not self._listed:
            self._listed = True
            for key in self._seed.services():
                self.services[key] = Told(_ready(self._seed.slices(key)))
            self.leadership_changed()
            return
        for key in relisted.changed:
            before = self.services.get(key)
            if not self._step(key) and before is not None and before.ready:
                heard = relisted.since or float("-inf")
                self._may_have_begun(key, before, after=heard + 1.0)

    def leadership_changed(self) -> None:
        """It leads now, or no longer."""
        if not self._listed or self._leadership.leading is self._led:
            return
        self._led = self._leadership.leading
        for key, told in self.services.items():
            if self._led and told.ready:
                self._may_have_begun(key, told, after=float("-inf"))
            elif not self._led:
                self._ends(told)

    def _step(self, key: ServiceKey) -> bool:
        """Whether it changed from one to the other."""
        told, ready = self.services.setdefault(key, Told()), _ready(self._seed.slices(key))
        changed, told.ready = told.ready is not ready, ready
        if changed and not ready:
            self._ends(told)
        elif changed and self._led:
            self._begins(told)
        return changed

    def _begins(self, told: Told) -> None:
        now, few = self._now(), self._few(told)
        told.starts.append(now)
        told.may_until = now + self._duration + (0.0 if few else PACE)
        told.must = (now + (0.0 if few else PACE), now + self._duration)
        told.earliest = now

    def _may_have_begun(self, key: ServiceKey, told: Told, *, after: float) -> None:
        """A recovery begins if the service became ready only just before, and after an instant: its pods are asked."""
        now, few, since = self._now(), self._few(told), self._since(key)
        told.starts.append(now)
        told.may_until = max(told.may_until, now + _ASKING + PACE + self._duration)
        if self._calm() and few and since is not None and since > after and told.must[1] < now:
            told.must = (now + _SOON, since + self._duration)
            told.earliest = now
        elif not few:  # it waits, and has replaced the one that ran
            told.must = (max(told.must[0], now + PACE), told.must[1])

    def _ends(self, told: Told) -> None:
        now = self._now()
        if now <= told.may_until:
            told.ended = now
        told.may_until, told.must = float("-inf"), (float("inf"), float("-inf"))

    def _few(self, told: Told) -> bool:
        """Whether there were so few before it that the next begins at once, for sure."""
        oldest = self._now() - self._duration - PACE - _ASKING
        told.starts = [each for each in told.starts if each > oldest]
        return len(told.starts) < _FREE

    # What follows from that.

    def recovering(self, namespace: str) -> frozenset[str]:
        """The services of a namespace that may recover now.

        One that was lost in this very instant is among them: a request that may go is written a few turns of the loop
        later.
        """
        now = self._now()
        return frozenset(
            key.service
            for key, told in self.services.items()
            if key.namespace == namespace
            and (told.ended == now or (told.ready and now <= told.may_until))
        )

    def surely(self, key: ServiceKey) -> float | None:
        """Where a recovery of this service runs now for sure, when it began at the earliest; None where none has to."""
        told = self.services.get(key)
        if told is None or not told.ready or not told.must[0] <= self._now() < told.must[1]:
            return None
        return told.earliest

    def namespaces(self) -> frozenset[str]:
        """Where a recovery runs now for sure."""
        return frozenset(key.namespace for key in self.services if self.surely(key) is not None)

    @property
    def quiet_at(self) -> float:
        """When the last recovery has ended."""
        ends = [told.may_until for told in self.services.values() if told.ready]
        return max(ends, default=float("-inf"))


def _ready(slices: tuple[SliceView, ...]) -> bool:
    return any(endpoint.ready for each in slices for endpoint in each.endpoints)
