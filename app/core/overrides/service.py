"""Writes pauses and holds for the API and for scaling runs, one entry of one key at a time."""

from dataclasses import replace
from typing import NamedTuple

from app.core.clock import Clock
from app.core.errors import EntryChanged, RunInProgress, trimmed
from app.core.model.overrides import Hold, OverrideEntry, Pause, Unreadable
from app.core.overrides import rules
from app.core.overrides.cache import OverrideCache
from app.core.overrides.document import (
    Content,
    EntryKey,
    EntryKind,
    Fields,
    encode,
    fields_of,
    parts_of,
    read_key,
    settled_hold,
    settled_pause,
)
from app.core.overrides.writer import Data, OverrideWriter, signed
from app.core.ports import OverridesDocument, OverrideWrite, Starting

Part = Fields | str | None
"""One entry as JSON; None if it does not exist; the complete text of a key that cannot be read."""


class _Found(NamedTuple):
    """One key in one version of the ConfigMap."""

    content: OverrideEntry | Unreadable | None
    parts: dict[str, Fields]
    """The entries as JSON; of an unreadable key, what is kept of its last readable content when it is replaced."""
    text: str | None

    def part(self, kind: EntryKind) -> Part:
        return self.text if isinstance(self.content, Unreadable) else self.parts.get(kind)


class OverrideService:
    """Writes pauses and holds (a `ports.OverridesService`).

    Times are rounded to whole seconds so that nothing ends earlier than requested, and limited to 24 h. Writing to a
    key that cannot be read replaces it, and preserves the other entry of its last readable content if that is in force.
    What a scaling run does on its own (`finish_hold`, and `end_hold` with an operation) does not overwrite such a key,
    so that its author can repair it; the result is remembered in the cache instead.
    """

    def __init__(self, writer: OverrideWriter, cache: OverrideCache, clock: Clock) -> None:
        self._writer, self._cache, self._clock = writer, cache, clock

    async def set_pause(self, key: str, pause: Pause) -> OverrideWrite:
        """Pauses a shoot, or all shoots; replaces an existing pause."""
        entry = OverrideEntry(pause=settled_pause(pause))
        return await self._edit(key, EntryKind.PAUSE, entry)

    async def end_pause(self, key: str, *, by: str | None = None) -> OverrideWrite:
        """Removes the pause; `before` equals `after` if there was none. Notices name `by` as the one who ended it."""
        return await self._end(EntryKey(key, EntryKind.PAUSE), by)

    async def set_hold(
        self, namespace: str, hold: Hold, *, starting: Starting | None = None
    ) -> OverrideWrite:
        """Holds a shoot; replaces an existing hold unless another operation still runs under it.

        Raises:
            RunInProgress: another operation does; its run may not be visible yet.
        """
        entry = OverrideEntry(hold=settled_hold(hold))
        return await self._edit(namespace, EntryKind.HOLD, entry, starting)

    async def still_there(self, namespace: str, hold: Hold) -> bool:
        """Reads live whether the hold is still as this process knows it; a watch may lag, or be about to break."""
        return await self._writer.read() is not None and self._cache.holds().get(namespace) == hold

    def note_done(self, namespace: str, operation: str) -> None:
        """Marks the hold of `operation` as done in this process, even if writing that fails."""
        self._cache.note_done(namespace, operation)

    async def finish_hold(self, namespace: str, operation: str) -> OverrideWrite:
        """Writes `done: true` into the hold if it still belongs to this operation."""
        return await self._conclude(_Conclusion(self, namespace, operation, removed=False))

    async def end_hold(
        self, namespace: str, *, operation: str | None = None, by: str | None = None
    ) -> OverrideWrite:
        """Removes the hold, or only that of `operation` if one is given. Notices name `by` as the one who ended it."""
        if operation is None:
            return await self._end(EntryKey(namespace, EntryKind.HOLD), by)
        return await self._conclude(_Conclusion(self, namespace, operation, removed=True))

    async def _edit(
        self, key: str, kind: EntryKind, entry: OverrideEntry, starting: Starting | None = None
    ) -> OverrideWrite:
        edit = _Edit(self, key, kind, fields_of(entry, kind))
        await self._writer.change(edit.plan, starting=starting)
        return self._change(key, edit.before, edit.after)

    async def _end(self, place: EntryKey, by: str | None) -> OverrideWrite:
        """Removes an entry; the same write records who did it, for the leader to report."""
        edit = _Edit(self, *place, None)

        def sign(document: OverridesDocument) -> OverridesDocument:
            return document if by is None else signed(document, edit.ends, by, self._clock.now())

        await self._writer.change(edit.plan, sign=sign)
        return self._change(place.key, edit.before, edit.after)

    async def _conclude(self, conclusion: "_Conclusion") -> OverrideWrite:
        await self._writer.change(conclusion.plan)
        if isinstance(conclusion.before, Unreadable) and (kept := conclusion.remembered()):
            self._cache.amend(conclusion.key, kept)
            return OverrideWrite(conclusion.key, conclusion.before, kept)
        return self._change(conclusion.key, conclusion.before, conclusion.after)

    def _change(
        self, key: str, before: OverrideEntry | Unreadable | None, after: str | None
    ) -> OverrideWrite:
        content = self.found(key, after).content
        return OverrideWrite(key, before, content if isinstance(content, OverrideEntry) else None)

    def found(self, key: str, text: str | None) -> _Found:
        """Parses the text of a key; texts that the cache knows keep the instant at which they were first seen."""
        if text is None:
            return _Found(None, {}, None)
        known, now = self._cache.knowledge.get(key), self._clock.now()
        seen = known.seen if known is not None and known.text == text else now
        match read_key(key, text, seen):
            case Content(entry=entry):
                return _Found(entry, parts_of(text), text)
            case Unreadable() as unreadable:
                return _Found(unreadable, self._kept(key), text)

    def check_replaceable(
        self, key: str, content: OverrideEntry | Unreadable | None, wanted: Fields
    ) -> None:
        """Raises RunInProgress if the key has a hold whose run is under way, or is to be resumed."""
        hold = content.hold if isinstance(content, OverrideEntry) else None
        if hold is None or self._cache.has_ended(key, hold):
            return
        if hold.operation == wanted.get("operation"):
            return
        raise RunInProgress.of(str(hold.operation), key)

    def known(self, key: str) -> OverrideEntry:
        """Returns the last readable content of a key."""
        known = self._cache.knowledge.get(key)
        return rules.NO_ENTRY if known is None else known.entry

    def _kept(self, key: str) -> dict[str, Fields]:
        known, now = self._cache.knowledge.get(key), self._clock.now()
        entry = self.known(key)
        pause = entry.pause if entry.pause is not None and now < entry.pause.until else None
        kept = OverrideEntry(pause, rules.hold_of(known, now))
        found = {kind: fields_of(kept, kind) for kind in EntryKind}
        return {kind: fields for kind, fields in found.items() if fields is not None}


