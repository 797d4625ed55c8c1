"""What was really so, and what of a prober's deeds it makes right or wrong.

*True age*: since the last renewal that landed was begun.  *Proven age*: the same, but counted from the return of server
and storage at the earliest, as their absence proves nothing about kubelets. An *outage* is a stretch in which the path
of at least the limit's share of the candidates is gone.
"""

import math

from app.prober.rules.leases import Timings, offset_tolerance
from bench.account import Account, Circumstance, Incident
from bench.looker import Event, Settings
from bench.spans import Span
from bench.world import Kubelet, World

GRANTED = 60.0
"""An outage that has been known for so long, with server and storage answering, must have been found."""
_AFTER_STEP = 300.0
_LEARNING = 60.0
"""Until this long after a start or a disturbance, what is known of the leases is still little."""
_RIGHT_ENOUGH = 0.1
"""Clocks that are off by less, in seconds, count as right."""
_BACK = 17.0
"""A kubelet needs up to this long to come back."""


class Judge:
    """Holds one prober's deeds against what was really so."""

    def __init__(self, world: World, settings: Settings, events: list[Event]) -> None:
        self._world = world
        self._weather = world.weather
        self._events = events
        self._timings = Timings(settings.grace)
        self._expiry = self._timings.expiry
        self._tolerance = offset_tolerance(40.0)
        self._needed = math.ceil(settings.limit * len(world.candidates) - 1e-9)
        self._account = Account(nodes=len(world.kubelets))
        self._right = all(
            abs(k.kind.clock.offset) < _RIGHT_ENOUGH for k in world.candidates
        ) and not any(k.kind.clock.drift or k.kind.clock.steps for k in world.candidates)

    def account(self) -> Account:
        """Everything that there is to say."""
        found = self._account
        found.hours = (self._weather.end - self._weather.start) / 3600
        windows = self._outages()
        found.outages = len(windows)
        for window in windows:
            self._judge_outage(window)
        self._judge_deeds()
        self._judge_endings(windows)
        return found

    # Outages.

    def _outages(self) -> list[Span]:
        """Stretches in which at least so many candidates are cut that they reach the limit."""
        edges = [
            (edge, change)
            for kubelet in self._world.candidates
            for cut in kubelet.kind.cuts
            for edge, change in ((cut.start, 1), (cut.end, -1))
        ]
        found, cut, began = [], 0, 0.0
        for edge, change in sorted(edges):
            before, cut = cut, cut + change
            if before < self._needed <= cut:
                began = edge
            elif cut < self._needed <= before and edge > began:
                found.append(Span(began, edge))
        return [span for span in found if len(self._world.candidates) > 1]

    def _judge_outage(self, window: Span) -> None:
        known = self._known_at(window)
        if known >= window.end or self._protected_at(window.start):
            return
        self._account.knowable += 1
        downs = [e.at for e in self._events if e.what == "down" and window.start <= e.at]
        found_at = downs[0] if downs and downs[0] < window.end + _BACK else None
        self._judge_missed(window, known, found_at)
        if found_at is None:
            return
        circumstance = self._circumstance(window, found_at)
        begins = self._known_again(known, found_at)
        self._account.delays.setdefault(circumstance.value, []).append(found_at - begins)

    def _known_at(self, window: Span) -> float:
        """The first instant at which the true ages of enough candidates reach the expiry time."""
        renewed = sorted(k.renewed(window.end - 0.001) for k in self._world.candidates)
        return renewed[self._needed - 1] + self._expiry

    def _known_again(self, known: float, found_at: float) -> float:
        """When it could be known to this process: not before its start, nor an expiry time after storage came back."""
        starts = [e.at for e in self._events if e.what == "start" and e.at <= found_at]
        began = max(known, starts[-1])
        back = self._weather.last_away(found_at)
        if back is not None and back > known - self._expiry:
            began = max(began, back + self._expiry)
        return began

    def _circumstance(self, window: Span, found_at: float) -> Circumstance:
        weather = self._weather
        around = (window.start - _LEARNING, found_at)
        if (
            weather.failing.within(*around)
            or weather.slow.within(*around)
            or any(each.span.overlaps(*around) for each in weather.throttling)
        ):
            return Circumstance.FAILING
        if weather.down.within(*around) or window.start < weather.start + _LEARNING:
            return Circumstance.STARTED
        if weather.server.within(*around) or weather.storage.within(*around):
            return Circumstance.AWAY
        if self._right:
            alone = len(self._world.candidates) == len(self._world.kubelets)
            return Circumstance.RIGHT if alone else Circumstance.OTHERS
        stepped = any(
            found_at - _AFTER_STEP <= when <= found_at
            for kubelet in self._world.candidates
            for when, _ in kubelet.kind.clock.steps
        )
        return Circumstance.STEPPED if stepped else Circumstance.OFF

    def _judge_missed(self, window: Span, known: float, found_at: float | None) -> None:
        """Missed: known for a minute in which server and storage answered, and no scale-down."""
        until = min(window.end, window.end if found_at is None else found_at)
        began = known
        for pause, proves_nothing in self._pauses(known, until):
            if pause.start - began > GRANTED:
                break
            began = max(began, pause.end + (self._expiry if proves_nothing else 0.0))
        else:
            if until - began <= GRANTED:
                return
        self._report("missed", began + GRANTED, f"outage {window.start:.1f}-{window.end:.1f}")

    def _pauses(self, start: float, end: float) -> list[tuple[Span, bool]]:
        """What excuses not having found it yet, and whether ages count anew after it."""
        weather = self._weather
        reach = start - self._expiry
        away = [*weather.server.within(reach, end), *weather.storage.within(reach, end)]
        mute = [*weather.slow.within(reach, end), *weather.down.within(reach, end)]
        mute += [
            # a Retry-After may reach beyond the stretch
            Span(each.span.start, each.span.end + max(min(each.retry_after, 60.0), 10.0))
            for each in weather.throttling
            if each.span.overlaps(reach, end)
        ]
        return sorted(((s, True) for s in away + mute), key=lambda pair: pair[0].start)

    # Scale-downs and scale-ups.

    def _judge_deeds(self) -> None:
        for event in self._events:
            if event.what == "down":
                self._account.downs += 1
                self._judge_down(event.read_at)

    def _judge_down(self, at: float) -> None:
        """`at` is when the confirming reading was asked for: what ages are measured at."""
        if self._late(at, self._expiry):
            return
        if not self._right and self._late(at, self._expiry - self._tolerance):
            self._account.early += 1
        elif self._just_started(at) and self._late(at, self._timings.watched_long_enough(40.0)):
            self._account.early_at_start += 1
        else:
            self._report("false scale-down", at, self._ages(at))

    def _late(self, at: float, age: float) -> bool:
        """Whether enough candidates have not renewed for so long, and not for want of server or storage alone."""
        found = (
            at - k.renewed(at) >= age
            and (self._proven_age(k, at) >= age or k.kind.cuts.within(k.renewed(at), at))
            for k in self._world.candidates
        )
        return sum(map(bool, found)) >= self._needed

    def _cut(self, at: float, age: float) -> bool:
        """Whether enough candidates are cut, and were not heard of for so long."""
        gone = (
            k.kind.cuts.at(at) is not None and at - k.renewed(at) >= age
            for k in self._world.candidates
        )
        return sum(gone) >= self._needed

    def _just_started(self, at: float) -> bool:
        starts = [e.at for e in self._events if e.what == "start" and e.at <= at]
        return at - max(starts) < _LEARNING

    def _judge_up(self, ended: Event, began: Event, windows: list[Span]) -> None:
        """Wrong: the outage that it began in still lasts, or another one could be known."""
        at = ended.read_at
        own = any(w.start < began.read_at and at < w.end for w in windows)
        slack = _RIGHT_ENOUGH if self._right else self._tolerance
        if own or self._cut(at, self._expiry + slack):
            self._report("ended in mid-outage", at, self._ages(at))

    def _proven_age(self, kubelet: Kubelet, at: float) -> float:
        back = self._weather.last_away(at)
        renewed = kubelet.renewed(at)
        return at - (renewed if back is None else max(renewed, back))

    # Protections.

    def _protected_at(self, instant: float) -> bool:
        last = [e.what for e in self._events if e.at <= instant and e.what != "start"]
        return bool(last) and last[-1] == "down"

    def _judge_endings(self, windows: list[Span]) -> None:
        deeds = [e for e in self._events if e.what != "start"]
        for number, event in enumerate(deeds):
            if event.what == "down":
                ending = deeds[number + 1] if number + 1 < len(deeds) else None
                self._judge_ending(event, ending, windows)

    def _judge_ending(self, began: Event, ended: Event | None, windows: list[Span]) -> None:
        until = self._weather.end if ended is None else ended.at
        during = [w for w in windows if w.start < until and w.end > began.at - self._expiry]
        over = max((w.end for w in during), default=began.at)
        calm = max([over, *(s.end for s, _ in self._troubles(over, until))])
        if ended is not None:
            self._judge_up(ended, began, windows)
        if calm == over and ended is not None:
            kind = "the first in an hour" if not ended.span else f"after {ended.span:.0f} s"
            self._account.endings.setdefault(kind, []).append(ended.at - over)
        span = self._span_of(began)
        if until - calm > GRANTED + span:
            self._report("never ended", began.at, f"calm since {calm:.1f}, until {until:.1f}")

    def _troubles(self, start: float, end: float) -> list[tuple[Span, bool]]:
        cuts = {cut for k in self._world.candidates for cut in k.kind.cuts}
        partial = [s for s in cuts if s.overlaps(start - _BACK, end)]
        failing = self._weather.failing.within(start, end)
        return [*self._pauses(start, end), *((s, False) for s in [*partial, *failing])]

    def _span_of(self, began: Event) -> float:
        """How long good probes must last after the protection that began then."""
        starts = [e.at for e in self._events if e.what == "start" and e.at <= began.at]
        first = max([began.at - 3600, *starts])
        k = sum(1 for e in self._events if e.what == "down" and first <= e.at <= began.at)
        return 0.0 if k < 2 else min(300.0, 30.0 * 2 ** (k - 2))

    def _report(self, what: str, at: float, detail: str) -> None:
        self._account.incidents.append(Incident(what, at - self._weather.start, detail))

    def _ages(self, at: float) -> str:
        ages = sorted(at - k.renewed(at) for k in self._world.candidates)
        cut = sum(1 for k in self._world.candidates if k.kind.cuts.at(at) is not None)
        back = self._weather.last_away(at)
        return (
            f"true ages {ages[0]:.1f}…{ages[-self._needed]:.1f}…{ages[-1]:.1f} s, {cut} of {len(ages)} cut,"
            f" {self._needed} needed, storage back for {'ever' if back is None else f'{at - back:.1f} s'}"
        )
