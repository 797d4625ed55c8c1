"""The loop of one shoot: look, decide, act, say when to look again."""

import asyncio
import math
from dataclasses import dataclass
from typing import Final

from app.core.model.probing import Decision, Failure, Probe, Reason, Tally
from app.prober import telling
from app.prober.environment import Environment
from app.prober.flowcontext import FlowResult
from app.prober.heeding import Heeding
from app.prober.judge import Judge, Position
from app.prober.observer import Look, Observer, Subject
from app.prober.pacing import SLOW
from app.prober.portrait import Portrait
from app.prober.protecting import ProtectionWatch
from app.prober.rules import schedule
from app.prober.rules.schedule import NextLook, Pace, Situation
from app.prober.rules.state import Standing
from app.prober.scaler import Scaler
from app.prober.status import Outline, ShootStatus

_FINEST: Final = 0.001
"""Timers of the event loop have whole milliseconds and end up to one early; what is left after that is one more."""


@dataclass(slots=True)
class Progress:
    """What one turn of the loop leaves for the next."""

    failures: int = 0
    """Failed looks and contacts in a row."""
    looks: int = 0
    look: Look | None = None
    decision: Decision | None = None
    tally: Tally | None = None
    """Of the last look that ended in a reading."""
    contact_at: float | None = None
    """When contact was last made or tried."""
    not_before: float = 0.0
    """No request before this: a 429 asked for it."""


