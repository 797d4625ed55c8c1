"""Parses and encodes one key of the ConfigMap of the overrides; pure.

    {"pause": {"scope": "all", "reason": "load test", "author": "alice",
               "createdAt": "2026-11-20T14:02:11Z", "until": "2026-11-20T15:02:11Z"},
     "hold":  {"reason": …, "author": …, "createdAt": …, "until": …,
               "direction": "up", "operation": "…", "force": false, "done": true}}

A person with kubectl may leave fields out (null and blank count as omitted). Their defaults apply from the instant at
which the text was first seen, and the prober's leader writes them back:

- `until`: 24 h after `createdAt`; if that was over when the text was first seen, the key cannot be read;
- `createdAt`: the instant itself, but not after `until`, and not more than 24 h before it;
- `scope`: all; `author`: unknown; `reason`: no reason given; `force`: false; `done`: true.

A `createdAt` may be up to five minutes in the future, because clocks differ. If it is further ahead and there is an
`until`, some clock is wrong: the entry is then in force from now on, for 24 h at most, because dropping it would end
something that somebody relies on.

A hold without `operation` and `direction` counts as done, whatever it says, because there is no scaling run to wait
for. Reasons and authors are cut to one line of at most 500 and 320 characters, and anything that looks like a secret is
removed. A text that deviates in any other way makes the key unreadable.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar, assert_never

from app.core.errors import trimmed
from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.overrides import (
    ALL_SHOOTS,
    LONGEST,
    Hold,
    OverrideEntry,
    Pause,
    Scope,
    Unreadable,
)
from app.core.model.workloads import Direction
from app.core.redaction import one_line

# Strict parsing of JSON that people may have written by hand; pure.
#
# It refuses everything that could mean something other than its author thinks: unknown and duplicate names, values of
# another type, times without a zone, numbers that JSON does not have.


E = TypeVar("E", bound=StrEnum)

MOST_BYTES: Final = 16_384
"""Maximum size of one value of the ConfigMap; what we write stays below 4 kB."""
_SHOWN: Final = 40
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


class NotRead(ValueError):
    """The text is not a JSON object that is accepted; the message says why."""


def decode_object(text: str) -> dict[str, object]:
    """Parses a JSON object.

    Raises:
        NotRead: `text` is not a JSON object, is too long, or has a duplicate name.
    """
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise NotRead(f"must have at most {MOST_BYTES} bytes")
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except NotRead:
        raise
    except RecursionError as error:
        raise NotRead("is nested too deeply") from error
    except ValueError as error:
        raise NotRead(f"is not JSON: {trimmed(str(error), 100)}") from error
    if not isinstance(found, dict):
        raise NotRead("must be a JSON object")
    return found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise NotRead(f"has {shown(name)} twice")
        found[name] = value
    return found


def _no_number(name: str) -> object:
    raise NotRead(f"is not JSON: {name} is no number")


def shown(value: object) -> str:
    """Formats a value for a message: JSON, shortened, without control characters and secrets."""
    return one_line(json.dumps(value), _SHOWN)


def missing(value: object) -> bool:
    """Returns whether a field counts as omitted: absent, null or blank."""
    return value is None or (isinstance(value, str) and not value.strip())


class FieldReader:
    """Reads the fields of one object and collects mistakes in `problems`.

    Each method returns None for a field that is omitted or wrong.
    """

    def __init__(self, where: str, fields: Mapping[str, object], problems: list[str]) -> None:
        self._where, self._fields, self._problems = where, fields, problems

    def only(self, *known: str) -> None:
        """Reports every field that is not in `known`."""
        for name in self._fields:
            if name not in known:
                place = one_line(name, _SHOWN) or shown(name)
                self.complain(place, f"unknown field; known are {', '.join(known)}")

    def complain(self, name: str, problem: str) -> None:
        """Reports a mistake in this field."""
        self._problems.append(f"{self._where}.{name}: {problem}")

    def text(self, name: str, limit: int) -> str | None:
        """Reads one line of text: control characters become spaces, excess is cut, secrets are removed."""
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, str):
            self.complain(name, f"must be text, not {shown(value)}")
            return None
        if any("\ud800" <= each <= "\udfff" for each in value):
            self.complain(name, "must be text of whole characters")
            return None
        return one_line(value, limit) or None

    def matching(self, name: str, pattern: re.Pattern[str], meaning: str) -> str | None:
        """Reads text that `pattern` matches completely."""
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.complain(name, f"must be {meaning}, not {shown(value)}")
            return None
        return value

    def word(self, name: str, words: type[E]) -> E | None:
        """Reads one of the words of an enum."""
        value = self._value(name)
        if value is None:
            return None
        found = next((each for each in words if each == value), None)
        if found is None:
            self.complain(name, f"must be {' or '.join(words)}, not {shown(value)}")
        return found

    def flag(self, name: str) -> bool | None:
        """Reads true or false."""
        value = self._value(name)
        if value is None or isinstance(value, bool):
            return value
        self.complain(name, f"must be true or false, not {shown(value)}")
        return None

    def instant(self, name: str) -> float | None:
        """Reads a time in RFC 3339."""
        value = self._value(name)
        if value is None:
            return None
        found = None
        if isinstance(value, str) and _TIME.fullmatch(value):
            found = parse_rfc3339(value)
        if found is None:
            meaning = "a time in RFC 3339, such as 2026-11-20T14:02:11Z"
            self.complain(name, f"must be {meaning}, not {shown(value)}")
        return found

    def _value(self, name: str) -> object:
        value = self._fields.get(name)
        return None if missing(value) else value


NO_REASON: Final = "no reason given"
UNKNOWN: Final = "unknown"
LONGEST_REASON: Final = 500
LONGEST_AUTHOR: Final = 320
"""In characters. The user name of a ServiceAccount can have up to 337, though hardly any namespace and name are that
long."""
CLOCKS: Final = 300.0
"""Seconds by which the author's clock may be ahead of ours."""
_OPERATION: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", re.ASCII)
_TIMES: Final = ("createdAt", "until")
_COMMON: Final = ("reason", "author", *_TIMES)


