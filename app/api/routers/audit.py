"""GET /api/v1/audit: who changed what, when and why, as far as this process knows."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from app.api import presenting, schemas
from app.api.calls import Call
from app.api.dependencies import AnyContext
from app.api.paging import Key, PageQuery, TokenRefused, cut
from app.api.permission import allowed
from app.api.problems import Problem, ProblemType
from app.core.model.instants import rfc3339
from app.core.reporting.audit import AuditRecord

router = APIRouter(tags=["audit"])


class AuditQuery(PageQuery):
    """Which attempts."""

    caller: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        None, description="Only attempts of this caller."
    )
    namespace: Annotated[str, Field(min_length=1, max_length=253)] | None = Field(
        None, description="Only attempts on this shoot."
    )


@router.get("/api/v1/audit", dependencies=[allowed(Call.READ_AUDIT)])
async def list_audit(
    context: AnyContext, query: Annotated[AuditQuery, Query()]
) -> schemas.AuditList:
    """Every attempt to change something, newest first: performed, refused or failed; this process's own alone.

    The log is the durable audit.  What a caller is refused again and again (the same call on the same shoot, for the
    same reason) is one entry.
    """
    chosen = [each for each in context.audit.entries() if _matches(each, query)]
    try:
        page = cut(chosen, _key, "audit", query.limit, query.token)
    except TokenRefused as error:
        raise Problem(ProblemType.INVALID_PAGE_TOKEN, f"continue: {error}") from error
    return schemas.AuditList(
        items=[presenting.audit_entry(each) for each in page.items],
        metadata=schemas.AuditMetadata(
            total=page.total, continue_=page.token, since=rfc3339(context.audit.since)
        ),
    )


def _matches(record: AuditRecord, query: AuditQuery) -> bool:
    said = record.attempt
    return query.caller in {None, said.caller} and query.namespace in {None, said.namespace}


def _key(record: AuditRecord) -> Key:
    return Key(-float(record.number), "")
