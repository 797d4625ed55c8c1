"""POST /api/v1/shoots/{namespace}/scale: a person scales a shoot's dependents, or asks what that would do."""

from typing import Annotated, Final

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse

from app.api import presenting, schemas
from app.api import operations_view
from app.api.auditing import draft_of
from app.api.calls import Call
from app.api.dependencies import AnyContext, LeadingProber, known_shoot
from app.api.permission import allowed, caller_of
from app.api.writing import refuse_in_dry_run
from app.core.config.durations import parse_duration
from app.core.model.operations import ScaleOrder
from app.core.model.overrides import Hold
from app.prober.status import ShootStatus

router = APIRouter(tags=["flows"])

_IF_MATCH: Final = (
    "The ETag of the plan, or of `resources`: nothing is done where they have changed since."
)

IfMatch = Annotated[list[str] | None, Header(description=_IF_MATCH)]


@router.post(
    "/api/v1/shoots/{namespace}/scale",
    status_code=202,
    response_model=schemas.Operation,
    dependencies=[allowed(Call.SCALE)],
    responses={
        200: {
            "model": schemas.Plan,
            "description": "The plan; nothing was written.",
            "headers": {"ETag": {"description": "For `If-Match`.", "schema": {"type": "string"}}},
        },
        202: {
            "headers": {
                "Location": {"description": "Of the operation.", "schema": {"type": "string"}}
            },
        },
    },
)
async def scale_shoot(
    request: Request,
    context: AnyContext,
    prober: LeadingProber,
    namespace: str,
    body: schemas.ScaleOrder,
    if_match: IfMatch = None,
) -> Response:
    """Scale a shoot's dependents up or down, level by level.

    The automatic verdicts are shown and not acted on for `hold`.  An automatic flow gives way; where another manual
    one runs, nothing is done.  With `dryRun` the answer is the plan.
    """
    order = ScaleOrder(
        namespace,
        body.direction,
        body.reason,
        caller_of(request).name,
        parse_duration(body.hold),
        force=body.force,
        if_match=None if if_match is None else ", ".join(if_match),
    )
    draft = draft_of(request)
    draft.action = "plan" if body.dry_run else "scale"
    draft.namespace, draft.target, draft.reason = namespace, str(order.direction), order.reason
    status = known_shoot(prober, namespace)
    if body.dry_run:
        plan = operations_view.plan(await prober.flows.plan(order))
        return _json(plan, 200, {"ETag": plan.etag})
    refuse_in_dry_run(context)
    draft.before = _before(status, context.overrides.standing(namespace).hold)
    begun = operations_view.operation(await prober.flows.begin(order))
    draft.after = begun.model_dump(mode="json", by_alias=True)
    return _json(begun, 202, {"Location": f"/api/v1/operations/{begun.id}"})


def _before(status: ShootStatus, hold: Hold | None) -> object:
    """For the audit: the hold that is replaced, and what the dependents have, as the watches show it."""
    shown = None if hold is None else presenting.hold(hold)
    return {
        "hold": None if shown is None else shown.model_dump(mode="json", by_alias=True),
        "replicas": {
            str(ref): None if view is None else view.replicas
            for ref, view in status.resources.items()
        },
    }


def _json(shape: schemas.Schema, status: int, headers: dict[str, str]) -> JSONResponse:
    return JSONResponse(shape.model_dump(mode="json", by_alias=True), status, headers)
