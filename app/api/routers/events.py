"""GET /api/v1/events: every change of a shoot, scaling run, recovery and override, as server-sent events."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.auth.authentication import still_authenticated
from app.api.auth.authorization import Call
from app.api.context import Context
from app.api.dependencies import (
    AnyContext,
    allowed,
    api_router,
    caller_of,
    leading_prober,
    leading_weeder,
    leads,
)
from app.api.publisher import MEDIA_TYPE
from app.api.stream import EventResponse, EventStreams, Listening, streams_of
from app.core.model.policy import Loop
from app.core.reporting.changes import USUAL, ChangeKind, Wanted

router = api_router("events")

_EXAMPLE: Final = """\
retry: 2000
id: 5f3a9c01-41

id: 5f3a9c01-42
event: shoot-gone
data: {"namespace":"shoot--acme--prod"}

: heartbeat
id: 5f3a9c01-42

"""
_LAST: Final = (
    "The id of the newest event that the caller has seen; what followed it comes first. If that is no longer "
    "remembered, as after a change of leader, a `gap` comes, then the current state of everything, then `snapshot-end`."
)


class EventQuery(BaseModel):
    """The filter of a stream; an unknown parameter is an error, so that a misspelt one is not silently ignored."""

    model_config = ConfigDict(extra="forbid")

    namespace: Annotated[str, Field(min_length=1, max_length=253)] | None = Field(
        None, description="Only events of this control plane, and those that concern all."
    )
    kind: list[ChangeKind] = Field(
        [],
        description="Only events of one of these kinds. Without it all but `audit`, which needs the right to read the "
        "audit, too.",
    )


async def any_leader(context: AnyContext) -> None:
    """Require that this instance leads a loop; a stream has the events of the loops that its instance leads.

    Raises:
        Problem: 503: it is a standby; the problem names the leader.
    """
    if any(leads(context, each) for each in Loop):
        return
    if Loop.PROBER in context.process.leaders:
        await leading_prober(context)
    await leading_weeder(context)


@router.get(
    "/api/v1/events",
    status_code=200,
    response_class=EventResponse,
    dependencies=[allowed(Call.LIST), Depends(any_leader)],
    responses={
        200: {
            "description": "A stream of `shoot`, `shoot-gone`, `operation`, `weeder`, `override`, of `audit` where "
            "that is asked for, and of `gap`, `snapshot-end` and `end`; the data of each are one JSON object.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE}},
        }
    },
)
async def stream_events(
    request: Request,
    context: AnyContext,
    streams: Annotated[EventStreams, Depends(streams_of)],
    query: Annotated[EventQuery, Query()],
    last_event_id: Annotated[str | None, Header(description=_LAST)] = None,
) -> Response:
    """Every change of a shoot, scaling run, recovery and override, as it happens.

    Without `Last-Event-ID` it begins with the next change: ask for the lists once the answer has begun.
    """
    wanted = Wanted(query.namespace, frozenset(query.kind) or USUAL)
    calls = [Call.LIST, *([Call.READ_AUDIT] if ChangeKind.AUDIT in wanted.kinds else [])]
    for each in calls[1:]:
        await context.authority.check(caller_of(request), each)
    review = partial(_review, request, context, calls)
    return EventResponse(streams, Listening(caller_of(request), wanted, last_event_id, review))


async def _review(request: Request, context: Context, calls: Sequence[Call]) -> None:
    """Raise a `Problem` unless the token still belongs to the same caller, and that may still listen."""
    await still_authenticated(request)
    for each in calls:
        await context.authority.check(caller_of(request), each, again=True)
