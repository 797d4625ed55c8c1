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
from collections.abc import Mapping, Sequence
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
_STRANGER: Final = (
    "Only the browser that dwd page has opened is served. Use the address that it printed, which works once; if that "
    "has been used, end dwd page with Ctrl-C and start it again."
)


class Refused(Exception):
    """A request that is not sent on, and what its sender is told; `warning` is for the terminal."""

    def __init__(
        self,
        status: HTTPStatus,
        sentence: str,
        title: str = "Access denied",
        *,
        warning: str = "",
        again: int | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.title = status, sentence, title
        self.warning = warning
        self.again = again
        """Seconds after which it may be sent again."""


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

    def check(self, method: str, target: str, headers: CIMultiDictProxy[str]) -> None:
        """Judge the head of a request apart from its cookie; raises Refused."""
        if headers.getall("Host", []) != [self._host]:
            asked = trimmed(", ".join(headers.getall("Host", [])), _SHOWN)
            sentence = f"This is {self._host}, and not {asked}."
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST, sentence)
        sites, origins = headers.getall("Sec-Fetch-Site", []), headers.getall("Origin", [])
        if any(each not in _OWN for each in sites) or origins not in ([], [f"http://{self._host}"]):
            sentence = (
                "Another site has asked for this. Open it from its own page, or type its address."
            )
            raise Refused(HTTPStatus.FORBIDDEN, sentence)
        if "Upgrade" in headers:
            raise Refused(HTTPStatus.BAD_REQUEST, "This is plain HTTP, which is not upgraded.")
        if method not in METHODS:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "The API has no such method.")
        if not target.startswith("/"):
            raise Refused(HTTPStatus.BAD_REQUEST, "The target of a request is a path.")

    def enter(
        self, method: str, target: str, headers: CIMultiDictProxy[str]
    ) -> Mapping[str, str] | None:
        """Let in the browser that has the secret in `target`, or knows the cookie.

        Returns:
            The headers of a redirection to the page, if the secret was asked for; None if the request may be sent on.

        Raises:
            Refused: The cookie is missing, or the secret is wrong, or was used before by another browser or program.
        """
        cookies = [
            each.strip() for line in headers.getall("Cookie", []) for each in line.split(";")
        ]
        known = any(_same(each, f"{self._name}={self._cookie}") for each in cookies)
        if not target.startswith(_ENTRY):
            if not known:
                raise Refused(HTTPStatus.UNAUTHORIZED, _STRANGER)
            return None
        if method != "GET" or not _same(target.removeprefix(_ENTRY), self._secret):
            raise Refused(HTTPStatus.FORBIDDEN, _STRANGER)
        if known:  # as when it goes back in its history
            return {"Location": "/"}
        if self._used:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "It works once. If it was not you who used it, end dwd page at once: Ctrl-C in its terminal.",
                "This address has already been used",
                warning="the address was asked for again, by another browser, and that was refused; if your own was "
                "never let in, somebody else was: end this with Ctrl-C",
            )
        self._used = True
        # Of this host only, out of the reach of scripts and of other sites.
        cookie = f"{self._name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        return {"Location": "/", "Set-Cookie": cookie}


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
