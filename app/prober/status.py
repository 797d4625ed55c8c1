"""What is known of one shoot: its protection, its status as the API shows it, a frozen snapshot, and its metrics.

Metrics are computed from the shoots at each scrape, so that none outlives its shoot. Families with a series for each
shoot are rendered in slices, to keep the event loop free; the two that count shoots by state are a collector of the
registry.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.core.metrics import Family, Format, Metrics, Slices, escaped
from app.core.model.instants import rfc3339
from app.core.model.overrides import NOTHING, EffectiveOverrides
from app.core.model.probing import (
    Decision,
    Failure,
    Judgement,
    PathReading,
    PathView,
    RequestKind,
    ShootState,
    Tally,
    VerdictReason,
)
from app.core.model.scaling_runs import ScalingRunStatus
from app.core.model.shoots import Route
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.core.reporting.metering import LEASE_MODE, Metering
from app.prober import messages
from app.prober.environment import ProberEnvironment
from app.prober.rules import scaling, schedule, state, verdict
from app.prober.rules.candidates import Candidacy
from app.prober.rules.state import NOTHING_KNOWN, StateInputs
from app.prober.scaling.run import Scaler


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class ShootCondition:
    """One condition of a shoot, as in the status of a Kubernetes object."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    since: float
    """When `status` last changed."""


class ShootSummary(NamedTuple):
    """What is needed of a shoot to filter, count and sort; cheap for a thousand of them."""

    namespace: str
    state: ShootState
    since: float
    """When `state` last changed."""


@dataclass(frozen=True, slots=True)
class ShootStatus:
    """All that is known of one shoot."""

    namespace: str
    state: ShootState = ShootState.PENDING
    reason: str = "Pending"
    message: str = "not probed yet"
    since: float = 0.0
    """When `state` last changed."""
    conditions: tuple[ShootCondition, ...] = ()
    resources: Mapping[ResourceRef, WorkloadView | None] = field(default_factory=dict)
    protected_since: float | None = None
    effective: EffectiveOverrides = NOTHING
    """Pauses and holds in force for the shoot."""
    running: Direction | None = None
    """The direction of the scaling run under way."""
    last_run: ScalingRunStatus | None = None
    scaling_failure: str | None = None
    """What failed in the last scaling run; None if nothing did, or all is as it should be by now."""
    unavailable: tuple[str, ...] = ()
    """Dependents that the last scaling run found unavailable (rules 4.3), which is no fault of this shoot's."""
    decision: Decision | None = None
    result: Tally | PathReading | Failure | None = None
    """The result of the last probe."""
    tally: Tally | None = None
    """The counts of the last probe in lease mode that did not fail."""
    read_at: float | None = None
    """When that probe ended."""
    candidacy: Candidacy | None = None
    facts: StateInputs = NOTHING_KNOWN
    """What the state follows from."""
    paths: tuple[PathView, ...] | None = None
    """Endpoint mode: the last attempt on each route; None in lease mode."""
    judgements: tuple[Judgement, ...] = ()
    """The judgements of all leases of the last reading, whether they count or not."""
    expiry: float | None = None
    """The expiry time: the age at which a lease is expired, in seconds."""
    last_probe: float | None = None
    probe_seconds: float | None = None
    next_probe: float | None = None
    probes: int = 0
    failures: int = 0
    less_often: bool = False
    """The shoot is probed less often, as its answers have used up its share of time (rules 4.4)."""

    @property
    def summary(self) -> ShootSummary:
        return ShootSummary(self.namespace, self.state, self.since)

    @property
    def at_zero(self) -> tuple[str, ...]:
        """Names of the dependents that are at 0."""
        views = self.resources.values()
        return tuple(v.ref.name for v in views if v is not None and v.replicas == 0)


_CREDENTIALS: Final = frozenset(
    {
        VerdictReason.CREDENTIALS_INVALID,
        VerdictReason.CREDENTIALS_MISSING,
        VerdictReason.CREDENTIALS_REFUSED,
    }
)
_NOT_ASKED: Final = _CREDENTIALS - {VerdictReason.CREDENTIALS_INVALID}
_ASKS_THE_SERVER: Final = frozenset({RequestKind.API_SERVER, RequestKind.INTERNAL})
_NOT_ANSWERED: Final = frozenset({VerdictReason.UNREACHABLE, VerdictReason.CERTIFICATE_UNTRUSTED})

Found = tuple[ConditionStatus, str, str]
"""Status, reason and message of a condition."""


