"""Removes secrets, control characters and excess length from what is about to be logged (threats T12, T13); pure.

Anything that looks like a secret is replaced: a bearer token, a JWT, a PEM block (base64-encoded ones too), a key of
GitHub, Slack or AWS, a value behind a key such as `token` or `password` or a flag of that name, and user and password
in a URL. The search runs on what a reader sees: invisible characters are removed first, so that they cannot divide a
word.
"""

import re
import unicodedata
from collections.abc import Mapping
from itertools import islice
from typing import Final

from app.core.errors import trimmed

REDACTED: Final = "[redacted]"
MAX_VALUE: Final = 2_048
MAX_TRACE: Final = 8_192
MAX_LINE: Final = 16_384
_UNSEEN: Final = frozenset({"Cc", "Cf"})
_MAX_ITEMS: Final = 50
_MAX_DEPTH: Final = 5
# A text is searched for secrets up to this multiple of its final length: the rest is cut off anyway.
_SCANNED: Final = 4

# Each pattern takes time proportional to the text: none begins with a repetition.
_KEYS: Final = (
    r"(?=[acpst])"  # their first letters: rules out most positions at once
    r"(?:token|passw(?:or)?d|passphrase|client[-_]?key(?:[-_]?data)?|private[-_ ]?key|authorization|api[-_ ]?key|"
    r"access[-_ ]?key|secret(?:[-_]?key)?|credentials?|"
    # These are also parts of other words: they must begin a word, follow `_` or `-`, or be a capital after a small
    # letter.
    r"(?:(?<![a-z])(?:pass|pwd|pw)|(?-i:(?<=[a-z])(?:Pass|Pwd|Pw))))"
)
_FLAG: Final = (
    r"--(?:[a-z]+-){0,3}(?:token|passw(?:or)?d|pass|passphrase|secret|(?:api|access|secret)-key)"
)
_SAID_OF_FLAGS: Final = (
    r"(?:an?|and|are|as|at|by|can|cannot|does|for|from|has|if|in|instead|is|may|must|needs?|nor?|not|of|on|or|than|that|"
    r"the|to|was|were|which|will|with|without)\b"
)
_PATTERNS: Final = (
    # A block without its end (cut off) extends to the end of the text.
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{1,40}-----.*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)", re.DOTALL
        ),
        REDACTED,
    ),
    (re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]*(?:\s+[A-Za-z0-9+/=]{16,})*"), REDACTED),
    # A JWT that is broken into lines, the last of which may be short and without another word. It has to precede all
    # patterns that end at a space, which would leave those lines.
    (
        re.compile(
            r"eyJ[A-Za-z0-9_=-]{8,}(?:\.[A-Za-z0-9_=-]*){0,2}"
            r"(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9_=.-]{16,})*"
            r"(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9_=.-]{1,15}(?=[ \t]*(?:\r?\n|\Z)))?"
        ),
        REDACTED,
    ),
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|"
            r"xox[a-z]-[A-Za-z0-9-]{10,}|A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9]))"
        ),
        REDACTED,
    ),
    (
        re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?)(?:[a-z]+\s+)?[^\s,;\"']+"),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(?i)\b(Bearer)\s+(?!tokens?\b)[A-Za-z0-9._~+/=-]+"), rf"\1 {REDACTED}"),
    (re.compile(r"(?i)\b(Basic)\s+(?=[a-z+/]*[0-9=])[a-z0-9+/=]{8,}"), rf"\1 {REDACTED}"),
    # User and password in a URL; the password may contain an @.
    (re.compile(r"://[^\s/?#\"'<>]*@"), f"://{REDACTED}@"),
    # --token value, unless the next word is a flag, or the flag is the subject of a sentence.
    (
        re.compile(rf"(?i)({_FLAG}\s+)(?!-|{_SAID_OF_FLAGS})(?:\"[^\"]*\"?|'[^']*'?|[^\s,;\"']+)"),
        rf"\1{REDACTED}",
    ),
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
    r"(?i)(?:.*(?:token|password|passwd|passphrase|pwd|clientkey|keydata|privatekey|clientsecret|apikey|accesskey|secretkey)|"
    r"pass|pw|(?:set)?cookie|authorization|kubeconfig)"
)


def clean(text: str, limit: int = MAX_VALUE) -> str:
    """Returns `text` as one printable line without secrets, of at most `limit` characters."""
    return _cut(_printable(without_secrets(text[: limit * _SCANNED])), limit)


def one_line(text: str, limit: int) -> str:
    """Returns what a person wrote as one line without secrets and superfluous spaces."""
    return trimmed(without_secrets(text[: limit * _SCANNED]), limit)


def clean_trace(text: str) -> str:
    """Returns a traceback without secrets, with its lines; if it is too long, its beginning and end."""
    safe = without_secrets(text[-MAX_TRACE * _SCANNED :])
    lines = "\n".join(_printable(line) for line in safe.split("\n"))
    if len(lines) <= MAX_TRACE:
        return lines
    half = MAX_TRACE // 2
    return f"{lines[:half]}\n[… cut …]\n{lines[-half:]}"


def without_secrets(text: str) -> str:
    """Returns `text` with secrets replaced and invisible characters removed; line breaks are kept."""
    text = _visible(text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def clean_value(key: str, value: object, depth: int = 0) -> object:
    """Returns `value`, known as `key`, as JSON data that is safe to show."""
    if value is None:
        return None
    if _is_secret(key):
        return REDACTED
    if isinstance(value, bool | int | float):
        return value
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return clean(_shown(value))
    if depth >= _MAX_DEPTH:
        return "[…]"
    if isinstance(value, Mapping):
        items = islice(value.items(), _MAX_ITEMS)
        return {clean(str(k), 100): clean_value(str(k), v, depth + 1) for k, v in items}
    return [clean_value("", each, depth + 1) for each in islice(value, _MAX_ITEMS)]


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception:  # noqa: BLE001 - a broken repr must not cost the whole line
        return f"[a {type(value).__name__} that cannot be shown]"


def _is_secret(key: str) -> bool:
    return bool(_SECRET_KEY.fullmatch(key.replace("-", "").replace("_", "")[:100]))


def _visible(text: str) -> str:
    """Removes invisible characters that could divide a secret or its key: joiners, direction marks, controls.

    Spaces are kept. ESC becomes a space, because what follows it is visible, as in `[31m`.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isspace() or unicodedata.category(c) not in _UNSEEN else " " if c == "\x1b" else ""
        for c in text
    )


def _printable(text: str) -> str:
    """Replaces control characters, line breaks and characters that change the writing direction by spaces."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
