"""Manual scaling, its plan, and the scaling runs (`/api/v1/operations`)."""

from typing import Annotated, Any, Final

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from app.api import dependencies as deps
from app.api import presenting, schemas
from app.api.auditing import drafted
from app.api.auth.authorization import Call
from app.api.problems import Problem, ProblemType
from app.api.request_bodies import ScaleOrder
from app.core.errors import NotKnownYet, OperationGone, trimmed
from app.core.model.instants import parse_duration
from app.core.model.scaling_runs import ScaleSpec, ScalingRunStatus, Trigger
from app.core.overrides.cache import REQUESTS

router = deps.api_router("flows")

_PATH: Final = "/api/v1/operations"
_ONE: Final = _PATH + "/{id}"
_IF_MATCH: Final = (
    "The ETag of the plan, or of `resources`: nothing is done if they have changed since."
)

IfMatch = Annotated[list[str] | None, Header(description=_IF_MATCH)]


@router.post(
    "/api/v1/shoots/{namespace}/scale",
    status_code=202,
    response_model=schemas.Operation,
    dependencies=[deps.allowed(Call.SCALE)],
    responses={
        200: {
            "model": schemas.Plan,
            "description": "The plan; nothing was written.",
            "headers": {"ETag": {"description": "For `If-Match`.", "schema": {"type": "string"}}},
        },
        202: {
            "headers": {
                "Location": {
                    "description": "The path of the operation.",
                    "schema": {"type": "string"},
                }
            }
        },
    },
)
async def scale_shoot(
    request: Request,
    context: deps.AnyContext,
    prober: deps.LeadingProber,
    namespace: str,
    body: ScaleOrder,
    if_match: IfMatch = None,
) -> Response:
    """Scale a shoot's dependents up or down, level by level, by a ScaleRequest in the control plane's namespace.

    Automatic verdicts are shown and not acted on until `hold` after its end. An automatic scaling run is ended; if
    another manual one is under way, nothing is done. `force` needs a right of its own. With `dryRun` the answer is the
    plan.
    """
    author, hold = deps.caller_of(request).name, parse_duration(body.hold)
    spec = ScaleSpec(body.direction, body.reason, author, hold, body.force)
    seen = None if if_match is None else ", ".join(if_match)
    draft = drafted(request, "scale", namespace, body, target=str(spec.direction))
    if spec.force:
        await deps.authorize(request, context, Call.FORCE_SCALE)
    _ = await deps.listed_in_time(context, lambda: context.overrides.synced)
    status = deps.known_shoot(prober, namespace)
    if body.dry_run:
        deps.refuse_if_off(context, REQUESTS)
        plan = presenting.plan(await prober.scaling_runs.plan(namespace, spec, if_match=seen))
        return JSONResponse(plan.public(), 200, {"ETag": plan.etag})
    deps.refuse_in_dry_run(context, body)
    # The hold that acts so far, and the replicas of the dependents as the watches show them.
    hold_before, views = context.overrides.effective(namespace).hold, status.resources.items()
    draft.before = {
        "hold": None if hold_before is None else schemas.Hold.of(hold_before).public(),
        "replicas": {str(ref): None if view is None else view.replicas for ref, view in views},
    }
    begun = schemas.Operation.of(await prober.scaling_runs.begin(namespace, spec, if_match=seen))
    draft.after = begun.public()
    return JSONResponse(draft.after, 202, {"Location": f"{_PATH}/{begun.id}"})


# GET /api/v1/operations: scaling runs, running and past, step by step; DELETE cancels a manual one.


class OperationQuery(deps.PageQuery):
    """The filter of the list of scaling runs."""

    namespace: deps.Name | None = None
    """Only scaling runs of this shoot."""
    trigger: Trigger | None = None
    """Only automatic ones, or manual ones."""
    running: bool | None = None
    """Only scaling runs that are under way, or that have ended."""


