"""When one shoot is looked at next, and who has brought that forward."""

import asyncio
import math
from typing import Final

from app.core.model.probing import Failure
from app.prober.environment import ProberEnvironment
from app.prober.rules import schedule
from app.prober.rules.schedule import NextProbe, ProbePace, ScheduleInputs
from app.prober.shoot_session import Reading

_FINEST: Final = 0.001
"""Timers of the event loop have whole milliseconds and end up to one early; what is left after that is one more."""


class ProbeSchedule:
    """The next probe of one shoot."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        policy = environment.policy
        self._pace = ProbePace(
            policy.probe_interval, policy.jitter, policy.suspect_interval, environment.together
        )
        self.next = NextProbe(environment.clock.now(), "start")
        self.failures = 0
        """Failed probes and contacts in a row."""
        self._awake = asyncio.Event()
        self._woken = False
        """Somebody asked for a probe since the last one began."""
        self._asked = False
        """A person did: the next probe reads Nodes, whatever it finds."""
        self._counted_at = -math.inf
        """When the last probe began that could count towards a threshold."""
        self._not_before = 0.0
        """No request before this: a 429 asked for it, or its share of time is used up."""

    # Who brings it forward.

    def start(self) -> None:
        """The first probe is due."""
        self.next = self._at_once("start")

    def wake(self) -> None:
        """Look at once, though never inside a wait that a 429 asked for, nor inside a rest."""
        self._woken = True
        self.next = self._at_once("woken")
        self._awake.set()

    def ask(self, last: Reading | None) -> float:
        """A person wants a probe as soon as that may be after the `last`; returns when it will be.

        Several calls are one probe; it comes 1 s after the last at the earliest, and never inside the wait of a 429.
        """
        earliest = 0.0 if last is None else last.started + schedule.AT_LEAST
        at = max(self._at_once("asked for").at, earliest)
        self._asked = True
        if at < self.next.at:
            self.next = NextProbe(at, "asked for")
            self._awake.set()
        return max(self.next.at, at)  # while a probe is under way, the one that was due is past

    def _at_once(self, why: str) -> NextProbe:
        return NextProbe(max(self._env.clock.now(), self._not_before), why)

    def rouse(self) -> None:
        """Ends the wait of `sleep`; nothing is due because of that."""
        self._awake.set()

    async def sleep(self, until: float | None) -> None:
        """Returns at `until`, or when something wakes the loop."""
        alarm = None
        if until is not None:  # a timer that wakes is cheaper than a timeout that throws
            seconds = max(until - self._env.clock.now(), _FINEST)
            alarm = asyncio.get_running_loop().call_later(seconds, self._awake.set)
        try:
            await self._awake.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
            self._awake.clear()

    # A probe.

    def turn(self) -> None:
        """A probe is about to be made: who wakes from now on wants another one."""
        self._woken = False

    def begin(self) -> tuple[bool, bool]:
        """A probe begins now: whether a person asked for it, and whether it may count towards a threshold."""
        asked, self._asked = self._asked, False
        counts = not asked or self._apart()
        if counts:
            self._counted_at = self._env.clock.now()
        return asked, counts

    def _apart(self) -> bool:
        """Whether a probe that somebody asked for comes late enough after the last to count.

        After the last that could count: else whoever asks all the time would keep every probe from counting.
        """
        return self._env.clock.now() - self._counted_at >= self._env.policy.suspect_interval

    def succeeded(self) -> None:
        """A probe ended in a reading."""
        self.failures, self._not_before = 0, 0.0

    def failed(self, failure: Failure) -> None:
        """A probe or a contact failed."""
        self.failures += 1
        if failure.retry_after is not None:
            asked = min(failure.retry_after, schedule.MAX_RETRY_AFTER)
            wait = max(schedule.after_failure(self.failures), asked)
            self._not_before = self._env.clock.now() + wait

    def plan(self, inputs: ScheduleInputs, last: Reading | None) -> None:
        """What the `last` probe left behind says when the next one is due."""
        chance = self._env.chance.random()
        self.next = schedule.next_probe(inputs, self._pace, self._env.policy.limit, chance)
        self._not_before = max(self._not_before, inputs.rests_until)
        if self._woken:  # while the probe was under way: it may not have seen what woke it
            self.next = self._at_once("woken")
        elif self._asked:
            self.ask(last)
