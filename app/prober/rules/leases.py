"""How old a lease is, and what it counts as (rules 3.1).

A `LeaseHistory` is what earlier readings taught about each lease: when it was first seen, whether it has moved, and the
offset of its node's clock.  `Contacts` is when storage last answered.  Both are values: a reading makes new ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.core.model.nodes import LeaseReading, LeaseView
from app.core.model.probing import Judgement, LeaseState
from app.prober.rules.timings import Timings, lease_duration, offset_tolerance

NEVER: Final = float("-inf")
_MOVES: Final = 10
_OLD: Final = 0.75
"""Of a lease's duration: the age at which it would be expired, where the grace is as long."""


class LeaseTrack(NamedTuple):
    """What is known of one lease."""

    renew_time: float | None
    duration: float
    first_seen: float
    """When the request of the first reading that had it was sent."""
    moved_from: float | None = None
    """When the request of the reading before its last move was sent; None: not seen to move yet."""
    lows: tuple[float, ...] = ()
    """What its clock's offset is at least, as each of its last moves showed."""
    highs: tuple[float, ...] = ()
    """What it is at most, by the same moves."""
    offset: float = 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """What all moves allow; the first is above the second where that is nothing."""
        return max(self.lows), min(self.highs)


@dataclass(frozen=True, slots=True)
class LeaseHistory:
    """What is known of all leases of a shoot, as of the last reading."""

    tracks: Mapping[str, LeaseTrack] = field(default_factory=dict)
    sent: float | None = None
    """When the request of that reading was sent."""


@dataclass(frozen=True, slots=True)
class Contacts:
    """When storage answered a consistent read of Leases."""

    last: float | None = None
    back_since: float = NEVER
    """The contact that ended the last gap: ages count from it, at the earliest."""

    def gap_at(self, timings: Timings) -> float | None:
        """When there will be a gap, if there is no contact before; None where there was none at all yet."""
        return None if self.last is None else self.last + timings.gap


def contact(
    known: Contacts, sent: float, timings: Timings, *, failed_before: bool = False
) -> Contacts:
    """`known` after a successful consistent read that was sent at `sent`.

    A prober whose first probes failed (`failed_before`) treats its first contact as the end of a gap.
    """
    if known.last is None:
        return Contacts(sent, sent if failed_before else NEVER)
    if sent - known.last > timings.gap:
        return Contacts(sent, sent)
    return Contacts(max(sent, known.last), known.back_since)


def learn(history: LeaseHistory, reading: LeaseReading) -> LeaseHistory:
    """`book` after `reading`; leases that are gone are forgotten."""
    tracks = {lease.name: _learn_one(history, lease, reading) for lease in reading.leases}
    return LeaseHistory(tracks, reading.sent)


def _learn_one(history: LeaseHistory, lease: LeaseView, reading: LeaseReading) -> LeaseTrack:
    track = history.tracks.get(lease.name)
    if track is None:
        return LeaseTrack(lease.renew_time, lease_duration(lease.duration), reading.sent)
    if lease.renew_time == track.renew_time:
        return track
    return _moved(track, lease, history.sent, reading)


def _moved(
    track: LeaseTrack, lease: LeaseView, sent: float | None, reading: LeaseReading
) -> LeaseTrack:
    """A renewal happened between the request of the reading before and the answer of this one."""
    duration = lease_duration(lease.duration)
    if lease.renew_time is None or sent is None:
        return track._replace(renew_time=lease.renew_time, duration=duration)
    renewed = lease.renew_time
    lows = (*track.lows[1 - _MOVES :], sent - renewed)
    highs = (*track.highs[1 - _MOVES :], reading.received - renewed)
    low, high = max(lows), min(highs)
    if low > high:  # the clock was set in between: what was learnt before it is void
        lows, highs = lows[-1:], highs[-1:]
        low, high = lows[0], highs[0]
    elif _old_at_once(renewed + high, duration, reading.sent):
        return LeaseTrack(renewed, duration, reading.sent)
    offset = 0.0 if low <= 0.0 <= high <= offset_tolerance(duration) else high
    return LeaseTrack(renewed, duration, track.first_seen, sent, lows, highs, offset)


