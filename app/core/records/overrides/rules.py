"""What of the overrides is in force, from what was last readable of each key; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from app.core.model.overrides import (
    ALL_SHOOTS,
    Hold,
    OverrideEntry,
    Pause,
    Scope,
    Standing,
    Unreadable,
)
from app.core.records.overrides.document import UNKNOWN, Content, read_key

UNREADABLE_PAUSE: Final = 3_600.0
"""Seconds that a key pauses which cannot be read, where no pause was known."""
NO_ENTRY: Final = OverrideEntry()


@dataclass(frozen=True, slots=True)
class Known:
    """One key, as far as it is known."""

    text: str
    """What is there now."""
    seen: float
    """When that was first seen."""
    entry: OverrideEntry
    """What it says, or said when it could last be read."""
    problem: str | None = None
    """Why it cannot be read; None while it can be."""
    completed: str | None = None
    """The text with what was left out of it; None where nothing was."""

    @property
    def news(self) -> bool:
        """Whether no leader can have dealt with this text yet."""
        return self.problem is not None or self.completed is not None


Knowledge = Mapping[str, Known]
"""By key."""


def observed(before: Knowledge, data: Mapping[str, str], now: float) -> Knowledge:
    """What is known after the ConfigMap was seen with this data."""
    return {key: _observed(before.get(key), key, text, now) for key, text in data.items()}


def _observed(before: Known | None, key: str, text: str, now: float) -> Known:
    if before is not None and before.text == text:
        return before
    found = read_key(key, text, now)
    match found:
        case Content():
            return Known(text, now, found.entry, None, found.completed)
        case Unreadable():
            last = NO_ENTRY if before is None else before.entry
            return Known(text, now, last, found.problem)


def with_done(knowledge: Knowledge, done: Mapping[str, str]) -> Knowledge:
    """`knowledge`, with those holds done whose operation is in `done`, by key."""
    found = {
        key: _with_done(known)
        for key, operation in done.items()
        if (known := knowledge.get(key)) is not None
        and (hold := known.entry.hold) is not None
        and (hold.operation, hold.done) == (operation, False)
    }
    return {**knowledge, **found} if found else knowledge


def _with_done(known: Known) -> Known:
    hold = known.entry.hold
    if hold is None:
        return known
    return replace(known, entry=replace(known.entry, hold=replace(hold, done=True)))


def pause_of(key: str, known: Known | None, now: float) -> Pause | None:
    """The pause that a key means now; of one that cannot be read, that which stands in for it."""
    if known is None:
        return None
    pause = known.entry.pause if known.problem is None else stand_in(key, known)
    return pause if pause is not None and now < pause.until else None


def stand_in(key: str, known: Known) -> Pause:
    """How a key that cannot be read pauses: to the end of its last known pause, or for an hour from when it was seen.

    Each new text that cannot be read begins an hour of its own: it may be a new wish.
    """
    last = known.entry.pause
    until = known.seen + UNREADABLE_PAUSE
    if last is not None and last.until > known.seen:
        until = last.until
    reason = f"the key {key} of the overrides cannot be read: {known.problem}"
    author = UNKNOWN if last is None else last.author
    return Pause(Scope.ALL, reason, author, known.seen, until, stand_in=True)


def hold_of(known: Known | None, now: float) -> Hold | None:
    """The hold that is in force: until its end, and until its flow has ended."""
    hold = None if known is None else known.entry.hold
    return hold if hold is not None and (not hold.done or now < hold.until) else None


def standing(namespace: str, knowledge: Knowledge, now: float) -> Standing:
    """What is in force for a shoot."""
    own, everywhere = knowledge.get(namespace), knowledge.get(ALL_SHOOTS)
    pause = pause_of(namespace, own, now)
    global_pause = pause_of(ALL_SHOOTS, everywhere, now)
    hold = hold_of(own, now)
    problems = (
        f"{key}: {each.problem}"
        for key, each in ((namespace, own), (ALL_SHOOTS, everywhere))
        if each is not None and each.problem is not None
    )
    ends = list(_ends(pause, global_pause, hold))
    return Standing(pause, global_pause, hold, next(problems, None), min(ends) if ends else None)


def _ends(pause: Pause | None, global_pause: Pause | None, hold: Hold | None) -> Iterator[float]:
    """When each ends by itself; a hold whose flow runs does not."""
    yield from (each.until for each in (pause, global_pause) if each is not None)
    if hold is not None and hold.done:
        yield hold.until


def next_end(knowledge: Knowledge, now: float) -> float | None:
    """When the next of all that is in force ends by itself; None where nothing will."""
    ends = [
        end
        for key, known in knowledge.items()
        for end in _ends(pause_of(key, known, now), None, hold_of(known, now))
    ]
    return min(ends, default=None)


def holds(knowledge: Knowledge) -> dict[str, Hold]:
    """Every hold that is known, ended or not."""
    return {
        key: known.entry.hold for key, known in knowledge.items() if known.entry.hold is not None
    }
