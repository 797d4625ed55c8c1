"""HTTP answers of an API server, its Status objects, and the parsing of request bodies."""

import socket
import struct
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

from app.core.errors import ClusterError, Conflict, Expired, Forbidden, Invalid, NotFound, Throttled
from app.simulation.definitions import Rejected, ServedResource
from app.simulation.server.options import RequestedObject
from app.simulation.server.writing import AlreadyExists
from app.simulation.store import PreconditionFailed

# Errors as Status objects.


_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    500: "InternalError",
}
_RESET: Final = struct.pack("ii", 1, 0)
"""To linger for no time: the kernel resets a connection that is closed so."""
_OWN_REASONS: Final = {AlreadyExists: "AlreadyExists", Expired: "Expired"}
# The groups of kinds that are not resources by themselves.
_GROUPS: Final = {"": "", "Scale": "autoscaling"}
# How problems of a field begin, and what they are called.
_CAUSES: Final = {
    "Required": "Required",
    "Unsupported": "NotSupported",
    "Too long": "TooLong",
    "Too many": "TooMany",
}


class NotServed(ClusterError):
    """The group is served, but has no resource at this path."""

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource", status=404)


class NotAllowed(ClusterError):
    """The method is not allowed for this path."""

    def __init__(self) -> None:
        message = "the server does not allow this method on the requested resource"
        super().__init__(message, status=405)


def status(
    error: ClusterError,
    code: int,
    resource: ServedResource | None = None,
    target: RequestedObject | None = None,
) -> dict[str, Any]:
    """Returns the Status of an error.

    Args:
        error: what it is.
        code: the HTTP status.
        resource: what was asked for, where that is served.
        target: the path that named it.
    """
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": _message(error, resource, target),
        "reason": _OWN_REASONS.get(type(error)) or _REASONS.get(code, "InternalError"),
        "code": code,
    }
    details = _details(error, resource, target)
    return body if details is None else {**body, "details": details}


def _message(
    error: ClusterError, resource: ServedResource | None, target: RequestedObject | None
) -> str:
    if type(error) is Conflict and resource is not None and target is not None:
        return (
            f'Operation cannot be fulfilled on {resource.title} "{target.name}": the object has '
            "been modified; please apply your changes to the latest version and try again"
        )
    if isinstance(error, Rejected):
        return error.titled(f"{error.kind}.{_group(error, resource)}".strip("."))
    return str(error)


def _details(
    error: ClusterError, resource: ServedResource | None, target: RequestedObject | None
) -> dict[str, Any] | None:
    match error:
        case NotServed() | NotAllowed():
            return {}
        case Rejected():
            causes = [
                {"reason": f"FieldValue{_cause(text)}", "message": text, "field": path}
                for path, text in error.problems
            ]
            return {**_named(error.name, _group(error, resource), error.kind), "causes": causes}
        case PreconditionFailed():
            return _named(error.name, error.group, error.kind)
        case NotFound() | Conflict() | Forbidden() if resource is not None:
            name = error.name if isinstance(error, AlreadyExists) else target and target.name
            return _named(name, resource.group, resource.plural)
        case _:
            return None


def _group(error: Rejected, resource: ServedResource | None) -> str:
    return _GROUPS.get(error.kind, resource.group if resource else "")


def _cause(text: str) -> str:
    if "must be of type" in text:
        return "TypeInvalid"
    return next((cause for said, cause in _CAUSES.items() if text.startswith(said)), "Invalid")


def _named(name: str | None, group: str, kind: str) -> dict[str, Any]:
    return {
        key: value for key, value in {"name": name, "group": group, "kind": kind}.items() if value
    }


JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
PATCHES: Final = (MERGE, STRATEGIC)
"""A strategic patch is treated as a merge patch, which replaces lists; real servers refuse it for custom resources."""
# The maximum size of a request body in bytes, that of a real server.
_MOST_BODY: Final = 3 << 20


class ServerAnswers:
    """Creates the answers of a server; `now` returns the time for its `Date` headers."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def json(self, code: int, body: object) -> web.Response:
        """Returns a JSON answer."""
        encoded = msgspec.json.encode(body)
        return web.Response(status=code, body=encoded, headers=self._headers(JSON))

    def text(self, code: int, text: str, kind: str = "plain") -> web.Response:
        """Returns an answer in plain text, or in HTML."""
        headers = self._headers(f"text/{kind}; charset=utf-8")
        return web.Response(status=code, body=text.encode(), headers=headers)

    def page(self, code: int) -> web.Response:
        """Returns an HTML page, as a load balancer answers."""
        body = f"<html><head><title>{code}</title></head><body>no server is ready</body></html>"
        return self.text(code, body, "html")

    def failed(
        self, error: ClusterError, resource: ServedResource | None, target: RequestedObject | None
    ) -> web.Response:
        """Returns the answer to a failed request; resource and target are those of its path, if it names any."""
        if isinstance(error, Throttled):
            response = self.text(429, "Too many requests, please try again later.\n")
            if error.retry_after is not None:
                response.headers["Retry-After"] = f"{error.retry_after:.0f}"
            return response
        code = error.status or int(HTTPStatus.INTERNAL_SERVER_ERROR)
        return self.json(code, status(error, code, resource, target))

    async def begun(self, request: web.BaseRequest) -> web.StreamResponse:
        """Returns a streamed response whose headers have been sent."""
        response = web.StreamResponse(headers=self._headers(JSON))
        response.enable_chunked_encoding()
        await response.prepare(request)
        return response

    def _headers(self, content_type: str) -> dict[str, str]:
        return {
            "Content-Type": content_type,
            "Cache-Control": "no-cache, private",
            "Date": _date(int(self._now())),
        }


@lru_cache
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


def hung_up(request: web.BaseRequest) -> web.StreamResponse:
    """Resets the connection without an answer."""
    if request.transport is not None:
        sock = request.transport.get_extra_info("socket")
        if sock is not None:  # in memory there is none
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        request.transport.abort()
    return web.Response()


async def body_of(request: web.BaseRequest, patches: Sequence[str] = PATCHES) -> dict[str, Any]:
    """Parses the JSON object in a request body; that of a deletion may be empty.

    Args:
        request: whose body is read.
        patches: the media types of patches that are taken.

    Raises:
        Invalid: 400, it is none; 413, it is too large; 415, it is of a media type that is not taken.
    """
    raw = b""
    try:
        async for chunk in request.content.iter_any():
            raw += chunk
            if len(raw) > _MOST_BODY:
                raise Invalid("the request is too large", status=413)
    except web.RequestPayloadError as error:
        raise Invalid(f"the body cannot be read: {error}", status=400) from error
    if not raw and request.method == "DELETE":
        return {}
    accepted = patches if request.method == "PATCH" else (JSON,)
    if request.content_type not in accepted:
        known = ", ".join(accepted)
        raise Invalid(
            f"the body of the request was in an unknown format: {request.content_type}; "
            f"accepted media types: {known}",
            status=415,
        )
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the body is no JSON: {error}", status=400) from error
    if body is None and request.method == "DELETE":
        return {}
    if not isinstance(body, dict):
        raise Invalid("the body is no JSON object", status=400)
    return body