@router.get(_PATH, dependencies=[deps.allowed(Call.LIST)])
async def list_operations(
    prober: deps.LeadingProber, query: Annotated[OperationQuery, Query()]
) -> schemas.OperationList:
    """All scaling runs, newest first: each ScaleRequest, and the automatic ones that this leader remembers."""
    chosen = [
        each
        for each in prober.scaling_runs.operations()
        if query.namespace in {None, each.namespace}
        and query.trigger in {None, each.trigger}
        and query.running in {None, each.running}
    ]
    page = deps.cut(chosen, lambda each: deps.PageKey(-each.created, each.id), "operations", query)
    return schemas.OperationList.of(page)


def permitted(call: Call) -> Any:  # noqa: ANN401 - a marker of FastAPI's, without a public type
    """A dependency: the operation of the path, if the caller may make `call` on its shoot.

    An unknown id belongs to no shoot. A caller with the right on all shoots gets 404 for it; any other gets 403, as for
    an operation of a shoot that is not its own, so that nobody finds out by guessing which operations exist.
    """

    async def found(
        request: Request,
        context: deps.AnyContext,
        prober: deps.LeadingProber,
        name: Annotated[str, Path(alias="id", description="As in `Location` and in the list.")],
    ) -> ScalingRunStatus:
        """Return the operation; raises the errors of `ManualScaling.operation`, and a `Problem` (403, 404)."""
        operation: ScalingRunStatus | None = None
        gone: OperationGone | NotKnownYet | None = None
        try:
            operation = prober.scaling_runs.operation(name)
        except (OperationGone, NotKnownYet) as error:
            gone = error
        namespace = "" if operation is None else operation.namespace
        await deps.authorize(request, context, call, namespace)
        await deps.refuse_unknown(request)
        if gone is not None:
            raise gone
        if operation is None:
            raise Problem(ProblemType.NOT_FOUND, f"there is no operation {trimmed(name, 100)}")
        return operation

    return Depends(found)


Readable = Annotated[ScalingRunStatus, permitted(Call.READ_SHOOT)]
Cancellable = Annotated[ScalingRunStatus, permitted(Call.CANCEL)]


@router.get(_ONE)
async def read_operation(operation: Readable) -> schemas.Operation:
    """One scaling run, step by step."""
    return schemas.Operation.of(operation)


@router.delete(_ONE, status_code=202, response_model=schemas.Operation, responses=deps.PLANNED)
async def cancel_operation(
    request: Request,
    context: deps.AnyContext,
    prober: deps.LeadingProber,
    operation: Cancellable,
    options: deps.WriteQuery,
) -> schemas.Operation | Response:
    """Cancel a manual scaling run: a request already sent is completed, and no other is sent. Its hold ends.

    That deletes its ScaleRequest. With `dryRun` the answer names the run, and each resource that it would not come to
    any more.
    """
    draft = drafted(request, "cancel", operation.namespace, options, target=operation.id)
    draft.before = _drafted(operation)
    if operation.trigger is Trigger.AUTO:
        detail = "this is an automatic scaling run, which the next verdict would begin again: pause or hold instead"
        raise Problem(ProblemType.CONFLICT, detail)
    if options.dry_run:
        if not operation.running:
            detail = f"operation {operation.id} has ended: {operation.phase}"
            raise Problem(ProblemType.CONFLICT, detail)
        deps.refuse_if_off(context, REQUESTS)
        return JSONResponse(schemas.Changes(changes=presenting.cancelled(operation)).public())
    deps.refuse_in_dry_run(context, options)
    cancelled = await prober.scaling_runs.cancel(operation.id, by=deps.caller_of(request).name)
    draft.after = _drafted(cancelled)
    return schemas.Operation.of(cancelled)


def _drafted(operation: ScalingRunStatus) -> dict[str, str]:
    """The fields of an operation that go into the audit record."""
    return {"direction": str(operation.direction), "phase": str(operation.phase)}
