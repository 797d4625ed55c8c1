"""GET /api/v1/operations: the flows, running and past, step by step; DELETE cancels a manual one."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import Field

from app.api import schemas
from app.api import operations_view
from app.api.auditing import draft_of
from app.api.calls import Call
from app.api.dependencies import AnyContext, LeadingProber
from app.api.paging import Key, PageQuery, TokenRefused, cut
from app.api.parameters import refuse_unknown
from app.api.permission import allowed, caller_of
from app.api.problems import Problem, ProblemType
from app.api.writing import refuse_in_dry_run
from app.core.errors import NotKnownYet, OperationGone, trimmed
from app.core.model.operations import Operation, Trigger

router = APIRouter(tags=["flows"])

_PATH: Final = "/api/v1/operations"
_ONE: Final = _PATH + "/{id}"


class OperationQuery(PageQuery):
    """Which flows."""

    namespace: Annotated[str, Field(min_length=1, max_length=253)] | None = Field(
        None, description="Only flows of this shoot."
    )
    trigger: Trigger | None = Field(None, description="Only automatic ones, or manual ones.")
    running: bool | None = Field(None, description="Only flows that run, or that have ended.")


@router.get(_PATH, dependencies=[allowed(Call.LIST)])
async def list_operations(
    prober: LeadingProber, query: Annotated[OperationQuery, Query()]
) -> schemas.OperationList:
    """All flows that this leader knows, newest first."""
    chosen = [each for each in prober.flows.operations() if _matches(each, query)]
    try:
        page = cut(
            chosen, lambda each: Key(-each.created, each.id), "operations", query.limit, query.token
        )
    except TokenRefused as error:
        raise Problem(ProblemType.INVALID_PAGE_TOKEN, f"continue: {error}") from error
    return schemas.OperationList(
        items=[operations_view.operation(each) for each in page.items],
        metadata=schemas.ListMetadata(total=page.total, continue_=page.token),
    )


def _matches(operation: Operation, query: OperationQuery) -> bool:
    if query.namespace not in {None, operation.namespace}:
        return False
    if query.trigger not in {None, operation.trigger}:
        return False
    return query.running is None or query.running == operation.running


class Permitted:
    """The operation of the path, where the caller may make this call on its shoot.

    An id that nobody knows belongs to no shoot: who may make the call on all shoots learns that there is none, others
    are refused as for somebody else's, so that nobody finds out by guessing which there are.
    """

    def __init__(self, call: Call) -> None:
        self.call = call

    async def __call__(
        self,
        request: Request,
        context: AnyContext,
        prober: LeadingProber,
        name: Annotated[str, Path(alias="id", description="As `Location` and the list name it.")],
    ) -> Operation:
        """Raises what `FlowsView.operation` raises, and a problem where there is none, or the caller may not."""
        found: Operation | None = None
        gone: OperationGone | NotKnownYet | None = None
        try:
            found = prober.flows.operation(name)
        except (OperationGone, NotKnownYet) as error:
            gone = error
        namespace = "" if found is None else found.namespace
        await context.authority.check(caller_of(request), self.call, namespace)
        await refuse_unknown(request)
        if gone is not None:
            raise gone
        if found is None:
            raise Problem(ProblemType.NOT_FOUND, f"there is no operation {trimmed(name, 100)}")
        return found


Readable = Annotated[Operation, Depends(Permitted(Call.READ_SHOOT))]
Cancellable = Annotated[Operation, Depends(Permitted(Call.CANCEL))]


@router.get(_ONE)
async def read_operation(operation: Readable) -> schemas.Operation:
    """One flow, step by step."""
    return operations_view.operation(operation)


@router.delete(_ONE, status_code=202)
async def cancel_operation(
    request: Request, context: AnyContext, prober: LeadingProber, operation: Cancellable
) -> schemas.Operation:
    """Cancel a manual flow: a request that was sent is finished, and no other is sent.  Its hold stays."""
    draft = draft_of(request)
    draft.action, draft.namespace, draft.target = "cancel", operation.namespace, operation.id
    draft.before = _drafted(operation)
    if operation.trigger is Trigger.AUTO:
        detail = (
            "this is an automatic flow, which a verdict would begin again: pause or hold instead"
        )
        raise Problem(ProblemType.CONFLICT, detail)
    refuse_in_dry_run(context)
    cancelled = await prober.flows.cancel(operation.id, by=caller_of(request).name)
    draft.after = _drafted(cancelled)
    return operations_view.operation(cancelled)


def _drafted(operation: Operation) -> dict[str, str]:
    """What the audit record needs of it."""
    return {"direction": str(operation.direction), "phase": str(operation.phase)}
