"""When to probe again, and whether a contact is due before that (rules 4.1, "When to probe again"; 3.1, contact)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.core.model.probing import Judgement, LeaseState, Tally
from app.prober.rules.candidates import Candidacy
from app.prober.rules.timings import Timings
from app.prober.rules.verdict import QUORUM

_AFTER_FAILURES: Final = (2.0, 5.0, 10.0)
AT_LEAST: Final = 1.0
"""A probe that waits for leases to expire, or that somebody asks for, comes no sooner than this after the last."""
MAX_RETRY_AFTER: Final = 60.0
_MARGIN: Final = 0.5
"""What a probe may take until its request for Leases is sent, in seconds."""


@dataclass(frozen=True, slots=True)
class ProbePace:
    """How often this shoot is looked at when nothing is going on."""

    interval: float
    jitter: float
    suspect_interval: float
    together: float = 0.0
    """Seconds of a stretch of time whose regular probes begin with it; 0: each when it is due by itself."""

    def regular(self, looked_at: float, randomness: float) -> float:
        """When to probe next after a probe at `looked_at`, for `randomness` in 0…1.

        Where the jitter leaves room, at the begin of a stretch of time: probes that are due in the same one begin
        together, and find the code that they need in the CPU's caches (docs/performance.md).
        """
        earliest = looked_at + self.interval
        at = earliest + self.interval * self.jitter * randomness
        begin = begin_of(at, self.together)
        return begin if begin >= earliest else at


def begin_of(at: float, stretch: float) -> float:
    """When the stretch of time that the instant `at` lies in began; with stretches of 0 seconds, `at` itself."""
    return math.floor(at / stretch) * stretch if stretch else at


@dataclass(frozen=True, slots=True)
class ScheduleInputs:
    """What the last probe left behind."""

    now: float
    looked_at: float
    """When it began."""
    failures: int = 0
    """Failed probes and contacts in a row."""
    retry_after: float | None = None
    """What a 429 asked for, seconds."""
    tally: Tally | None = None
    """Of the last probe that ended in a reading."""
    candidacy: Candidacy | None = None
    counting: bool = False
    protected: bool = False
    run_in_progress: bool = False
    wake_at: float | None = None
    """When a gate opens by itself: `initialDelay` ends."""
    gap_at: float | None = None
    """When there will be a gap, if there is no contact before; None where there was none at all yet."""
    path_fails: bool = False
    """Endpoint mode: the external path asks for a scale-down."""
    backoff: float | None = None
    """Endpoint mode: seconds that a failure of the internal path asks to wait."""
    rests_until: float = -math.inf
    """No probe before this: its share of time is used up (`rules.share`)."""


@dataclass(frozen=True, slots=True)
class NextProbe:
    """When to probe again, and why then."""

    at: float
    why: str


def next_probe(
    inputs: ScheduleInputs, pace: ProbePace, limit: float, randomness: float
) -> NextProbe:
    """The earliest of all that asks for a probe; but never inside the wait that a 429 asks for, nor inside a rest."""
    due = _wanted(inputs, pace, limit, randomness)
    if due.at >= inputs.rests_until:
        return due
    return NextProbe(inputs.rests_until, "its answers took more than its share of time")


def _wanted(inputs: ScheduleInputs, pace: ProbePace, limit: float, randomness: float) -> NextProbe:
    if inputs.backoff is not None:  # nothing is known about the external path meanwhile
        wait = max(inputs.backoff, AT_LEAST)
        return NextProbe(inputs.now + wait, "the internal path failed")
    due = min(_reasons(inputs, pace, limit, randomness), key=lambda reading: reading.at)
    if inputs.retry_after is None:
        return due
    wait = max(after_failure(inputs.failures), min(inputs.retry_after, MAX_RETRY_AFTER))
    return NextProbe(inputs.now + wait, "throttled")


def after_failure(failures: int) -> float:
    """Seconds to the next probe after so many failures in a row: 2, 5, then 10."""
    return _AFTER_FAILURES[min(max(failures, 1), len(_AFTER_FAILURES)) - 1]


def _reasons(
    inputs: ScheduleInputs, pace: ProbePace, limit: float, randomness: float
) -> Iterable[NextProbe]:
    yield NextProbe(pace.regular(inputs.looked_at, randomness), "interval")
    if inputs.failures:
        yield NextProbe(inputs.now + after_failure(inputs.failures), "after a failure")
        yield from _before_a_gap(inputs)
    reached = limit_reached_at(inputs.tally, inputs.candidacy, limit)
    yield from _expected(inputs, reached, "the limit could be reached")
    yield from _expected(inputs, _leases_known_at(inputs.tally), "leases are being learnt")
    if (why := _suspect(inputs, limit)) is not None:
        yield NextProbe(inputs.looked_at + pace.suspect_interval, why)
    if inputs.wake_at is not None:
        yield NextProbe(max(inputs.wake_at, inputs.now), "a wait is over")


def _before_a_gap(inputs: ScheduleInputs) -> Iterable[NextProbe]:
    """After failures, a second apart for as long as a contact can still keep the ages (docs/decisions/0010)."""
    at = max(inputs.looked_at, inputs.now) + AT_LEAST
    if inputs.gap_at is not None and at < inputs.gap_at - _MARGIN:
        yield NextProbe(at, "before a gap")


def _expected(inputs: ScheduleInputs, at: float | None, why: str) -> Iterable[NextProbe]:
    """A probe at an instant that the last reading told of; once it has passed, failures alone set the pace."""
    missed = inputs.failures > 0 and at is not None and at <= inputs.looked_at
    if at is not None and not missed:
        yield NextProbe(max(at, inputs.looked_at + AT_LEAST), why)


def _leases_known_at(tally: Tally | None) -> float | None:
    """When the first of the leases that have not moved yet will have been watched long enough.

    Without this probe, an outage that begins before the second one would be taken for clocks that are off: with probes
    30 s apart it would be seen up to 26 s late (docs/decisions/0008).
    """
    if tally is None:
        return None
    instants = (each.known_at for each in tally.judgements if each.known_at is not None)
    return min(instants, default=None)


def _suspect(inputs: ScheduleInputs, limit: float) -> str | None:
    if inputs.counting:
        return "counting"
    if inputs.protected:
        return "protection is active"
    if inputs.run_in_progress:
        return "a scaling run is going on"
    if inputs.path_fails:
        return "the external path fails"
    return "the limit is reached" if _at_limit(inputs.tally, limit) else None


def _at_limit(tally: Tally | None, limit: float) -> bool:
    if tally is None or tally.candidates.total < QUORUM:
        return False
    return tally.candidates.expired_fraction >= limit


def limit_reached_at(tally: Tally | None, known: Candidacy | None, limit: float) -> float | None:
    """When, if no lease were renewed any more, f would first reach the limit; None where it has, or never would.

    Leases that were fresh are counted with and without those whose nodes are known not to be candidates: the probe
    that finds out reads Nodes.
    """
    if tally is None or _at_limit(tally, limit):
        return None
    instants = [_reaches(tally.judgements, limit)]
    if known is not None and not tally.nodes_read:
        instants.append(_reaches([j for j in tally.judgements if known.of(j.name) is None], limit))
    return min((instant for instant in instants if instant is not None), default=None)


def _reaches(judgements: Iterable[Judgement], limit: float) -> float | None:
    leases = list(judgements)
    if len(leases) < QUORUM:
        return None
    expired = sum(1 for each in leases if each.state is LeaseState.EXPIRED)
    more = _needed(len(leases), limit) - expired
    ends = sorted(
        each.expires_at
        for each in leases
        if each.state is not LeaseState.EXPIRED and each.expires_at is not None
    )
    return ends[more - 1] if 0 < more <= len(ends) else None


def known_since(tally: Tally, limit: float) -> float | None:
    """When f reached the limit, for a tally that is at it: the instant at which the outage could be known."""
    if not _at_limit(tally, limit):
        return None
    ends = sorted(
        each.expires_at
        for each in tally.judgements
        if each.state is LeaseState.EXPIRED and each.expires_at is not None
    )
    return ends[_needed(tally.candidates.total, limit) - 1]


def _needed(total: int, limit: float) -> int:
    """The least number of leases whose fraction reaches the limit, by the very comparison that the verdict makes."""
    number = math.floor(limit * total)
    while number / total < limit:
        number += 1
    return number


def next_contact(now: float, probe_at: float, timings: Timings) -> float | None:
    """When to make contact before the probe at `probe_at`, from a contact or probe at `now`; None: not before it."""
    every = max(timings.contact_every, AT_LEAST)  # a grace of milliseconds must not make a flood
    return now + every if probe_at - now > max(timings.contact_from, every) else None


# What share of the event loop's time the probes of one shoot may take, and how long it rests once that is used up.
# Decoding and judging what a shoot answers takes time for which all others wait.  A shoot that is only large never uses
# up its share; one whose answers are made to cost as much as they can is probed as rarely as keeps it within its share.

SHARE: Final = 0.05
"""Of the time of the loop."""
SAVED: Final = 3.0
"""Seconds that are saved up at most, as in a minute of quiet."""
LONGEST_REST: Final = 300.0
"""Seconds after which it is looked at again, whatever the last probe took."""
PROBED_LESS_OFTEN: Final = (
    f"probed less often, as its answers take more than {SHARE:.0%} of the process's time"
)


@dataclass(frozen=True, slots=True)
class TimeBalance:
    """What a shoot has left of its share."""

    at: float
    """The instant as of which."""
    seconds: float = SAVED
    """Below 0 where more was taken than there was."""

    def after(self, spent: float, now: float) -> "TimeBalance":
        """As of `now`, so many seconds having been taken since."""
        earned = min(self.seconds + (now - self.at) * SHARE, SAVED)
        return TimeBalance(now, max(earned - spent, -LONGEST_REST * SHARE))

    @property
    def rests_until(self) -> float:
        """When it may be looked at again."""
        return self.at + max(-self.seconds, 0.0) / SHARE

    @property
    def restored(self) -> bool:
        """Whether half of what can be saved up is there: it has not been short for a while."""
        return self.seconds >= SAVED / 2
