"""/api/v1/config: what this process was told, and how much it logs; both loops answer, each about itself."""

from typing import Final

from fastapi import APIRouter, Request

from app.api import presenting, schemas
from app.api import config_view
from app.api.auditing import draft_of
from app.api.calls import Call
from app.api.dependencies import AnyContext
from app.api.permission import allowed
from app.core.config.flag_values import LogLevel
from app.core import log

router = APIRouter(tags=["config"])

_PATH: Final = "/api/v1/config"


@router.get(_PATH, dependencies=[allowed(Call.READ_CONFIG)])
async def read_config(context: AnyContext) -> schemas.Config:
    """The effective configuration: flags, files and defaults, in the words of the command line and of the files."""
    configured = context.process.configured
    prober, weeder = configured.prober, configured.weeder
    return schemas.Config(
        log_level=LogLevel(log.level()),
        flags=config_view.flags(configured.settings),
        prober=None if prober is None else config_view.prober(prober),
        weeder=None if weeder is None else config_view.weeder(weeder),
        warnings=[presenting.finding(each) for each in context.process.config_warnings()],
    )


@router.put(_PATH + "/log-level", dependencies=[allowed(Call.LOG_LEVEL)])
async def set_log_level(request: Request, body: schemas.LogLevelOrder) -> schemas.LogLevelNow:
    """Log more, or less, until this process is started again; a dry run and a standby do so too."""
    draft = draft_of(request)
    draft.action, draft.before = "log-level", log.level()
    log.set_level(body.level)
    draft.after = log.level()
    return schemas.LogLevelNow(level=body.level)
