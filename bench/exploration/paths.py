"""What truly came of the attempts on both paths to a shoot, and of the runs of the probe that is a gate.

An attempt has truly failed as a path where it was refused, cut or not answered in its time, as the server or the
network themselves say; any other answer, whatever it says, came from somebody to whom the path leads.
"""

import ssl
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from app.core.model.endpoints import EndpointProbeSpec, ProbeOutcome, Ran, TargetAddress
from app.core.model.policy import ProberPolicy
from app.core.model.shoots import Route
from app.core.ports import Handlers
from app.simulation.traffic import Host
from bench.exploration.line import GIVEN_UP, Boundary, Passage
from bench.exploration.timeline import Machine

_LONGEST: Final = 5.0
"""An attempt ends after so many seconds, or after `probeTimeout`, if that is shorter (4.2)."""
_SPARE: Final = 0.1
"""By so much a request may end before its attempt does."""
_LATE: Final = 0.5
_KEPT: Final = 60
_HEARD: Final = 240.0
"""A process hears of a change of a pod within so many seconds, whatever happens to its watch."""
Told = Callable[[EndpointProbeSpec, TargetAddress, Ran], None]
"""Hears what a process is told of a run."""
_FAILURES: Final = frozenset({"Unreachable"})
_DEAD: Final = frozenset({"Unreachable", GIVEN_UP})
_NEITHER: Final = frozenset({"Throttled", "Unauthorized", GIVEN_UP})
"""Keeps the counts; and what may be asked again at once, with what the Secret says now."""


class Came(Enum):
    """What came of an attempt."""

    VERSION = auto()
    NOTHING = auto()
    """It has failed as a path."""
    NEITHER = auto()
    """It says nothing, and ends nothing."""
    SOMETHING = auto()
    """An answer that is no version."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One request for the version of a shoot."""

    route: Route
    sent: float
    longest: float
    """Seconds for which an answer counts."""
    answered: float | None = None
    outcome: str = ""
    kept: bool = False
    """Whether it is sent on a connection that was there before."""

    @property
    def ended(self) -> float:
        """When there was no more to wait for."""
        latest = self.sent + self.longest
        return latest if self.answered is None else min(self.answered, latest)

    def retried(self, route: Route, now: float) -> bool:
        """Whether what begins now is this attempt again, whose connection was dead."""
        cut = self.kept and self.outcome in _DEAD and self.answered == now
        return cut and self.route is route

    @property
    def came(self) -> Came:
        """What came of it in its time."""
        waited = self.longest if self.answered is None else self.answered - self.sent
        if self.answered is None or waited > self.longest:
            return Came.NOTHING
        if self.outcome == GIVEN_UP and waited > self.longest - _SPARE:
            return Came.NOTHING
        if self.outcome == "ok":
            return Came.VERSION
        if self.outcome in _FAILURES:
            return Came.NOTHING
        return Came.NEITHER if self.outcome in _NEITHER else Came.SOMETHING


@dataclass(slots=True)
class Gate:
    """What one process was told by the runs of one gate of one shoot."""

    of_pods: bool = False
    """Its targets are pods, which the process knows from a watch."""
    failures: int = 0
    """In a row."""
    last: float = float("-inf")
    closed_since: float | None = None
    lasts: float = 0.0
    """For so many seconds its last result is surely one of the worker that there is."""
    closings: list[tuple[float, float]] = field(default_factory=list)
    """From when until when it was surely closed, before now."""
    sure_from: float = float("-inf")
    """Before that no run counts."""

    def ran(self, probe: EndpointProbeSpec, outcome: ProbeOutcome, now: float) -> None:
        """One more run has ended."""
        if now > self.last + self.lasts:
            self.failures = 0
            self._open(self.last + self.lasts)
        self.lasts = probe.period + probe.timeout + _LATE
        if outcome is ProbeOutcome.ERROR or now < self.sure_from:
            return
        self.last = now
        self.failures = self.failures + 1 if outcome is ProbeOutcome.FAILURE else 0
        if not self.failures:
            self._open(now)
        elif self.failures >= probe.failure_threshold and self.closed_since is None:
            self.closed_since = now

    def unsure(self, now: float) -> None:
        """Whatever closed it may have gone; what is heard within the next minutes may be of what has gone."""
        self.failures, self.sure_from = 0, now + _HEARD
        self._open(now)

    def _open(self, at: float) -> None:
        if self.closed_since is not None:
            self.closings.append((self.closed_since, at))
            del self.closings[:-_KEPT]
        self.closed_since = None

    def closed_at(self, at: float) -> bool:
        """Whether it was surely closed then."""
        if self.closed_since is not None and self.closed_since <= at:
            return at <= self.last + self.lasts
        return any(begun <= at <= ended for begun, ended in self.closings)


