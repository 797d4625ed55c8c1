"""Parses the file of `--auth-token-file`: names, roles and SHA-256 hashes of tokens; it never contains tokens.

Error messages quote neither values nor unknown keys: somebody may have written a token in place of its hash.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import yaml

from app.core.clock import Clock
from app.core.config.fields import FileLocation, Findings, Naming, entries
from app.core.config.scalars import Reader
from app.core.config.yaml_nodes import NodeKind, compose, kind, line_of
from app.core.files import Reread, read_file, unusable
from app.core.model.callers import Caller, Role

T = TypeVar("T")

KEYS: Final = ("name", "role", "sha256")
MAX_NAME: Final = 100
_HASH: Final = re.compile(r"[0-9a-fA-F]{64}")
_OF_NOTHING: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class KnownToken:
    """One entry of the file."""

    name: str
    role: Role
    digest: bytes

    def __repr__(self) -> str:
        return f"KnownToken({self.name}, {self.role})"


@dataclass(frozen=True, slots=True)
class TokenTable:
    """All callers of the file."""

    known: tuple[KnownToken, ...]

    def caller(self, token: str) -> Caller | None:
        """Returns the caller that a token belongs to; None if it is unknown.

        Compares with every entry in constant time, so that the duration reveals nothing about the known tokens.
        """
        digest = hashlib.sha256(token.encode()).digest()
        found = None
        for each in self.known:
            if hmac.compare_digest(each.digest, digest):
                found = each
        return None if found is None else Caller(found.name, found.role)


TokenFile = Reread[bytes, TokenTable]


async def load_token_file(path: Path, clock: Clock) -> TokenFile:
    """Loads the token file for the first time.

    Raises:
        ConfigurationError: the file cannot be read, is readable by others, or has mistakes, all of which are listed.
    """
    read = partial(read_file, path, private=True)
    return await Reread.load("token file", read, partial(parse_tokens, path), clock)


def parse_tokens(path: Path, content: bytes) -> TokenTable:
    """Parses the contents of a token file; errors refer to it as `path`.

    Raises:
        ConfigurationError: it has mistakes; the error lists all of them.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Not chained: the cause would contain the undecodable text, which may be a token.
        raise unusable(path, f"is not UTF-8 text (byte {error.start})") from None
    findings = Findings(str(path), strict=True)
    known = tuple(_known(compose(text, str(path)), findings))
    findings.check()
    return TokenTable(known)


def _known(root: yaml.Node | None, findings: Findings) -> Iterator[KnownToken]:
    if root is None or kind(root) is not NodeKind.LIST or not root.value:
        place = FileLocation("", None if root is None else line_of(root))
        findings.refuse(place, "must be a list of callers, each with name, role and sha256")
    first: dict[object, FileLocation] = {}
    for index, item in enumerate(root.value):
        place = FileLocation(f"[{index}]", line_of(item))
        if kind(item) is not NodeKind.MAPPING:
            findings.mistake(place, "must be a mapping with name, role and sha256")
        elif (found := _one(item, place, findings)) is not None:
            _note_twice({"name": found.name, "sha256": found.digest}, place, first, findings)
            yield found


def _note_twice(
    values: dict[str, object],
    place: FileLocation,
    first: dict[object, FileLocation],
    findings: Findings,
) -> None:
    """Records a mistake for each value that an earlier entry has as well."""
    for key, value in values.items():
        before = first.setdefault((key, value), place)
        if before is not place:
            findings.mistake(place.key(key), f"is also that of {before.path} on line {before.line}")


def _one(node: yaml.Node, place: FileLocation, findings: Findings) -> KnownToken | None:
    """Reads one entry; returns None if it has mistakes, which are recorded."""

    def place_of(key: str, line: int) -> FileLocation:
        return place.key(key, line) if key in KEYS else FileLocation(place.path, line)

    found = entries(node, Naming(place, str, place_of), findings)
    for key, entry in found.items():
        if key not in KEYS:
            findings.mistake(entry.place, "has an unknown key; the keys are name, role and sha256")

    def value(key: str, read: Reader[T]) -> T | None:
        entry = found.get(key)
        if entry is not None and kind(entry.node) is not NodeKind.NULL:
            return findings.attempt(entry.place, read, entry.node)
        findings.mistake(place.key(key), "is required")
        return None

    name, role, digest = value("name", _name), value("role", _role), value("sha256", _digest)
    if name is None or role is None or digest is None:
        return None
    return KnownToken(name, role, digest)


def _string(node: yaml.Node) -> str:
    if kind(node) is not NodeKind.STRING:
        raise ValueError("must be a string; quote it")
    return str(node.value)


def _name(node: yaml.Node) -> str:
    text = _string(node)
    if not text.isprintable() or text != text.strip() or not 0 < len(text) <= MAX_NAME:
        raise ValueError(f"must be a name of at most {MAX_NAME} printable characters")
    return text


def _role(node: yaml.Node) -> Role:
    text = _string(node)
    if text not in set(Role):
        raise ValueError(f"must be one of {', '.join(Role)}")
    return Role(text)


def _digest(node: yaml.Node) -> bytes:
    text = _string(node)
    if not _HASH.fullmatch(text):
        raise ValueError("must be the SHA-256 of a token: 64 hexadecimal digits")
    if text.lower() == _OF_NOTHING:
        raise ValueError("must be the SHA-256 of a token, not of the empty string")
    return bytes.fromhex(text)
