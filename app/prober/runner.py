"""The loop of one shoot: probe, decide, apply, say when to look again.

Each shoot that is probed has one `ShootRunner`. It sleeps until a probe is due (`ProbeSchedule`), and makes contact
with the shoot's storage in between where probes are far apart (rules 3.1). A probe ends in a reading or a failure;
`rules.verdict` makes a decision of it, with its plan, the `Scaler` starts, confirms or ends a scaling run accordingly,
and `rules.schedule` says when the next probe is due. The loop never waits for a scaling run. Events from outside
(leadership, overrides, gates, watches) never start a run themselves: they bring the next probe forward, or end a run.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from app.core.clock import stopwatch
from app.core.model.probing import (
    Decision,
    Failure,
    PathReading,
    Reading,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.scaling_runs import ScalingRunStatus
from app.core.model.workloads import Direction, ResourceRef
from app.core.ports import Watched
from app.prober import messages
from app.prober.environment import SLOW, ProberEnvironment
from app.prober.rules import schedule, state, verdict
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.scaling.run import Scaler
from app.prober.shoot_probe import LeaseProbe, PathProbe
from app.prober.status import ProtectionWatch, ShootStatus, ShootSummary, StatusTracker

# A probe that begins to wait for its slot this many seconds late resets the counts (rules 4.1): the process was frozen.
_STOOD_STILL: Final = 15.0
# Shortest sleep in seconds: the event loop's timers have whole milliseconds and may fire up to one early.
_FINEST: Final = 0.001
_NEEDED_WATCHES: Final = (Watched.CLUSTERS, Watched.SECRETS, Watched.DEPENDENTS)


def listed(environment: ProberEnvironment) -> bool:
    """Whether Clusters, Secrets, dependents and overrides have each been listed once (rules 4.1, synced)."""
    watches = (environment.seed.watch_state(each) for each in _NEEDED_WATCHES)
    return all(each.synced for each in watches) and environment.overrides.synced


class ShootRunner:
    """Probes one shoot until it is stopped."""

    def __init__(
        self,
        environment: ProberEnvironment,
        shoot: ProbedShoot,
        scaler: Scaler,
        scaling_from: float,
        closed_by: Callable[[], str | None] | None = None,
    ) -> None:
        """Sets the runner up; `run` starts probing.

        Args:
            environment: what all runners share.
            shoot: the facts of the Shoot, as of its Cluster.
            scaler: the shoot's scaler; it may outlive the runner.
            scaling_from: when `initialDelay` ends.
            closed_by: returns why a closed gate keeps a scale-down from starting, and None while every gate is open;
                left out where there are no gates.
        """
        self._env, self._shoot, self._scaler = environment, shoot, scaler
        self.namespace = shoot.namespace
        self._scaling_from, self._closed_by = scaling_from, closed_by or (lambda: None)
        of_mode = PathProbe if environment.policy.endpoint_mode else LeaseProbe
        self._probe = of_mode(environment, shoot.namespace)
        self._schedule = ProbeSchedule(environment)
        self._stopping = False
        scaler.subscribe(self._run_ended)
        self._protection = ProtectionWatch(environment, shoot.namespace, scaler)
        self._effective = environment.overrides.effective(shoot.namespace)
        """The overrides in force when they were last read."""
        self._synced = False
        self._gated: str | None = None
        """Why a gate was closed at any time since the probe under way began; None if all were open throughout."""
        now = environment.clock.now()
        self._status = StatusTracker(now)
        self._consumer = environment.connector.consumer(shoot.namespace)
        self._spent = self._consumer.spent
        self._balance = schedule.TimeBalance(now)
        """How much of the event loop's time this shoot's answers may still take."""
        self._less_often = False

        # What one probe leaves to the next; times are instants of the process's clock, in seconds.
        self._probes = 0
        self._reading: Reading | None = None
        self._decision: Decision | None = None
        self._consecutive: verdict.ConsecutiveResults = verdict.NO_RESULTS
        self._tally: Tally | None = None
        """Of the last probe in lease mode that did not fail."""
        self._read_at: float | None = None
        """When that probe ended."""
        self._last_direction: state.LastDirection | None = None
        """The direction that the leases, or the two paths, last asked for."""
        self._vanished = False
        """At the last probe no lease counted any more (`state.vanished`)."""
        self._standing_by_since: float | None = None
        """Since when this standby has not probed, as the leader renews its Lease; None while it probes."""
        self._warned: list[tuple[ResourceRef, str]] = []
        """The annotations that mean nothing and were reported, by resource and warning."""

    @property
    def has_probed(self) -> bool:
        """Whether at least one probe has ended, successfully or not."""
        return self._probes > 0

    @property
    def uid(self) -> str:
        """Of the Cluster whose shoot it probes."""
        return self._shoot.uid

    @property
    def protected_since(self) -> float | None:
        """When the active protection began; None if protection is not active."""
        return self._protection.since

    # The loop: wait until a probe is due, make contact meanwhile.

    async def run(self) -> None:
        self._schedule.start()
        self._warn_of_annotations()
        while not self._stopping:
            if await self._due():
                await self._probe_once()

    async def _due(self) -> bool:
        """Takes one step of the wait, a sleep or a contact; returns True once a probe is due."""
        if not self._env.leadership.may_probe:
            if self._standing_by_since is None:
                self._standing_by_since = self._env.clock.now()
            await self._schedule.sleep(None)
            return False
        now, probe_at, contact_at = self._env.clock.now(), self._schedule.next_at, None
        if self._standing_by_since is not None:
            self._probe.resume(self._shoot, now - self._standing_by_since)
            self._standing_by_since = None
        if now >= probe_at:
            return True
        if not self._schedule.failures and not self._rests:
            contact_at = self._probe.next_contact(probe_at, self._shoot)
        if contact_at is not None and contact_at <= now:
            await self._contact()
        else:
            await self._schedule.sleep(
                probe_at if contact_at is None else min(probe_at, contact_at)
            )
        return False

    async def _contact(self) -> None:
        began = self._env.clock.now()
        failure = await self._probe.contact(self._shoot)
        now = self._env.clock.now()
        if failure is not None:
            self._schedule.failed(failure)
            messages.contact_failed(self._env, self.namespace, failure, now - began)
            self._charge_time()
            self._plan_next(now, failure)

    # One probe.

    async def _probe_once(self) -> None:
        """Probes, decides and applies the decision: the story of everything that this program does to a shoot."""
        self._schedule.forget_wakes()
        last = self._reading
        # A probe that takes longer than the interval does not make the next one late.
        due = self._schedule.next_at if last is None else max(self._schedule.next_at, last.ended)
        if self._env.clock.now() - due > _STOOD_STILL:
            self._consecutive = verdict.NO_RESULTS  # earlier probes and this one are not in a row
        was_slow = last is not None and last.ended - last.started > SLOW
        async with self._env.slots.place(first=last is None, was_slow=was_slow):
            lag = max(self._env.clock.now() - due, 0.0)
            with_nodes, counts = self._schedule.begin()
            self._gated, pending = self._closed_by(), self._scaler.pending()

            reading = await self._probe.probe(
                self._shoot, pending, with_nodes=with_nodes, counts=counts
            )
            # What was read depends on whether protection was active when the probe began.
            outcome = verdict.decide(
                reading, self._inputs(counts=counts, protected=pending.protected)
            )

            # Dependents may have changed while the probe was under way: the plan is as of now, here and below.
            if outcome.writes:
                judged, down = self._shoot, outcome.decision.verdict is Verdict.SCALE_DOWN
                found = await self._probe.live_where_stale(judged, down=down)
                if isinstance(found, ProbedShoot) and self._shoot is judged:
                    self._shoot = found  # unless the watch has told something newer meanwhile
                outcome = verdict.after_live_read(outcome, judged, found, self._scaler.pending())
            if verdict.needs_confirmation(outcome, reading):
                # The costly direction. A lagging etcd member or a caching proxy can serve old leases for minutes, so a
                # second, consistent reading on a new connection has to say the same.
                reading = reading.followed_by(await self._probe.confirm(self._shoot, reading))
                outcome = verdict.after_second_reading(outcome, reading, self._inputs())
            # Overrides and leadership may have changed, too: they are asked last, right before the decision is applied.
            outcome = verdict.recheck_preconditions(outcome, self._preconditions())
            self._consecutive = outcome.consecutive
        if not self._stopping:
            self._apply(reading, outcome, lag)

    def _inputs(
        self, *, counts: bool = True, protected: bool | None = None
    ) -> verdict.DecisionInputs:
        pending = self._scaler.pending()
        return verdict.DecisionInputs(
            policy=self._env.policy,
            shoot=self._shoot,
            protected=pending.protected if protected is None else protected,
            begins=self._protection.begins,
            consecutive=self._consecutive,
            preconditions=self._preconditions(),
            pending=pending,
            counts=counts,
        )

    def _preconditions(self) -> verdict.Preconditions:
        self._effective = self._env.overrides.effective(self.namespace)
        return self._with_overrides_as_read()

    def _with_overrides_as_read(self) -> verdict.Preconditions:
        closed = self._closed_by()
        if closed is None and self._gated is not None:
            # Such a probe began before the gate opened. When the seed's own network comes back, a canary that runs
            # every second notices sooner than an attempt of five seconds, which still fails: that is no outage.
            closed = f"{self._gated} (open again since this probe began; the next one decides)"
        return verdict.Preconditions(
            synced=self._listed(),
            effective=self._effective,
            initial_delay_over=self._env.clock.now() >= self._scaling_from,
            leading=self._env.leadership.leading,
            closed_by=closed,
            ignored=self._scaler.pending().ignored,
        )

    def _listed(self) -> bool:
        """Whether everything that a verdict needs has been listed; once True, it stays True."""
        self._synced = self._synced or listed(self._env)
        return self._synced

    def _apply(self, reading: Reading, outcome: verdict.VerdictOutcome, lag: float) -> None:
        """Passes the decision on to scaler, status and messages, and schedules the next probe."""
        begun, decision = stopwatch(), outcome.decision
        before, self._decision = self._decision, decision
        self._reading = reading
        self._probes += 1
        failure = reading.result if isinstance(reading.result, Failure) else None
        self._vanished = state.vanished(self._last_direction, reading.result, decision)
        self._last_direction = state.last_direction(self._last_direction, reading.result, decision)
        if failure is not None:
            self._schedule.failed(failure)
        else:
            self._schedule.succeeded()
        if isinstance(reading.result, Tally):
            self._tally, self._read_at = reading.result, reading.ended
        # Reported before `on_verdict`, so that in log and history the verdict stands before the run that it starts.
        if before is None or (before.verdict, before.reason) != (decision.verdict, decision.reason):
            messages.verdict_changed(self._env, self.namespace, before, decision)
        self._scaler.on_verdict(decision, outcome.plan, reading.as_of)
        self._protection.note(decision)
        self._consumer.charge(stopwatch() - begun)
        self._charge_time()
        messages.probed(
            self._env,
            self.namespace,
            reading,
            decision,
            lag=lag,
            known_since=schedule.known_since(reading, self._env.policy, self._consecutive),
            state=self._status.note(self.status_facts(), reading.ended),
            postponed=self._rests,
        )
        self._plan_next(reading.started, failure)
        self.gate_changed()  # the gate may have opened since the verdict was made

    @property
    def _rests(self) -> bool:
        return self._balance.rests_until > self._env.clock.now()

    def _charge_time(self) -> None:
        """Charges the time that the answers took to the shoot's share (rules 4.4), and reports what follows from it."""
        spent, self._spent = self._consumer.spent - self._spent, self._consumer.spent
        self._balance = self._balance.after(spent, self._env.clock.now())
        if self._rests and not self._less_often:
            messages.probed_less_often(self._env, self.namespace)
        elif self._less_often and self._balance.restored:
            messages.probed_as_usual(self._env, self.namespace)
        self._less_often = not self._balance.restored and (self._less_often or self._rests)

    def _plan_next(self, probed_at: float, failure: Failure | None) -> None:
        now, decision = self._env.clock.now(), self._decision
        by_paths = self._reading is not None and isinstance(self._reading.result, PathReading)
        inputs = schedule.ScheduleInputs(
            now=now,
            probed_at=probed_at,
            failures=self._schedule.failures,
            retry_after=None if failure is None else failure.retry_after,
            tally=self._tally,
            candidacy=self._probe.candidacy,
            counting=decision is not None and decision.reason is VerdictReason.COUNTING,
            protected=self._protection.since is not None,
            run_in_progress=self._scaler.scaling_run is not None,
            initial_delay_ends=self._scaling_from if self._scaling_from > now else None,
            gap_at=self._probe.gap_at(self._shoot),
            path_fails=by_paths
            and decision is not None
            and decision.would_be is Verdict.SCALE_DOWN,
            backoff=None if failure is None else self._probe.backoff(failure),
            rests_until=self._balance.rests_until,
        )
        self._schedule.plan(inputs, self._reading)

    # What happens beside the loop.

    def wake(self) -> None:
        """Makes the next probe due at once, or at the end of a wait that a 429 or the shoot's time balance demands."""
        self._schedule.wake()

    def probe_now(self) -> float:
        """Schedules a probe that reads Nodes, as soon as the rules allow; returns the instant of that probe."""
        return self._schedule.ask(self._reading)

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

    def leadership_changed(self) -> None:
        """Probes at once; if leadership was lost, ends the scaling run first."""
        if not self._env.leadership.leading:
            self._scaler.end("this instance is not the leader")
        self._warn_of_annotations()
        self.wake()

    def overrides_changed(self) -> None:
        """Ends a run that overrides now forbid, and probes at once if they changed or the verdict waited for them."""
        before, self._effective = self._effective, self._env.overrides.effective(self.namespace)
        if self._effective != before:
            self._scaler.forget_verdict()
            if (scaling_run := self._scaler.scaling_run) is not None:
                if (hold := self._effective.hold) is not None:
                    self._scaler.end_automatic(f"held by {hold.author}: {hold.reason}")
                elif (pause := self._effective.pause_against(scaling_run.direction)) is not None:
                    self._scaler.end_automatic(f"paused by {pause.author}: {pause.reason}")
            self.wake()
        self._wake_if_listed()

    def _wake_if_listed(self) -> None:
        """Probes at once if the verdict waited for a list that has come."""
        waited = self._decision is not None and self._decision.reason is VerdictReason.NOT_SYNCED
        if waited and self._listed():
            self.wake()

    def dependents_changed(self) -> None:
        """Called when the watch shows another version of one of the shoot's dependents."""
        self._wake_if_listed()
        self._scaler.recheck()
        self._protection.note(self._decision)
        self._warn_of_annotations()

    def _warn_of_annotations(self) -> None:
        """Reports annotations that mean nothing as soon as they are there; so does each scaling run that meets them."""
        if not self._env.leadership.leading:
            return
        found = [
            (each.dependent.ref, warning)
            for level in self._scaler.pending().plans[Direction.UP]
            for each in level
            for warning in each.task.warnings
        ]
        for ref, warning in found:
            if (ref, warning) not in self._warned:
                messages.annotation_invalid(self._env, self.namespace, ref, warning)
        self._warned = found

    def gate_changed(self) -> None:
        """Probes at once if a closed gate had held back a scale-down, and is open now."""
        closed = self._closed_by()
        self._gated = closed or self._gated
        if closed is not None:
            self._scaler.forget_verdict(Direction.DOWN)
        gated = self._decision is not None and self._decision.reason is VerdictReason.GATED
        if gated and closed is None:
            self.wake()

    def secret_changed(self) -> None:
        """Called when the kubeconfig Secret changed: probes at once if the last probe failed because of credentials."""
        result = None if self._reading is None else self._reading.result
        if isinstance(result, Failure) and result.at_once_when_credentials_change:
            self.wake()

    def cluster_changed(self, shoot: ProbedShoot) -> None:
        """Takes a new grace period or new node conditions; they take effect at the next probe."""
        self._shoot = shoot

    def crashed(self, error: Exception) -> None:
        """Records HOLD with an internal error; called when `run` raised, before it is started again."""
        text = f"the runner failed and is started again: {type(error).__name__}"
        failure = Failure(VerdictReason.INTERNAL_ERROR, text, self._probe.blamed)
        outcome = verdict.decide_failure(failure, self._consecutive)
        self._decision, self._consecutive = outcome.decision, outcome.consecutive
        now = self._env.clock.now()
        self._reading = Reading(now, now, failure)
        self._scaler.on_verdict(self._decision, (), now)

    def _run_ended(self, _end: ScalingRunStatus) -> None:
        self._protection.note(self._decision)

    # What the API shows.

    def status_facts(self) -> ShootStatus:
        """What is known of the shoot, without the state and the conditions, which `StatusTracker` derives from it."""
        probe, reading, facts = self._probe, self._reading, self._facts()
        failures = [f"{ref}: {why}" for ref, why in self._scaler.failed.items()]
        return ShootStatus(
            self.namespace,
            resources=self._scaler.views(),
            protected_since=self._protection.since,
            running=facts.running,
            last_run=self._scaler.last,
            scaling_failure="; ".join(failures) or None,
            unavailable=self._scaler.unavailable,
            effective=self._effective,
            decision=self._decision,
            result=None if reading is None else reading.result,
            tally=self._tally,
            read_at=self._read_at,
            facts=facts,
            candidacy=probe.candidacy,
            paths=probe.paths,
            judgements=() if reading is None else reading.known,
            expiry=self._shoot.timings.expiry,
            last_probe=None if reading is None else reading.ended,
            probe_seconds=None if reading is None else reading.ended - reading.started,
            next_probe=self._schedule.next_at,
            probes=self._probes,
            failures=self._schedule.failures,
            less_often=self._less_often,
        )

    def summary(self, now: float) -> ShootSummary:
        """The shoot's state at `now`: cheaper than `status`, for lists and metrics."""
        return self._status.summary(self.namespace, self._facts(), now)

    def status(self) -> ShootStatus:
        return self._status.update(self.status_facts(), self._env.clock.now())

    def _kept_back(self) -> verdict.Obstacle | None:
        """The override that alone keeps back a scale-down which would take something down; None if there is none."""
        if self._last_direction is None or self._last_direction.verdict is not Verdict.SCALE_DOWN:
            return None  # the usual case; finding out what a scale-down would write costs a little
        pending = self._scaler.pending()
        if not pending.exposed and not pending.ignored:
            return None
        return verdict.blocking_override(self._with_overrides_as_read())

    def _facts(self) -> state.StateInputs:
        scaling_run = self._scaler.scaling_run
        return state.StateInputs(
            self._decision,
            any_expired=self._tally is not None and self._tally.candidates.expired > 0,
            last_direction=self._last_direction,
            vanished=self._vanished,
            kept_back=self._kept_back(),
            protected=self._protection.since is not None,
            running=None if scaling_run is None else scaling_run.direction,
            scaling_failed=bool(self._scaler.failed),
        )