class ShootRunner:
    """Probes one shoot until it is stopped."""

    def __init__(
        self, environment: Environment, subject: Subject, scaler: Scaler, scaling_from: float
    ) -> None:
        self._env = environment
        self._namespace = subject.namespace
        self._scaling_from = scaling_from
        self._observer = Observer(environment, subject.namespace)
        self._progress = Progress()
        self._next = NextLook(environment.clock.now(), "start")
        self._awake = asyncio.Event()
        self._woken = False
        """Somebody asked for a look since the last one began."""
        self._with_nodes = False
        """The next look reads Nodes, whatever it finds."""
        self._counted_at = -math.inf
        """When the last look began that could count towards a threshold."""
        self._stopping = False
        self._scaler = scaler
        scaler.subscribe(self._flow_ended)
        self._protection = ProtectionWatch(environment, subject.namespace, self._scaler)
        self._heeding = Heeding(environment, subject.namespace, scaler)
        self._judge = Judge(
            environment,
            subject,
            self._observer,
            Position(scaler, self._protection, self._heeding, scaling_from),
        )
        self._portrait = Portrait(environment.clock.now())
        policy = environment.policy
        self._pace = Pace(
            policy.probe_interval, policy.jitter, policy.suspect_interval, environment.together
        )

    @property
    def namespace(self) -> str:
        """The control-plane namespace of the shoot."""
        return self._namespace

    @property
    def protected_since(self) -> float | None:
        """When the active protection began; None while none is active."""
        return self._protection.since

    # The loop: wait until a look is due, make contact meanwhile.

    async def run(self) -> None:
        """Looks, decides and acts until stopped."""
        self._next = self._at_once("start")
        while not self._stopping:
            if await self._due():
                await self._turn()

    async def stop(self, why: str, *, abandoning: bool = True) -> None:
        """Ends the loop and its flow; returns when the last request of the flow has been answered.

        `abandoning`: the shoot itself is no longer probed, not just this process ends; a flow that a person forced
        goes on then.
        """
        first, self._stopping = not self._stopping, True
        self._awake.set()
        await self._scaler.stop(why, forced_too=not abandoning)
        if not first:
            return  # the process ends while the end of the shoot is awaited
        self._scaler.unsubscribe(self._flow_ended)
        if abandoning:
            self._protection.abandoned(why)

    def wake(self) -> None:
        """Look at once, though never inside the wait that a 429 asked for."""
        self._woken = True
        self._next = self._at_once("woken")
        self._awake.set()

    def probe_now(self) -> float:
        """Has it looked at as soon as that may be, Nodes included; returns when (spec 7).

        Several calls are one look; it comes 1 s after the last at the earliest, and never inside the wait of a 429.
        """
        last = self._progress.look
        earliest = 0.0 if last is None else last.started + schedule.AT_LEAST
        at = max(self._at_once("asked for").at, earliest)
        self._with_nodes = True
        if at < self._next.at:
            self._next = NextLook(at, "asked for")
            self._awake.set()
        return max(self._next.at, at)  # while a look is under way, the one that was due is past

    def _at_once(self, why: str) -> NextLook:
        return NextLook(max(self._env.clock.now(), self._progress.not_before), why)

    async def _due(self) -> bool:
        """Waits for the next look, making contact meanwhile; False where it must be asked again."""
        if not self._env.ownership.observing:
            await self._sleep(None)
            return False
        now = self._env.clock.now()
        if now >= self._next.at:
            return True
        contact_at = self._next_contact()
        if contact_at is not None and contact_at <= now:
            await self._contact()
            return False
        await self._sleep(self._next.at if contact_at is None else min(self._next.at, contact_at))
        return False

    async def _sleep(self, until: float | None) -> None:
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

    def _next_contact(self) -> float | None:
        last = self._progress.contact_at
        if last is None or self._progress.failures:
            return None
        return schedule.next_contact(last, self._next.at, self._judge.subject.timings)

    async def _contact(self) -> None:
        began = self._env.clock.now()
        failure = await self._observer.contact(self._judge.subject)
        now = self._progress.contact_at = self._env.clock.now()
        if failure is not None:
            self._failed(failure)
            telling.contact_failed(self._env, self.namespace, failure, now - began)
            self._schedule(now, failure)

    # One turn: look, decide, act, say when next.

    async def _turn(self) -> None:
        self._woken = False
        last = self._progress.look
        # A look that takes longer than the interval does not make the next one late.
        due = self._next.at if last is None else max(self._next.at, last.ended)
        was_slow = last is not None and last.ended - last.started > SLOW
        async with self._env.slots.place(was_slow=was_slow):
            lag = max(self._env.clock.now() - due, 0.0)
            with_nodes, self._with_nodes = self._with_nodes, False
            counts = not with_nodes or self._apart()
            if counts:
                self._counted_at = self._env.clock.now()
            look, decision = await self._judge.look(with_nodes=with_nodes, counts=counts)
        if not self._stopping:
            self._conclude(look, decision, lag)

    def _apart(self) -> bool:
        """Whether a look that somebody asked for comes late enough after the last to count (spec 7).

        After the last that could count: else whoever asks all the time would keep every look from counting.
        """
        return self._env.clock.now() - self._counted_at >= self._env.policy.suspect_interval

    def _conclude(self, look: Look, decision: Decision, lag: float) -> None:
        """Acts, tells, and says when to look again."""
        before, self._progress.decision = self._progress.decision, decision
        self._progress.look, self._progress.contact_at = look, look.ended
        self._progress.looks += 1
        self._note_result(look)
        if before is None or (before.verdict, before.reason) != (decision.verdict, decision.reason):
            telling.verdict_changed(self._env, self.namespace, decision)  # before what comes of it
        self._scaler.advise(decision)
        self._protection.note(decision)
        self._tell(look, decision, lag)
        failure = look.result if isinstance(look.result, Failure) else None
        self._schedule(look.started, failure)

    def _note_result(self, look: Look) -> None:
        if isinstance(look.result, Failure):
            self._failed(look.result)
            return
        self._progress.failures, self._progress.not_before = 0, 0.0
        self._progress.tally = look.result

    def _failed(self, failure: Failure) -> None:
        self._progress.failures += 1
        if failure.retry_after is not None:
            asked = min(failure.retry_after, schedule.MAX_RETRY_AFTER)
            wait = max(schedule.after_failure(self._progress.failures), asked)
            self._progress.not_before = self._env.clock.now() + wait

    def _schedule(self, looked_at: float, failure: Failure | None) -> None:
        now, decision = self._env.clock.now(), self._progress.decision
        situation = Situation(
            now=now,
            looked_at=looked_at,
            failures=self._progress.failures,
            retry_after=None if failure is None else failure.retry_after,
            tally=self._progress.tally,
            candidacy=self._observer.memory.candidacy,
            counting=decision is not None and decision.reason is Reason.COUNTING,
            protected=self._protection.since is not None,
            flow_running=self._scaler.flow is not None,
            wake_at=self._scaling_from if self._scaling_from > now else None,
            gap_at=self._observer.memory.contacts.gap_at(self._judge.subject.timings),
        )
        chance = self._env.chance.random()
        self._next = schedule.next_look(situation, self._pace, self._env.policy.limit, chance)
        if self._woken:  # while the look was under way: it may not have seen what woke it
            self._next = self._at_once("woken")
        elif self._with_nodes:
            self.probe_now()

    def _tell(self, look: Look, decision: Decision, lag: float) -> None:
        state = self._portrait.note(self.status_facts(), look.ended)
        known_since = None
        if isinstance(look.result, Tally):
            known_since = schedule.known_since(look.result, self._env.policy.limit)
        numbers = {"lag": lag, "known_since": known_since, "state": state}
        telling.looked(self._env, self.namespace, look, decision, numbers)

    # What happens beside the loop.

    def ownership_changed(self) -> None:
        """Leadership was won: look at once; or lost: no flow goes on."""
        if not self._env.ownership.leading:
            self._scaler.end("this instance does not lead")
        self.wake()

    def overrides_changed(self) -> None:
        """What people decided may be another thing now; a flow that it forbids ends, and what it delayed is judged."""
        decision = self._progress.decision
        waited = decision is not None and decision.reason is Reason.NOT_SYNCED
        if self._heeding.changed() or (waited and self._judge.listed()):
            self.wake()

    def dependents_changed(self) -> None:
        """A dependent of this shoot is another one now."""
        self._scaler.poke()
        self._protection.note(self._progress.decision)

    def secret_changed(self) -> None:
        """The kubeconfig Secret is another one: look at once where that may mend what failed."""
        look = self._progress.look
        if look is None or not isinstance(look.result, Failure):
            return
        if look.result.at_once_when_credentials_change:
            self.wake()

    def cluster_changed(self, subject: Subject) -> None:
        """Another grace period or other conditions; they take effect at the next look."""
        self._judge.subject = subject

    def crashed(self, error: Exception) -> None:
        """The loop failed unexpectedly and will be started again."""
        text = f"the runner failed and is started again: {type(error).__name__}"
        failure = Failure(Reason.INTERNAL_ERROR, text, Probe.LEASE)
        decision = self._progress.decision = self._judge.failed(failure)
        now = self._env.clock.now()
        self._progress.look = Look(now, now, failure)
        self._scaler.advise(decision)

    def _flow_ended(self, _result: FlowResult) -> None:
        self._protection.note(self._progress.decision)

    # What the API shows.

    def status_facts(self) -> ShootStatus:
        """What is known, before the state and the conditions are drawn from it."""
        progress, memory = self._progress, self._observer.memory
        look = progress.look
        return ShootStatus(
            self.namespace,
            resources=self._scaler.views(),
            protected_since=self._protection.since,
            flow=None if self._scaler.flow is None else self._scaler.flow.direction,
            last_flow=self._scaler.last,
            scaling_failure="; ".join(self._scaler.failed) or None,
            standing=self._heeding.standing,
            decision=progress.decision,
            result=None if look is None else look.result,
            tally=progress.tally,
            candidacy=memory.candidacy,
            judgements=() if look is None else look.known,
            expiry=self._judge.subject.timings.expiry,
            last_look=None if look is None else look.ended,
            look_seconds=None if look is None else look.ended - look.started,
            next_look=self._next.at,
            looks=progress.looks,
            failures=progress.failures,
        )

    def outline(self, now: float) -> Outline:
        """The state of this shoot at `now`, without all that is known of it."""
        progress, flow = self._progress, self._scaler.flow
        standing = Standing(
            progress.decision,
            late=progress.tally is not None and progress.tally.candidates.expired > 0,
            protected=self._protection.since is not None,
            flow=None if flow is None else flow.direction,
            scaling_failed=bool(self._scaler.failed),
        )
        return self._portrait.outline(self._namespace, standing, now)

    def status(self) -> ShootStatus:
        """All that is known of this shoot now."""
        return self._portrait.update(self.status_facts(), self._env.clock.now())