class Paths:
    """The attempts and gates of all processes."""

    def __init__(self, policy: ProberPolicy) -> None:
        self.policy = policy
        self._longest = min(_LONGEST, policy.probe_timeout) - _SPARE
        self._attempts: dict[tuple[str, str], list[Attempt]] = {}
        self._open: dict[tuple[str, int], Attempt] = {}
        self._connecting: dict[tuple[str, str, Route], Attempt] = {}
        self._gates: dict[tuple[str, str], dict[str, Gate]] = {}
        self._of_pods = {each.name for each in policy.endpoint_probes if each.pods is not None}

    def connecting(self, process: str, namespace: str, route: Route, now: float) -> None:
        """An attempt begins with a new connection."""
        known = self._of(process, namespace)
        if known and known[-1].retried(route, now):
            known.pop()  # a kept connection was dead: the same attempt goes on with a new one
        attempt = Attempt(route, now, self._longest)
        known.append(attempt)
        self._connecting[process, namespace, route] = attempt

    def refused(
        self, process: str, namespace: str, route: Route, error: OSError, now: float
    ) -> None:
        """It ends before it is sent."""
        attempt = self._connecting.pop((process, namespace, route))
        attempt.answered = now
        attempt.outcome = "Untrusted" if isinstance(error, ssl.SSLError) else "Unreachable"

    def passed(self, passage: Passage, now: float) -> None:
        """A request of a process passes a boundary."""
        request, place = passage.request, (passage.process, passage.number)
        if (request.host, request.what) != (Host.SHOOT, "version"):
            return
        if passage.boundary is Boundary.SENT:
            whose = (passage.process, request.namespace, request.route)
            attempt = self._connecting.pop(whose, None)
            if attempt is None:
                attempt = Attempt(request.route, now, self._longest, kept=True)
                self._of(passage.process, request.namespace).append(attempt)
            self._open[place] = attempt
        elif passage.boundary is Boundary.ANSWERED:
            attempt = self._open.pop(place)
            attempt.answered, attempt.outcome = now, passage.outcome

    def _of(self, process: str, namespace: str) -> list[Attempt]:
        known = self._attempts.setdefault((process, namespace), [])
        del known[:-_KEPT]
        return known

    def ended(self, process: str, namespace: str, now: float) -> list[Attempt]:
        """The attempts of a process on a shoot that have ended, from the first; not all that there ever were."""
        known = self._attempts.get((process, namespace), [])
        return [each for each in known if each.ended <= now]

    def gate(self, process: str, namespace: str, probe: str) -> Gate:
        """What a process was told by a gate of a shoot."""
        gates = self._gates.setdefault((process, namespace), {})
        return gates.setdefault(probe, Gate(of_pods=probe in self._of_pods))

    def gates(self, process: str, namespace: str) -> Collection[Gate]:
        """What a process was told by each gate of a shoot."""
        return self._gates.get((process, namespace), {}).values()

    def pod_changed(self, namespace: str, now: float) -> None:
        """The pod that is a gate there is another one, or its container was started again: results go with it.

        Nobody knows from outside when a process hears of it, so that for a while nothing is sure of that gate.
        """
        for (_, place), gates in self._gates.items():
            if place == namespace:
                for gate in gates.values():
                    if gate.of_pods:
                        gate.unsure(now)


def streaks(attempts: list[Attempt]) -> Iterator[tuple[Attempt, int]]:
    """Each attempt on the external path that says something, with how many in a row have said the same with it.

    What ends a streak: an answer that is no version, or an internal path that did not give one.
    """
    last, count = Came.NEITHER, 0
    for each in attempts:
        came = each.came
        if came is Came.NEITHER:
            continue
        if each.route is Route.INTERNAL or came is Came.SOMETHING:
            if came is not Came.VERSION:
                last, count = Came.NEITHER, 0
            continue
        count = count + 1 if came is last else 1
        last = came
        yield each, count


class LinedHandlers:
    """Runs endpoint probes in the world, for a process (`ports.Handlers`): who stands still waits for them."""

    def __init__(self, handlers: Handlers, machine: Machine, world: Machine, told: Told) -> None:
        self._handlers, self._machine, self._world, self._told = handlers, machine, world, told

    async def run(self, probe: EndpointProbeSpec, address: TargetAddress) -> Ran:
        """What one run brings."""
        answer = self._machine.create_future()

        async def travel() -> None:
            ran = await self._handlers.run(probe, address)
            self._machine.call_soon(lambda: None if answer.done() else answer.set_result(ran))

        task = self._world.create_task(travel())
        try:
            found: Ran = await answer
        finally:
            task.cancel()
        self._told(probe, address, found)
        return found