class EntryKind(StrEnum):
    """The entries that a key may have."""

    PAUSE = "pause"
    HOLD = "hold"


class EntryKey(NamedTuple):
    """The position of an entry in the ConfigMap."""

    key: str
    kind: EntryKind


Fields = Mapping[str, object]
"""One entry as JSON."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a readable key."""

    entry: OverrideEntry
    completed: str | None
    """The text completed with the omitted fields; None if none was omitted."""


class _Span(NamedTuple):
    created_at: float
    until: float


def read_key(key: str, text: str, seen: float) -> Content | Unreadable:
    """Parses the text of a key.

    Args:
        key: a control-plane namespace, or `_all`, which cannot have a hold.
        text: the value of the key.
        seen: when the text was first seen; defaults count from then, in whole seconds.
    """
    problems: list[str] = []
    try:
        found = _parts(key, decode_object(text), problems)
    except NotRead as error:
        return Unreadable(trimmed(str(error)))
    second = float(math.floor(seen))
    pause = hold = None
    if EntryKind.PAUSE in found:
        pause = _pause(FieldReader("pause", found[EntryKind.PAUSE], problems), second)
    if EntryKind.HOLD in found:
        hold = _hold(FieldReader("hold", found[EntryKind.HOLD], problems), second)
    if problems:
        return Unreadable(trimmed("; ".join(problems)))
    entry = OverrideEntry(pause, hold)
    return Content(entry, _completed(found, entry))


def _parts(
    key: str, found: Mapping[str, object], problems: list[str]
) -> dict[EntryKind, Mapping[str, object]]:
    kinds = [EntryKind.PAUSE] if key == ALL_SHOOTS else list(EntryKind)
    parts: dict[EntryKind, Mapping[str, object]] = {}
    for name, value in found.items():
        if name not in kinds:
            known = " and ".join(kinds)
            problems.append(f"{one_line(name, 40)}: unknown field; {key} may have {known}")
        elif isinstance(value, dict):
            parts[EntryKind(name)] = value
        elif value is not None:
            problems.append(f"{name}: must be an object")
    return parts


def _pause(reader: FieldReader, seen: float) -> Pause:
    reader.only("scope", *_COMMON)
    scope = reader.word("scope", Scope) or Scope.ALL
    span = _span(reader, seen)
    return Pause(scope, *_why_and_who(reader), span.created_at, span.until)


def _hold(reader: FieldReader, seen: float) -> Hold:
    reader.only(*_COMMON, "direction", "operation", "force", "done")
    span = _span(reader, seen)
    direction = reader.word("direction", Direction)
    operation = reader.matching("operation", _OPERATION, "the id of an operation")
    done = reader.flag("done")
    unnamed = direction is None or operation is None
    return Hold(
        *_why_and_who(reader),
        span.created_at,
        span.until,
        direction,
        operation,
        force=reader.flag("force") or False,
        done=unnamed or done is None or done,
    )


def _why_and_who(reader: FieldReader) -> tuple[str, str]:
    reason = reader.text("reason", LONGEST_REASON) or NO_REASON
    return reason, reader.text("author", LONGEST_AUTHOR) or UNKNOWN


