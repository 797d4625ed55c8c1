"""Turns a probe into a verdict: assesses the reading, applies what holds it back, confirms a scale-down.

A scale-down is the costly direction, so `Judge.probe` takes these steps:

1. The reading is assessed, and counted towards the thresholds (`rules.verdict`).
2. If the verdict would write something, whatever it needs of a stale watch is read live from the seed.
3. If a scale-down would write something, a second, consistent reading on a new connection has to agree. In endpoint
   mode a second attempt by the internal path has to succeed, whether anything would be written or not.
4. Overrides, leadership and gates are checked once more, as the steps before may have taken seconds.

Whatever fails on the way makes the verdict HOLD, with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from app.core.model.overrides import EffectiveOverrides
from app.core.model.probing import Decision, Failure, PathReading, Tally, Verdict, VerdictReason
from app.core.model.scaling_runs import Trigger
from app.core.model.workloads import Direction, ResourceRef
from app.core.ports import Watched
from app.prober import messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import consecutive, paths, protection, schedule, verdict
from app.prober.rules.consecutive import NO_RESULTS, ConsecutiveResults, PendingWrites
from app.prober.scaling.run import Scaler
from app.prober.shoot_session import ProbedShoot, Reading, ShootProbe

# A protection that begins within this many seconds after a scale-down of ours counts as begun by us.
_OURS_IF_WITHIN: Final = 60.0


class ProtectionWatch:
    """Follows the protection of one shoot by its dependents' annotations, and reports its begin and its end.

    It notices a begin or an end by another process or a person, too.
    """

    def __init__(self, environment: ProberEnvironment, namespace: str, scaler: Scaler) -> None:
        self._env = environment
        self._namespace = namespace
        self._scaler = scaler
        self.begins: tuple[float, ...] = ()
        """When this process began protections of this shoot by itself, within the last hour (rules 4.1, flapping)."""
        self.since: float | None = None
        """When the active protection began; None if protection is not active."""
        self._read()

    @property
    def active(self) -> bool:
        """Whether a configured dependent carries the meltdown key now."""
        return protection.active(self._scaler.views().values())

    def note(self, decision: Decision | None) -> None:
        """Reads the dependents again, and reports if protection has begun or ended because of `decision`."""
        was = self.since is not None
        self._read()
        active = self.since is not None
        if active == was or not self._env.leadership.leading:
            return  # a standby keeps `since` up to date, and leaves the report to the leader
        if active and self._we_scaled_down():
            self.begins = consecutive.began(self.begins, self._env.clock.now())
        why = self._manual() or ("found in the seed" if decision is None else decision.message)
        messages.protection_changed(self._env, self._namespace, self._refs()[:1], why, began=active)

    def abandoned(self, why: str) -> None:
        """Reports that probing ends while protection is active; a standby leaves the report to the leader."""
        if not self._env.leadership.leading:
            return
        views = self._scaler.views()
        refs = [ref for ref, view in views.items() if view is not None and view.protected]
        if refs:
            messages.protection_abandoned(self._env, self._namespace, refs, why)

    def _read(self) -> None:
        views = self._scaler.views().values()
        if not protection.active(views):
            self.since = None
            return
        self.since = protection.began_at(views) or self.since or self._env.clock.now()

    def _refs(self) -> list[ResourceRef]:
        return [ref for ref, view in self._scaler.views().items() if view is not None]

    def _manual(self) -> str | None:
        """The author and reason of the manual scaling run that is under way; None if there is none."""
        scaling_run = self._scaler.scaling_run
        if scaling_run is None or not scaling_run.order.manual:
            return None
        return f"scaled {scaling_run.direction} by hand ({scaling_run.order.author}: {scaling_run.order.reason})"

    def _we_scaled_down(self) -> bool:
        """Whether an automatic run scaled down: only those count as flapping, as a person's say nothing of the path."""
        if (scaling_run := self._scaler.scaling_run) is not None:
            return scaling_run.direction is Direction.DOWN and not scaling_run.order.manual
        last = self._scaler.last
        if last is None or last.direction is not Direction.DOWN or last.trigger is Trigger.MANUAL:
            return False
        return self._env.clock.now() - last.ended < _OURS_IF_WITHIN


