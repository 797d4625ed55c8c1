"""From a look to a verdict: what was seen, what holds it back, and the second reading before anything is taken down."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from app.core.model.overrides import Standing
from app.core.model.probing import Decision, Failure, PathReading, Reason, Tally, Verdict
from app.core.model.workloads import Direction
from app.core.ports import Watched
from app.prober.environment import Environment
from app.prober.heeding import Heeding
from app.prober.look import Look, Observer, Subject
from app.prober.protecting import ProtectionWatch
from app.prober.rules import paths, schedule, verdict
from app.prober.rules.consecutive import Stakes
from app.prober.rules.thresholds import NO_STREAK, Streak
from app.prober.scaler import Scaler

_NEEDED_WATCHES: Final = (Watched.CLUSTERS, Watched.SECRETS, Watched.DEPENDENTS)


@dataclass(frozen=True, slots=True)
class Position:
    """What a shoot's verdict depends on besides what is seen of it."""

    scaler: Scaler
    protection: ProtectionWatch
    heeding: Heeding
    scaling_from: float
    """The end of `initialDelay`."""
    closed_by: Callable[[], str | None] = lambda: None
    """Why endpoint probes keep a scale-down from starting now; None where they do not."""


def listed(environment: Environment) -> bool:
    """Whether all has been listed that a verdict needs."""
    watches = (environment.seed.watch_state(each) for each in _NEEDED_WATCHES)
    return all(each.synced for each in watches) and environment.overrides.synced


