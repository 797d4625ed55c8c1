"""Who tried to change what, and what came of it."""

from typing import Any

from app.api.schemas.base import ListMetadata, Schema, Time


class AuditEntry(Schema):
    """One attempt to change something, or several alike that were refused: all but their number is of the last."""

    time: Time
    """Of the last of them."""
    first_time: Time
    times: int
    """How often the same call on the same shoot was refused with the same problem."""
    request: str
    """The `X-Request-Id` of its answer."""
    method: str
    path: str
    peer: str
    """The address that it came from."""
    caller: str | None
    """Null where nobody was known to call."""
    action: str | None
    """Null where the call did not get so far."""
    namespace: str | None
    target: str | None
    reason: str | None
    """What the caller said."""
    status: int | None
    """Null where the process ended before it was answered."""
    problem: str | None
    """The `type` of the problem; null where it was done, or begun."""
    before: Any
    after: Any


class AuditMetadata(ListMetadata):
    """About the audit."""

    since: Time
    """Since when this process keeps records; what was before is in the log alone."""


class AuditList(Schema):
    """Attempts, newest first."""

    items: list[AuditEntry]
    metadata: AuditMetadata
