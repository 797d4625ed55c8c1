"""From a probe to a verdict: what was read, what holds it back, and the second reading before a scale-down."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from app.core.model.operations import Trigger
from app.core.model.overrides import EffectiveOverrides
from app.core.model.probing import Decision, Failure, PathReading, Tally, Verdict, VerdictReason
from app.core.model.workloads import Direction, ResourceRef
from app.core.ports import Watched
from app.prober import messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import consecutive, paths, protection, schedule, verdict
from app.prober.rules.consecutive import NO_RESULTS, ConsecutiveResults, PendingWrites
from app.prober.scaler import Scaler
from app.prober.shoot_session import ProbedShoot, Reading, ShootProbe

# Notices when protection begins and ends, whoever began or ended it.


_OURS_IF_WITHIN: Final = 60.0
"""A protection that begins so soon after one of our scale-downs, in seconds, is one that we began."""


class ProtectionWatch:
    """The protection of one shoot, as its dependents' annotations show it."""

    def __init__(self, environment: ProberEnvironment, namespace: str, scaler: Scaler) -> None:
        self._env = environment
        self._namespace = namespace
        self._scaler = scaler
        self.begins: tuple[float, ...] = ()
        """When this process began protections of this shoot, within the last hour."""
        self.since: float | None = None
        """When the active protection began; None while none is active."""
        self._read()

    @property
    def active(self) -> bool:
        """Whether a configured dependent carries the meltdown key now."""
        return protection.active(self._scaler.views().values())

    def note(self, decision: Decision | None) -> None:
        """Looks at the dependents again; tells where protection began or ended."""
        was = self.since is not None
        self._read()
        active = self.since is not None
        if active == was or not self._env.leadership.leading:
            return  # a standby keeps count of it, and leaves the telling to the leader
        if active and self._we_scaled_down():
            self.begins = consecutive.began(self.begins, self._env.clock.now())
        why = self._by_hand() or ("found in the seed" if decision is None else decision.message)
        messages.protection_changed(self._env, self._namespace, self._refs()[:1], why, began=active)

    def abandoned(self, why: str) -> None:
        """Tells that nobody looks after an active protection any more; a standby leaves that to the leader."""
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

    def _by_hand(self) -> str | None:
        """Who did it, where a person's scaling run runs."""
        scaling_run = self._scaler.scaling_run
        if scaling_run is None or not scaling_run.order.manual:
            return None
        return f"scaled {scaling_run.direction} by hand ({scaling_run.order.author}: {scaling_run.order.reason})"

    def _we_scaled_down(self) -> bool:
        """Whether a verdict of ours did: what a person began says nothing about a path that flaps."""
        if (scaling_run := self._scaler.scaling_run) is not None:
            return scaling_run.direction is Direction.DOWN and not scaling_run.order.manual
        last = self._scaler.last
        if last is None or last.direction is not Direction.DOWN or last.trigger is Trigger.MANUAL:
            return False
        return self._env.clock.now() - last.ended < _OURS_IF_WITHIN


# What people decided about one shoot, heeded: a scaling run of ours that they forbid ends.


class OverrideEnforcer:
    """Follows pauses and holds for one shoot."""

    def __init__(self, environment: ProberEnvironment, namespace: str, scaler: Scaler) -> None:
        self._env, self._namespace, self._scaler = environment, namespace, scaler
        self.effective = environment.overrides.effective(namespace)
        """As it was last asked for."""

    def now(self) -> EffectiveOverrides:
        """What is in force now."""
        self.effective = self._env.overrides.effective(self._namespace)
        return self.effective

    def changed(self) -> bool:
        """Whether it is another thing than last time; an automatic scaling run that it forbids is ended."""
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
    """What a shoot's verdict depends on besides what is seen of it."""

    scaler: Scaler
    protection: ProtectionWatch
    enforcer: OverrideEnforcer
    scaling_from: float
    """The end of `initialDelay`."""
    closed_by: Callable[[], str | None] = lambda: None
    """Why endpoint probes keep a scale-down from starting now; None where they do not."""


def listed(environment: ProberEnvironment) -> bool:
    """Whether all has been listed that a verdict needs."""
    watches = (environment.seed.watch_state(each) for each in _NEEDED_WATCHES)
    return all(each.synced for each in watches) and environment.overrides.synced