# When the next probe is due: `rules.schedule` computes the instant from what the last probe found, and `ProbeSchedule`
# adds what happens meanwhile.


class ProbeSchedule:
    """Keeps when the next probe of one shoot is due, and lets the loop sleep until then."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        self.next_at = environment.clock.now()
        self.failures = 0
        """Failed probes and contacts in a row."""
        self._awake = asyncio.Event()
        self._woken = False
        """`wake` was called since the last probe began."""
        self._person_asked = False
        """A person asked for a probe: the next one reads Nodes, whatever it finds."""
        self._counted_at = -math.inf
        """When the last probe began that could count towards a threshold."""
        self._not_before = 0.0
        """No request before this instant: a 429 demands it, or the shoot's share of time is used up."""

    # What brings a probe forward.

    def start(self) -> None:
        """Makes the first probe due."""
        self.next_at = self._at_once()

    def wake(self) -> None:
        """Makes a probe due at once, or at the end of the wait that a 429 or the shoot's share of time demands."""
        self._woken = True
        self.next_at = self._at_once()
        self._awake.set()

    def ask(self, last: Reading | None) -> float:
        """Schedules a probe for a person; returns when it will be.

        It comes 1 s after the `last` one began at the earliest, and never within the wait that a 429 demands. Several
        calls before that share one probe.
        """
        earliest = 0.0 if last is None else last.started + schedule.AT_LEAST
        at = max(self._at_once(), earliest)
        self._person_asked = True
        if at < self.next_at:
            self.next_at = at
            self._awake.set()
        return max(self.next_at, at)  # while a probe is under way, the one that was due is past

    def _at_once(self) -> float:
        return max(self._env.clock.now(), self._not_before)

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

    def forget_wakes(self) -> None:
        """Called before a probe waits for its slot: a `wake` from now on asks for one more probe."""
        self._woken = False

    def begin(self) -> tuple[bool, bool]:
        """Called when a probe begins; returns whether a person asked for it, and whether it may count."""
        asked, self._person_asked = self._person_asked, False
        # One that a person asked for counts if it comes late enough after the last one that counted. That is not the
        # distance from the last probe: a caller that asks all the time would then keep every probe from counting.
        now = self._env.clock.now()
        counts = not asked or now - self._counted_at >= self._env.policy.suspect_interval
        if counts:
            self._counted_at = now
        return asked, counts

    def succeeded(self) -> None:
        """Called when a probe ended in a reading."""
        self.failures, self._not_before = 0, 0.0

    def failed(self, failure: Failure) -> None:
        """Called when a probe or a contact failed; after a 429, no request is made for its Retry-After."""
        self.failures += 1
        if failure.retry_after is not None:
            wait = schedule.after_failure(self.failures, failure.retry_after)
            self._not_before = self._env.clock.now() + wait

    def plan(self, inputs: schedule.ScheduleInputs, last: Reading | None) -> None:
        """Schedules the next probe by what the `last` one left behind."""
        env = self._env
        self.next_at = schedule.next_probe(inputs, env.policy, env.chance.random(), env.together)
        self._not_before = max(self._not_before, inputs.rests_until)
        if self._woken:  # while the probe was under way, so that it may have missed what changed
            self.next_at = self._at_once()
        elif self._person_asked:
            self.ask(last)
