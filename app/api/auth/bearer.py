"""The token of a request: exactly one, in the header that it belongs to (RFC 6750); pure."""

import re
from collections.abc import Iterable
from typing import Final

from app.api.problems import Problem, ProblemType

Headers = Iterable[tuple[bytes, bytes]]
"""As ASGI has them: names in lower case."""

MAX_TOKEN: Final = 12_288
"""Characters; a ServiceAccount's has about a thousand."""
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_CHALLENGE: Final = 'Bearer realm="dependency-watchdog"'


def token_of(headers: Headers) -> str:
    """The bearer token that a request carries.

    Raises:
        Problem: it carries none, several, or something else.
    """
    found = [value for name, value in headers if name == b"authorization"]
    if not found:
        raise nobody("send a bearer token: Authorization: Bearer …", "")
    if len(found) > 1:
        raise nobody("there is more than one Authorization header", "invalid_request")
    scheme, _, token = found[0].strip(b" ").partition(b" ")
    token = token.strip(b" ")
    if scheme.lower() != b"bearer":
        raise nobody("only bearer tokens are accepted: Authorization: Bearer …", "")
    if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
        raise nobody("the bearer token is malformed", "invalid_request")
    return token.decode("ascii")


def nobody(detail: str, error: str) -> Problem:
    """The 401 for a request of nobody who is known; `error` is the word of RFC 6750 for it, if there is one."""
    challenge = f'{_CHALLENGE}, error="{error}"' if error else _CHALLENGE
    return Problem(ProblemType.UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})