class Judge:
    """Looks at one shoot, and decides."""

    def __init__(
        self, environment: Environment, subject: Subject, observer: Observer, position: Position
    ) -> None:
        self._env, self._observer, self._position = environment, observer, position
        self.subject = subject
        """What of the shoot a look depends on; who knows better sets it."""
        self._streak: Streak = NO_STREAK
        self._synced = False
        self._gated: str | None = None
        """Why the gate was closed since the look under way began; None where it was open all the time."""

    def gate_changed(self) -> None:
        """The gate has closed or opened, maybe while a look is under way."""
        self._gated = self._position.closed_by() or self._gated

    def stood_still(self) -> None:
        """Nobody looked for a while: what was counted before is not in a row with what comes."""
        self._streak = NO_STREAK

    def failed(self, failure: Failure) -> Decision:
        """The verdict where there was no look at all."""
        outcome = verdict.decide_failure(failure, self._streak)
        self._streak = outcome.streak
        return outcome.decision

    async def look(self, *, with_nodes: bool, counts: bool) -> tuple[Look, Decision]:
        """One look, judged; never raises for anything that a cluster may do.

        Args:
            with_nodes: Nodes are read, whatever the leases say.
            counts: it may count towards a threshold.
        """
        stakes = self._position.scaler.stakes()
        self._gated = self._position.closed_by()
        look = await self._observer.look(self.subject, stakes, with_nodes=with_nodes, counts=counts)
        outcome = self._judge(look, stakes, counts=counts)
        outcome = await self._checked_with_seed(outcome)
        # What would be written is asked anew: it may have changed while the look was under way.
        if outcome.decision.verdict is Verdict.SCALE_DOWN and self._to_confirm(look):
            look, outcome = await self._confirm(look, outcome)
        # So may what people decided, and who leads: it is asked last, right before the verdict is acted on.
        outcome = verdict.still(outcome, self._clearance())
        self._streak = outcome.streak
        return look, outcome.decision

    def _to_confirm(self, look: Look) -> bool:
        """Whether a scale-down must be confirmed: by leases where it would write, by the internal path always."""
        return isinstance(look.result, PathReading) or self._position.scaler.stakes().down_writes

    def _judge(self, look: Look, stakes: Stakes, *, counts: bool) -> verdict.Outcome:
        streak = self._streak
        if isinstance(look.result, Failure):
            return verdict.decide_failure(look.result, streak)
        assessed = self._assess(look.result, stakes)
        # Looks are apart by their begins, as they are scheduled: how long one took must not lose a count.
        at, thresholds = look.started, self._thresholds(stakes)
        return verdict.decide(assessed, self._clearance(), thresholds, streak, at, counts=counts)

    def _assess(self, reading: Tally | PathReading, stakes: Stakes) -> verdict.Assessment:
        if isinstance(reading, PathReading):
            return paths.assess(reading)
        limit = self._env.policy.limit
        assessed = verdict.assess(reading, limit, protected=stakes.protected)
        text = verdict.explain(reading, limit, self.subject.timings.expiry)
        return replace(assessed, message=text)

    def kept_back(self, standing: Standing) -> verdict.Obstacle | None:
        """Who, of people alone, now keeps a scale-down back that would take something down; None where nobody does.

        `standing` is what they decided, as far as the loop has heeded it.
        """
        stakes = self._position.scaler.stakes()
        if not stakes.exposed and not stakes.ignored:
            return None
        return verdict.kept_back(self._clearance(standing))

    def known_since(self, look: Look) -> float | None:
        """When the outage that this look saw could be known; None where it saw none."""
        policy = self._env.policy
        match look.result:
            case Tally():
                return schedule.known_since(look.result, policy.limit)
            case PathReading():
                threshold, apart = policy.failure_threshold, policy.suspect_interval
                return paths.known_since(self._streak, threshold, apart)
            case Failure():
                return None

    def _clearance(self, standing: Standing | None = None) -> verdict.Clearance:
        return verdict.Clearance(
            synced=self.listed(),
            standing=self._position.heeding.now() if standing is None else standing,
            initial_delay_over=self._env.clock.now() >= self._position.scaling_from,
            leading=self._env.ownership.leading,
            closed_by=self._closed_by(),
            ignored=self._position.scaler.stakes().ignored,
        )

    def _closed_by(self) -> str | None:
        """What keeps a scale-down from starting: a gate, also one that has opened since the look began.

        The look saw the world of before.  Where it is the seed's own network that is back, a canary of a second tells
        sooner than an attempt of five, which fails all the same: it must not be taken for an outage.
        """
        closed = self._position.closed_by()
        if closed is not None or self._gated is None:
            return closed
        return f"{self._gated} (open again since this look began; the next one decides)"

    def listed(self) -> bool:
        """Whether the seed has been listed; once it has, it stays so."""
        self._synced = self._synced or listed(self._env)
        return self._synced

    def _thresholds(self, stakes: Stakes) -> verdict.Thresholds:
        policy = self._env.policy
        return verdict.Thresholds(
            policy.failure_threshold,
            policy.success_threshold,
            policy.suspect_interval,
            stakes.protected,
            self._position.protection.begins,
            # In lease mode one good reading is enough as long as nothing was taken down.
            unprotected=1 if policy.endpoint_mode is None else policy.success_threshold,
        )

    async def _confirm(self, first: Look, outcome: verdict.Outcome) -> tuple[Look, verdict.Outcome]:
        """A scale-down that would write is confirmed by a second reading, judged like any other."""
        second = await self._observer.confirm(self.subject, first)
        look = replace(
            second,
            started=first.started,
            probes={**first.probes, **second.probes},
            paths={**first.paths, **second.paths},
        )
        if isinstance(second.result, Failure):
            return look, verdict.decide_failure(second.result, outcome.streak)
        again = self._assess(second.result, self._position.scaler.stakes())
        if again.verdict is not Verdict.SCALE_DOWN:
            return look, verdict.unconfirmed(again, outcome.decision)
        return look, replace(outcome, decision=replace(outcome.decision, message=again.message))

    async def _checked_with_seed(self, outcome: verdict.Outcome) -> verdict.Outcome:
        """What a verdict that writes needs of a stale watch is read live; if that fails it is HOLD."""
        direction, stakes = outcome.decision.verdict.direction, self._position.scaler.stakes()
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
