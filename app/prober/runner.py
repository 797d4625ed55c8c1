"""The loop of one shoot: probe, decide, act, say when to probe again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.core.clock import stopwatch
from app.core.model.probing import (
    Decision,
    Failure,
    PathReading,
    RequestKind,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.shoots import Route
from app.prober import messages
from app.prober.environment import SLOW, ProberEnvironment
from app.prober.lease_probe import LeaseProbe
from app.prober.path_probe import PathProbe
from app.prober.probe_schedule import ProbeSchedule
from app.prober.rules import paths, state
from app.prober.rules.schedule import ScheduleInputs, TimeBalance
from app.prober.rules.verdict import Obstacle
from app.prober.scaler import Scaler
from app.prober.scaling_context import ScalingResult
from app.prober.shoot_session import ProbedShoot, Reading, ShootProbe
from app.prober.status import ShootStatus, ShootSummary, StatusTracker
from app.prober.verdicts import Judge, OverrideEnforcer, ProtectionWatch, VerdictContext

_STOOD_STILL: Final = 15.0
"""A probe that is begun so many seconds late is not in a row with the one before: this process was frozen meanwhile."""


@dataclass(slots=True)
class RunnerProgress:
    """What one turn of the loop leaves for the next."""

    probes: int = 0
    reading: Reading | None = None
    decision: Decision | None = None
    tally: Tally | None = None
    """Of the last probe that ended in a reading."""
    read_at: float | None = None
    """When that one ended."""
    asked: state.LastDirection | None = None
    """What the leases, or the two paths, asked for last."""
    vanished: bool = False
    """At the last probe no lease counts any more."""
    contact_at: float | None = None
    """When contact was last made or tried."""


class ShootRunner:
    """Probes one shoot until it is stopped."""

    def __init__(
        self,
        environment: ProberEnvironment,
        subject: ProbedShoot,
        scaler: Scaler,
        scaling_from: float,
        closed_by: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`closed_by`: why endpoint probes keep a scale-down from starting now; None where they do not."""
        self._env = environment
        self._namespace = subject.namespace
        self._scaling_from = scaling_from
        self._observer: ShootProbe = _observer(environment, subject.namespace)
        self._closed_by = closed_by
        self._progress = RunnerProgress()
        self._schedule = ProbeSchedule(environment)
        self._stopping = False
        self._scaler = scaler
        scaler.subscribe(self._run_ended)
        self._protection = ProtectionWatch(environment, subject.namespace, self._scaler)
        self._enforcer = OverrideEnforcer(environment, subject.namespace, scaler)
        self._judge = Judge(
            environment,
            subject,
            self._observer,
            VerdictContext(scaler, self._protection, self._enforcer, scaling_from, self._closed_by),
        )
        now = environment.clock.now()
        self._status = StatusTracker(now)
        self._consumer = environment.connector.consumer(subject.namespace)
        self._spent = self._consumer.spent
        self._balance = TimeBalance(now)
        """Of the time that its answers may take."""
        self._less_often = False

    @property
    def namespace(self) -> str:
        """The control-plane namespace of the shoot."""
        return self._namespace

    @property
    def looked(self) -> bool:
        """Whether a probe has ended, whatever it saw."""
        return self._progress.probes > 0

    @property
    def protected_since(self) -> float | None:
        """When the active protection began; None while none is active."""
        return self._protection.since

    # The loop: wait until a probe is due, make contact meanwhile.

    async def run(self) -> None:
        """Looks, decides and acts until stopped."""
        self._schedule.start()
        while not self._stopping:
            if await self._due():
                await self._turn()

    async def stop(self, why: str, *, abandoning: bool = True) -> None:
        """Ends the loop and its scaling run; returns when the last request of the scaling run has been answered.

        `abandoning`: the shoot itself is no longer probed, not just this process ends; a scaling run that a person
        forced goes on then.
        """
        first, self._stopping = not self._stopping, True
        self._schedule.rouse()
        await self._scaler.stop(why, forced_too=not abandoning)
        if not first:
            return  # the process ends while the end of the shoot is awaited
        self._scaler.unsubscribe(self._run_ended)
        if abandoning:
            self._protection.abandoned(why)

    def wake(self) -> None:
        """Look at once, though never inside the wait that a 429 asked for."""
        self._schedule.wake()

    def probe_now(self) -> float:
        """Has it looked at as soon as that may be, Nodes included; returns when."""
        return self._schedule.ask(self._progress.reading)

    async def _due(self) -> bool:
        """Waits for the next probe, making contact meanwhile; False where it must be asked again."""
        if not self._env.leadership.observing:
            await self._schedule.sleep(None)
            return False
        now = self._env.clock.now()
        if now >= self._schedule.next.at:
            return True
        contact_at = self._next_contact()
        if contact_at is not None and contact_at <= now:
            await self._contact()
            return False
        await self._schedule.sleep(
            self._schedule.next.at
            if contact_at is None
            else min(self._schedule.next.at, contact_at)
        )
        return False

    def _next_contact(self) -> float | None:
        last = self._progress.contact_at
        if last is None or self._schedule.failures or self._rests:
            return None
        return self._observer.next_contact(last, self._schedule.next.at, self._judge.subject)

    async def _contact(self) -> None:
        began = self._env.clock.now()
        failure = await self._observer.contact(self._judge.subject)
        now = self._progress.contact_at = self._env.clock.now()
        if failure is not None:
            self._schedule.failed(failure)
            messages.contact_failed(self._env, self.namespace, failure, now - began)
            self._weigh()
            self._plan_next(now, failure)

    # One turn: probe, decide, act, say when next.

    async def _turn(self) -> None:
        self._schedule.turn()
        last = self._progress.reading
        # A probe that takes longer than the interval does not make the next one late.
        due = self._schedule.next.at if last is None else max(self._schedule.next.at, last.ended)
        if self._env.clock.now() - due > _STOOD_STILL:
            self._judge.stood_still()
        was_slow = last is not None and last.ended - last.started > SLOW
        async with self._env.slots.place(was_slow=was_slow):
            lag = max(self._env.clock.now() - due, 0.0)
            with_nodes, counts = self._schedule.begin()
            reading, decision = await self._judge.probe(with_nodes=with_nodes, counts=counts)
        if not self._stopping:
            self._conclude(reading, decision, lag)

    def _conclude(self, reading: Reading, decision: Decision, lag: float) -> None:
        """Acts, tells, and says when to probe again."""
        begun = stopwatch()
        before, self._progress.decision = self._progress.decision, decision
        self._progress.reading, self._progress.contact_at = reading, reading.ended
        self._progress.probes += 1
        self._note_result(reading, decision)
        # told before what comes of it
        if before is None or (before.verdict, before.reason) != (decision.verdict, decision.reason):
            messages.verdict_changed(self._env, self.namespace, before, decision)
        self._scaler.advise(decision)
        self._protection.note(decision)
        self._consumer.charge(stopwatch() - begun)
        self._weigh()
        self._tell(reading, decision, lag)
        failure = reading.result if isinstance(reading.result, Failure) else None
        self._plan_next(reading.started, failure)
        self.gate_changed()  # it may have opened since the verdict was made

    @property
    def _rests(self) -> bool:
        return self._balance.rests_until > self._env.clock.now()

    def _weigh(self) -> None:
        """Takes what its answers took off its share of time; tells where that makes it probed less often."""
        spent, self._spent = self._consumer.spent - self._spent, self._consumer.spent
        self._balance = self._balance.after(spent, self._env.clock.now())
        if self._rests and not self._less_often:
            messages.probed_less_often(self._env, self.namespace)
        elif self._less_often and self._balance.restored:
            messages.probed_as_usual(self._env, self.namespace)
        self._less_often = not self._balance.restored and (self._less_often or self._rests)

    def _note_result(self, reading: Reading, decision: Decision) -> None:
        progress = self._progress
        progress.vanished = state.vanished(progress.asked, reading.result, decision)
        progress.asked = state.asked(progress.asked, reading.result, decision)
        if isinstance(reading.result, Failure):
            self._schedule.failed(reading.result)
            return
        self._schedule.succeeded()
        if isinstance(reading.result, Tally):
            progress.tally, progress.read_at = reading.result, reading.ended

    def _plan_next(self, looked_at: float, failure: Failure | None) -> None:
        now, decision = self._env.clock.now(), self._progress.decision
        inputs = ScheduleInputs(
            now=now,
            looked_at=looked_at,
            failures=self._schedule.failures,
            retry_after=None if failure is None else failure.retry_after,
            tally=self._progress.tally,
            candidacy=self._observer.candidacy,
            counting=decision is not None and decision.reason is VerdictReason.COUNTING,
            protected=self._protection.since is not None,
            run_in_progress=self._scaler.scaling_run is not None,
            wake_at=self._scaling_from if self._scaling_from > now else None,
            gap_at=self._observer.gap_at(self._judge.subject),
            path_fails=self._path_fails(),
            backoff=self._backoff(failure),
            rests_until=self._balance.rests_until,
        )
        self._schedule.plan(inputs, self._progress.reading)

    def _path_fails(self) -> bool:
        reading, decision = self._progress.reading, self._progress.decision
        if reading is None or decision is None or not isinstance(reading.result, PathReading):
            return False
        return decision.would_be is Verdict.SCALE_DOWN

    def _backoff(self, failure: Failure | None) -> float | None:
        """Seconds that a failure of the internal path asks to wait."""
        mode = self._env.policy.endpoint_mode
        if mode is None or failure is None or failure.probe is not RequestKind.INTERNAL:
            return None
        failed = paths.counts(Route.INTERNAL, failure.reason)
        return mode.internal_failure_backoff if failed else None

    def _tell(self, reading: Reading, decision: Decision, lag: float) -> None:
        word = self._status.note(self.status_facts(), reading.ended)
        numbers = {
            "lag": lag,
            "known_since": self._judge.known_since(reading),
            "state": word,
            "postponed": self._rests,
        }
        messages.probed(self._env, self.namespace, reading, decision, numbers)

    # What happens beside the loop.

    def leadership_changed(self) -> None:
        """Leadership was won: probe at once; or lost: no scaling run goes on."""
        if not self._env.leadership.leading:
            self._scaler.end("this instance does not lead")
        self.wake()

    def overrides_changed(self) -> None:
        """Applies overrides that may have changed: ends a run that they forbid, decides again what they held back."""
        decision = self._progress.decision
        waited = decision is not None and decision.reason is VerdictReason.NOT_SYNCED
        if self._enforcer.changed() or (waited and self._judge.listed()):
            self.wake()

    def dependents_changed(self) -> None:
        """A dependent of this shoot is another one now."""
        self._scaler.poke()
        self._protection.note(self._progress.decision)

    def gate_changed(self) -> None:
        """An endpoint probe counted another result: probe at once where it had held back a scale-down."""
        self._judge.gate_changed()
        decision = self._progress.decision
        if (
            decision is not None
            and decision.reason is VerdictReason.GATED
            and self._closed_by() is None
        ):
            self.wake()

    def secret_changed(self) -> None:
        """The kubeconfig Secret is another one: probe at once where that may mend what failed."""
        reading = self._progress.reading
        if reading is None or not isinstance(reading.result, Failure):
            return
        if reading.result.at_once_when_credentials_change:
            self.wake()

    def cluster_changed(self, subject: ProbedShoot) -> None:
        """Another grace period or other conditions; they take effect at the next probe."""
        self._judge.subject = subject

    def crashed(self, error: Exception) -> None:
        """The loop failed unexpectedly and will be started again."""
        text = f"the runner failed and is started again: {type(error).__name__}"
        mode = self._env.policy.endpoint_mode
        probe = RequestKind.LEASE if mode is None else RequestKind.INTERNAL
        failure = Failure(VerdictReason.INTERNAL_ERROR, text, probe)
        decision = self._progress.decision = self._judge.failed(failure)
        now = self._env.clock.now()
        self._progress.reading = Reading(now, now, failure)
        self._scaler.advise(decision)

    def _run_ended(self, _result: ScalingResult) -> None:
        self._protection.note(self._progress.decision)

    # What the API shows.

    def status_facts(self) -> ShootStatus:
        """What is known, before the state and the conditions are drawn from it."""
        progress, observer = self._progress, self._observer
        reading, kept_back = progress.reading, self._kept_back()
        return ShootStatus(
            self.namespace,
            resources=self._scaler.views(),
            protected_since=self._protection.since,
            running=None
            if self._scaler.scaling_run is None
            else self._scaler.scaling_run.direction,
            last_run=self._scaler.last,
            scaling_failure="; ".join(self._scaler.failed) or None,
            unavailable=self._scaler.unavailable,
            effective=self._enforcer.effective,
            decision=progress.decision,
            result=None if reading is None else reading.result,
            tally=progress.tally,
            read_at=progress.read_at,
            facts=self._facts(kept_back),
            kept_back=None if kept_back is None else kept_back[1],
            candidacy=observer.candidacy,
            paths=observer.paths,
            judgements=() if reading is None else reading.known,
            expiry=self._judge.subject.timings.expiry,
            last_probe=None if reading is None else reading.ended,
            probe_seconds=None if reading is None else reading.ended - reading.started,
            next_probe=self._schedule.next.at,
            probes=progress.probes,
            failures=self._schedule.failures,
            less_often=self._less_often,
        )

    def summary(self, now: float) -> ShootSummary:
        """The state of this shoot at `now`, without all that is known of it."""
        return self._status.summary(self._namespace, self._facts(self._kept_back()), now)

    def _kept_back(self) -> Obstacle | None:
        asked = self._progress.asked
        if asked is None or asked.verdict is not Verdict.SCALE_DOWN:
            return None  # as almost always; what is at stake costs a little to find out
        return self._judge.kept_back(self._enforcer.effective)

    def _facts(self, kept_back: Obstacle | None) -> state.StateFacts:
        progress, scaling_run = self._progress, self._scaler.scaling_run
        return state.StateFacts(
            progress.decision,
            late=progress.tally is not None and progress.tally.candidates.expired > 0,
            asked=progress.asked,
            vanished=progress.vanished,
            kept_back=None if kept_back is None else kept_back[0],
            protected=self._protection.since is not None,
            running=None if scaling_run is None else scaling_run.direction,
            scaling_failed=bool(self._scaler.failed),
        )

    def status(self) -> ShootStatus:
        """All that is known of this shoot now."""
        return self._status.update(self.status_facts(), self._env.clock.now())


def _observer(environment: ProberEnvironment, namespace: str) -> ShootProbe:
    """Who probes, in the mode that is configured."""
    if environment.policy.endpoint_mode is None:
        return LeaseProbe(environment, namespace)
    return PathProbe(environment, namespace)
