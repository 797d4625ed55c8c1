"""How old a lease is, and whether it is fresh, expired or unknown (rules 3.1).

A lease's age alone does not say whether its kubelet is alive: `renewTime` comes from the node's clock, which may be
off, and while the shoot's storage is away no kubelet can renew. Two mechanisms correct for that:

- **Offset.**  When a lease has moved between two readings, its renewal happened between the request of the first and
  the answer of the second. That bounds the offset of the node's clock; `LeaseTrack` intersects the bounds of the last
  ten moves, and `renewTime` + offset is on our own time line.
- **Back since.**  A contact is a successful consistent read of Leases. Two contacts that lie too far apart are a gap;
  after it, ages count from the answer to the contact that ended it at the earliest (`Contacts`).

The offset of a lease that was not seen to move is not known: it is `UNKNOWN` where that could matter, until it was
watched long enough. Unknown leases can only cause HOLD.  `LeaseHistory` and `Contacts` are immutable: each reading
makes new ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.core.model.policy import EXPIRY
from app.core.model.probing import Judgement, LeaseState
from app.core.model.shoots import LeaseReading, LeaseView

# The constants of rules 3.1, for a shoot's grace g and a lease's duration d (seconds).

DEFAULT_LEASE_DURATION: Final = 40.0
MAX_LEASE_DURATION: Final = 120
READING: Final = 5.0
"""The longest time from the request for Leases to the start of the evaluation; later a reading may be untrue."""
SLOW_READINGS: Final = 3
"""After this many thrown-away readings in a row the shoot is `Failing`, reason `TooSlow`."""


@dataclass(frozen=True, slots=True)
class Timings:
    """What follows from the node monitor grace period of a shoot, in seconds."""

    grace: float

    @property
    def expiry(self) -> float:
        """The age at which a lease is expired; kube-controller-manager acts later, at g."""
        return EXPIRY * self.grace

    @property
    def gap(self) -> float:
        """Two contacts further apart than this are a gap: after one, a kubelet needs up to 17 s to come back."""
        return 0.375 * self.grace

    @property
    def contact_every(self) -> float:
        """How far apart contacts between probes are, so that no absence of the storage goes unnoticed."""
        return 0.25 * self.grace

    @property
    def contact_from(self) -> float:
        """If the next probe is further away than this, a contact is made before it."""
        return 0.3 * self.grace

    def watched_long_enough(self, duration: float) -> float:
        """How long a lease has to be watched without a move before it counts as not renewed: 1.5 renewal periods."""
        return min(0.375 * duration, self.expiry)


def lease_duration(seconds: int | None) -> float:
    """`leaseDurationSeconds`, or 40 where it is missing or outside 1…120."""
    if seconds is None or not 1 <= seconds <= MAX_LEASE_DURATION:
        return DEFAULT_LEASE_DURATION
    return float(seconds)


def offset_tolerance(duration: float) -> float:
    """Up to this, a learnt offset is explained by the renewal period (0.25 d) and its jitter: the clock is right."""
    return 0.275 * duration


NEVER: Final = float("-inf")
# How many of a lease's last moves its offset is taken from.
_MOVES: Final = 10
# Share of a lease's duration: the age at which it would be expired if the grace period were as long.
_OLD: Final = 0.75


class LeaseTrack(NamedTuple):
    """What earlier readings taught about one lease; instants and offsets in seconds."""

    renew_time: float | None
    duration: float
    first_seen: float
    """When the answer of the first reading that had the lease had arrived. Storage that comes back answers reads that
    have hung meanwhile, so from the request on it may not have been watched."""
    moved_from: float | None = None
    """When the request of the reading before its last move was sent; None if it was not seen to move yet."""
    lows: tuple[float, ...] = ()
    """Lower bounds of the clock's offset, one from each of the last moves."""
    highs: tuple[float, ...] = ()
    """Upper bounds of the offset, by the same moves."""
    offset: float = 0.0
    """What is added to `renew_time` to get an instant on our own time line."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The offsets that all moves allow, lowest and highest; if the lowest is above the highest, none is."""
        return max(self.lows), min(self.highs)


