"""What went wrong, as a Status; pure."""

from http import HTTPStatus
from typing import Any, Final

from app.core.errors import ClusterError, Conflict, Expired, Forbidden, NotFound
from app.simulation.deletion import PreconditionFailed
from app.simulation.server.catalog import Resource
from app.simulation.server.paths import Target
from app.simulation.server.writing import AlreadyExists
from app.simulation.validation import Rejected

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    500: "InternalError",
    504: "Timeout",
}
RETRY_AFTER: Final = 1
"""Seconds, with each 504."""
_TOO_NEW: Final = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
_GROUPS: Final = {
    "Scale": "autoscaling",
    "ListOptions": "meta.k8s.io",
    "DeleteOptions": "meta.k8s.io",
}
"""Groups of what is no resource of its own."""


class NotServed(ClusterError):
    """A group that is served has nothing at this path."""

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource", status=404)


class NotAllowed(ClusterError):
    """The method is not one for this path."""

    def __init__(self) -> None:
        message = "the server does not allow this method on the requested resource"
        super().__init__(message, status=405)


def status(
    error: ClusterError, code: int, resource: Resource | None = None, target: Target | None = None
) -> dict[str, Any]:
    """What went wrong, as a Status.

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
        "reason": _reason(error, code),
        "code": code,
    }
    details = _details(error, code, resource, target)
    return body if details is None else {**body, "details": details}


def _message(error: ClusterError, resource: Resource | None, target: Target | None) -> str:
    if type(error) is Conflict and resource is not None and target is not None:
        return (
            f'Operation cannot be fulfilled on {resource.title} "{target.name}": the object has '
            "been modified; please apply your changes to the latest version and try again"
        )
    return str(error)


def _reason(error: ClusterError, code: int) -> str:
    match error:
        case AlreadyExists():
            return "AlreadyExists"
        case Expired():
            return "Expired"
        case _:
            return _REASONS.get(code, HTTPStatus(code).phrase.replace(" ", ""))


def _details(
    error: ClusterError, code: int, resource: Resource | None, target: Target | None
) -> dict[str, Any] | None:
    match error:
        case NotServed() | NotAllowed():
            return {}
        case Rejected():
            return _wrong(error, resource)
        case PreconditionFailed():
            return _named(error.name, error.group, error.kind)
        case NotFound() | Conflict() | Forbidden():
            name = error.name if isinstance(error, AlreadyExists) else target and target.name
            return {} if resource is None else _named(name, resource.group, resource.plural)
        case _ if code == HTTPStatus.GATEWAY_TIMEOUT:
            return {"causes": [_TOO_NEW], "retryAfterSeconds": RETRY_AFTER}
        case _:
            return None


def _wrong(error: Rejected, resource: Resource | None) -> dict[str, Any]:
    group = _GROUPS.get(error.kind, resource.group if resource else "")
    cause = {"reason": "FieldValueInvalid", "message": error.problem, "field": error.path}
    return {**_named(error.name, group, error.kind), "causes": [cause]}


def _named(name: str | None, group: str, kind: str) -> dict[str, Any]:
    return {
        key: value for key, value in {"name": name, "group": group, "kind": kind}.items() if value
    }
