"""The gates of one namespace: whether one is closed, and what is reported of them.

A gate is reported when it closes, opens, or stays open for want of knowledge. It is judged whenever something may have
changed, and when the results that it is closed on become too old.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.model.endpoints import EndpointProbeSpec, GateReason
from app.core.reporting.notices import GateChanged, Severity
from app.prober.environment import ProberEnvironment
from app.prober.rules.gates import GateVerdict, lifespan

# Seconds that are added to timers: the event loop's have whole milliseconds, and may fire up to one early.
_FINEST: Final = 0.001


@dataclass(frozen=True, slots=True)
class GateView:
    """The gate of one probe in one namespace; it exists without any target, too."""

    name: str
    closed: bool
    reason: GateReason
    message: str
    since: float
    """The instant at which it became closed, open, or open for want of knowledge."""


class _Side(StrEnum):
    CLOSED = "Closed"
    OPEN = "Open"
    BLIND = "Blind"
    """Open for want of knowledge."""


@dataclass(slots=True)
class _Known:
    """The last known side of a gate."""

    side: _Side
    since: float
    told_blind: bool = False
    """It was reported that the gate is open for want of knowledge."""


class Gates:
    """Follows the gates of one namespace while this instance probes; otherwise there are none.

    Args:
        environment: clock, leadership and notice bus.
        namespace: for the notices.
        probes: the probes that are gates.
        judge: returns the present state of a probe's gate.
        changed: called after each change of side.
    """

    def __init__(
        self,
        environment: ProberEnvironment,
        namespace: str,
        probes: Sequence[EndpointProbeSpec],
        judge: Callable[[EndpointProbeSpec], GateVerdict],
        changed: Callable[[], None],
    ) -> None:
        self._env, self._clock, self._namespace = environment, environment.clock, namespace
        self._configured, self._judge, self._changed = tuple(probes), judge, changed
        self._known: dict[str, _Known] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    @property
    def _probes(self) -> Sequence[EndpointProbeSpec]:
        return self._configured if self._env.leadership.may_probe else ()

    def closed(self) -> str | None:
        """Why a scale-down may not start: the messages of all closed gates; None if none is closed."""
        gates = [self._judge(probe) for probe in self._probes]
        return "; ".join(gate.message for gate in gates if gate.closed) or None

    def views(self) -> tuple[GateView, ...]:
        """The state of each gate, in the order of the configuration; empty while this instance does not probe."""
        found = []
        for probe in self._probes:
            gate, known = self._judge(probe), self._known.get(probe.name)
            since = self._clock.now() if known is None else known.since
            found.append(GateView(probe.name, gate.closed, gate.reason, gate.message, since))
        return tuple(found)

    def check(self, name: str | None = None) -> None:
        """Judges the gate of this name, or all gates, again."""
        if not self._env.leadership.may_probe:
            self.stop()
        for probe in self._probes:
            if name is None or probe.name == name:
                self._check(probe)

    def stop(self) -> None:
        """Stops reporting, and forgets what was known."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = None, math.inf
        self._known.clear()

    def _check(self, probe: EndpointProbeSpec) -> None:
        gate, now = self._judge(probe), self._clock.now()
        side = _Side.BLIND if gate.reason.blind else _Side.OPEN
        side = _Side.CLOSED if gate.closed else side
        known = before = self._known.get(probe.name)
        if known is None or known.side is not side:
            known = self._known[probe.name] = _Known(side, now)
            if (reason := _reason(before, side)) is not None:
                self._report(reason, probe, gate, now)
            self._changed()
        if gate.closed:
            self._wake_at(gate.until)
        if side is _Side.BLIND and not known.told_blind:
            # Only after it has lasted as long as a result is valid: at the start every gate is blind.
            if now < (due := known.since + lifespan(probe)):
                self._wake_at(due)
            else:
                known.told_blind = True
                self._report("GateBlind", probe, gate, now)

    def _report(self, reason: str, probe: EndpointProbeSpec, gate: GateVerdict, at: float) -> None:
        troubling = gate.closed or gate.reason.blind
        notice = GateChanged(
            self._namespace,
            at,
            reason,
            gate.message,
            Severity.WARNING if troubling else Severity.INFO,
            probe=probe.name,
            gate=gate.reason,
        )
        self._env.notice_bus.publish(notice)

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


def _reason(before: _Known | None, side: _Side) -> str | None:
    """The reason under which a gate's change of side is reported; None if it is not reported."""
    if side is _Side.CLOSED:
        return "GateClosed"
    if before is None:
        return None
    if before.side is _Side.CLOSED:
        return "GateOpened"
    return "GateSighted" if before.told_blind else None