def conditions(
    facts: ShootStatus, before: tuple[ShootCondition, ...], now: float
) -> tuple[ShootCondition, ...]:
    """The conditions as of `now`; one whose status has not changed keeps its `since`."""
    nodes = ("LeasesRenewed", _renewed(facts))
    if facts.paths is not None:
        nodes = ("ExternalPathReachable", _external(facts.paths, facts.result))
    found = (
        ("APIServerReachable", _reachable(facts.result)),
        nodes,
        ("CredentialsValid", _credentials(facts.result)),
        ("ProtectionActive", _protection(facts)),
        ("ScalingSucceeded", _scaling(facts)),
        ("Paused", _paused(facts.effective)),
    )
    since = {(each.type, each.status): each.since for each in before}
    return tuple(
        ShootCondition(kind, *each, since.get((kind, each[0]), now)) for kind, each in found
    )


def _reachable(result: Tally | PathReading | Failure | None) -> Found:
    not_asked = ConditionStatus.UNKNOWN, "NotProbed", "the API server was not asked"
    if result is None:
        return not_asked
    if isinstance(result, Failure) and result.kind in _ASKS_THE_SERVER:
        if result.reason in _NOT_ASKED:
            return not_asked
        answered = (
            ConditionStatus.FALSE if result.reason in _NOT_ANSWERED else ConditionStatus.UNKNOWN
        )
        return answered, result.reason, result.message
    return ConditionStatus.TRUE, "Answered", "the API server answers"


def _renewed(facts: ShootStatus) -> Found:
    decision = facts.decision
    if decision is None or not isinstance(facts.result, Tally):
        return ConditionStatus.UNKNOWN, "NotRead", "the leases could not be read"
    if facts.facts.vanished:
        return ConditionStatus.UNKNOWN, decision.reason, decision.message
    expired = facts.result.candidates.expired
    status = ConditionStatus.FALSE if expired else ConditionStatus.TRUE
    if facts.result.candidates.unknown and not expired:
        status = ConditionStatus.UNKNOWN
    return status, decision.reason, decision.message


def _external(paths: tuple[PathView, ...], result: Tally | PathReading | Failure | None) -> Found:
    found = {each.route: each for each in paths}
    seen, internal = found.get(Route.EXTERNAL), found.get(Route.INTERNAL)
    if seen is None:
        text = "the external path has not been tried yet"
        return ConditionStatus.UNKNOWN, "NotProbed", text
    failed = internal is not None and internal.failure is not None
    if failed or (isinstance(result, PathReading) and result.counting is not None):
        text = "the external path is not tried while the internal one is not well"
        return ConditionStatus.UNKNOWN, "NotProbed", text
    if seen.failure is None:
        text = "the API server answers through the external path"
        return ConditionStatus.TRUE, "Answered", text
    status = ConditionStatus.FALSE if seen.counted else ConditionStatus.UNKNOWN
    return status, seen.failure.reason, seen.failure.message


def _credentials(result: Tally | PathReading | Failure | None) -> Found:
    if isinstance(result, Failure):
        if result.reason in _CREDENTIALS:
            return ConditionStatus.FALSE, result.reason, result.message
        if result.kind in _ASKS_THE_SERVER:
            return ConditionStatus.UNKNOWN, result.reason, "the API server did not say"
    if result is None:
        return ConditionStatus.UNKNOWN, "NotProbed", "the API server was not asked"
    return ConditionStatus.TRUE, "Accepted", "the API server accepts the kubeconfig"


def _protection(facts: ShootStatus) -> Found:
    if facts.protected_since is not None:
        text = "controllers are scaled down, or were and are coming back"
        return ConditionStatus.TRUE, "MeltdownKeyPresent", text
    return ConditionStatus.FALSE, "NoMeltdownKey", "no dependent carries the meltdown key"


def _paused(effective: EffectiveOverrides) -> Found:
    pause = effective.covering
    if pause is None:
        return ConditionStatus.FALSE, "NotPaused", "this shoot is not paused"
    of_all = "all shoots" if pause is effective.global_pause else "this shoot"
    scope = f"{pause.scope[:1].upper()}{pause.scope[1:]}"
    reason = f"Paused{scope}" if pause.problem is None else "Unreadable"
    text = f"{pause.author} paused {of_all} until {rfc3339(pause.until)}: {pause.reason}"
    return ConditionStatus.TRUE, reason, text


def _scaling(facts: ShootStatus) -> Found:
    failures = (*filter(None, [facts.scaling_failure]), *facts.unavailable)
    if failures:
        return ConditionStatus.FALSE, "ScalingFailed", "; ".join(failures)
    if facts.last_run is None:
        text = "nothing has been scaled since this process started"
        return ConditionStatus.UNKNOWN, "NotScaled", text
    text = "the last scaling run went well"
    if facts.last_run.failed:
        text = "what the last scaling run could not do has been done since"
    return ConditionStatus.TRUE, "Scaled", text


