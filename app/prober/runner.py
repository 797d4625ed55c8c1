"""The loop of one shoot: probe, decide, act, schedule the next probe.

Each shoot that is probed has one `ShootRunner`. It sleeps until a probe is due, and makes contact with the shoot's
storage in between where probes are far apart (rules 3.1). A probe ends in a reading or a failure; `verdicts` turns it
into a decision, the `Scaler` starts, confirms or ends a scaling run accordingly, and `rules.schedule` says when the
next probe is due. The loop never waits for a scaling run. Events from outside (leadership, overrides, gates, watches)
never start a run themselves: they bring the next probe forward, or end a run.
"""

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
from app.prober.scaling.context import ScalingResult, one_line_each
from app.prober.scaling.run import Scaler
from app.prober.shoot_session import ProbedShoot, Reading, ShootProbe
from app.prober.status import ShootStatus, ShootSummary, StatusTracker
from app.prober.verdicts import Judge, OverrideEnforcer, ProtectionWatch, VerdictContext

# A probe that begins this many seconds late resets the counts (rules 4.1): the process was frozen in between.
_STOOD_STILL: Final = 15.0


@dataclass(slots=True)
class RunnerProgress:
    """What one turn of the loop passes on to the next; times are instants of the process's clock, in seconds."""

    probes: int = 0
    reading: Reading | None = None
    decision: Decision | None = None
    tally: Tally | None = None
    """Of the last probe in lease mode that did not fail."""
    read_at: float | None = None
    """When that probe ended."""
    asked: state.LastDirection | None = None
    """The direction that the leases, or the two paths, last asked for."""
    vanished: bool = False
    """At the last probe no lease counted any more (`state.vanished`)."""
    contact_at: float | None = None
    """When the last probe or contact ended, whether it succeeded or not."""


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
        """Sets the runner up; `run` starts probing.

        Args:
            environment: what all runners share.
            subject: the shoot, as of its Cluster.
            scaler: the shoot's scaler; it may outlive the runner.
            scaling_from: when `initialDelay` ends.
            closed_by: returns why a closed gate keeps a scale-down from starting; None while every gate is open.
        """
        self._env = environment
        self._namespace = subject.namespace
        self._scaling_from = scaling_from
        self._probe: ShootProbe = _shoot_probe(environment, subject.namespace)
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
            self._probe,
            VerdictContext(scaler, self._protection, self._enforcer, scaling_from, self._closed_by),
        )
        now = environment.clock.now()
        self._status = StatusTracker(now)
        self._consumer = environment.connector.consumer(subject.namespace)
        self._spent = self._consumer.spent
        self._balance = TimeBalance(now)
        """How much of the event loop's time this shoot's answers may still take."""
        self._less_often = False

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def has_probed(self) -> bool:
        """Whether at least one probe has ended, successfully or not."""
        return self._progress.probes > 0

    @property
    def protected_since(self) -> float | None:
        """When the active protection began; None if protection is not active."""
        return self._protection.since

    # The loop: wait until a probe is due, make contact meanwhile.

    async def run(self) -> None:
        self._schedule.start()
        while not self._stopping:
            if await self._due():
                await self._turn()

    async def stop(self, why: str, *, abandoning: bool = True) -> None:
        """Ends the loop and its scaling run; returns when the run's last request has been answered.

        Args:
            why: the reason, for messages.
            abandoning: the shoot is no longer to be probed, as opposed to the process ending. A forced manual
                scaling run then goes on.
        """
        first, self._stopping = not self._stopping, True
        self._schedule.rouse()
        await self._scaler.stop(why, forced_too=not abandoning)
        if not first:
            return  # called a second time: the process ends while the first call still waits for the scaling run
        self._scaler.unsubscribe(self._run_ended)
        if abandoning:
            self._protection.abandoned(why)

    def wake(self) -> None:
        """Makes the next probe due at once, or at the end of a wait that a 429 or the shoot's time balance demands."""
        self._schedule.wake()

    def probe_now(self) -> float:
        """Schedules a probe that reads Nodes, as soon as the rules allow; returns the instant of that probe."""
        return self._schedule.ask(self._progress.reading)

    async def _due(self) -> bool:
        """Takes one step of the wait, a sleep or a contact; returns True once a probe is due."""
        if not self._env.leadership.may_probe:
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
        return self._probe.next_contact(last, self._schedule.next.at, self._judge.subject)

    async def _contact(self) -> None:
        began = self._env.clock.now()
        failure = await self._probe.contact(self._judge.subject)
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
        """Passes the decision on to scaler, status and messages, and schedules the next probe."""
        begun = stopwatch()
        before, self._progress.decision = self._progress.decision, decision
        self._progress.reading, self._progress.contact_at = reading, reading.ended
        self._progress.probes += 1
        self._note_result(reading, decision)
        # Reported before `on_verdict`, so that in log and history the verdict stands before the run that it starts.
        if before is None or (before.verdict, before.reason) != (decision.verdict, decision.reason):
            messages.verdict_changed(self._env, self.namespace, before, decision)
        self._scaler.on_verdict(decision)
        self._protection.note(decision)
        self._consumer.charge(stopwatch() - begun)
        self._weigh()
        self._tell(reading, decision, lag)
        failure = reading.result if isinstance(reading.result, Failure) else None
        self._plan_next(reading.started, failure)
        self.gate_changed()  # the gate may have opened since the verdict was made

    @property
    def _rests(self) -> bool:
        return self._balance.rests_until > self._env.clock.now()

    def _weigh(self) -> None:
        """Charges the time that the answers took to the shoot's share (rules 4.4), and reports what follows from it."""
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

    def _plan_next(self, probed_at: float, failure: Failure | None) -> None:
        now, decision = self._env.clock.now(), self._progress.decision
        inputs = ScheduleInputs(
            now=now,
            probed_at=probed_at,
            failures=self._schedule.failures,
            retry_after=None if failure is None else failure.retry_after,
            tally=self._progress.tally,
            candidacy=self._probe.candidacy,
            counting=decision is not None and decision.reason is VerdictReason.COUNTING,
            protected=self._protection.since is not None,
            run_in_progress=self._scaler.scaling_run is not None,
            wake_at=self._scaling_from if self._scaling_from > now else None,
            gap_at=self._probe.gap_at(self._judge.subject),
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
        """Endpoint mode: how many seconds to wait after a failure of the internal path; None if it did not fail."""
        policy = self._env.policy
        if not policy.endpoint_mode or failure is None or failure.probe is not RequestKind.INTERNAL:
            return None
        failed = paths.counts(Route.INTERNAL, failure.reason)
        return policy.internal_failure_backoff if failed else None

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
        """Probes at once; if leadership was lost, ends the scaling run first."""
        if not self._env.leadership.leading:
            self._scaler.end("this instance is not the leader")
        self.wake()

    def overrides_changed(self) -> None:
        """Ends a run that overrides now forbid, and probes at once if they changed or the verdict waited for them."""
        decision = self._progress.decision
        waited = decision is not None and decision.reason is VerdictReason.NOT_SYNCED
        if self._enforcer.changed() or (waited and self._judge.listed()):
            self.wake()

    def dependents_changed(self) -> None:
        """Called when the watch shows another version of one of the shoot's dependents."""
        self._scaler.recheck()
        self._protection.note(self._progress.decision)

    def gate_changed(self) -> None:
        """Probes at once if a closed gate had held back a scale-down, and is open now."""
        self._judge.gate_changed()
        decision = self._progress.decision
        if (
            decision is not None
            and decision.reason is VerdictReason.GATED
            and self._closed_by() is None
        ):
            self.wake()

    def secret_changed(self) -> None:
        """Called when the kubeconfig Secret changed: probes at once if the last probe failed because of credentials."""
        reading = self._progress.reading
        if reading is None or not isinstance(reading.result, Failure):
            return
        if reading.result.at_once_when_credentials_change:
            self.wake()

    def cluster_changed(self, subject: ProbedShoot) -> None:
        """Takes a new grace period or new node conditions; they take effect at the next probe."""
        self._judge.subject = subject

    def crashed(self, error: Exception) -> None:
        """Records HOLD with an internal error; called when `run` raised, before it is started again."""
        text = f"the runner failed and is started again: {type(error).__name__}"
        paths = self._env.policy.endpoint_mode
        probe = RequestKind.INTERNAL if paths else RequestKind.LEASE
        failure = Failure(VerdictReason.INTERNAL_ERROR, text, probe)
        decision = self._progress.decision = self._judge.failed(failure)
        now = self._env.clock.now()
        self._progress.reading = Reading(now, now, failure)
        self._scaler.on_verdict(decision)

    def _run_ended(self, _result: ScalingResult) -> None:
        self._protection.note(self._progress.decision)

    # What the API shows.

    def status_facts(self) -> ShootStatus:
        """What is known of the shoot, without the state and the conditions, which `StatusTracker` derives from it."""
        progress, probe = self._progress, self._probe
        reading, kept_back = progress.reading, self._kept_back()
        return ShootStatus(
            self.namespace,
            resources=self._scaler.views(),
            protected_since=self._protection.since,
            running=None
            if self._scaler.scaling_run is None
            else self._scaler.scaling_run.direction,
            last_run=self._scaler.last,
            scaling_failure="; ".join(one_line_each(self._scaler.failed)) or None,
            unavailable=self._scaler.unavailable,
            effective=self._enforcer.effective,
            decision=progress.decision,
            result=None if reading is None else reading.result,
            tally=progress.tally,
            read_at=progress.read_at,
            facts=self._facts(kept_back),
            kept_back=None if kept_back is None else kept_back[1],
            candidacy=probe.candidacy,
            paths=probe.paths,
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
        """The shoot's state at `now`: cheaper than `status`, for lists and metrics."""
        return self._status.summary(self._namespace, self._facts(self._kept_back()), now)

    def _kept_back(self) -> Obstacle | None:
        asked = self._progress.asked
        if asked is None or asked.verdict is not Verdict.SCALE_DOWN:
            return None  # the usual case; finding out what a scale-down would write costs a little
        return self._judge.kept_back(self._enforcer.effective)

    def _facts(self, kept_back: Obstacle | None) -> state.StateInputs:
        progress, scaling_run = self._progress, self._scaler.scaling_run
        return state.StateInputs(
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
        return self._status.update(self.status_facts(), self._env.clock.now())


def _shoot_probe(environment: ProberEnvironment, namespace: str) -> ShootProbe:
    if not environment.policy.endpoint_mode:
        return LeaseProbe(environment, namespace)
    return PathProbe(environment, namespace)
