"""Translates HTTP statuses and exceptions of libraries into our own errors; pure.

A message never contains text of a shoot's answer, because the owner of the shoot could plant anything there. Only the
seed's own explanations are quoted, trimmed.
"""

import ssl
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
import msgspec

from app.core.bounded_http import ExcessiveFraming
from app.core.errors import (
    BadAnswer,
    CertificateUntrusted,
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    LimitExceeded,
    NameUnresolved,
    NotFound,
    ServerFault,
    Throttled,
    Unauthorized,
    Unreachable,
)

_BY_STATUS: Final[dict[int, type[ClusterError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    429: Throttled,
}
_LONGEST_PAUSE_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class RequestedRight:
    """What a request was for, in the words of RBAC, so that a refusal names the missing right."""

    verb: str
    resource: str
    where: str = ""
    """A namespace, or an object in one; empty for the whole cluster."""

    def __str__(self) -> str:
        place = f" in {self.where}" if self.where else ""
        return f"{self.verb} {self.resource}{place}"


def of_status(
    asked: RequestedRight, status: int, *, retry_after: float | None = None, detail: str = ""
) -> ClusterError:
    """Returns the error for an answer with this status.

    Args:
        asked: what the request was for.
        status: the HTTP status, or the code of a Status object.
        retry_after: the pause that the server asked for, in seconds.
        detail: the explanation of a trusted server; empty for a shoot.
    """
    if 300 <= status < 400:  # noqa: PLR2004 - the classes of HTTP statuses are plain numbers to any reader
        return BadAnswer(f"{asked}: a redirect ({status}), which is never followed", status=status)
    error = _class_of(status)
    meaning = f" ({error.__name__})" if error is not BadAnswer else ""
    message = f"{asked}: {status}{meaning}" + (f": {detail}" if detail else "")
    return error(message, status=status, retry_after=retry_after)


def _class_of(status: int) -> type[ClusterError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    match status // 100:
        case 4:
            return Invalid
        case 5:
            return ServerFault
        case _:
            return BadAnswer


def of_exception(asked: RequestedRight, error: Exception) -> ClusterError:
    """Returns the error for an exception of aiohttp, ssl, the operating system or the decoder."""
    match error:
        case ClusterError():
            return error
        case RecursionError():
            return LimitExceeded("depth", f"{asked}: the answer is nested too deeply")
        case msgspec.MsgspecError() | UnicodeDecodeError():
            return BadAnswer(f"{asked}: the answer cannot be decoded: {error}")
        case _:
            return _of_transport(asked, error)


def _of_transport(asked: RequestedRight, error: Exception) -> ClusterError:
    certificate = _certificate_error(error)
    if certificate is not None:
        said = getattr(certificate, "verify_message", "") or "the certificate does not match"
        return CertificateUntrusted(f"{asked}: the server's certificate is not trusted: {said}")
    match error:
        case ExcessiveFraming():
            return LimitExceeded("crumbs", f"{asked}: {error}")
        case aiohttp.ClientPayloadError():
            return BadAnswer(f"{asked}: the answer was cut off")
        case aiohttp.ClientResponseError() | aiohttp.InvalidURL():
            return BadAnswer(f"{asked}: the answer is not valid HTTP")
        case aiohttp.ClientConnectorDNSError():
            return NameUnresolved(f"{asked}: the server's name cannot be resolved")
        case _:
            return Unreachable(f"{asked}: {_why_unreachable(error)}")


def _certificate_error(error: BaseException | None) -> BaseException | None:
    while error is not None:
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return error.certificate_error
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        error = error.__cause__
    return None


def _why_unreachable(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return "no TLS connection could be made"
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed before an answer came"
        case OSError(strerror=str() as said) if said:
            return f"no connection: {said}"
        case _:
            return f"no answer ({type(error).__name__})"


def pause(header: str | None, date: str | None) -> float | None:
    """Returns the seconds that a `Retry-After` header asks for; None if it is absent or invalid.

    A header that names an instant is compared with the `Date` of the same answer, because our clocks may differ.
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _LONGEST_PAUSE_DIGITS else None
    until, now = http_date(text), http_date(date)
    return None if until is None or now is None else max(until - now, 0.0)


def http_date(header: str | None) -> float | None:
    """Returns the instant of an HTTP date; None if it is absent or invalid."""
    if not header:
        return None
    try:
        moment = parsedate_to_datetime(header)
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
