"""Follows the gates of one namespace, and reports when they close, open, or stay open for want of knowledge."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.clock import Clock
from app.core.model.endpoints import EndpointProbeSpec
from app.prober.endpoints.results import GateView
from app.prober.rules.gates import GateVerdict, lifespan

Tell = Callable[[str, EndpointProbeSpec, GateVerdict, float], None]
"""Called with the reason, the probe whose gate it is, the state of the gate, and the instant."""

# Seconds that are added to timers: the event loop's have whole milliseconds, and may fire up to one early.
_FINEST: Final = 0.001


class _Side(StrEnum):
    CLOSED = "Closed"
    OPEN = "Open"
    BLIND = "Blind"
    """Open for want of knowledge."""


@dataclass(slots=True)
class _Announced:
    """The last known side of a gate, and what was reported of it."""

    side: _Side
    since: float
    blind: bool = False
    """It was reported that the gate is open for want of knowledge."""


class GateWatch:
    """Judges the gates whenever something may have changed, and when the results that they rest on become too old."""

    def __init__(
        self,
        clock: Clock,
        probes: Sequence[EndpointProbeSpec],
        judge: Callable[[EndpointProbeSpec], GateVerdict],
        tell: Tell,
        changed: Callable[[], None],
    ) -> None:
        """Keeps what it needs; no gate has been judged yet.

        Args:
            clock: tells the present instant.
            probes: the probes that are gates.
            judge: returns the present state of a probe's gate.
            tell: called when a gate has closed or opened, or has been open for want of knowledge for long.
            changed: called after each change of side.
        """
        self._clock, self._probes = clock, tuple(probes)
        self._judge, self._tell, self._changed = judge, tell, changed
        self._told: dict[str, _Announced] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    def closed(self) -> str | None:
        """Why a scale-down may not start: the messages of all closed gates; None if none is closed."""
        gates = [self._judge(probe) for probe in self._probes]
        return "; ".join(gate.message for gate in gates if gate.closed) or None

    def views(self) -> tuple[GateView, ...]:
        return tuple(self._view(probe) for probe in self._probes)

    def _view(self, probe: EndpointProbeSpec) -> GateView:
        gate, told = self._judge(probe), self._told.get(probe.name)
        since = self._clock.now() if told is None else told.since
        return GateView(probe.name, gate.closed, gate.reason, gate.message, since)

    def check(self, name: str | None = None) -> None:
        """Judges the gate of this name, or all gates, again."""
        for probe in self._probes:
            if name is None or probe.name == name:
                self._check(probe)

    def stop(self) -> None:
        """Stops reporting, and forgets what was known."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = None, math.inf
        self._told.clear()

    def _check(self, probe: EndpointProbeSpec) -> None:
        gate, now = self._judge(probe), self._clock.now()
        before, side = self._told.get(probe.name), _side(gate)
        told = before
        if told is None or told.side is not side:
            told = self._told[probe.name] = _Announced(side, now)
            self._moved(probe, gate, before)
        self._wake_at(gate.until if gate.closed else math.inf)
        if side is _Side.BLIND and not told.blind:
            self._blind(probe, gate, told)

    def _moved(
        self, probe: EndpointProbeSpec, gate: GateVerdict, before: _Announced | None
    ) -> None:
        reason = _reason(before, closed=gate.closed)
        if reason is not None:
            self._tell(reason, probe, gate, self._clock.now())
        self._changed()

    def _blind(self, probe: EndpointProbeSpec, gate: GateVerdict, told: _Announced) -> None:
        """Reports blindness only after it has lasted as long as a result is valid: at the start every gate is blind."""
        now, due = self._clock.now(), told.since + lifespan(probe)
        if now < due:
            self._wake_at(due)
            return
        told.blind = True
        self._tell("GateBlind", probe, gate, now)

    def _wake_at(self, at: float) -> None:
        """Makes sure that the gates are judged again at `at`; an alarm that comes earlier sets the next one."""
        if at >= self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        seconds = max(at - self._clock.now(), 0.0) + _FINEST
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._rung)
        self._alarm_at = at

    def _rung(self) -> None:
        self._alarm, self._alarm_at = None, math.inf
        self.check()


def _side(gate: GateVerdict) -> _Side:
    if gate.closed:
        return _Side.CLOSED
    return _Side.BLIND if gate.reason.blind else _Side.OPEN


def _reason(before: _Announced | None, *, closed: bool) -> str | None:
    """The reason under which a gate's change of side is reported; None if it is not reported."""
    if closed:
        return "GateClosed"
    if before is None:
        return None
    if before.side is _Side.CLOSED:
        return "GateOpened"
    return "GateSighted" if before.blind else None
