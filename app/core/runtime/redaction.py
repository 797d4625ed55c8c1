"""Takes secrets, control characters and excess length out of what is about to be logged (threats T12, T13); pure.

What has the shape of a secret is replaced wherever it stands: a bearer token, a JWT, a PEM block (base64-encoded ones
too), a value behind a key such as `token` or `password`.
"""

import re
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

from app.core.errors import trimmed

REDACTED: Final = "[redacted]"
MAX_VALUE: Final = 2_048
MAX_TRACE: Final = 8_192
MAX_LINE: Final = 16_384
_MAX_ITEMS: Final = 50
_MAX_DEPTH: Final = 5
_SCANNED: Final = 4
"""How many times its final length of a text is searched for secrets: what is cut off needs no search."""

# Each of them takes time in proportion to the text: none begins with a repetition.
_KEYS: Final = (
    r"(?:token|passw(?:or)?d|client-key-data|client-key|private-?key|authorization|api-?key|"
    r"client-?secret)"
)
_PATTERNS: Final = (
    # A block without its end (cut off) is taken to the end of the text.
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{1,40}-----.*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)", re.DOTALL
        ),
        REDACTED,
    ),
    (re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]*(?:\s+[A-Za-z0-9+/=]{16,})*"), REDACTED),
    (
        re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?)(?:[a-z]+\s+)?[^\s,;\"']+"),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(?i)\b(Bearer)\s+(?!tokens?\b)[A-Za-z0-9._~+/=-]+"), rf"\1 {REDACTED}"),
    (re.compile(r"(?i)\b(Basic)\s+(?=[a-z+/]*[0-9=])[a-z0-9+/=]{8,}"), rf"\1 {REDACTED}"),
    (re.compile(r"eyJ[A-Za-z0-9_=-]{8,}(?:\.[A-Za-z0-9_=-]*){0,2}"), REDACTED),
    # key=value, "key": "value", key: value; but not prose ("token: must be inline").
    (
        re.compile(
            rf"(?i)({_KEYS}(?:\\?[\"'])?\s*(?:=\s*|:\s*(?![a-z]+ [a-z])))"
            r"(?!\[redacted\])(\\?\"[^\"]*\"?|\\?'[^']*'?|[^\s,;&}\])\"']+)"
        ),
        rf"\1{REDACTED}",
    ),
)
_SECRET_KEY: Final = re.compile(
    r"(?i)(?:.*(?:token|password|passwd|clientkey|keydata|privatekey|clientsecret|apikey)|(?:set)?cookie|authorization|kubeconfig)"
)


def clean(text: str, limit: int = MAX_VALUE) -> str:
    """`text` as one printable line without secrets, of at most `limit` characters."""
    return _cut(_printable(without_secrets(text[: limit * _SCANNED])), limit)


def one_line(text: str, limit: int) -> str:
    """What a person wrote, as one line without secrets; of a run of spaces one is left, of those at its ends none."""
    return trimmed(without_secrets(text[: limit * _SCANNED]), limit)


def clean_trace(text: str) -> str:
    """A traceback, its lines kept: the first and the last of them, where it is too long."""
    safe = without_secrets(text[-MAX_TRACE * _SCANNED :])
    lines = "\n".join(_printable(line) for line in safe.split("\n"))
    if len(lines) <= MAX_TRACE:
        return lines
    half = MAX_TRACE // 2
    return f"{lines[:half]}\n[… cut …]\n{lines[-half:]}"


def without_secrets(text: str) -> str:
    """`text` with everything that looks like a secret replaced."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def clean_value(key: str, value: object, depth: int = 0) -> object:
    """`value`, known as `key`, in a form that JSON has and that is safe to show."""
    if value is None:
        return None
    if _is_secret(key):
        return REDACTED
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _clean_items(value, depth) if depth < _MAX_DEPTH else "[…]"
    return clean(_shown(value))


def _clean_items(value: Mapping[object, object] | Collection[object], depth: int) -> object:
    if isinstance(value, Mapping):
        return _clean_mapping(value, depth)
    return [clean_value("", each, depth + 1) for each in islice(value, _MAX_ITEMS)]


def _clean_mapping(value: Mapping[object, object], depth: int) -> dict[str, object]:
    items = islice(value.items(), _MAX_ITEMS)
    return {clean(str(k), 100): clean_value(str(k), v, depth + 1) for k, v in items}


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception:  # noqa: BLE001 - a broken repr must not cost the line that it stands in
        return f"[a {type(value).__name__} that cannot be shown]"


def _is_secret(key: str) -> bool:
    return bool(_SECRET_KEY.fullmatch(key.replace("-", "").replace("_", "")[:100]))


def _printable(text: str) -> str:
    """Without control characters, line ends and the characters that turn the direction of writing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