@dataclass(frozen=True, slots=True)
class LeaseHistory:
    """What is known of all leases of a shoot, as of the last reading."""

    tracks: Mapping[str, LeaseTrack] = field(default_factory=dict)
    """By the name of the lease, which is the node's."""
    sent: float | None = None
    """When the request of the last reading was sent; None if there was none, or it is too long ago to tell moves by."""


@dataclass(frozen=True, slots=True)
class Contacts:
    """When the shoot's storage answered consistent reads of Leases."""

    last: float | None = None
    """When the request of the last one was sent."""
    back_since: float = NEVER
    """When the contact that ended the last gap was answered: ages count from then, at the earliest."""

    def gap_at(self, timings: Timings) -> float | None:
        """The instant from which a contact would come too late to avoid a gap; None before the first contact."""
        return None if self.last is None else self.last + timings.gap


def contact(
    known: Contacts,
    sent: float,
    received: float,
    timings: Timings,
    *,
    failed_before: bool = False,
) -> Contacts:
    """Adds a contact to `known`.

    Args:
        known: the contacts so far.
        sent: when the request of the successful consistent read was sent.
        received: when it was answered; if it hung, the storage may have been away until then.
        timings: of the shoot.
        failed_before: the last probe failed, so that a first contact counts as the end of a gap.
    """
    if known.last is None:
        return Contacts(sent, received if failed_before else NEVER)
    if sent - known.last > timings.gap:
        return Contacts(sent, received)
    return Contacts(max(sent, known.last), known.back_since)


def learn(history: LeaseHistory, reading: LeaseReading) -> LeaseHistory:
    """Updates `history` with `reading`; leases that are gone are forgotten."""
    tracks = {lease.name: _learn_one(history, lease, reading) for lease in reading.leases}
    return LeaseHistory(tracks, reading.sent)


def _learn_one(history: LeaseHistory, lease: LeaseView, reading: LeaseReading) -> LeaseTrack:
    track = history.tracks.get(lease.name)
    if track is None:
        return LeaseTrack(lease.renew_time, lease_duration(lease.duration), reading.received)
    if history.sent is None:
        # After a rest it has to be watched like a new one; but how far off its node's clock is was learnt before.
        return track._replace(
            renew_time=lease.renew_time,
            duration=lease_duration(lease.duration),
            first_seen=reading.received,
            moved_from=None,
        )
    if lease.renew_time == track.renew_time:
        return track
    return _moved(track, lease, history.sent, reading)


def _moved(track: LeaseTrack, lease: LeaseView, sent: float, reading: LeaseReading) -> LeaseTrack:
    """Learns from a lease that moved: it was renewed between the request of the reading before and this answer."""
    duration = lease_duration(lease.duration)
    if lease.renew_time is None:
        return track._replace(renew_time=lease.renew_time, duration=duration)
    renewed = lease.renew_time
    lows = (*track.lows[1 - _MOVES :], sent - renewed)
    highs = (*track.highs[1 - _MOVES :], reading.received - renewed)
    low, high = max(lows), min(highs)
    if low > high:  # the node's clock was set in between, so what was learnt before is void
        lows, highs = lows[-1:], highs[-1:]
        low, high = lows[0], highs[0]
    elif reading.sent - (renewed + high) >= _OLD * duration:
        # Seen only now, it would be old enough to be expired: the readings are too far apart to tell a clock that was
        # set back from a kubelet that fell silent. So it starts anew, like one seen for the first time (rules 3.1).
        return LeaseTrack(renewed, duration, reading.received)
    offset = 0.0 if low <= 0.0 <= high <= offset_tolerance(duration) else high
    return LeaseTrack(renewed, duration, track.first_seen, sent, lows, highs, offset)


