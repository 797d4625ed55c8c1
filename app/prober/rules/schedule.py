"""When the next probe is due, and whether a contact is due before it (rules 4.1 and 3.1).

The next probe comes after `probeInterval`, or earlier where something asks for it; the earliest reason counts. The
most important one is the instant at which the limit would be reached if no lease were renewed any more: because of it
an outage is seen within a second of the moment at which it can be known, whatever `probeInterval` is. Three things go
before all reasons: a failure of the internal path, the wait that a 429 demands, and the rest of a shoot that has used
up its share of the event loop's time. What wakes the runner (`ProbeSchedule.wake`) cuts the first of them short.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.core.model.policy import ProberPolicy
from app.core.model.probing import Failure, Judgement, LeaseState, Reading, Tally
from app.core.model.workloads import Direction
from app.prober.rules.candidates import QUORUM, Candidacy
from app.prober.rules.leases import Timings
from app.prober.rules.verdict import ConsecutiveResults

# Seconds to the next probe after the first, second and each further failure in a row.
#
# A longer first wait would make a gap of a single 429, and cost 40 s of a protection (rules 3, step 5).
_AFTER_FAILURES: Final = (2.0, 5.0, 10.0)
AT_LEAST: Final = 1.0
"""Minimum seconds between two probes where the later one waits for leases to expire, or a person asked for it."""
MAX_RETRY_AFTER: Final = 60.0
# Seconds that a probe may take until its request for Leases is sent.
_MARGIN: Final = 0.5


def regular(policy: ProberPolicy, probed_at: float, randomness: float, together: float) -> float:
    """When to probe next after a probe that began at `probed_at`, for `randomness` in 0…1.

    Where the jitter leaves room, that is at the start of a time slot of `together` seconds: probes of the same slot
    begin together, and find the code that they need in the CPU's caches (docs/performance.md).
    """
    earliest = probed_at + policy.probe_interval
    at = earliest + policy.probe_interval * policy.jitter * randomness
    begin = begin_of(at, together)
    return begin if begin >= earliest else at


def begin_of(at: float, stretch: float) -> float:
    """The start of the time slot of `stretch` seconds that `at` lies in; `at` itself for a length of 0."""
    return math.floor(at / stretch) * stretch if stretch else at


@dataclass(frozen=True, slots=True)
class ScheduleInputs:
    """What the schedule depends on, as of the end of the last probe or contact."""

    now: float
    probed_at: float
    """When the last probe began."""
    failures: int = 0
    """Failed probes and contacts in a row."""
    retry_after: float | None = None
    """Seconds that a 429 asked to wait; None if the last request was not answered so."""
    tally: Tally | None = None
    """Of the last probe in lease mode that did not fail."""
    candidacy: Candidacy | None = None
    counting: bool = False
    protected: bool = False
    run_in_progress: bool = False
    initial_delay_ends: float | None = None
    """When `initialDelay` ends; None if it has."""
    gap_at: float | None = None
    """The instant from which a contact would come too late to avoid a gap; None before the first contact."""
    path_fails: bool = False
    """Endpoint mode: the external path asks for a scale-down."""
    backoff: float | None = None
    """Endpoint mode: seconds to wait after a failure of the internal path; None if it did not fail."""
    rests_until: float = -math.inf
    """No probe before this instant: the shoot's share of time is used up (`TimeBalance`)."""


def next_probe(
    inputs: ScheduleInputs, policy: ProberPolicy, randomness: float, together: float = 0.0
) -> float:
    """When the next probe is due: the earliest instant that anything asks for.

    But never within the wait that a 429 demands, nor within a rest.

    Args:
        inputs: what the last probe or contact left behind.
        policy: its intervals and limit.
        randomness: for the jitter, in 0…1.
        together: length in seconds of the time slots whose regular probes begin together; 0 for none.
    """
    if inputs.backoff is not None:  # nothing is known about the external path meanwhile
        due = inputs.now + max(inputs.backoff, AT_LEAST)
    elif inputs.retry_after is not None:
        due = inputs.now + after_failure(inputs.failures, inputs.retry_after)
    else:
        at_the_interval = regular(policy, inputs.probed_at, randomness, together)
        due = min((at_the_interval, *_sooner(inputs, policy)))
    return max(due, inputs.rests_until)


def after_failure(failures: int, retry_after: float = 0.0) -> float:
    """Seconds to the next probe after so many failures in a row: 2, 5, then 10; longer if a 429 asks for it."""
    wait = _AFTER_FAILURES[min(max(failures, 1), len(_AFTER_FAILURES)) - 1]
    return max(wait, min(retry_after, MAX_RETRY_AFTER))


