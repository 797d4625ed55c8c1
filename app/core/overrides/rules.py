"""What of the overrides is in force, from what was last readable of each key; pure."""

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
"""Keys of the ConfigMap that are read: no seed has so many shoots."""
_AT_ONCE: Final = 50
_BYTES_AT_ONCE: Final = 65_536
"""Texts, and characters of them, that are read before others have their turn: some milliseconds."""
_NOT_READ: Final = f"it has not been read; of more than {MOST_KEYS} keys the rest never is"
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
Unread = Mapping[str, float]
"""Keys of which nothing is known, and since when they have been there."""
NOTHING_UNREAD: Final[Unread] = MappingProxyType({})


def chosen(
    data: Mapping[str, str], before: Mapping[str, str], knowledge: Knowledge
) -> Sequence[str]:
    """The keys of `data` that are read, in that order: `_all` first, and all the others where they are not too many.

    Of more than that, what was written since `before` goes before what is known already, and that before the rest, so
    that nothing is crowded out that somebody relies on.
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
    """How many of `keys` are read in one go."""
    size = 0
    for number, key in enumerate(keys[:_AT_ONCE]):
        if size > _BYTES_AT_ONCE:
            return number
        size += len(data[key])
    return len(keys[:_AT_ONCE])


def observed(before: Knowledge, data: Mapping[str, str], now: float) -> Knowledge:
    """What is known of these keys after they were seen with these texts."""
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
    """The hold that is in force: until its end, and until its scaling run has ended."""
    hold = None if known is None else known.entry.hold
    return hold if hold is not None and (not hold.done or now < hold.until) else None


def effective(
    namespace: str, knowledge: Knowledge, now: float, unread: Unread = NOTHING_UNREAD
) -> EffectiveOverrides:
    """What is in force for a shoot; a key that is `unread`, since when, is one that cannot be read."""
    own, everywhere = (
        Known("", unread[key], NO_ENTRY, _NOT_READ) if key in unread else knowledge.get(key)
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
    """When each ends by itself; a hold whose scaling run runs does not."""
    yield from (each.until for each in (pause, global_pause) if each is not None)
    if hold is not None and hold.done:
        yield hold.until


def next_end(knowledge: Knowledge, now: float, unread: Unread = NOTHING_UNREAD) -> float | None:
    """When the next of all that is in force ends by itself; None where nothing will."""
    ends = [
        end
        for key, known in knowledge.items()
        for end in _ends(pause_of(key, known, now), None, hold_of(known, now))
    ]
    ends += [at + UNREADABLE_PAUSE for at in set(unread.values()) if at + UNREADABLE_PAUSE > now]
    return min(ends, default=None)


def holds(knowledge: Knowledge) -> dict[str, Hold]:
    """Every hold that is known, ended or not."""
    return {
        key: known.entry.hold for key, known in knowledge.items() if known.entry.hold is not None
    }
