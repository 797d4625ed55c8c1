"""The effective configuration in the terms of the flags and of the files, as `GET /api/v1/config` shows it; pure.

Secrets do not show (threat T12): flags have only the names of files with secrets, values of HTTP headers are redacted,
and paths and commands of endpoint probes pass the redacting filter.
"""

from collections import Counter
from typing import Annotated, Any, assert_never

from app.api.schemas import ConfigFinding, Example, GoDuration, Schema
from app.core import redaction
from app.core.config.flag_values import LogLevel
from app.core.config.flags import flag_name, shown_type
from app.core.config.settings import ServiceSettings
from app.core.model.durations import format_duration
from app.core.model.endpoints import (
    Effect,
    EndpointProbeSpec,
    Exec,
    Grpc,
    Handler,
    HttpGet,
    ProbeType,
    Scheme,
    TcpSocket,
)
from app.core.model.policy import OnFailure, ProberPolicy
from app.core.model.selectors import LabelSelector, Operator, Requirement
from app.core.model.shoots import Route
from app.core.model.weeding import WeederPolicy

FlagValue = bool | int | float | str | list[str] | None


class Ref(Schema):
    """The reference of a dependent."""

    api_version: Annotated[str, Example("apps/v1")]
    kind: Annotated[str, Example("Deployment")]
    name: Annotated[str, Example("kube-controller-manager")]


class ScaleInfo(Schema):
    """How a dependent is scaled in one direction."""

    level: int
    initial_delay: Annotated[GoDuration, Example("0s")]
    timeout: GoDuration


class DependentResourceInfo(Schema):
    """A dependent."""

    ref: Ref
    optional: bool
    scale_up: ScaleInfo
    scale_down: ScaleInfo


class MatchExpression(Schema):
    """A requirement for a label; `values` is empty with Exists and DoesNotExist."""

    key: str
    operator: Operator
    values: list[str]


class PodSelector(Schema):
    """A LabelSelector."""

    match_labels: dict[str, str]
    match_expressions: list[MatchExpression]


class HttpHeader(Schema):
    """A header of an HTTP probe."""

    name: Annotated[str, Example("Authorization")]
    value: Annotated[str, Example(redaction.REDACTED)]
    """Always `[redacted]`, as it may be a secret."""


class HttpGetAction(Schema):
    """Passes with an answer of 2xx or 3xx."""

    scheme: Annotated[Scheme, Example("HTTPS")]
    port: Annotated[int | str, Example(443)]
    path: Annotated[str, Example("/healthz")]
    http_headers: list[HttpHeader]


class TcpSocketAction(Schema):
    """Passes when a connection is made."""

    port: int | str


class GrpcAction(Schema):
    """Passes when the standard health service answers SERVING."""

    port: int
    service: str


class ExecAction(Schema):
    """Passes with exit code 0."""

    command: list[str]


class EndpointProbeInfo(Schema):
    """An endpoint probe; one of its four handlers has a value, and one of `host` and `podSelector`."""

    name: Annotated[str, Example("canary")]
    type: Annotated[ProbeType, Example("Readiness")]
    effect: Annotated[Effect, Example("GateScaleDown")]
    http_get: Annotated[HttpGetAction | None, Example(HttpGetAction.example())]
    tcp_socket: TcpSocketAction | None
    grpc: GrpcAction | None
    exec: ExecAction | None
    host: Annotated[str | None, Example("canary.example.org")]
    pod_selector: PodSelector | None
    container: str | None
    initial_delay_seconds: int
    period_seconds: Annotated[int, Example(5)]
    timeout_seconds: Annotated[int, Example(1)]
    success_threshold: Annotated[int, Example(1)]
    failure_threshold: Annotated[int, Example(2)]


class ProberFile(Schema):
    """The effective prober file, defaults included."""

    kube_config_secret_name: Annotated[str | None, Example("gardener-internal-watchdog")]
    """Null in endpoint mode."""
    internal_kube_config_secret_name: str | None
    """Null in lease mode, as the two below."""
    external_kube_config_secret_name: str | None
    internal_probe_failure_backoff_duration: GoDuration | None
    probe_interval: GoDuration
    initial_delay: GoDuration
    probe_timeout: GoDuration
    backoff_jitter_factor: Annotated[float, Example(0.2)]
    kcm_node_monitor_grace_duration: Annotated[GoDuration, Example("40s")]
    node_lease_failure_fraction: Annotated[float, Example(0.6)]
    failure_threshold: Annotated[int, Example(1)]
    success_threshold: Annotated[int, Example(3)]
    suspect_probe_interval: Annotated[GoDuration, Example("5s")]
    max_protection_duration: GoDuration | None
    on_scale_down_failure: Annotated[OnFailure, Example("Continue")]
    on_scale_up_failure: Annotated[OnFailure, Example("Stop")]
    endpoint_probes: list[EndpointProbeInfo]
    dependent_resource_infos: Annotated[
        list[DependentResourceInfo],
        Example([DependentResourceInfo.example(scaleDown=ScaleInfo.example(level=1))]),
    ]


