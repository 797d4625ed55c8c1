"""What pages of other sites may do through somebody's browser (threat T17): read, if they were named; never write."""

from collections.abc import Collection, Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import Response

from app.api.problems import Problem, ProblemType

_OWN: Final = frozenset({"same-origin", "none"})
"""What a browser says of requests that no other site began."""
_READS: Final = frozenset({"GET", "HEAD"})
_ASKED_FOR: Final = "authorization, if-none-match, last-event-id"
"""The headers that a page may send with a read."""
_SHOWN: Final = "etag, location, retry-after, x-request-id"
"""The headers of an answer that a page may see."""
_REMEMBERED: Final = "600"
"""Seconds for which a browser need not ask again."""

Headers = Sequence[tuple[bytes, bytes]]


def values(headers: Headers, wanted: bytes) -> list[str]:
    """All values of one header."""
    return [value.decode("latin-1").strip() for name, value in headers if name == wanted]


def write_refusal(headers: Headers) -> Problem | None:
    """Why a request that would change something is refused: a browser says that another site began it."""
    sites = values(headers, b"sec-fetch-site")
    if any(each.lower() not in _OWN for each in sites):
        return Problem(ProblemType.CROSS_SITE, f"Sec-Fetch-Site is {sites[0]}")
    origins = values(headers, b"origin")
    if origins and not _is_own(origins, values(headers, b"host")):
        return Problem(ProblemType.CROSS_SITE, "the Origin is not the host that was asked")
    return None


def _is_own(origins: Sequence[str], hosts: Sequence[str]) -> bool:
    if len(origins) != 1 or len(hosts) != 1:
        return False
    try:
        origin = urlsplit(origins[0])
    except ValueError:
        return False
    if origin.scheme not in {"http", "https"}:
        return False
    standard = ":443" if origin.scheme == "https" else ":80"
    return _authority(origin.netloc, standard) == _authority(hosts[0], standard)


def _authority(text: str, standard: str) -> str:
    return text.lower().removesuffix(standard)


def named_origin(headers: Headers, named: Collection[str]) -> str | None:
    """The origin that asks, if it is one of those that may read."""
    origins = values(headers, b"origin")
    return origins[0] if len(origins) == 1 and origins[0] in named else None


def reading_headers(origin: str) -> Headers:
    """What lets a page of this origin see the answer."""
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _SHOWN.encode()),
    )


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks what a page may ask for."""
    return method == "OPTIONS" and bool(values(headers, b"access-control-request-method"))


def preflight(headers: Headers, named: Collection[str]) -> Response | Problem:
    """What it is told: a page of a named origin may read, nobody anything else."""
    asked = values(headers, b"access-control-request-method")
    if named_origin(headers, named) is None:
        return Problem(ProblemType.CROSS_SITE, "pages of this origin are not let in")
    if asked[0] not in _READS:
        return Problem(ProblemType.CROSS_SITE, "pages of other origins may only read")
    allowed = {
        "Access-Control-Allow-Methods": "GET, HEAD",
        "Access-Control-Allow-Headers": _ASKED_FOR,
        "Access-Control-Max-Age": _REMEMBERED,
    }
    return Response(status_code=204, headers=allowed)
