"""What the prober's leader makes of the ConfigMap: what was left out filled in, what is over removed; pure."""

from collections.abc import Collection, Mapping
from typing import Final

from app.core.model.overrides import OverrideEntry
from app.core.overrides.document import EntryKind, encode, parts_of
from app.core.overrides.rules import Knowledge, Known

KEPT: Final = 3_600.0
"""Seconds that an entry stays after its end, for people to see."""


def tidied(
    data: Mapping[str, str], knowledge: Knowledge, now: float, gone: Collection[str]
) -> Mapping[str, str]:
    """The data as it should be; keys that were not seen with this text, or cannot be read, stay as they are.

    Args:
        data: what is there.
        knowledge: what is known of it.
        now: the instant that it is.
        gone: keys of Clusters that do not exist any more; they go, whatever they say.
    """
    found = dict(data)
    for key, known in knowledge.items():
        if data.get(key) != known.text:
            continue
        text = None if key in gone else _without_past(known, now)
        if text is None:
            del found[key]
        else:
            found[key] = text
    return found


def _without_past(known: Known, now: float) -> str | None:
    """What is left of the text of a key; None where nothing is."""
    if known.problem is not None:
        return known.text
    whole = known.text if known.completed is None else known.completed
    if known.entry.empty:
        return None if known.seen + KEPT <= now else whole
    past = [kind for kind in EntryKind if over(known.entry, kind, now)]
    if not past:
        return whole
    left = {kind: part for kind, part in parts_of(whole).items() if kind not in past}
    return encode(left) if left else None


def over(entry: OverrideEntry, kind: EntryKind, now: float) -> bool:
    """Whether it ended so long ago that it goes; a hold whose flow runs has not ended."""
    found = entry.pause if kind is EntryKind.PAUSE else entry.hold
    if found is None or found.until + KEPT > now:
        return False
    return kind is EntryKind.PAUSE or (entry.hold is not None and entry.hold.done)
