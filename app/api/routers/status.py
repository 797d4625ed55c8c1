"""GET /api/v1/status: this process, and what is wrong with it; a standby answers too."""

from collections import Counter

from fastapi import APIRouter

from app.api import presenting, schemas
from app.api.calls import Call
from app.api.dependencies import AnyContext
from app.api.permission import allowed
from app.api.views import Context, ProcessView
from app.core.model.instants import rfc3339
from app.core.model.loops import Loop
from app.core.model.probing import ShootState
from app.core.ports import Permission

router = APIRouter(tags=["status"])


@router.get("/api/v1/status", dependencies=[allowed(Call.LIST)])
async def read_status(context: AnyContext) -> schemas.Status:
    """Version, role, leader, shoots in each state (null on a standby), and what deserves a look."""
    process, leaders = context.process, context.process.leaders
    return schemas.Status(
        version=process.version,
        started_at=rfc3339(process.started_at),
        role="leader" if any(each.leading for each in leaders.values()) else "standby",
        dry_run=process.dry_run,
        leaders={
            str(loop): schemas.Leader(identity=each.leader_identity, address=each.address)
            for loop, each in leaders.items()
        },
        counts=_counts(context),
        pause=presenting.pause(context.overrides.global_pause(), schemas.Covers.ALL),
        features_off=_features_off(process),
        missing_permissions=[_permission(each) for each in process.missing_permissions()],
        config_warnings=[presenting.finding(each) for each in process.config_warnings()],
        found_unconfigured=list(process.found_unconfigured()),
        selectors_without_pods=sorted(process.selectors_without_pods()),
    )


def _counts(context: Context) -> dict[str, int] | None:
    """Only the prober's leader knows."""
    prober, leader = context.prober, context.process.leaders.get(Loop.PROBER)
    if prober is None or leader is None or not leader.leading:
        return None
    found = Counter(each.state for each in prober.shoots.outlines())
    return {str(state): found[state] for state in ShootState}


def _features_off(process: ProcessView) -> list[schemas.FeatureOff]:
    found = process.features_off()
    return [schemas.FeatureOff(feature=name, reason=found[name]) for name in sorted(found)]


def _permission(lacking: Permission) -> schemas.MissingPermission:
    return schemas.MissingPermission(
        verb=lacking.verb,
        group=lacking.group,
        resource=lacking.resource,
        name=lacking.name or None,
        namespace=lacking.namespace or None,
        feature=lacking.feature or None,
    )
