"""DELETE /api/v1/shoots/{namespace}/hold: the automatic verdicts of a shoot act again."""

from contextlib import suppress

from fastapi import APIRouter, Request

from app.api import presenting
from app.api.auditing import draft_of
from app.api.calls import Call
from app.api.dependencies import AnyContext, AnyProber, known_shoot, leads
from app.api.permission import allowed, caller_of
from app.api.views import FlowsView
from app.api.writing import refuse_in_dry_run
from app.core.errors import ClusterError, NotKnownYet, Refused
from app.core.model.loops import Loop
from app.core.model.overrides import Hold, OverrideEntry, Unreadable

router = APIRouter(tags=["overrides"])


@router.delete(
    "/api/v1/shoots/{namespace}/hold", status_code=204, dependencies=[allowed(Call.CANCEL)]
)
async def end_hold(
    request: Request, context: AnyContext, prober: AnyProber, namespace: str
) -> None:
    """End the hold of a shoot now, and cancel its flow if that still runs; nothing is done where there is none.

    Any replica takes it; the leader, which runs the flow, sees it within a second.
    """
    draft = draft_of(request)
    draft.action, draft.namespace = "end-hold", namespace
    draft.before = _audited(context.overrides.holds().get(namespace))
    known_shoot(prober, namespace)
    refuse_in_dry_run(context)
    change = await context.desk.end_hold(namespace, by=caller_of(request).name)
    match change.before:
        case Unreadable(problem=problem):
            draft.before = {"unreadable": problem}
        case OverrideEntry(hold=Hold() as hold):
            draft.before, draft.target = _audited(hold), hold.operation
            if leads(context, Loop.PROBER):
                await _cancel(prober.flows, hold, caller_of(request).name)
        case _:
            draft.before = None


def _audited(hold: Hold | None) -> object:
    return None if hold is None else presenting.hold(hold).model_dump(mode="json", by_alias=True)


async def _cancel(flows: FlowsView, hold: Hold, by: str) -> None:
    """Cancels the flow of a hold that was ended just now.

    A failure is none of the call's: the hold is gone, and a flow without its hold ends by itself.
    """
    if hold.operation is None or hold.done:
        return
    with suppress(Refused, ClusterError, NotKnownYet):
        await flows.cancel(hold.operation, by=by)
