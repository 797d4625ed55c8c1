"""When the next probe of one shoot is due, and what has brought it forward.

`rules.schedule` computes the instant from what the last probe found. `ProbeSchedule` adds what happens meanwhile: an
event that wakes the loop, a person who asks for a probe, the wait that a 429 demands.
"""

import asyncio
import math
from typing import Final

from app.core.model.probing import Failure
from app.prober.environment import ProberEnvironment
from app.prober.rules import schedule
from app.prober.rules.schedule import NextProbe, ProbeIntervals, ScheduleInputs
from app.prober.shoot_session import Reading

# Shortest sleep in seconds: the event loop's timers have whole milliseconds and may fire up to one early.
_FINEST: Final = 0.001


class ProbeSchedule:
    """Keeps when the next probe of one shoot is due, and lets the loop sleep until then."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        policy = environment.policy
        self._pace = ProbeIntervals(
            policy.probe_interval, policy.jitter, policy.suspect_interval, environment.together
        )
        self.next = NextProbe(environment.clock.now(), "start")
        self.failures = 0
        """Failed probes and contacts in a row."""
        self._awake = asyncio.Event()
        self._woken = False
        """`wake` was called since the last probe began."""
        self._asked = False
        """A person asked for a probe: the next one reads Nodes, whatever it finds."""
        self._counted_at = -math.inf
        """When the last probe began that could count towards a threshold."""
        self._not_before = 0.0
        """No request before this instant: a 429 demands it, or the shoot's share of time is used up."""

    # What brings a probe forward.

    def start(self) -> None:
        """Makes the first probe due."""
        self.next = self._at_once("start")

    def wake(self) -> None:
        """Makes a probe due at once, or at the end of the wait that a 429 or the shoot's share of time demands."""
        self._woken = True
        self.next = self._at_once("woken")
        self._awake.set()

    def ask(self, last: Reading | None) -> float:
        """Schedules a probe for a person; returns when it will be.

        It comes 1 s after the `last` one began at the earliest, and never within the wait that a 429 demands. Several
        calls before that share one probe.
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
        """Ends the wait of `sleep`, without making a probe due."""
        self._awake.set()

    async def sleep(self, until: float | None) -> None:
        """Returns at `until`, or when something wakes the loop."""
        alarm = None
        if until is not None:  # a timer that sets the event is cheaper than a timeout that raises
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
        """Called before a probe waits for its slot: a `wake` from now on asks for one more probe."""
        self._woken = False

    def begin(self) -> tuple[bool, bool]:
        """Called when a probe begins; returns whether a person asked for it, and whether it may count."""
        asked, self._asked = self._asked, False
        counts = not asked or self._apart()
        if counts:
            self._counted_at = self._env.clock.now()
        return asked, counts

    def _apart(self) -> bool:
        """Whether a probe that a person asked for comes late enough after the last one that counted to count, too.

        The distance is not that from the last probe: then a caller that asks all the time would keep every probe from
        counting.
        """
        return self._env.clock.now() - self._counted_at >= self._env.policy.suspect_interval

    def succeeded(self) -> None:
        """Called when a probe ended in a reading."""
        self.failures, self._not_before = 0, 0.0

    def failed(self, failure: Failure) -> None:
        """Called when a probe or a contact failed; after a 429, no request is made for its Retry-After."""
        self.failures += 1
        if failure.retry_after is not None:
            asked = min(failure.retry_after, schedule.MAX_RETRY_AFTER)
            wait = max(schedule.after_failure(self.failures), asked)
            self._not_before = self._env.clock.now() + wait

    def plan(self, inputs: ScheduleInputs, last: Reading | None) -> None:
        """Schedules the next probe by what the `last` one left behind."""
        chance = self._env.chance.random()
        self.next = schedule.next_probe(inputs, self._pace, self._env.policy.limit, chance)
        self._not_before = max(self._not_before, inputs.rests_until)
        if self._woken:  # while the probe was under way, so that it may have missed what changed
            self.next = self._at_once("woken")
        elif self._asked:
            self.ask(last)
