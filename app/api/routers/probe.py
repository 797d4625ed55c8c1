"""POST /api/v1/shoots/{namespace}/probe: look now."""

from fastapi import APIRouter, Request

from app.api import schemas
from app.api.auditing import draft_of
from app.api.calls import Call
from app.api.dependencies import LeadingProber, known_shoot
from app.api.permission import allowed
from app.core.model.instants import rfc3339

router = APIRouter(tags=["shoots"])


@router.post(
    "/api/v1/shoots/{namespace}/probe", status_code=202, dependencies=[allowed(Call.PROBE)]
)
async def probe_shoot(request: Request, prober: LeadingProber, namespace: str) -> schemas.Look:
    """Look at a shoot now, or as soon as that may be: several calls are one look."""
    draft = draft_of(request)
    draft.action, draft.namespace = "probe", namespace
    last = known_shoot(prober, namespace).last_look
    draft.before = {"lastTime": None if last is None else rfc3339(last)}
    look = schemas.Look(at=rfc3339(prober.flows.probe_now(namespace)))
    draft.after = {"at": look.at}
    return look
