"""Strict reading of JSON that people may have written: pure.

Everything is refused that could mean something other than its writer thinks: unknown and repeated names, values of
another type, times without a zone, numbers that JSON does not have.
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from app.core.errors import trimmed
from app.core.model.instants import parse_rfc3339
from app.core.redaction import one_line

E = TypeVar("E", bound=StrEnum)

MOST_BYTES: Final = 16_384
"""Of one value of the ConfigMap; what we write has less than 4 kB."""
_SHOWN: Final = 40
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


class NotRead(ValueError):
    """Text that is no JSON object of the kind that we accept; the message says why."""


def decode_object(text: str) -> dict[str, object]:
    """The JSON object that `text` is.

    Raises:
        NotRead: it is none, is too long, or names something twice.
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
    """A value as it stands in a message: JSON, cut short, free of control characters and secrets."""
    return one_line(json.dumps(value), _SHOWN)


def missing(value: object) -> bool:
    """Whether a field counts as left out: it is absent, null or blank."""
    return value is None or (isinstance(value, str) and not value.strip())


class Reader:
    """Takes the fields of one object, and collects in `problems` what is wrong with each.

    Each method returns None for a field that is left out, and for one that is wrong.
    """

    def __init__(self, where: str, fields: Mapping[str, object], problems: list[str]) -> None:
        self._where, self._fields, self._problems = where, fields, problems

    def only(self, *known: str) -> None:
        """Complains of every other field."""
        for name in self._fields:
            if name not in known:
                place = one_line(name, _SHOWN) or shown(name)
                self.complain(place, f"unknown field; known are {', '.join(known)}")

    def complain(self, name: str, problem: str) -> None:
        """Something is wrong with this field."""
        self._problems.append(f"{self._where}.{name}: {problem}")

    def text(self, name: str, limit: int) -> str | None:
        """One printable line; control characters become spaces, what is longer is cut, secrets are taken out."""
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
        """Text that `pattern` matches as a whole."""
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.complain(name, f"must be {meaning}, not {shown(value)}")
            return None
        return value

    def word(self, name: str, words: type[E]) -> E | None:
        """One of these words."""
        value = self._value(name)
        if value is None:
            return None
        found = next((each for each in words if each == value), None)
        if found is None:
            self.complain(name, f"must be {' or '.join(words)}, not {shown(value)}")
        return found

    def flag(self, name: str) -> bool | None:
        """True or false."""
        value = self._value(name)
        if value is None or isinstance(value, bool):
            return value
        self.complain(name, f"must be true or false, not {shown(value)}")
        return None

    def instant(self, name: str) -> float | None:
        """A time in RFC 3339."""
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
