"""The prober's loop without IO: it asks a `World`, and hands the answers to the rules as observer and runner do.

A scaling run is one instant here: what Deployments do while they are scaled is not what is simulated.
"""

import random
from dataclasses import dataclass, field
from enum import StrEnum

from app.core.model import workloads as ann
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.probing import (
    Decision,
    Failure,
    Judgement,
    LeaseState,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.shoots import LeaseReading, NodeReading
from app.core.model.workloads import ResourceRef, WorkloadView
from app.prober.rules import candidates, leases, scaling, schedule, verdict
from app.prober.rules.candidates import Candidacy, ExclusionMemory
from app.prober.rules.leases import NEVER, READING, Contacts, LeaseHistory, Timings
from app.prober.rules.schedule import ScheduleInputs
from app.prober.rules.verdict import NO_RESULTS, ConsecutiveResults
from bench.network import LATENCY, Network, NoAnswer
from bench.world import World

_HALF = 0.5
_KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")


def _pending(replicas: int, annotations: dict[str, str]) -> scaling.PendingWrites:
    view = WorkloadView(_KCM, "shoot", "uid", "1", replicas, annotations)
    return scaling.pending_writes([DependentPolicy(_KCM)], {_KCM: view}, 0.0)


_UP, _PROTECTED = _pending(1, {}), _pending(0, {ann.REPLICAS: "1", ann.MELTDOWN: ""})


class Without(StrEnum):
    """A rule that can be left out, to see what it is good for."""

    GAP = "gap"
    OFFSET = "offset"
    UNKNOWN = "unknown"
    CONFIRM = "confirm"
    CONTACT = "contact"
    COUNTS = "counts"


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of one simulated prober."""

    interval: float = 10.0
    grace: float = 40.0
    limit: float = 0.6
    without: frozenset[Without] = frozenset()


@dataclass(frozen=True, slots=True)
class Event:
    """Something the prober did."""

    at: float
    what: str
    """`down`, `up`, `start`."""
    read_at: float = 0.0
    """When the request of the reading that it was decided on was sent."""
    span: float = 0.0
    """For how long looks had to be good before this `up`."""


@dataclass(slots=True)
class Memory:
    """All that a process forgets when it ends."""

    book: LeaseHistory = field(default_factory=LeaseHistory)
    contacts: Contacts = field(default_factory=Contacts)
    exclusions: ExclusionMemory = field(default_factory=ExclusionMemory)
    candidacy: Candidacy | None = None
    failed_before: bool = False
    consecutive: ConsecutiveResults = NO_RESULTS
    begins: tuple[float, ...] = ()
    failures: int = 0
    tally: Tally | None = None


class Looker:
    """One shoot's prober."""

    def __init__(self, world: World, settings: Settings, rng: random.Random) -> None:
        self._world = world
        self._network = Network(world, rng)
        self._settings = settings
        self._rng = rng
        self._timings = Timings(settings.grace)
        self._policy = ProberPolicy(
            probe_interval=settings.interval,
            limit=settings.limit,
            success_threshold=1 if Without.COUNTS in settings.without else 3,
            suspect_interval=min(5.0, settings.interval),
        )
        self._memory = Memory()
        self._protected = False
        self._events: list[Event] = []
        self._sent = 0.0
        self.looks = 0

    def run(self) -> list[Event]:
        """What it did, from the start of the weather to its end."""
        weather = self._world.weather
        at = weather.start + self._rng.random() * self._settings.interval
        self._events.append(Event(at, "start", at))
        stops = list(weather.down)
        while at < weather.end:
            if stops and stops[0].start <= at:
                at = max(at, stops.pop(0).end)
                self._memory = Memory()
                self._events.append(Event(at, "start", at))
            at = self._look_and_wait(at)
        return self._events

    # One probe and what follows from it.

    def _look_and_wait(self, started: float) -> float:
        """The instant of the next probe."""
        self.looks += 1
        counting, failure = False, None
        try:
            now, found = self._look(started)
            now, counting = self._act(now, found, started)
            self._memory.failures = 0
        except NoAnswer as failed:
            now, failure = failed.at, failed.failure
            self._memory.consecutive = verdict.decide_failure(
                failure, self._memory.consecutive
            ).consecutive
            self._note_failure()
        due = self._due(now, started, failure, counting=counting)
        return self._with_contacts(now, due)

    def _note_failure(self) -> None:
        memory = self._memory
        memory.failures += 1
        memory.failed_before = memory.failed_before or memory.contacts.last is None

    def _due(
        self, now: float, looked_at: float, failure: Failure | None, *, counting: bool
    ) -> float:
        memory = self._memory
        situation = ScheduleInputs(
            now=now,
            probed_at=looked_at,
            failures=memory.failures,
            retry_after=None if failure is None else failure.retry_after,
            tally=memory.tally,
            candidacy=memory.candidacy,
            counting=counting,
            protected=self._protected,
            gap_at=memory.contacts.gap_at(self._timings),
        )
        return schedule.next_probe(situation, self._policy, self._rng.random())

    def _with_contacts(self, now: float, due: float) -> float:
        """Makes the contacts before the probe that is due; one that fails is a failed probe."""
        if Without.CONTACT in self._settings.without or self._memory.failures:
            return due
        while (last := self._memory.contacts.last) is not None:
            at = schedule.next_contact(last, due, self._timings)
            if at is None:
                break
            at = max(at, now)
            if self._world.weather.down.within(now, at):
                return at  # the process ends before
            try:
                now = self._contact(at)
            except NoAnswer as failed:
                self._note_failure()
                return self._due(failed.at, failed.at, failed.failure, counting=False)
        return due

    # What a reading leads to.

    def _act(self, now: float, found: Tally, started: float) -> tuple[float, bool]:
        assessed = self._assess(found)
        outcome = self._decide(assessed, started)
        if outcome.decision.verdict is Verdict.SCALE_DOWN and not self._protected:
            if Without.CONFIRM not in self._settings.without:
                now, again = self._with_nodes(now)
                second = self._assess(again)
                if second.verdict is not Verdict.SCALE_DOWN:
                    outcome = verdict.unconfirmed(second, outcome.decision)
            if outcome.decision.verdict is Verdict.SCALE_DOWN:
                self._scale_down(now)
        elif outcome.decision.verdict is Verdict.SCALE_UP and self._protected:
            self._scale_up(now)
        self._memory.consecutive = outcome.consecutive
        return now, outcome.decision.reason is VerdictReason.COUNTING

    def _assess(self, found: Tally) -> Decision:
        return verdict.assess(found, self._settings.limit, protected=self._protected)

    def _decide(self, assessed: Decision, now: float) -> verdict.VerdictOutcome:
        return verdict.decide_assessment(
            assessed,
            self._policy,
            verdict.Preconditions(),
            self._memory.consecutive,
            now,
            protected=self._protected,
            begins=self._memory.begins,
        )

    def _scale_down(self, now: float) -> None:
        self._protected = True
        self._memory.begins = verdict.began(self._memory.begins, now)
        self._events.append(Event(now, "down", self._sent))

    def _scale_up(self, now: float) -> None:
        self._protected = False
        self._events.append(
            Event(now, "up", self._sent, verdict.flapping_span(self._memory.begins))
        )

    # Readings.

    def _look(self, at: float) -> tuple[float, Tally]:
        unlucky = self._network.unlucky(at)
        if unlucky and self._rng.random() < _HALF:
            raise NoAnswer(at + LATENCY, VerdictReason.UNREACHABLE)
        at = self._network.version(at)
        if unlucky:
            raise NoAnswer(at + LATENCY, VerdictReason.LEASES_UNREADABLE)
        return self._reading(at)

    def _reading(self, at: float) -> tuple[float, Tally]:
        now, judgements = self._leases(at)
        memory = self._memory
        counted = candidates.tally_without_nodes(judgements, memory.exclusions, now)
        read_at = None if memory.candidacy is None else memory.candidacy.at
        pending = _PROTECTED if self._protected else _UP
        memory.tally = counted
        if not candidates.nodes_needed(counted, self._settings.limit, pending, read_at, now):
            return now, counted
        return self._with_nodes(now)

    def _with_nodes(self, at: float) -> tuple[float, Tally]:
        at = self._network.version(at)
        reading = NodeReading(self._world.nodes, self._world.machines, at)
        now, judgements = self._leases(at)
        memory = self._memory
        memory.candidacy = candidates.judge_nodes(reading, {})
        memory.exclusions = memory.exclusions.with_reading(judgements, memory.candidacy, now)
        memory.tally = candidates.tally_with_nodes(judgements, memory.candidacy)
        return now, memory.tally

    def _contact(self, at: float) -> float:
        if self._network.unlucky(at):
            raise NoAnswer(at + LATENCY, VerdictReason.LEASES_UNREADABLE)
        answered = self._network.consistent(at)
        self._contacted(at, answered)
        return answered

    def _leases(self, sent: float) -> tuple[float, tuple[Judgement, ...]]:
        reading = self._network.leases(sent)
        self._contacted(sent, reading.received)
        if reading.received - sent > READING:
            raise NoAnswer(reading.received, VerdictReason.STALE_READING)
        self._sent = sent
        self._memory.book = leases.learn(self._memory.book, reading)
        return reading.received, self._judged(reading)

    # The rules on leases, with what is left out left out.

    def _contacted(self, sent: float, received: float) -> None:
        memory = self._memory
        memory.contacts = leases.contact(
            memory.contacts,
            sent,
            received,
            self._timings,
            failed_before=memory.failed_before,
        )
        if Without.GAP in self._settings.without:
            memory.contacts = Contacts(sent, NEVER)

    def _judged(self, reading: LeaseReading) -> tuple[Judgement, ...]:
        memory, without = self._memory, self._settings.without
        book = memory.book
        if Without.OFFSET in without:
            tracks = {name: t._replace(offset=0.0) for name, t in book.tracks.items()}
            book = LeaseHistory(tracks, book.sent)
        judged = leases.judge_all(
            book, reading, memory.contacts, self._timings, protected=self._protected
        )
        if Without.UNKNOWN in without:
            return tuple(self._decided(each) for each in judged)
        return judged

    def _decided(self, each: Judgement) -> Judgement:
        if each.state is not LeaseState.UNKNOWN or each.age is None:
            return each
        expired = each.age >= self._timings.expiry
        state = LeaseState.EXPIRED if expired else LeaseState.FRESH
        return each._replace(state=state)