class Judge:
    """Probes one shoot, and decides."""

    def __init__(
        self,
        environment: ProberEnvironment,
        subject: ProbedShoot,
        observer: ShootProbe,
        position: VerdictContext,
    ) -> None:
        self._env, self._observer, self._position = environment, observer, position
        self.subject = subject
        """What of the shoot a probe depends on; who knows better sets it."""
        self._consecutive: ConsecutiveResults = NO_RESULTS
        self._synced = False
        self._gated: str | None = None
        """Why the gate was closed since the probe under way began; None where it was open all the time."""

    def gate_changed(self) -> None:
        """The gate has closed or opened, maybe while a probe is under way."""
        self._gated = self._position.closed_by() or self._gated

    def stood_still(self) -> None:
        """Nobody looked for a while: what was counted before is not in a row with what comes."""
        self._consecutive = NO_RESULTS

    def failed(self, failure: Failure) -> Decision:
        """The verdict where there was no probe at all."""
        outcome = verdict.decide_failure(failure, self._consecutive)
        self._consecutive = outcome.consecutive
        return outcome.decision

    async def probe(self, *, with_nodes: bool, counts: bool) -> tuple[Reading, Decision]:
        """One probe, judged; never raises for anything that a cluster may do.

        Args:
            with_nodes: Nodes are read, whatever the leases say.
            counts: it may count towards a threshold.
        """
        pending = self._position.scaler.pending()
        self._gated = self._position.closed_by()
        reading = await self._observer.probe(
            self.subject, pending, with_nodes=with_nodes, counts=counts
        )
        outcome = self._judge(reading, pending, counts=counts)
        outcome = await self._checked_with_seed(outcome)
        # What would be written is asked anew: it may have changed while the probe was under way.
        if outcome.decision.verdict is Verdict.SCALE_DOWN and self._to_confirm(reading):
            reading, outcome = await self._confirm(reading, outcome)
        # So may what people decided, and who leads: it is asked last, right before the verdict is acted on.
        outcome = verdict.still(outcome, self._preconditions())
        self._consecutive = outcome.consecutive
        return reading, outcome.decision

    def _to_confirm(self, reading: Reading) -> bool:
        """Whether a scale-down must be confirmed: by leases where it would write, by the internal path always."""
        return (
            isinstance(reading.result, PathReading) or self._position.scaler.pending().down_writes
        )

    def _judge(
        self, reading: Reading, pending: PendingWrites, *, counts: bool
    ) -> verdict.VerdictOutcome:
        results = self._consecutive
        if isinstance(reading.result, Failure):
            return verdict.decide_failure(reading.result, results)
        assessed = self._assess(reading.result, pending)
        # Looks are apart by their begins, as they are scheduled: how long one took must not lose a count.
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
        """Who, of people alone, now keeps a scale-down back that would take something down; None where nobody does.

        `standing` is what they decided, as far as the loop has heeded it.
        """
        pending = self._position.scaler.pending()
        if not pending.exposed and not pending.ignored:
            return None
        return verdict.kept_back(self._preconditions(effective))

    def known_since(self, reading: Reading) -> float | None:
        """When the outage that this probe saw could be known; None where it saw none."""
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
            effective=self._position.enforcer.now() if effective is None else effective,
            initial_delay_over=self._env.clock.now() >= self._position.scaling_from,
            leading=self._env.leadership.leading,
            closed_by=self._closed_by(),
            ignored=self._position.scaler.pending().ignored,
        )

    def _closed_by(self) -> str | None:
        """What keeps a scale-down from starting: a gate, also one that has opened since the probe began.

        The probe saw the world of before.  Where it is the seed's own network that is back, a canary of a second tells
        sooner than an attempt of five, which fails all the same: it must not be taken for an outage.
        """
        closed = self._position.closed_by()
        if closed is not None or self._gated is None:
            return closed
        return f"{self._gated} (open again since this probe began; the next one decides)"

    def listed(self) -> bool:
        """Whether the seed has been listed; once it has, it stays so."""
        self._synced = self._synced or listed(self._env)
        return self._synced

    def _thresholds(self, pending: PendingWrites) -> verdict.VerdictThresholds:
        policy = self._env.policy
        return verdict.VerdictThresholds(
            policy.failure_threshold,
            policy.success_threshold,
            policy.suspect_interval,
            pending.protected,
            self._position.protection.begins,
            # In lease mode one good reading is enough as long as nothing was taken down.
            unprotected=1 if policy.endpoint_mode is None else policy.success_threshold,
        )

    async def _confirm(
        self, first: Reading, outcome: verdict.VerdictOutcome
    ) -> tuple[Reading, verdict.VerdictOutcome]:
        """A scale-down that would write is confirmed by a second reading, judged like any other."""
        second = await self._observer.confirm(self.subject, first)
        reading = replace(
            second,
            started=first.started,
            probes={**first.probes, **second.probes},
            paths={**first.paths, **second.paths},
        )
        if isinstance(second.result, Failure):
            return reading, verdict.decide_failure(second.result, outcome.consecutive)
        again = self._assess(second.result, self._position.scaler.pending())
        if again.verdict is not Verdict.SCALE_DOWN:
            return reading, verdict.unconfirmed(again, outcome.decision)
        return reading, replace(outcome, decision=replace(outcome.decision, message=again.message))

    async def _checked_with_seed(self, outcome: verdict.VerdictOutcome) -> verdict.VerdictOutcome:
        """What a verdict that writes needs of a stale watch is read live; if that fails it is HOLD."""
        direction, pending = outcome.decision.verdict.direction, self._position.scaler.pending()
        down = direction is Direction.DOWN
        if direction is None or not (pending.down_writes if down else pending.up_writes):
            return outcome
        found = await self._observer.live_where_stale(self.subject, down=down)
        if isinstance(found, ProbedShoot):
            changed, self.subject = found != self.subject, found
            if down or not changed:  # the way down is judged by it when it is confirmed
                return outcome
            found = Failure(VerdictReason.SEED_STALE, "the Shoot has changed; it is judged anew")
        held = verdict.decide_failure(found, outcome.consecutive)
        return replace(held, decision=replace(held.decision, would_be=outcome.decision.verdict))
