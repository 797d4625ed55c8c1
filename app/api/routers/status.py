"""This process: status, configuration, log level and audit; a standby answers, too."""

from collections import Counter
from typing import Annotated, Final

from fastapi import Query, Request
from pydantic import Field

from app.api import config_view, presenting, schemas
from app.api.auditing import drafted
from app.api.auth.authorization import Call
from app.api.context import Context
from app.api.dependencies import AnyContext, PageKey, PageQuery, allowed, api_router, cut
from app.core import log
from app.core.config.values import LogLevel
from app.core.model.instants import rfc3339
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from app.core.reporting.audit import AuditRecord

router = api_router("status")


@router.get("/api/v1/status", dependencies=[allowed(Call.LIST)])
async def read_status(context: AnyContext) -> schemas.Status:
    """Version, role, leader, number of shoots in each state (null on a standby), and troubles of the process."""
    process, leaders = context.process, context.process.leaders
    pause = context.overrides.global_pause()
    return schemas.Status(
        version=process.version,
        identity=process.identity,
        started_at=rfc3339(process.started_at),
        role="leader" if any(each.leading for each in leaders.values()) else "standby",
        dry_run=process.dry_run,
        leaders={
            str(loop): schemas.Leader(identity=each.leader_identity, address=each.address)
            for loop, each in leaders.items()
        },
        counts=_counts(context),
        pause=None if pause is None else presenting.pause(pause, None),
        features_off=[
            schemas.FeatureOff(feature=name, reason=why)
            for name, why in sorted(process.features_off().items())
        ],
        missing_permissions=[
            schemas.MissingPermission.of(each) for each in process.missing_permissions()
        ],
        config_warnings=[schemas.ConfigFinding.of(each) for each in process.config_warnings()],
        found_unconfigured=list(process.found_unconfigured()),
        selectors_without_pods=sorted(process.selectors_without_pods()),
    )


def _counts(context: Context) -> dict[str, int] | None:
    """Number of shoots by state; None on a standby, which does not know the states."""
    prober, leader = context.prober, context.process.leaders.get(Loop.PROBER)
    if prober is None or leader is None or not leader.leading:
        return None
    found = Counter(each.state for each in prober.shoots.summaries())
    return {str(state): found[state] for state in ShootState}


# /api/v1/config: the effective configuration and the log level; the processes of both loops answer, each about itself.


config_router = api_router("config")

_PATH: Final = "/api/v1/config"


@config_router.get(_PATH, dependencies=[allowed(Call.READ_CONFIG)])
async def read_config(context: AnyContext) -> config_view.Config:
    """The effective configuration: flags, files and defaults, in the words of the command line and of the files."""
    configured = context.process.configured
    prober, weeder = configured.prober, configured.weeder
    return config_view.Config(
        log_level=LogLevel(log.level()),
        flags=config_view.flags(configured.settings),
        prober=None if prober is None else config_view.prober(prober),
        weeder=weeder,
        warnings=[schemas.ConfigFinding.of(each) for each in context.process.config_warnings()],
    )


@config_router.put(_PATH + "/log-level", dependencies=[allowed(Call.LOG_LEVEL)])
async def set_log_level(request: Request, body: schemas.LogLevelOrder) -> schemas.LogLevelNow:
    """Set the log level until the next start of this process; also in a dry run and on a standby."""
    draft = drafted(request, "log-level")
    draft.before = log.level()
    log.set_level(body.level)
    draft.after = log.level()
    return schemas.LogLevelNow(level=body.level)


# GET /api/v1/audit: attempts to change something through this process.


audit_router = api_router("audit")


class AuditQuery(PageQuery):
    """The filter of the audit."""

    caller: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        None, description="Only attempts of this caller."
    )
    namespace: Annotated[str, Field(min_length=1, max_length=253)] | None = Field(
        None, description="Only attempts on this shoot."
    )


@audit_router.get("/api/v1/audit", dependencies=[allowed(Call.READ_AUDIT)])
async def list_audit(
    context: AnyContext, query: Annotated[AuditQuery, Query()]
) -> schemas.AuditList:
    """Every attempt to change something, newest first: performed, refused or failed; of this process only.

    The log is the durable audit. Repeated refusals of a caller (the same call on the same shoot, for the
    same reason) are one entry.
    """
    chosen = [each for each in context.audit.entries() if _matches(each, query)]
    page = cut(chosen, lambda each: PageKey(-each.number, ""), "audit", query)
    return schemas.AuditList(
        items=[presenting.audit_entry(each) for each in page.items],
        metadata=schemas.AuditMetadata.of(page.metadata, since=context.audit.since),
    )


def _matches(record: AuditRecord, query: AuditQuery) -> bool:
    said = record.attempt
    return query.caller in {None, said.caller} and query.namespace in {None, said.namespace}