def _sooner(inputs: ScheduleInputs, policy: ProberPolicy) -> Iterable[float]:
    """Yields the instants at which something asks for a probe before `probeInterval` is over."""
    if inputs.failures:
        yield inputs.now + after_failure(inputs.failures)
        # Every second for as long as a contact can still avoid a gap (rules 4.1).
        at = max(inputs.probed_at, inputs.now) + AT_LEAST
        if inputs.gap_at is not None and at < inputs.gap_at - _MARGIN:
            yield at
    yield from _expected(inputs, limit_reached_at(inputs.tally, inputs.candidacy, policy.limit))
    if inputs.tally is not None:
        # When the first of the leases that have not moved yet will have been watched long enough. Without a probe then,
        # an outage that begins before the second probe would be taken for clocks that are off: with probes 30 s apart
        # it would be seen up to 26 s late (rules 4.1).
        known = (each.known_at for each in inputs.tally.judgements if each.known_at is not None)
        yield from _expected(inputs, min(known, default=None))
    suspect = inputs.counting or inputs.protected or inputs.run_in_progress or inputs.path_fails
    if suspect or _at_limit(inputs.tally, policy.limit):
        yield inputs.probed_at + policy.suspect_interval
    if inputs.initial_delay_ends is not None:
        yield max(inputs.initial_delay_ends, inputs.now)


def _expected(inputs: ScheduleInputs, at: float | None) -> Iterable[float]:
    """Yields an instant that follows from the last reading; if it was missed, only failures set the pace."""
    missed = inputs.failures > 0 and at is not None and at <= inputs.probed_at
    if at is not None and not missed:
        yield max(at, inputs.probed_at + AT_LEAST)


def _at_limit(tally: Tally | None, limit: float) -> bool:
    if tally is None or tally.candidates.total < QUORUM:
        return False
    return tally.candidates.expired_fraction >= limit


def limit_reached_at(tally: Tally | None, known: Candidacy | None, limit: float) -> float | None:
    """When f would first reach the limit if no lease were renewed any more; None if it has already, or never would.

    If the reading had no Nodes, the leases are counted with and without those of nodes that were no candidates when
    Nodes were last read, and the earlier instant is taken: the probe at that instant then reads Nodes.
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


def known_since(
    reading: Reading, policy: ProberPolicy, consecutive: ConsecutiveResults
) -> float | None:
    """The first instant at which the outage that `reading` shows could be known; None if it shows none.

    In lease mode f reached the limit then; in endpoint mode there could have been as many failures as are needed.
    """
    result = reading.result
    if isinstance(result, Tally):
        if not _at_limit(result, policy.limit):
            return None
        ends = sorted(
            each.expires_at
            for each in result.judgements
            if each.state is LeaseState.EXPIRED and each.expires_at is not None
        )
        return ends[_needed(result.candidates.total, policy.limit) - 1]
    down = consecutive.direction is Direction.DOWN
    if isinstance(result, Failure) or not down or consecutive.count < policy.failure_threshold:
        return None
    return consecutive.first_at + (policy.failure_threshold - 1) * policy.suspect_interval


def _needed(total: int, limit: float) -> int:
    """The least number of leases whose fraction reaches the limit, by the same comparison as in the verdict."""
    number = math.floor(limit * total)
    while number / total < limit:
        number += 1
    return number


def next_contact(last: float, probe_at: float, timings: Timings) -> float | None:
    """When to make contact before the probe at `probe_at`, after a contact that was sent at `last`; None if never."""
    # A grace period of milliseconds must not make a flood of requests.
    every = max(timings.contact_every, AT_LEAST)
    return last + every if probe_at - last > max(timings.contact_from, every) else None


# The share of the event loop's time that one shoot may take (threat T18; rules 4.4; docs/decisions/0043).
# While the answers of one shoot are decoded and judged, all others wait. A shoot that is merely large never uses up
# its share; one whose answers are made to be as expensive as possible is probed so rarely that it keeps within it.

SHARE: Final = 0.05
"""Share of the event loop's time that one shoot may take."""
SAVED: Final = 3.0
"""Seconds of it that can be saved up at most: what a minute without probes earns."""
LONGEST_REST: Final = 300.0
"""Seconds after which a shoot is probed again, however long the last probe took."""
PROBED_LESS_OFTEN: Final = (
    f"probed less often, as its answers take more than {SHARE:.0%} of the process's time"
)


@dataclass(frozen=True, slots=True)
class TimeBalance:
    """What a shoot has left of its share of time; a token bucket."""

    at: float
    """The instant that `seconds` refers to."""
    seconds: float = SAVED
    """Negative if more was taken than there was."""

    def after(self, spent: float, now: float) -> "TimeBalance":
        """The balance at `now`, with what was earned since `at` added and the `spent` seconds subtracted."""
        earned = min(self.seconds + (now - self.at) * SHARE, SAVED)
        return TimeBalance(now, max(earned - spent, -LONGEST_REST * SHARE))

    @property
    def rests_until(self) -> float:
        """When the shoot may be probed again."""
        return self.at + max(-self.seconds, 0.0) / SHARE

    @property
    def restored(self) -> bool:
        """Whether at least half of what can be saved up is there, so that the shoot has not been short for a while."""
        return self.seconds >= SAVED / 2
