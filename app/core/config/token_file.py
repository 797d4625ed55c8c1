"""Parses the file of `--auth-token-file`: names, roles and SHA-256 hashes of tokens; it never contains tokens.

Error messages quote neither values nor unknown keys: somebody may have written a token in place of its hash.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from app.core.clock import Clock
from app.core.config.yaml_file import NodeKind, YamlFile, compose, kind, line_of, refused
from app.core.files import Reread, read_file, unusable
from app.core.model.callers import Caller, Role
from app.core.model.keys import checked

MAX_NAME: Final = 100
_HASH: Final = re.compile(r"[0-9a-fA-F]{64}")
_OF_NOTHING: Final = hashlib.sha256(b"").hexdigest()


def _digest(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("must be a string; quote it")  # noqa: TRY004 - a mistake of the file, as any other
    if not _HASH.fullmatch(value):
        raise ValueError("must be the SHA-256 of a token: 64 hexadecimal digits")
    if value.lower() == _OF_NOTHING:
        raise ValueError("must be the SHA-256 of a token, not of the empty string")
    return bytes.fromhex(value)


def _is_name(text: str) -> bool:
    return text.isprintable() and text == text.strip() and 0 < len(text) <= MAX_NAME


@dataclass(frozen=True, slots=True)
class KnownToken:
    """One entry of the file."""

    name: Annotated[str, checked(_is_name, f"a name of at most {MAX_NAME} printable characters")]
    role: Role
    digest: Annotated[bytes, Field(alias="sha256"), BeforeValidator(_digest)]

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
    root = compose(text, str(path))
    if root is None or kind(root) is not NodeKind.LIST or not root.value:
        message = "must be a list of callers, each with name, role and sha256"
        raise refused(str(path), message, None if root is None else line_of(root))
    file = YamlFile(root, tuple[KnownToken, ...], str(path), strict=True, secret=True)
    _refuse_twice(file)
    return TokenTable(file.load())


def _refuse_twice(file: YamlFile[tuple[KnownToken, ...]]) -> None:
    """Records a mistake for each name and each hash that an earlier entry has as well."""
    found = (
        ((key, value.lower() if key == "sha256" else value), (index, key))
        for index, entry in enumerate(file.values)
        for key in ("name", "sha256")
        if isinstance(entry, dict) and isinstance(value := entry.get(key), str) and value
    )
    for _, path, (first, _) in file.repeated(found):
        place = file.place((first,))
        file.mistake(path, f"is also that of {place.path} on line {place.line}")