class OverrideEnforcer:
    """Applies pauses and holds to one shoot: ends an automatic scaling run that they forbid."""

    def __init__(self, environment: ProberEnvironment, namespace: str, scaler: Scaler) -> None:
        self._env, self._namespace, self._scaler = environment, namespace, scaler
        self.effective = environment.overrides.effective(namespace)
        """The overrides in force when they were last read."""

    def now(self) -> EffectiveOverrides:
        """Reads and remembers the overrides that are in force now."""
        self.effective = self._env.overrides.effective(self._namespace)
        return self.effective

    def changed(self) -> bool:
        """Ends an automatic run that new overrides forbid; returns whether the overrides differ from the last ones."""
        before = self.effective
        if self.now() == before:
            return False
        self._end_what_is_forbidden()
        return True

    def _end_what_is_forbidden(self) -> None:
        scaling_run, effective = self._scaler.scaling_run, self.effective
        if scaling_run is None or scaling_run.order.manual:
            return
        if (hold := effective.hold) is not None:
            self._scaler.end_automatic(f"held by {hold.author}: {hold.reason}")
        elif (pause := effective.pause_against(scaling_run.direction)) is not None:
            self._scaler.end_automatic(f"paused by {pause.author}: {pause.reason}")


_NEEDED_WATCHES: Final = (Watched.CLUSTERS, Watched.SECRETS, Watched.DEPENDENTS)


@dataclass(frozen=True, slots=True)
class VerdictContext:
    """What a shoot's verdict depends on besides the reading."""

    scaler: Scaler
    protection: ProtectionWatch
    enforcer: OverrideEnforcer
    scaling_from: float
    """When `initialDelay` ends."""
    closed_by: Callable[[], str | None] = lambda: None
    """Returns why a closed gate keeps a scale-down from starting; None while every gate is open."""


def listed(environment: ProberEnvironment) -> bool:
    """Whether Clusters, Secrets, dependents and overrides have each been listed once (rules 4.1, synced)."""
    watches = (environment.seed.watch_state(each) for each in _NEEDED_WATCHES)
    return all(each.synced for each in watches) and environment.overrides.synced