class PodSelectors(Schema):
    """The pods that depend on a service."""

    pod_selectors: list[PodSelector]


class WeederFile(Schema):
    """The effective weeder file, defaults included."""

    watch_duration: GoDuration
    services_and_dependant_selectors: dict[str, PodSelectors]
    max_deletions_per_workload: int
    min_backoff_remaining: GoDuration
    weed_bare_pods: bool


class Config(Schema):
    """The effective configuration of this process."""

    log_level: Annotated[LogLevel, Example("info")]
    """The current level; `flags` has the one that the process was started with."""
    flags: Annotated[
        dict[str, FlagValue],
        Example({"kube-api-qps": 5, "dry-run": False, "config-file": "/etc/dwd/prober.yaml"}),
    ]
    """By name; for files the path, never the content."""
    prober: Annotated[ProberFile | None, Example(ProberFile.example())]
    """Null if the prober does not run in this process."""
    weeder: WeederFile | None
    """Null if the weeder does not run in this process."""
    warnings: list[ConfigFinding]


# The values.


def flags(settings: ServiceSettings) -> dict[str, FlagValue]:
    """The value of each flag, given or default."""
    fields = type(settings).model_fields
    return {
        flag_name(name): _flag(getattr(settings, name), shown_type(field))
        for name, field in fields.items()
    }


def _flag(value: object, kind: str) -> FlagValue:
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


def prober(policy: ProberPolicy) -> ProberFile:
    """The effective prober file, defaults included."""
    mode, secrets = policy.endpoint_mode, policy.secret_names
    return ProberFile.of(
        policy,
        kube_config_secret_name=secrets[Route.INTERNAL] if mode is None else None,
        internal_kube_config_secret_name=None if mode is None else secrets[Route.INTERNAL],
        external_kube_config_secret_name=secrets.get(Route.EXTERNAL),
        internal_probe_failure_backoff_duration=None
        if mode is None
        else mode.internal_failure_backoff,
        backoff_jitter_factor=policy.jitter,
        kcm_node_monitor_grace_duration=policy.grace,
        node_lease_failure_fraction=policy.limit,
        suspect_probe_interval=policy.suspect_interval,
        max_protection_duration=policy.max_protection,
        endpoint_probes=[probe(each) for each in policy.endpoint_probes],
        dependent_resource_infos=policy.dependents,
    )


def probe(found: EndpointProbeSpec) -> EndpointProbeInfo:
    """An entry of `endpointProbes`, defaults included, without possible secrets."""
    return EndpointProbeInfo.of(
        found,
        **_handlers(found.handler),
        pod_selector=None if found.pods is None else selector(found.pods),
        initial_delay_seconds=found.initial_delay,
        period_seconds=found.period,
        timeout_seconds=found.timeout,
    )


def _handlers(handler: Handler) -> dict[str, Any]:
    """The four keys for handlers, of which one has a value."""
    found: dict[str, Any] = dict.fromkeys(("http_get", "tcp_socket", "grpc", "exec"))
    match handler:
        case HttpGet():
            # The values of headers may be tokens.
            headers = [HttpHeader(name=n, value=redaction.REDACTED) for n, _ in handler.headers]
            path = redaction.clean(handler.path)
            found["http_get"] = HttpGetAction.of(handler, path=path, http_headers=headers)
        case TcpSocket():
            found["tcp_socket"] = TcpSocketAction.of(handler)
        case Grpc():
            found["grpc"] = GrpcAction.of(handler)
        case Exec(command):
            found["exec"] = ExecAction(command=_words(command))
        case _:
            assert_never(handler)
    return found


def _words(command: tuple[str, ...]) -> list[str]:
    """Redact a command word by word, together with the word before it (`--password`, `hunter2`)."""
    befores = ("", *command)
    return [_word(before, word) for before, word in zip(befores, command, strict=False)]


def _word(before: str, word: str) -> str:
    alone = redaction.clean(word)
    together = redaction.clean(f"{before} {word}", 2 * redaction.MAX_VALUE)
    return alone if together.endswith(alone) else redaction.REDACTED


def selector(found: LabelSelector) -> PodSelector:
    """A label selector as the files write it.

    A requirement of one value becomes `matchLabels`, however it was written, unless another one is for the same label.
    """
    times = Counter(each.key for each in found.requirements)

    def is_label(each: Requirement) -> bool:
        alone = times[each.key] == 1 and len(each.values) == 1
        return alone and each.operator is Operator.IN

    return PodSelector(
        match_labels={
            each.key: next(iter(each.values)) for each in found.requirements if is_label(each)
        },
        match_expressions=[
            MatchExpression.of(each, values=sorted(each.values))
            for each in found.requirements
            if not is_label(each)
        ],
    )


def weeder(policy: WeederPolicy) -> WeederFile:
    """The effective weeder file, defaults included."""
    return WeederFile.of(
        policy,
        services_and_dependant_selectors={
            name: PodSelectors(pod_selectors=[selector(each) for each in selectors])
            for name, selectors in policy.services.items()
        },
    )
