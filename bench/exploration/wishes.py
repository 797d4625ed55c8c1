"""What people wrote into the ConfigMap of the overrides, read here once more, and what each process was told of it.

Nothing of `app.core.overrides` is used: the invariants are held against this.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from app.core.ports import OverridesDocument

EVERYWHERE: Final = "_all"
_DAY: Final = 86_400.0
_STAND_IN: Final = 3_600.0
"""A key that cannot be read pauses for so long where no pause was known, seconds (7)."""
_UNREAD: Final = 60.0
"""So long after its start a process may take overrides that it could not read for none, seconds (4.1, Synced)."""
_COMMON: Final = frozenset({"reason", "author", "createdAt", "until"})
_FIELDS: Final = {
    "pause": _COMMON | {"scope"},
    "hold": _COMMON | {"direction", "operation", "force", "done"},
}


@dataclass(frozen=True, slots=True)
class Pausing:
    """Somebody wants us to keep our hands off."""

    everything: bool
    """Both directions; else only scaling down."""
    until: float


@dataclass(frozen=True, slots=True)
class Holding:
    """Somebody has scaled by hand, and wants that to stay."""

    until: float
    direction: str | None = None
    operation: str | None = None
    force: bool = False
    done: bool = True


@dataclass(frozen=True, slots=True)
class Key:
    """What one key says."""

    text: str
    seen: float
    """When this text was first seen."""
    readable: bool
    pause: Pausing | None
    """Of a key that cannot be read, as all that follows: what was last readable."""
    hold: Holding | None

    def pausing(self) -> Pausing | None:
        """The pause that it means; one that cannot be read means one, too (7)."""
        if self.readable:
            return self.pause
        last = self.pause
        until = last.until if last is not None and last.until > self.seen else None
        return Pausing(everything=True, until=until or self.seen + _STAND_IN)


class _Garbage(ValueError):
    """Not what a key may say."""


def read(text: str, seen: float, before: Key | None = None) -> Key:
    """A key with this text, first seen then; `before`: as it was until then."""
    if before is not None and before.text == text:
        return before
    try:
        found = _entries(text)
        pause = _pausing(found["pause"], seen) if found.get("pause") is not None else None
        hold = _holding(found["hold"], seen) if found.get("hold") is not None else None
    except (ValueError, TypeError):
        kept = (None, None) if before is None else (before.pause, before.hold)
        return Key(text, seen, False, *kept)  # noqa: FBT003  the field says what it is
    return Key(text, seen, True, pause, hold)  # noqa: FBT003  as above


def _entries(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict) or not found.keys() <= _FIELDS.keys():
        raise _Garbage(text)
    for kind, entry in found.items():
        fields = entry.keys() if isinstance(entry, dict) else {""}
        if entry is not None and not fields <= _FIELDS[kind]:
            raise _Garbage(text)
    return found


def _pausing(entry: Mapping[str, Any], seen: float) -> Pausing:
    scope = entry.get("scope") or "all"
    if scope not in {"all", "scaleDown"}:
        raise _Garbage(scope)
    return Pausing(scope == "all", _until(entry, seen))


def _holding(entry: Mapping[str, Any], seen: float) -> Holding:
    direction, operation = entry.get("direction"), entry.get("operation")
    if direction not in {None, "up", "down"}:
        raise _Garbage(direction)
    named = direction is not None and operation is not None
    done = entry.get("done") is not False or not named
    return Holding(_until(entry, seen), direction, operation, entry.get("force") is True, done)


def _until(entry: Mapping[str, Any], seen: float) -> float:
    created = _instant(entry["createdAt"]) if entry.get("createdAt") else math.floor(seen)
    return _instant(entry["until"]) if entry.get("until") else created + _DAY


def _instant(text: str) -> float:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise _Garbage(text)
    return found.timestamp()


def in_force(keys: Mapping[str, Key], namespace: str, now: float) -> bool:
    """Whether a shoot is paused or held; a hold whose scaling run has not ended goes on, whatever its end."""
    found = (keys.get(name) for name in (namespace, EVERYWHERE))
    pauses = (key.pausing() for key in found if key is not None)
    if any(pause is not None and now < pause.until for pause in pauses):
        return True
    own = keys.get(namespace)
    hold = None if own is None else own.hold
    return hold is not None and (not hold.done or now < hold.until)


@dataclass(slots=True)
class Told:
    """What one process was told of the overrides: by its watch, and by the answers to its own requests."""

    started: float
    listed_at: float | None = None
    """When its watch had first listed them."""
    forbidden: bool = False
    """It was told that it may not read them, in earnest."""
    keys: dict[str, Key] = field(default_factory=dict)
    _version: int = 0
    _uid: str = ""
    _watched: tuple[str, str] = ("", "")
    """The uid and the version of what the watch shows; empty: there is none."""
    _doubtful: bool = False
    """The watch shows none, and an answer has shown one: which is newer cannot be said."""

    def shown(self, document: OverridesDocument | None, *, synced: bool, now: float) -> None:
        """The watch shows this."""
        if not synced:
            return
        if self.listed_at is None:
            self.listed_at = now
        before = self._watched
        self._watched = ("", "") if document is None else (document.uid, document.resource_version)
        if document is not None and before == self._watched:
            return  # no news: it does not take back an answer that there is none
        self._doubtful = document is None and before[0] != self._uid
        if document is None and before[0] == self._uid:
            self.keys = {}
        elif document is not None:
            self.answered(document, now)

    def answered(self, document: OverridesDocument, now: float) -> None:
        """It has read or written this."""
        if int(document.resource_version) <= self._version:
            return
        self._version, self._uid = int(document.resource_version), document.uid
        self._doubtful = False
        known = self.keys
        self.keys = {name: read(text, now, known.get(name)) for name, text in document.data.items()}

    def not_there(self) -> None:
        """It has asked, and there is none: whether that is newer than all it was told cannot be said."""
        self._doubtful = True

    def known(self, now: float) -> bool:
        """Whether it may act: it has read them, or may take them for none (4.1, Synced)."""
        return self.listed_at is not None or self.forbidden or now - self.started >= _UNREAD

    def pause(self, namespace: str, now: float, *, down: bool) -> str | None:
        """The key that surely forbids to scale this way, of which it was told before this instant."""
        for name in (namespace, EVERYWHERE):
            key = self.keys.get(name)
            if self._doubtful or key is None or key.seen >= now:
                continue
            pause = key.pausing()
            if pause is not None and now < pause.until and (down or pause.everything):
                return name
        return None

    def hold(self, namespace: str) -> Holding | None:
        """The hold of a shoot, whether or not it has ended by the clock."""
        key = self.keys.get(namespace)
        return None if key is None else key.hold

    def held(self, namespace: str, now: float) -> bool:
        """Whether a hold is surely in force, of which it was told before this instant."""
        key = self.keys.get(namespace)
        if self._doubtful or key is None or key.hold is None:
            return False
        return key.seen < now < key.hold.until