class Judge:
    """Probes one shoot and decides; keeps the count of consecutive results from one probe to the next."""

    def __init__(
        self,
        environment: ProberEnvironment,
        subject: ProbedShoot,
        probe: ShootProbe,
        context: VerdictContext,
    ) -> None:
        self._env, self._probe, self._context = environment, probe, context
        self.subject = subject
        """The facts of the Shoot that a probe depends on; the runner replaces it when the Cluster changes."""
        self._consecutive: ConsecutiveResults = NO_RESULTS
        self._synced = False
        self._gated: str | None = None
        """Why a gate was closed at any time since the probe under way began; None if all were open throughout."""

    def gate_changed(self) -> None:
        """Notes a gate that closed while a probe is under way; called whenever one closes or opens."""
        self._gated = self._context.closed_by() or self._gated

    def stood_still(self) -> None:
        """Resets the counts: the process was frozen, so earlier probes and the next one are not in a row."""
        self._consecutive = NO_RESULTS

    def failed(self, failure: Failure) -> Decision:
        """The verdict for a failure that no probe led to, such as a crash of the loop."""
        outcome = verdict.decide_failure(failure, self._consecutive)
        self._consecutive = outcome.consecutive
        return outcome.decision

    async def probe(self, *, with_nodes: bool, counts: bool) -> tuple[Reading, Decision]:
        """Makes one probe and decides on it; never raises, whatever the clusters answer.

        Args:
            with_nodes: read Nodes, whatever the leases say.
            counts: the probe may count towards a threshold.

        Returns:
            The reading, which spans the confirming one if there was one, and the decision.
        """
        pending = self._context.scaler.pending()
        self._gated = self._context.closed_by()
        reading = await self._probe.probe(
            self.subject, pending, with_nodes=with_nodes, counts=counts
        )
        outcome = self._judge(reading, pending, counts=counts)
        outcome = await self._checked_with_seed(outcome)
        # Dependents may have changed while the probe was under way, so this asks again what would be written.
        if outcome.decision.verdict is Verdict.SCALE_DOWN and self._to_confirm(reading):
            reading, outcome = await self._confirm(reading, outcome)
        # Overrides and leadership may have changed, too: they are checked last, right before the verdict is acted on.
        outcome = verdict.still(outcome, self._preconditions())
        self._consecutive = outcome.consecutive
        return reading, outcome.decision

    def _to_confirm(self, reading: Reading) -> bool:
        """Whether a scale-down needs a second reading: in endpoint mode always, in lease mode if it would write."""
        return isinstance(reading.result, PathReading) or self._context.scaler.pending().down_writes

    def _judge(
        self, reading: Reading, pending: PendingWrites, *, counts: bool
    ) -> verdict.VerdictOutcome:
        results = self._consecutive
        if isinstance(reading.result, Failure):
            return verdict.decide_failure(reading.result, results)
        assessed = self._assess(reading.result, pending)
        # The distance of probes is that of their begins, as for the schedule: a slow probe must not lose a count.
        at, thresholds = reading.started, self._thresholds(pending)
        return verdict.decide(
            assessed, self._preconditions(), thresholds, results, at, counts=counts
        )

    def _assess(self, reading: Tally | PathReading, pending: PendingWrites) -> verdict.Assessment:
        if isinstance(reading, PathReading):
            return paths.assess(reading)
        limit = self._env.policy.limit
        assessed = verdict.assess(reading, limit, protected=pending.protected)
        text = verdict.explain(reading, limit, self.subject.timings.expiry)
        return replace(assessed, message=text)

    def kept_back(self, effective: EffectiveOverrides) -> verdict.Obstacle | None:
        """The override that alone keeps back a scale-down which would take something down; None if there is none.

        Args:
            effective: the overrides, as the loop last applied them.
        """
        pending = self._context.scaler.pending()
        if not pending.exposed and not pending.ignored:
            return None
        return verdict.blocking_override(self._preconditions(effective))

    def known_since(self, reading: Reading) -> float | None:
        """The first instant at which the outage that `reading` shows could be detected; None if it shows none."""
        policy = self._env.policy
        match reading.result:
            case Tally():
                return schedule.known_since(reading.result, policy.limit)
            case PathReading():
                threshold, apart = policy.failure_threshold, policy.suspect_interval
                return paths.known_since(self._consecutive, threshold, apart)
            case Failure():
                return None

    def _preconditions(self, effective: EffectiveOverrides | None = None) -> verdict.Preconditions:
        return verdict.Preconditions(
            synced=self.listed(),
            effective=self._context.enforcer.now() if effective is None else effective,
            initial_delay_over=self._env.clock.now() >= self._context.scaling_from,
            leading=self._env.leadership.leading,
            closed_by=self._closed_by(),
            ignored=self._context.scaler.pending().ignored,
        )

    def _closed_by(self) -> str | None:
        """Why a gate keeps a scale-down from starting; a gate that has opened since the probe began still counts.

        Such a probe began before the gate opened. When the seed's own network comes back, a canary that runs every
        second notices sooner than an attempt of five seconds, which still fails: that is no outage of the shoot.
        """
        closed = self._context.closed_by()
        if closed is not None or self._gated is None:
            return closed
        return f"{self._gated} (open again since this probe began; the next one decides)"

    def listed(self) -> bool:
        """Whether everything that a verdict needs has been listed; once True, it stays True."""
        self._synced = self._synced or listed(self._env)
        return self._synced

    def _thresholds(self, pending: PendingWrites) -> verdict.VerdictThresholds:
        policy = self._env.policy
        return verdict.VerdictThresholds(
            policy.failure_threshold,
            policy.success_threshold,
            policy.suspect_interval,
            pending.protected,
            self._context.protection.begins,
            # In lease mode one good reading is enough while nothing is scaled down (rules 4.1); in endpoint mode a path
            # is healthy only after `successThreshold` of them (rules 4.2).
            unprotected=1 if not policy.endpoint_mode else policy.success_threshold,
        )

    async def _confirm(
        self, first: Reading, outcome: verdict.VerdictOutcome
    ) -> tuple[Reading, verdict.VerdictOutcome]:
        """Takes a second reading; the outcome stays SCALE DOWN only if that reading asks for it as well."""
        second = await self._probe.confirm(self.subject, first)
        reading = replace(
            second,
            started=first.started,
            probes={**first.probes, **second.probes},
            paths={**first.paths, **second.paths},
        )
        if isinstance(second.result, Failure):
            return reading, verdict.decide_failure(second.result, outcome.consecutive)
        again = self._assess(second.result, self._context.scaler.pending())
        if again.verdict is not Verdict.SCALE_DOWN:
            return reading, verdict.unconfirmed(again, outcome.decision)
        return reading, replace(outcome, decision=replace(outcome.decision, message=again.message))

    async def _checked_with_seed(self, outcome: verdict.VerdictOutcome) -> verdict.VerdictOutcome:
        """Reads live whatever a verdict that writes needs of a stale watch; HOLD if that fails (rules 4.1)."""
        direction, pending = outcome.decision.verdict.direction, self._context.scaler.pending()
        down = direction is Direction.DOWN
        if direction is None or not (pending.down_writes if down else pending.up_writes):
            return outcome
        found = await self._probe.live_where_stale(self.subject, down=down)
        if isinstance(found, ProbedShoot):
            changed, self.subject = found != self.subject, found
            # A scale-down is assessed with the new subject when it is confirmed.
            if down or not changed:
                return outcome
            found = Failure(VerdictReason.SEED_STALE, "the Shoot has changed; it is judged anew")
        held = verdict.decide_failure(found, outcome.consecutive)
        return replace(held, decision=replace(held.decision, would_be=outcome.decision.verdict))