class StatusTracker:
    """Derives state and conditions from what is known of a shoot, and keeps the times at which they changed.

    The result is cached while the facts stay the same, as many callers may ask between two probes.
    """

    def __init__(self, now: float) -> None:
        self._state = ShootState.PENDING
        self._since = now
        self._conditions: tuple[ShootCondition, ...] = ()
        self._known: ShootStatus | None = None
        """The facts that state and conditions were derived from; None if they must be derived anew."""
        self._drawn: ShootStatus | None = None
        """The complete status for `_known`; None until somebody asks for it."""

    def summary(self, namespace: str, facts: state.StateInputs, now: float) -> ShootSummary:
        """Derives the state as of `now`, and since when it has been the same."""
        word = state.summary(facts).state
        if word is not self._state:
            self._state, self._since, self._known = word, now, None
        return ShootSummary(namespace, word, self._since)

    def note(self, known: ShootStatus, now: float) -> ShootState:
        """Updates state and conditions as of `now`; returns the state."""
        if known != self._known:
            _ = self.summary(known.namespace, known.facts, now)
            self._conditions = conditions(known, self._conditions, now)
            self._known, self._drawn = known, None
        return self._state

    def update(self, known: ShootStatus, now: float) -> ShootStatus:
        """Returns `known` completed with state, reason, message and conditions as of `now`."""
        word = self.note(known, now)
        if self._drawn is None:
            reason = state.summary(known.facts).reason
            self._drawn = replace(
                known,
                state=word,
                reason=reason,
                message=_message(known, reason),
                since=self._since,
                conditions=self._conditions,
            )
        return self._drawn


def _message(known: ShootStatus, reason: str) -> str:
    decision = known.decision
    if decision is None:
        return known.message
    said = decision.message
    if known.scaling_failure is not None:  # a protected shoot has another reason
        said += f"; scaling failed: {known.scaling_failure}"
    elif reason != decision.reason and known.facts.kept_back is not None:
        said += f"; {known.facts.kept_back[1]}"
    if known.less_often:
        said += f"; {schedule.PROBED_LESS_OFTEN}"
    if known.protected_since is None or not known.at_zero:
        return said
    *others, last = known.at_zero
    names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    return f"{said}; {names} at 0"


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
        self._begins: tuple[float, ...] = ()
        self._ours = False
        """This process began the last protection by itself."""
        self.since: float | None = None
        """When the active protection began; None if protection is not active."""
        self._read()

    @property
    def begins(self) -> tuple[float, ...]:
        """When this process began protections of this shoot by itself, within the hour before the active one.

        The active one is the last; if somebody else began that, there are none (rules 4.1, flapping).
        """
        return self._begins if self._ours else ()

    def note(self, decision: Decision | None) -> None:
        """Reads the dependents again, and reports if protection has begun or ended, with `decision` as the reason."""
        was = self.since is not None
        self._read()
        active = self.since is not None
        if active == was or not self._env.leadership.leading:
            return  # a standby keeps `since` up to date, and leaves the report to the leader
        if active:
            self._ours = self._we_scaled_down()
            if self._ours:
                self._begins = verdict.began(self._begins, self._env.clock.now())
        why = "found in the seed" if decision is None else decision.message
        if (run := self._scaler.scaling_run) is not None and run.order.manual:
            why = f"scaled {run.direction} {messages.asked(run.order)}"
        refs = [ref for ref, view in self._scaler.views().items() if view is not None]
        messages.protection_changed(self._env, self._namespace, refs[:1], why, began=active)

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
        if not scaling.protection_active(views):
            self.since = None
            return
        self.since = scaling.protected_since(views) or self.since or self._env.clock.now()

    def _we_scaled_down(self) -> bool:
        """Whether an automatic run scaled down: only those count as flapping, as a person's say nothing of the path."""
        under_way = self._scaler.scaling_run
        run = self._scaler.last if under_way is None else under_way.order
        if run is None or run.direction is not Direction.DOWN or run.manual:
            return False
        return run.ended is None or self._env.clock.now() - run.ended < _OURS_IF_WITHIN


# Shoots that are rendered before the event loop gets a turn: 1 to 2 ms.
_SLICE: Final = 50
Sample = tuple[Family, tuple[str, ...], float]
"""A family, label values and the value."""