def judge_all(
    history: LeaseHistory,
    reading: LeaseReading,
    contacts: Contacts,
    timings: Timings,
    *,
    protected: bool = False,
) -> tuple[Judgement, ...]:
    """Judges each lease of `history`, which must include `reading` already (`learn`).

    Under protection a lease is never Fresh if it was not seen to move, or if nobody knows when it moved: its renewTime
    may come from a clock that is ahead, or from before the outage, and protection would end in mid-outage
    (rules 3.1).
    """
    judged = []
    for name, track in history.tracks.items():
        found = judge(name, track, reading, contacts.back_since, timings)
        if protected and found.state is LeaseState.FRESH:
            proven = _surely_fresh(track, reading.sent, timings.expiry)
            found = found if proven else found._replace(state=LeaseState.UNKNOWN)
        judged.append(found)
    return tuple(judged)


def _surely_fresh(track: LeaseTrack, sent: float, expiry: float) -> bool:
    """Whether the lease was seen to move, and is fresh by every offset that its clock may have.

    A lease that moved between two readings which lie far apart may have moved long ago: its offset is then known badly.
    """
    if track.moved_from is None or track.renew_time is None or not track.lows:
        return False
    low, high = track.bounds
    if high - low <= offset_tolerance(track.duration):
        return True
    return sent - (track.renew_time + low) < expiry


def judge(
    name: str, track: LeaseTrack, reading: LeaseReading, back_since: float, timings: Timings
) -> Judgement:
    """Judges one lease, as of the instant at which `reading` was sent.

    Args:
        name: of the lease.
        track: what is known of it, `reading` included.
        reading: only its instants are used.
        back_since: when the last gap ended (`Contacts.back_since`).
        timings: of the shoot.
    """
    renewed, sent = track.renew_time, reading.sent
    if renewed is None:
        return Judgement(
            name, LeaseState.UNKNOWN, None, track.offset, None, late=False, expires_at=None
        )
    expiry, corrected, known_at = timings.expiry, renewed + track.offset, None
    if track.moved_from is not None and sent < corrected + expiry:  # the usual case, kept cheap
        state, expires_at = LeaseState.FRESH, max(corrected, back_since) + expiry
    else:
        state, expires_at, known_at = _unusual(track, corrected, reading, back_since, timings)
    # The reading that ends a gap was sent before its answer: ages are 0 then, not negative.
    age, late = sent - max(corrected, min(back_since, sent)), sent - renewed >= expiry
    return Judgement(name, state, renewed, track.offset, age, late, expires_at, known_at)


def _unusual(
    track: LeaseTrack, corrected: float, reading: LeaseReading, back_since: float, timings: Timings
) -> tuple[LeaseState, float, float | None]:
    """State, `expires_at` and `known_at` of a lease that was not seen to move, or seems to be expired."""
    sent, expiry = reading.sent, timings.expiry
    own_expiry = corrected + expiry
    expires_at = max(own_expiry, back_since + expiry)
    # If only the gap keeps it from being expired, it proves nothing: it has not moved since.
    undecided = sent >= own_expiry and (track.moved_from is None or track.moved_from < back_since)
    known_at = None
    if track.moved_from is None:
        undecided = undecided or sent >= expires_at or corrected > reading.received
        # When it will have been watched long enough.
        known_at = max(track.first_seen, back_since) + timings.watched_long_enough(track.duration)
        # If the renewal still lies in the future then, its clock says nothing, and what counts is that it did not move.
        # Otherwise such a node would blind the prober for all others (rules 3.1).
        expires_at = known_at if corrected > known_at else max(expires_at, known_at)
    if known_at is not None and sent >= known_at:
        known_at = None
    if sent >= expires_at:
        return LeaseState.EXPIRED, expires_at, known_at
    return (LeaseState.UNKNOWN if undecided else LeaseState.FRESH), expires_at, known_at