def _old_at_once(renewed: float, duration: float, sent: float) -> bool:
    """Whether a renewal that was only just seen would already be as old as a lease that expired.

    Looks are too far apart then to tell a clock that was set back from a kubelet that fell silent: the lease starts
    anew, as one that is seen for the first time (docs/decisions/0011).
    """
    return sent - renewed >= _OLD * duration


def judge_all(
    history: LeaseHistory,
    reading: LeaseReading,
    contacts: Contacts,
    timings: Timings,
    *,
    protected: bool = False,
) -> tuple[Judgement, ...]:
    """What each lease of `reading`, already learnt into `book`, counts as.

    Under protection a lease that was not seen to move yet, or not since when, is never Fresh: its renewTime may come
    from a clock that is ahead, or from before the outage, and the protection would end in its midst
    (docs/decisions/0009).
    """
    judged = (
        judge(name, track, reading, contacts.back_since, timings)
        for name, track in history.tracks.items()
    )
    if not protected:
        return tuple(judged)
    return tuple(
        _unproven(each, history.tracks[each.name], reading.sent, timings.expiry) for each in judged
    )


def _unproven(judgement: Judgement, track: LeaseTrack, sent: float, expiry: float) -> Judgement:
    if judgement.state is not LeaseState.FRESH or _surely_fresh(track, sent, expiry):
        return judgement
    return judgement._replace(state=LeaseState.UNKNOWN)


def _surely_fresh(track: LeaseTrack, sent: float, expiry: float) -> bool:
    """Whether it was seen to move, and by no offset that its clock may well have it would be expired.

    A lease that moved between two readings that were far apart may have done so long ago.
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
    """What one lease counts as at the instant at which `reading` was sent."""
    renewed, sent = track.renew_time, reading.sent
    if renewed is None:
        return Judgement(
            name, LeaseState.UNKNOWN, None, track.offset, None, late=False, expires_at=None
        )
    expiry, corrected = timings.expiry, renewed + track.offset
    known_at = None
    if track.moved_from is not None and sent < corrected + expiry:  # as almost always
        state, expires_at = LeaseState.FRESH, max(corrected, back_since) + expiry
    else:
        state, expires_at = _count(track, corrected, reading, back_since, timings)
        if track.moved_from is None:
            known_at = _known_at(track, sent, back_since, timings)
    age, late = sent - max(corrected, back_since), sent - renewed >= expiry
    return Judgement(name, state, renewed, track.offset, age, late, expires_at, known_at)


def _known_at(track: LeaseTrack, sent: float, back_since: float, timings: Timings) -> float | None:
    """When a lease that was not seen to move yet will have been watched long enough; None where it has."""
    known_at = _watched_until(track, back_since, timings)
    return known_at if sent < known_at else None


def _watched_until(track: LeaseTrack, back_since: float, timings: Timings) -> float:
    return max(track.first_seen, back_since) + timings.watched_long_enough(track.duration)


def _count(
    track: LeaseTrack, corrected: float, reading: LeaseReading, back_since: float, timings: Timings
) -> tuple[LeaseState, float]:
    """The state of a lease that has a renewTime, and when it would be expired if it did not move any more."""
    sent, expiry = reading.sent, timings.expiry
    own_expiry = corrected + expiry
    expires_at = max(own_expiry, back_since + expiry)
    undecided = _hidden_by_gap(track, own_expiry, sent, back_since)
    if track.moved_from is None:
        undecided = undecided or sent >= expires_at or corrected > reading.received
        known_at = _watched_until(track, back_since, timings)
        # One that lies in the future even then has a clock that says nothing: not having moved is what counts.
        expires_at = known_at if corrected > known_at else max(expires_at, known_at)
    if sent >= expires_at:
        return LeaseState.EXPIRED, expires_at
    return (LeaseState.UNKNOWN if undecided else LeaseState.FRESH), expires_at


def _hidden_by_gap(track: LeaseTrack, own_expiry: float, sent: float, back_since: float) -> bool:
    """Whether only the gap keeps it from being expired: it has not moved since, so it proves nothing either way."""
    if sent < own_expiry:
        return False
    return track.moved_from is None or track.moved_from < back_since