class StateCounts(Collector):
    """The number of shoots by state.

    Args:
        metrics: declares the families.
        summaries: returns a summary of each shoot of the seed, probed or not.
    """

    def __init__(self, metrics: Metrics, summaries: Callable[[], Sequence[ShootSummary]]) -> None:
        self._metrics, self._summaries = metrics, summaries

    def describe(self) -> Iterable[Metric]:
        """Returns the families without samples: the names that this collector uses."""
        return self._families(())

    def collect(self) -> Iterator[Metric]:
        """Yields the families with their current samples."""
        yield from self._families(self._summaries())

    def _families(self, shoots: Sequence[ShootSummary]) -> Iterator[GaugeMetricFamily]:
        found = Counter(each.state for each in shoots)
        active, states = self._metrics.probers_active(), self._metrics.shoots()
        active.add_metric((), len(shoots) - found[ShootState.NOT_PROBED])
        for each in ShootState:
            states.add_metric((each,), found[each])
        yield from (active, states)


class ShootSeries:
    """A dozen series for each shoot, or with `--per-shoot-metrics=false` the two that alerts need.

    Args:
        metrics: declares the families, and says whether there are series for each shoot.
        metering: the counters by shoot; those of shoots that are gone are dropped at a scrape.
        summaries: returns a summary of each shoot of the seed, probed or not; none on a standby, so that two replicas
            do not report the same shoot.
        facts: returns the current values of one shoot; None if it has gone meanwhile.
        probes: the kinds of request that the configuration leads to (`metering.of_shoots`).
        endpoints: returns whether each endpoint probe of a control plane has succeeded, by name, without those that
            have no result yet.
    """

    def __init__(
        self,
        metrics: Metrics,
        metering: Metering,
        summaries: Callable[[], Sequence[ShootSummary]],
        facts: Callable[[str], ShootStatus | None],
        *,
        probes: Sequence[RequestKind] = LEASE_MODE,
        endpoints: Callable[[str], Mapping[str, bool]] = lambda _: {},
    ) -> None:
        self._metrics, self._metering = metrics, metering
        self._summaries, self._facts = summaries, facts
        self._probes, self._endpoints = probes, endpoints

    def families(self) -> tuple[Family, ...]:
        """Returns the families that it renders."""
        metrics = self._metrics
        stranded = (metrics.shoot_at_zero, metrics.shoot_protection_start)
        if not metrics.per_shoot:
            return stranded
        return (
            *stranded,
            metrics.shoot_state,
            metrics.shoot_last_probe,
            metrics.shoot_leases,
            metrics.shoot_probe_failures,
            metrics.shoot_scale_attempts,
            metrics.endpoint_success,
        )

    def render(self, written: Format) -> Slices:
        """Renders its families with samples, in slices; the values of a shoot are read when its slice is rendered."""
        lines: dict[str, list[str]] = {each.name: [each.head(written)] for each in self.families()}
        shoots = self._summaries()
        self._metering.keep({each.namespace for each in shoots})
        yield
        for begin in range(0, len(shoots), _SLICE):
            for shoot in shoots[begin : begin + _SLICE]:
                if (facts := self._facts(shoot.namespace)) is not None:
                    for family, values, number in self._samples(shoot, facts):
                        lines[family.name].append(family.sample(values, number))
            yield
        return "".join([line for family in lines.values() for line in family])

    def _samples(self, shoot: ShootSummary, facts: ShootStatus) -> Iterator[Sample]:
        metrics, namespace = self._metrics, escaped(shoot.namespace)
        if number := len(facts.at_zero):
            yield metrics.shoot_at_zero, (namespace,), number
        if facts.protected_since is not None:
            yield metrics.shoot_protection_start, (namespace,), facts.protected_since
        if not metrics.per_shoot:
            return
        yield metrics.shoot_state, (namespace, shoot.state), 1
        if facts.last_probe is not None:
            yield metrics.shoot_last_probe, (namespace,), facts.last_probe
        if facts.tally is not None:
            for state, leases in facts.tally.leases.items():
                yield metrics.shoot_leases, (namespace, state), leases
        # Of a probed shoot counters begin at 0: `increase()` does not see the first count of a new series.
        counts, probed = self._metering.shoots, shoot.state is not ShootState.NOT_PROBED
        for probe in self._probes:
            if (number := counts.probe_failures[shoot.namespace, probe]) or probed:
                yield metrics.shoot_probe_failures, (namespace, probe), number
        for direction in Direction:
            if (number := counts.scale_attempts[shoot.namespace, direction]) or probed:
                yield metrics.shoot_scale_attempts, (namespace, direction), number
        for name, succeeded in self._endpoints(shoot.namespace).items():
            yield metrics.endpoint_success, (namespace, escaped(name)), int(succeeded)
