"""This process: status, configuration, log level and audit; a standby answers, too."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Final

from fastapi import Query, Request
from pydantic import Field, TypeAdapter

from app.api import dependencies as deps
from app.api import presenting, schemas
from app.api.auditing import drafted
from app.api.auth.authorization import Call
from app.api.request_bodies import LogLevelOrder
from app.api.schemas import Example
from app.core import log, redaction
from app.core.config.flags import flag_name, shown_type
from app.core.config.values import LogLevel
from app.core.model.endpoints import Effect, EndpointProbeSpec, Exec, HttpGet, Scheme
from app.core.model.instants import format_duration
from app.core.model.policy import DependentPolicy, Loop, ProberPolicy, ScalePolicy
from app.core.model.probing import ShootState
from app.core.model.weeding import WeederPolicy
from app.core.model.workloads import ResourceRef

router = deps.api_router("status")


@router.get("/api/v1/status", dependencies=[deps.allowed(Call.LIST)])
async def read_status(context: deps.AnyContext) -> schemas.Status:
    """Version, role, leader, number of shoots in each state (null on a standby), and troubles of the process."""
    process, leaders = context.process, context.process.leaders
    pause, prober = context.overrides.global_pause(), context.prober
    counts = None
    # A standby does not know the states.
    if prober is not None and deps.leads(context, Loop.PROBER):
        found = Counter(each.state for each in prober.shoots.summaries())
        counts = {str(state): found[state] for state in ShootState}
    return schemas.Status.of(
        process,
        role="leader" if any(each.leading for each in leaders.values()) else "standby",
        leaders={str(loop): each for loop, each in leaders.items()},
        counts=counts,
        pause=None if pause is None else presenting.pause(pause, None),
        features_off=[
            schemas.FeatureOff(feature=name, reason=why)
            for name, why in sorted(process.features_off().items())
        ],
        missing_permissions=process.missing_permissions(),
        config_warnings=process.config_warnings(),
        found_unconfigured=process.found_unconfigured(),
        selectors_without_pods=sorted(process.selectors_without_pods()),
    )


# /api/v1/config: the effective configuration and the log level; the processes of both loops answer, each about itself.
#
# It is in the terms of the flags and of the files. The files are the policies themselves, whose keys are declared in
# the model. Secrets do not show (threat T12): flags have only the names of files with secrets, values of HTTP headers
# are redacted, and paths and commands of endpoint probes pass the redacting filter.


FlagValue = bool | int | float | str | list[str] | None


def prober_file(policy: ProberPolicy) -> ProberPolicy:
    """The effective prober file without possible secrets, and without what has no effect in its mode."""
    return replace(
        policy,
        internal_failure_backoff=policy.internal_failure_backoff if policy.endpoint_mode else None,
        endpoint_probes=tuple(map(_probe, policy.endpoint_probes)),
    )


def _probe(probe: EndpointProbeSpec) -> EndpointProbeSpec:
    http, command = probe.http_get, probe.exec
    if http is not None:
        headers = tuple((name, redaction.REDACTED) for name, _ in http.headers)
        http = replace(http, path=redaction.clean(http.path), headers=headers)
    if command is not None:
        command = Exec(tuple(_words(command.command)))
    return replace(probe, http_get=http, exec=command)


def _words(command: tuple[str, ...]) -> Iterator[str]:
    """Redact a command word by word, together with the word before it (`--password`, `hunter2`)."""
    before = ""
    for word in command:
        alone = redaction.clean(word)
        together = redaction.clean(f"{before} {word}", 2 * redaction.MAX_VALUE)
        yield alone if together.endswith(alone) else redaction.REDACTED
        before = word


_POLICY: Final = ProberPolicy(
    "gardener-internal-watchdog",
    (
        DependentPolicy(
            ResourceRef("apps/v1", "Deployment", "kube-controller-manager"),
            scale_down=ScalePolicy(level=1),
        ),
    ),
    endpoint_probes=(
        EndpointProbeSpec(
            "canary",
            http_get=HttpGet(443, Scheme.HTTPS, "/healthz", (("Authorization", ""),)),
            host="canary.example.org",
            period=5,
            failure_threshold=2,
            effect=Effect.GATE_SCALE_DOWN,
        ),
    ),
)


class Config(schemas.Schema):
    """The effective configuration of this process."""

    log_level: Annotated[LogLevel, Example("info")]
    """The current level; `flags` has the one that the process was started with."""
    flags: Annotated[
        dict[str, FlagValue],
        Example({"kube-api-qps": 5, "dry-run": False, "config-file": "/etc/dwd/prober.yaml"}),
    ]
    """By name; for files the path, never the content."""
    prober: Annotated[
        ProberPolicy | None,
        Example(
            TypeAdapter(ProberPolicy).dump_python(prober_file(_POLICY), mode="json", by_alias=True)
        ),
    ]
    """Null if the prober does not run in this process."""
    weeder: WeederPolicy | None
    """Null if the weeder does not run in this process."""
    warnings: list[schemas.ConfigFinding]


def _flag(value: object, kind: str) -> FlagValue:
    """The value of a flag, given or default."""
    match value:
        case None | bool():
            return value
        case int() | float() if kind == "DURATION":
            return format_duration(value)
        case int() | float():
            return value
        case list() | tuple() | set() | frozenset():
            return [redaction.clean(str(each)) for each in value]
        case _:
            return redaction.clean(str(value))


config_router = deps.api_router("config")

_PATH: Final = "/api/v1/config"


@config_router.get(_PATH, dependencies=[deps.allowed(Call.READ_CONFIG)])
async def read_config(context: deps.AnyContext) -> Config:
    """The effective configuration: flags, files and defaults, in the words of the command line and of the files."""
    configured = context.process.configured
    prober, weeder = configured.prober, configured.weeder
    settings, fields = configured.settings, type(configured.settings).model_fields
    return Config(
        log_level=LogLevel(log.level()),
        flags={
            flag_name(name): _flag(getattr(settings, name), shown_type(field))
            for name, field in fields.items()
        },
        prober=None if prober is None else prober_file(prober),
        weeder=weeder,
        warnings=[schemas.ConfigFinding.of(each) for each in context.process.config_warnings()],
    )


@config_router.put(_PATH + "/log-level", dependencies=[deps.allowed(Call.LOG_LEVEL)])
async def set_log_level(request: Request, body: LogLevelOrder) -> schemas.LogLevelNow:
    """Set the log level until the next start of this process; also in a dry run and on a standby."""
    draft = drafted(request, "log-level")
    draft.before = log.level()
    log.set_level(body.level)
    draft.after = log.level()
    return schemas.LogLevelNow(level=body.level)


# GET /api/v1/audit: attempts to change something through this process.


audit_router = deps.api_router("audit")


class AuditQuery(deps.PageQuery):
    """The filter of the audit."""

    caller: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Only attempts of this caller."""
    namespace: deps.Name | None = None
    """Only attempts on this shoot."""


@audit_router.get("/api/v1/audit", dependencies=[deps.allowed(Call.READ_AUDIT)])
async def list_audit(
    context: deps.AnyContext, query: Annotated[AuditQuery, Query()]
) -> schemas.AuditList:
    """Every attempt to change something, newest first: performed, refused or failed; of this process only.

    The log is the durable audit. Repeated refusals of a caller (the same call on the same shoot, for the
    same reason) are one entry.
    """
    chosen = [
        each
        for each in context.audit.entries()
        if query.caller in {None, each.attempt.caller}
        and query.namespace in {None, each.attempt.namespace}
    ]
    page = deps.cut(chosen, lambda each: deps.PageKey(-each.number, ""), "audit", query)
    return schemas.AuditList(
        items=[presenting.audit_entry(each) for each in page.items],
        metadata=schemas.AuditMetadata.of(page.metadata, since=context.audit.since),
    )
