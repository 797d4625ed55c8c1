"""GET /api/v1/status: this process, and what is wrong with it; a standby answers too."""

from collections import Counter

from fastapi import APIRouter

from app.api import schemas
from app.api.dependencies import AnyContext, Context, ProcessView
from app.core.model.instants import rfc3339
from app.core.model.probing import ShootState
from app.core.ports import Permission

router = APIRouter(tags=["status"])

LOOP = "prober"


@router.get("/api/v1/status")
async def read_status(context: AnyContext) -> schemas.Status:
    """Version, role, leader, shoots in each state (null on a standby), and what deserves a look."""
    process = context.process
    return schemas.Status(
        version=process.version,
        started_at=rfc3339(process.started_at),
        role="leader" if process.leading else "standby",
        dry_run=process.dry_run,
        leaders={LOOP: schemas.Leader(identity=process.leader_identity, address=None)},
        counts=_counts(context) if process.leading else None,
        features_off=_features_off(process),
        missing_permissions=[_permission(each) for each in process.missing_permissions()],
        config_warnings=[
            schemas.Warning(path=each.path, line=each.line, message=each.message)
            for each in process.config_warnings()
        ],
        found_unconfigured=list(process.found_unconfigured()),
    )


def _counts(context: Context) -> dict[str, int]:
    found = Counter(each.state for each in context.shoots.statuses())
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
