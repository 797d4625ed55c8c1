"""Which overrides are in force at an instant, given the last readable content of each key; pure.

A key that cannot be read must not have no effect, because its author wanted something: it pauses its shoot (or all of
them, for `_all`) until its last known pause ends, or for an hour. Then it is ignored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Final

from app.core.model.overrides import (
    ALL_SHOOTS,
    EffectiveOverrides,
    Hold,
    OverrideEntry,
    Pause,
    Scope,
    Unreadable,
)
from app.core.overrides.document import UNKNOWN, Content, read_key

MOST_KEYS: Final = 2_000
"""Maximum number of keys that are read: no seed has so many shoots."""
_AT_ONCE: Final = 50
# Texts, and characters in them, that are parsed before the event loop gets a turn: a few milliseconds.
_BYTES_AT_ONCE: Final = 65_536
_NOT_READ: Final = f"it has not been read: beyond {MOST_KEYS} keys none is"
UNREADABLE_PAUSE: Final = 3_600.0
"""Seconds for which an unreadable key pauses, if it had no pause before."""
NO_ENTRY: Final = OverrideEntry()


@dataclass(frozen=True, slots=True)
class KeyKnowledge:
    """What is known of one key."""

    text: str
    """The current text."""
    seen: float
    """When this text was first seen."""
    entry: OverrideEntry
    """Its content, or the last readable content."""
    problem: str | None = None
    """Why the text cannot be read; None if it can."""
    completed: str | None = None
    """The text completed with omitted fields; None if none was omitted."""

    @property
    def news(self) -> bool:
        """Whether no leader can have processed this text yet."""
        return self.problem is not None or self.completed is not None


Knowledge = Mapping[str, KeyKnowledge]
"""By key."""
Unread = Mapping[str, float]
"""Keys without known content, and since when they exist."""
NOTHING_UNREAD: Final[Unread] = MappingProxyType({})


def chosen(
    data: Mapping[str, str], before: Mapping[str, str], knowledge: Knowledge
) -> Sequence[str]:
    """Returns the keys of `data` to read, in order: `_all` first, then all others if they are not too many.

    If they are, keys that were written since `before` come first, then keys that are known already, then the rest, so
    that nothing that somebody relies on is crowded out.
    """
    first = [key for key in (ALL_SHOOTS,) if key in data]
    if len(data) <= MOST_KEYS:
        return list(dict.fromkeys((*first, *data)))
    written = [key for key, text in data.items() if before.get(key) != text]
    ordered = chain(first, written, (key for key in knowledge if key in data), data)
    found: dict[str, None] = {}  # each once, in order
    for key in ordered:
        found[key] = None
        if len(found) == MOST_KEYS:
            break
    return list(found)


def some_of(keys: Sequence[str], data: Mapping[str, str]) -> int:
    """Returns how many of `keys` to parse before the event loop gets a turn."""
    size = 0
    for number, key in enumerate(keys[:_AT_ONCE]):
        if size > _BYTES_AT_ONCE:
            return number
        size += len(data[key])
    return len(keys[:_AT_ONCE])


def observed(before: Knowledge, data: Mapping[str, str], now: float) -> Knowledge:
    """Returns what is known of these keys once these texts were seen."""
    return {key: _observed(before.get(key), key, text, now) for key, text in data.items()}


def _observed(before: KeyKnowledge | None, key: str, text: str, now: float) -> KeyKnowledge:
    if before is not None and before.text == text:
        return before
    found = read_key(key, text, now)
    match found:
        case Content():
            return KeyKnowledge(text, now, found.entry, None, found.completed)
        case Unreadable():
            last = NO_ENTRY if before is None else before.entry
            return KeyKnowledge(text, now, last, found.problem)


def with_done(knowledge: Knowledge, done: Mapping[str, str]) -> Knowledge:
    """Returns `knowledge` with the holds of the operations in `done` (by key) marked as done."""
    found = {
        key: _with_done(known)
        for key, operation in done.items()
        if (known := knowledge.get(key)) is not None
        and (hold := known.entry.hold) is not None
        and (hold.operation, hold.done) == (operation, False)
    }
    return {**knowledge, **found} if found else knowledge


def _with_done(known: KeyKnowledge) -> KeyKnowledge:
    hold = known.entry.hold
    if hold is None:
        return known
    return replace(known, entry=replace(known.entry, hold=replace(hold, done=True)))


def pause_of(key: str, known: KeyKnowledge | None, now: float) -> Pause | None:
    """Returns the pause of a key that is in force now; of an unreadable key, the one that stands in for it."""
    if known is None:
        return None
    pause = known.entry.pause if known.problem is None else stand_in(key, known)
    return pause if pause is not None and now < pause.until else None


def stand_in(key: str, known: KeyKnowledge) -> Pause:
    """Returns the pause that stands in for an unreadable key.

    It lasts until the end of the last known pause, or for an hour after the text was first seen. Each new unreadable
    text starts a new hour, because it may express a new decision.
    """
    last = known.entry.pause
    until = known.seen + UNREADABLE_PAUSE
    if last is not None and last.until > known.seen:
        until = last.until
    reason = f"the key {key} of the overrides cannot be read: {known.problem}"
    author = UNKNOWN if last is None else last.author
    return Pause(Scope.ALL, reason, author, known.seen, until, stand_in=True)


def hold_of(known: KeyKnowledge | None, now: float) -> Hold | None:
    """Returns the hold that is in force: until its end, and until its scaling run has ended."""
    hold = None if known is None else known.entry.hold
    return hold if hold is not None and (not hold.done or now < hold.until) else None


def effective(
    namespace: str, knowledge: Knowledge, now: float, unread: Unread = NOTHING_UNREAD
) -> EffectiveOverrides:
    """Returns what is in force for a shoot; a key in `unread` counts as unreadable since then."""
    own, everywhere = (
        KeyKnowledge("", unread[key], NO_ENTRY, _NOT_READ) if key in unread else knowledge.get(key)
        for key in (namespace, ALL_SHOOTS)
    )
    pause = pause_of(namespace, own, now)
    global_pause = pause_of(ALL_SHOOTS, everywhere, now)
    hold = hold_of(own, now)
    problems = (
        f"{key}: {each.problem}"
        for key, each in ((namespace, own), (ALL_SHOOTS, everywhere))
        if each is not None and each.problem is not None
    )
    ends = list(_ends(pause, global_pause, hold))
    return EffectiveOverrides(
        pause, global_pause, hold, next(problems, None), min(ends) if ends else None
    )


def _ends(pause: Pause | None, global_pause: Pause | None, hold: Hold | None) -> Iterator[float]:
    """Yields when each expires; a hold whose scaling run is under way does not."""
    yield from (each.until for each in (pause, global_pause) if each is not None)
    if hold is not None and hold.done:
        yield hold.until


def next_end(knowledge: Knowledge, now: float, unread: Unread = NOTHING_UNREAD) -> float | None:
    """Returns when the next override expires; None if none will."""
    ends = [
        end
        for key, known in knowledge.items()
        for end in _ends(pause_of(key, known, now), None, hold_of(known, now))
    ]
    ends += [at + UNREADABLE_PAUSE for at in set(unread.values()) if at + UNREADABLE_PAUSE > now]
    return min(ends, default=None)


def holds(knowledge: Knowledge) -> dict[str, Hold]:
    """Returns all known holds, including expired ones."""
    return {
        key: known.entry.hold for key, known in knowledge.items() if known.entry.hold is not None
    }
