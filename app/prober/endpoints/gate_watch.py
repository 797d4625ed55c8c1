"""The gates of one namespace as time goes by: told when they close and open, and when nothing is known of them."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.clock import Clock
from app.core.model.endpoints import EndpointProbe
from app.prober.endpoints.results import GateView
from app.prober.rules.gates import GateState, lifespan

Tell = Callable[[str, EndpointProbe, GateState, float], None]
"""Is told the reason, whose gate it is, how it is now, and when that was."""

_FINEST: Final = 0.001
"""Timers of the event loop have whole milliseconds and end up to one early."""


class _Side(StrEnum):
    CLOSED = "Closed"
    OPEN = "Open"
    BLIND = "Blind"
    """Open, as nothing is known."""


@dataclass(slots=True)
class _Announced:
    """What was last found of a gate."""

    side: _Side
    since: float
    blind: bool = False
    """It was told that nothing is known."""


class GateWatch:
    """Looks at the gates whenever something may have changed, and when what they go by grows too old."""

    def __init__(
        self,
        clock: Clock,
        probes: Sequence[EndpointProbe],
        judge: Callable[[EndpointProbe], GateState],
        tell: Tell,
        changed: Callable[[], None],
    ) -> None:
        """Nothing is known of any gate.

        Args:
            clock: says when what they go by is too old.
            probes: those that are gates.
            judge: the gate of a probe, now.
            tell: called when a gate has moved, or has been open for want of knowledge for long.
            changed: called after each move.
        """
        self._clock, self._probes = clock, tuple(probes)
        self._judge, self._tell, self._changed = judge, tell, changed
        self._told: dict[str, _Announced] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    def closed(self) -> str | None:
        """Why it is closed, now; with several gates one that is closed is enough."""
        gates = [self._judge(probe) for probe in self._probes]
        return "; ".join(gate.message for gate in gates if gate.closed) or None

    def views(self) -> tuple[GateView, ...]:
        """Each gate, now."""
        return tuple(self._view(probe) for probe in self._probes)

    def _view(self, probe: EndpointProbe) -> GateView:
        gate, told = self._judge(probe), self._told.get(probe.name)
        since = self._clock.now() if told is None else told.since
        return GateView(probe.name, gate.closed, gate.reason, gate.message, since)

    def check(self, name: str | None = None) -> None:
        """Something may have changed: of the gate of this name, or of any."""
        for probe in self._probes:
            if name is None or probe.name == name:
                self._check(probe)

    def stop(self) -> None:
        """Nothing is told any more; what was known is forgotten."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = None, math.inf
        self._told.clear()

    def _check(self, probe: EndpointProbe) -> None:
        gate, now = self._judge(probe), self._clock.now()
        before, side = self._told.get(probe.name), _side(gate)
        told = before
        if told is None or told.side is not side:
            told = self._told[probe.name] = _Announced(side, now)
            self._moved(probe, gate, before)
        self._wake_at(gate.until if gate.closed else math.inf)
        if side is _Side.BLIND and not told.blind:
            self._blind(probe, gate, told)

    def _moved(self, probe: EndpointProbe, gate: GateState, before: _Announced | None) -> None:
        reason = _reason(before, closed=gate.closed)
        if reason is not None:
            self._tell(reason, probe, gate, self._clock.now())
        self._changed()

    def _blind(self, probe: EndpointProbe, gate: GateState, told: _Announced) -> None:
        """It is told when it has lasted as long as results do: at the start every gate knows nothing."""
        now, due = self._clock.now(), told.since + lifespan(probe)
        if now < due:
            self._wake_at(due)
            return
        told.blind = True
        self._tell("GateBlind", probe, gate, now)

    def _wake_at(self, at: float) -> None:
        """Looks again at `at`, if not before; an alarm that comes too early sets the next one."""
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


def _side(gate: GateState) -> _Side:
    if gate.closed:
        return _Side.CLOSED
    return _Side.BLIND if gate.reason.blind else _Side.OPEN


def _reason(before: _Announced | None, *, closed: bool) -> str | None:
    """What is told of a gate that is on another side now; None: nothing."""
    if closed:
        return "GateClosed"
    if before is None:
        return None
    if before.side is _Side.CLOSED:
        return "GateOpened"
    return "GateSighted" if before.blind else None