class _Edit:
    """Sets or removes one entry on behalf of a person, who knows the entry that the first attempt finds."""

    def __init__(
        self, service: OverrideService, key: str, kind: EntryKind, wanted: Fields | None
    ) -> None:
        self._service, self._key, self._kind, self._wanted = service, key, kind, wanted
        self._seen: tuple[Part] | None = None
        self.before: OverrideEntry | Unreadable | None = None
        self.after: str | None = None

    def plan(self, data: Data) -> Data:
        """Returns the data with the change.

        Raises:
            EntryChanged: the entry is neither what the first attempt found nor what is wanted.
        """
        found = self._service.found(self._key, data.get(self._key))
        part = found.part(self._kind)
        first, self._seen = self._seen is None, self._seen or (part,)
        if first or part != self._wanted:
            self.before = found.content
        if part == self._wanted:
            self.after = found.text
            return data
        if part != self._seen[0]:
            raise self._changed(part)
        if self._kind is EntryKind.HOLD and self._wanted is not None:
            self._service.check_replaceable(self._key, found.content, self._wanted)
        wanted = _with_part(data, self._key, found.parts, self._kind, self._wanted)
        self.after = wanted.get(self._key)
        return wanted

    @property
    def ends(self) -> set[EntryKey]:
        """The entries that the last planned write ends; for an unreadable key also the pause that stands in for it."""
        more = (
            {EntryKey(self._key, EntryKind.PAUSE)} if isinstance(self.before, Unreadable) else set()
        )
        return {EntryKey(self._key, self._kind)} | more

    def _changed(self, part: Part) -> EntryChanged:
        what = "removed" if part is None else "changed"
        now = trimmed(part) if isinstance(part, str) else part
        message = f"somebody else {what} the {self._kind} of {self._key} at the same time"
        return EntryChanged(message, now)


class _Conclusion:
    """Marks the hold of a finished run as done, or removes it; leaves the hold of a newer run alone."""

    def __init__(
        self, service: OverrideService, key: str, operation: str, *, removed: bool
    ) -> None:
        self._service, self.key, self._operation, self._removed = service, key, operation, removed
        self._first = True
        self.before: OverrideEntry | Unreadable | None = None
        self.after: str | None = None

    def plan(self, data: Data) -> Data:
        """Returns the data with the change."""
        found = self._service.found(self.key, data.get(self.key))
        wanted = data
        if isinstance(found.content, OverrideEntry) and self._concerns(found.content.hold):
            fields = None if self._removed else {**found.parts[EntryKind.HOLD], "done": True}
            wanted = _with_part(data, self.key, found.parts, EntryKind.HOLD, fields)
        if self._first or wanted != data:
            self._first, self.before = False, found.content
        self.after = wanted.get(self.key)
        return wanted

    def remembered(self) -> OverrideEntry | None:
        """Returns the last readable content of the key with the change; None if nothing changes."""
        entry = self._service.known(self.key)
        if entry.hold is None or not self._concerns(entry.hold):
            return None
        return replace(entry, hold=None if self._removed else replace(entry.hold, done=True))

    def _concerns(self, hold: Hold | None) -> bool:
        if hold is None or hold.operation != self._operation:
            return False
        return self._removed or not hold.done


def _with_part(
    data: Data, key: str, parts: dict[str, Fields], kind: EntryKind, fields: Fields | None
) -> Data:
    """Returns the data with this entry set or removed; a key without entries is removed."""
    rest = {name: part for name, part in parts.items() if name != kind}
    mine = {} if fields is None else {str(kind): fields}
    others = {name: text for name, text in data.items() if name != key}
    return {**others, key: encode({**rest, **mine})} if rest or mine else others