def _span(reader: FieldReader, seen: float) -> _Span:
    """Reads begin and end; reports times that are wrong or too far apart."""
    created, until = reader.instant("createdAt"), reader.instant("until")
    if created is not None and until is not None:
        span = _checked(reader, _Span(created, until))
        return span if created <= seen + CLOCKS else _from_now(span, seen)
    if created is not None and created > seen + CLOCKS:
        reader.complain("createdAt", "must not be in the future")
    if created is not None:
        return _open_ended(reader, created, seen)
    if until is None:
        return _Span(seen, seen + LONGEST)
    if until > seen + LONGEST + CLOCKS:
        reader.complain("until", "must be at most 24h from now")
    earliest = float(math.ceil(until - LONGEST))
    return _Span(min(max(seen, earliest), float(math.floor(until))), until)


def _from_now(span: _Span, seen: float) -> _Span:
    """The span of an entry whose author's clock is ahead of ours, or ours behind."""
    return _Span(seen, min(span.until, float(math.floor(seen + LONGEST))))


def _checked(reader: FieldReader, span: _Span) -> _Span:
    if span.until < span.created_at:
        reader.complain("until", "must not be before createdAt")
    if span.until > span.created_at + LONGEST:
        reader.complain("until", "must be at most 24h after createdAt")
    return span


def _open_ended(reader: FieldReader, created: float, seen: float) -> _Span:
    until = float(math.floor(created + LONGEST))
    if until <= seen:
        reader.complain("until", "is left out, and 24h after createdAt have passed")
    return _Span(created, until)


def _completed(found: Mapping[EntryKind, Fields], entry: OverrideEntry) -> str | None:
    whole: dict[str, Fields] = {}
    incomplete = False
    for kind, fields in found.items():
        given = {name: value for name, value in fields.items() if not missing(value)}
        if _shifted(given, entry, kind):
            given = {name: value for name, value in given.items() if name not in _TIMES}
        full = fields_of(entry, kind) or {}
        whole[kind] = {**full, **given}
        incomplete = incomplete or not full.keys() <= given.keys()
    return encode(whole) if incomplete else None


def _shifted(given: Fields, entry: OverrideEntry, kind: EntryKind) -> bool:
    """Whether other times apply than the text says, because a clock was wrong; if so they are written back."""
    part = entry.pause if kind is EntryKind.PAUSE else entry.hold
    said = parse_rfc3339(str(given.get("createdAt")))
    return part is not None and said is not None and part.created_at < said - CLOCKS


def encode(parts: Mapping[str, Fields]) -> str:
    """Encodes the entries of a key."""
    return json.dumps(parts, ensure_ascii=False)


def fields_of(entry: OverrideEntry, kind: EntryKind) -> Fields | None:
    """Returns one entry as JSON, with times in whole seconds; None if it does not exist."""
    match kind:
        case EntryKind.PAUSE:
            return None if entry.pause is None else _pause_fields(entry.pause)
        case EntryKind.HOLD:
            return None if entry.hold is None else _hold_fields(entry.hold)
        case _:
            assert_never(kind)


def _pause_fields(pause: Pause) -> Fields:
    return {"scope": str(pause.scope), **_common(pause)}


def _hold_fields(hold: Hold) -> Fields:
    fields = {
        **_common(hold),
        "direction": None if hold.direction is None else str(hold.direction),
        "operation": hold.operation,
        "force": hold.force,
        "done": hold.done,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _common(entry: Pause | Hold) -> dict[str, object]:
    return {
        "reason": entry.reason,
        "author": entry.author,
        "createdAt": rfc3339(entry.created_at),
        "until": rfc3339(entry.until),
    }


def settled_pause(pause: Pause) -> Pause:
    """Returns the pause as it will be read back: whole seconds, ending no earlier than requested, one-line texts."""
    span = _settled(pause)
    reason, author = _worded(pause)
    return Pause(pause.scope, reason, author, span.created_at, span.until)


def settled_hold(hold: Hold) -> Hold:
    """Returns the hold as it will be read back, like `settled_pause`."""
    span = _settled(hold)
    reason, author = _worded(hold)
    done = hold.done or hold.direction is None or hold.operation is None
    return replace(
        hold,
        reason=reason,
        author=author,
        created_at=span.created_at,
        until=span.until,
        done=done,
    )


def _settled(entry: Pause | Hold) -> _Span:
    created = float(math.floor(entry.created_at))
    return _Span(created, min(max(float(math.ceil(entry.until)), created), created + LONGEST))


def _worded(entry: Pause | Hold) -> tuple[str, str]:
    reason = one_line(entry.reason, LONGEST_REASON) or NO_REASON
    return reason, one_line(entry.author, LONGEST_AUTHOR) or UNKNOWN


def parts_of(text: str | None) -> dict[str, Fields]:
    """Returns the entries of a readable key as JSON, to compare them and to write them back beside a new one."""
    if text is None:
        return {}
    found = decode_object(text)
    return {name: value for name, value in found.items() if isinstance(value, dict)}
