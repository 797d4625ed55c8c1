"""Who may use the proxy of `dwd page`: the browser that it opened, and nothing else (threats T17, T25, T26).

Behind the proxy is a token, so each request is judged before anything of it is sent on:

    the machine     on Linux the connection must belong to this user (or root), whatever it knows
    another site    Host must be our very address, which a name that was made to resolve to 127.0.0.1 is not; Origin and
                    Sec-Fetch-Site must say that our own page asks, or nobody's
    the browser     a secret in the address that is opened becomes a cookie, once; without the cookie nothing is sent on

Other programs can read a command line, so the secret may be seen while the browser starts. That is why it works once.
Cookies do not know of ports, so that the name of ours has the port: several of these proxies do not take each other's.
"""

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import Final

from multidict import CIMultiDictProxy

from app.core.errors import trimmed

LOOPBACK: Final = "127.0.0.1"
_ENTRY: Final = "/enter/"
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
"""The methods that the API has."""
_OWN: Final = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` for requests that no other site has caused; `none` is the address bar, or a program."""
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not sent on."""

    status: HTTPStatus
    sentence: str


class Entry(Enum):
    """What a request for the address with the secret leads to."""

    FIRST = auto()
    """The browser gets the cookie."""
    AGAIN = auto()
    """It has the cookie already, as when it goes back in its history."""
    USED = auto()
    """The secret was used before, by another browser or program."""
    WRONG = auto()


class PageGate:
    """Lets the browser in that used the secret first.

    Args:
        port: The port of the proxy.
    """

    def __init__(self, port: int) -> None:
        self._host = f"{LOOPBACK}:{port}"
        self._name = f"dwd_page_{port}"
        self._secret, self._cookie = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._used = False

    @property
    def url(self) -> str:
        """The address to open; it works once."""
        return f"http://{self._host}{_ENTRY}{self._secret}"

    @property
    def set_cookie(self) -> str:
        """The header Set-Cookie for the browser: of this host only, out of the reach of scripts and of other sites."""
        return f"{self._name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def refusal(self, method: str, target: str, headers: CIMultiDictProxy[str]) -> Refusal | None:
        """Judge the head of a request apart from its cookie; None to let it pass."""
        if headers.getall("Host", []) != [self._host]:
            asked = trimmed(", ".join(headers.getall("Host", [])), _SHOWN)
            return Refusal(
                HTTPStatus.MISDIRECTED_REQUEST, f"This is {self._host}, and not {asked}."
            )
        sites, origins = headers.getall("Sec-Fetch-Site", []), headers.getall("Origin", [])
        if any(each not in _OWN for each in sites) or origins not in ([], [f"http://{self._host}"]):
            return Refusal(
                HTTPStatus.FORBIDDEN,
                "Another site has asked for this. Open it from its own page, or type its address.",
            )
        if "Upgrade" in headers:
            return Refusal(HTTPStatus.BAD_REQUEST, "This is plain HTTP, which is not upgraded.")
        if method not in METHODS:
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "The API has no such method.")
        if not target.startswith("/"):
            return Refusal(HTTPStatus.BAD_REQUEST, "The target of a request is a path.")
        return None

    def knows(self, headers: CIMultiDictProxy[str]) -> bool:
        """Whether the browser has the cookie."""
        pairs = [each.strip() for line in headers.getall("Cookie", []) for each in line.split(";")]
        values = [each.removeprefix(f"{self._name}=") for each in pairs if "=" in each]
        return any(_same(each, self._cookie) for each in values)

    def enter(self, method: str, target: str, headers: CIMultiDictProxy[str]) -> Entry | None:
        """Use the secret in `target`; None if that is another path."""
        if not target.startswith(_ENTRY):
            return None
        if method != "GET" or not _same(target.removeprefix(_ENTRY), self._secret):
            return Entry.WRONG
        if self.knows(headers):
            return Entry.AGAIN
        if self._used:
            return Entry.USED
        self._used = True
        return Entry.FIRST


def _same(said: str, secret: str) -> bool:
    return hmac.compare_digest(said.encode("utf-8", "surrogateescape"), secret.encode())


# The user at the other end of a connection, as Linux tells it (proc(5), /proc/net/tcp).


_TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_ESTABLISHED: Final = "01"
_ROOT: Final = 0
_LOCAL, _REMOTE, _STATE, _UID = 1, 2, 3, 7
Address = tuple[str, int]


def belongs_to(uid: int, here: Address, there: Address) -> bool:
    """Whether the other end of a connection on this machine belongs to this user, or to root; blocks for a moment.

    Args:
        uid: The user.
        here: Our end of the connection.
        there: The other end.

    Returns:
        True also where the system does not say whose it is; then the cookie alone decides.
    """
    rows = _rows()
    ours, theirs = _ends(here), _ends(there)
    if not any(row[_LOCAL] in ours and row[_REMOTE] in theirs for row in rows):
        return True  # not Linux, or a kernel that shows no connections
    return any(
        row[_LOCAL] in theirs
        and row[_REMOTE] in ours
        and row[_STATE] == _ESTABLISHED  # an orphaned connection would seem to be root's
        and int(row[_UID]) in {uid, _ROOT}
        for row in rows
    )


def _rows() -> list[Sequence[str]]:
    found: list[Sequence[str]] = []
    for table in _TABLES:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except (OSError, UnicodeDecodeError):
            continue
        found += [words for line in lines if len(words := line.split()) > _UID]
    return found


def _ends(address: Address) -> tuple[str, str]:
    """An end of a connection as the kernel writes it, for IPv4 and for IPv4 in IPv6; words of 32 bits are swapped."""
    packed = bytes(int(part) for part in address[0].split("."))
    word, port = packed[::-1].hex().upper(), f"{address[1]:04X}"
    return f"{word}:{port}", f"0000000000000000FFFF0000{word}:{port}"
