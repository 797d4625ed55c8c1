"""The loop of one shoot: look, decide, act, say when to look again."""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from app.core.model.probing import Decision, Failure, Probe, Reason, Tally, Verdict
from app.core.model.workloads import Direction
from app.core.ports import Watched
from app.prober import telling
from app.prober.environment import Environment
from app.prober.flowcontext import FlowResult
from app.prober.observer import Look, Observer, Subject
from app.prober.pacing import SLOW
from app.prober.portrait import Portrait
from app.prober.protecting import ProtectionWatch
from app.prober.rules import schedule, verdict
from app.prober.rules.schedule import NextLook, Pace, Situation
from app.prober.rules.tally import Stakes
from app.prober.rules.thresholds import NO_STREAK, Streak
from app.prober.scaler import Scaler
from app.prober.status import ShootStatus

_FINEST: Final = 0.001
"""Timers of the event loop have whole milliseconds and end up to one early; what is left after that is one more."""
_NEEDED_WATCHES: Final = (Watched.CLUSTERS, Watched.SECRETS, Watched.DEPENDENTS)


@dataclass(slots=True)
class Progress:
    """What one turn of the loop leaves for the next."""

    streak: Streak = NO_STREAK
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

    def __init__(self, environment: Environment, subject: Subject, scaling_from: float) -> None:
        self._env = environment
        self.subject = subject
        self._scaling_from = scaling_from
        self._observer = Observer(environment, subject.namespace)
        self._progress = Progress()
        self._next = NextLook(environment.clock.now(), "start")
        self._awake = asyncio.Event()
        self._woken = False
        """Somebody asked for a look since the last one began."""
        self._stopping = False
        self._synced = False
        self._scaler = Scaler(environment, subject.namespace, self._flow_ended)
        self._protection = ProtectionWatch(environment, subject.namespace, self._scaler)
        self._portrait = Portrait(environment.clock.now())
        policy = environment.policy
        self._pace = Pace(
            policy.probe_interval, policy.jitter, policy.suspect_interval, environment.together
        )

    @property
    def namespace(self) -> str:
        """The control-plane namespace of the shoot."""
        return self.subject.namespace

    # The loop: wait until a look is due, make contact meanwhile.

    async def run(self) -> None:
        """Looks, decides and acts until stopped."""
        self._next = self._at_once("start")
        while not self._stopping:
            if await self._due():
                await self._turn()

    async def stop(self, why: str, *, abandoning: bool = True) -> None:
        """Ends the loop and its flow; returns when the last request of the flow has been answered.

        `abandoning`: the shoot itself is no longer probed, not just this process ends.
        """
        self._stopping = True
        self._awake.set()
        await self._scaler.stop(why)
        if abandoning:
            self._protection.abandoned(why)

    def wake(self) -> None:
        """Look at once, though never inside the wait that a 429 asked for."""
        self._woken = True
        self._next = self._at_once("woken")
        self._awake.set()

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
        return schedule.next_contact(last, self._next.at, self.subject.timings)

    async def _contact(self) -> None:
        began = self._env.clock.now()
        failure = await self._observer.contact(self.subject)
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
            look, decision = await self._look_and_decide()
        if not self._stopping:
            self._conclude(look, decision, lag)

    async def _look_and_decide(self) -> tuple[Look, Decision]:
        stakes = self._scaler.stakes()
        look = await self._observer.look(self.subject, stakes)
        outcome = self._judge(look, stakes)
        outcome = await self._checked_with_seed(outcome)
        # What would be written is asked anew: it may have changed while the look was under way.
        if outcome.decision.verdict is Verdict.SCALE_DOWN and self._scaler.stakes().down_writes:
            look, outcome = await self._confirm(look, outcome)
        self._progress.streak = outcome.streak
        return look, outcome.decision

    def _judge(self, look: Look, stakes: Stakes) -> verdict.Outcome:
        streak = self._progress.streak
        if isinstance(look.result, Failure):
            return verdict.decide_failure(look.result, streak)
        assessed = self._assess(look.result, stakes)
        # Looks are apart by their begins, as they are scheduled: how long one took must not lose a count.
        at, thresholds = look.started, self._thresholds(stakes)
        return verdict.decide(assessed, self._gates(), thresholds, streak, at)

    def _assess(self, tally: Tally, stakes: Stakes) -> verdict.Assessment:
        limit = self._env.policy.limit
        assessed = verdict.assess(tally, limit, protected=stakes.protected)
        text = verdict.explain(tally, limit, self.subject.timings.expiry)
        return replace(assessed, message=text)

    def _gates(self) -> verdict.Gates:
        return verdict.Gates(
            synced=self._listed(),
            leading=self._env.ownership.leading,
            initial_delay_over=self._env.clock.now() >= self._scaling_from,
        )

    def _listed(self) -> bool:
        """Whether the seed has been listed; once it has, it stays so."""
        if not self._synced:
            self._synced = all(self._env.seed.watch_state(each).synced for each in _NEEDED_WATCHES)
        return self._synced

    def _thresholds(self, stakes: Stakes) -> verdict.Thresholds:
        policy = self._env.policy
        return verdict.Thresholds(
            policy.failure_threshold,
            policy.success_threshold,
            policy.suspect_interval,
            stakes.protected,
            self._protection.begins,
        )

    async def _confirm(self, first: Look, outcome: verdict.Outcome) -> tuple[Look, verdict.Outcome]:
        """A scale-down that would write is confirmed by a second reading, judged like any other."""
        second = await self._observer.confirm(self.subject, first)
        look = replace(second, started=first.started, probes={**first.probes, **second.probes})
        if isinstance(second.result, Failure):
            return look, verdict.decide_failure(second.result, outcome.streak)
        again = self._assess(second.result, self._scaler.stakes())
        if again.verdict is not Verdict.SCALE_DOWN:
            return look, verdict.unconfirmed(again, outcome.decision)
        return look, replace(outcome, decision=replace(outcome.decision, message=again.message))

    async def _checked_with_seed(self, outcome: verdict.Outcome) -> verdict.Outcome:
        """What a verdict that writes needs of a stale watch is read live; if that fails it is HOLD."""
        direction, stakes = outcome.decision.verdict.direction, self._scaler.stakes()
        down = direction is Direction.DOWN
        if direction is None or not (stakes.down_writes if down else stakes.up_writes):
            return outcome
        found = await self._observer.live_where_stale(self.subject, down=down)
        if isinstance(found, Subject):
            changed, self.subject = found != self.subject, found
            if down or not changed:  # the way down is judged by it when it is confirmed
                return outcome
            found = Failure(Reason.SEED_STALE, "the Shoot has changed; it is judged anew")
        held = verdict.decide_failure(found, outcome.streak)
        return replace(held, decision=replace(held.decision, would_be=outcome.decision.verdict))

    def _conclude(self, look: Look, decision: Decision, lag: float) -> None:
        """Acts, tells, and says when to look again."""
        before, self._progress.decision = self._progress.decision, decision
        self._progress.look, self._progress.contact_at = look, look.ended
        self._progress.looks += 1
        self._note_result(look)
        self._scaler.advise(decision)
        self._protection.note(decision)
        self._tell(look, decision, lag)
        if before is None or (before.verdict, before.reason) != (decision.verdict, decision.reason):
            telling.verdict_changed(self._env, self.namespace, decision)
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
            gap_at=self._observer.memory.contacts.gap_at(self.subject.timings),
        )
        chance = self._env.chance.random()
        self._next = schedule.next_look(situation, self._pace, self._env.policy.limit, chance)
        if self._woken:  # while the look was under way: it may not have seen what woke it
            self._next = self._at_once("woken")

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
        self.subject = subject

    def crashed(self, error: Exception) -> None:
        """The loop failed unexpectedly and will be started again."""
        text = f"the runner failed and is started again: {type(error).__name__}"
        failure = Failure(Reason.INTERNAL_ERROR, text, Probe.LEASE)
        outcome = verdict.decide_failure(failure, self._progress.streak)
        self._progress.decision, self._progress.streak = outcome.decision, outcome.streak
        now = self._env.clock.now()
        self._progress.look = Look(now, now, failure)
        self._scaler.advise(outcome.decision)

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
            decision=progress.decision,
            result=None if look is None else look.result,
            tally=progress.tally,
            candidacy=memory.candidacy,
            judgements=() if look is None else look.known,
            expiry=self.subject.timings.expiry,
            last_look=None if look is None else look.ended,
            look_seconds=None if look is None else look.ended - look.started,
            next_look=self._next.at,
            looks=progress.looks,
            failures=progress.failures,
        )

    def status(self) -> ShootStatus:
        """All that is known of this shoot now."""
        return self._portrait.update(self.status_facts(), self._env.clock.now())
