"""Translates the effective configuration into schemas of the API, in the terms of the flags and of the files; pure.

Secrets do not show (threat T12): flags have only the names of files with secrets, values of HTTP headers are redacted,
and paths and commands of endpoint probes pass the redacting filter.
"""

from collections import Counter
from typing import Any, assert_never

from app.api import schemas
from app.core import redaction
from app.core.config.flags import flag_name, shown_type
from app.core.config.settings import ServiceSettings
from app.core.model.durations import format_duration
from app.core.model.endpoints import EndpointProbeSpec, Exec, Grpc, Handler, HttpGet, TcpSocket
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.selectors import LabelSelector, Operator, Requirement
from app.core.model.shoots import Route
from app.core.model.weeding import WeederPolicy

# Label selectors.


def selector(found: LabelSelector) -> schemas.PodSelector:
    """A label selector as the files write it.

    A requirement of one value becomes `matchLabels`, however it was written, unless another one is for the same label.
    """
    times = Counter(each.key for each in found.requirements)
    labels = {
        each.key: next(iter(each.values))
        for each in found.requirements
        if _is_label(each) and times[each.key] == 1
    }
    others = [each for each in found.requirements if each.key not in labels]
    return schemas.PodSelector(
        match_labels=labels, match_expressions=[_expression(each) for each in others]
    )


def _is_label(requirement: Requirement) -> bool:
    return requirement.operator is Operator.IN and len(requirement.values) == 1


def _expression(requirement: Requirement) -> schemas.MatchExpression:
    return schemas.MatchExpression(
        key=requirement.key, operator=requirement.operator, values=sorted(requirement.values)
    )


# Endpoint probes, without possible secrets.


def probe(found: EndpointProbeSpec) -> schemas.EndpointProbeInfo:
    """An entry of `endpointProbes`, defaults included."""
    return schemas.EndpointProbeInfo(
        name=found.name,
        type=found.type,
        effect=found.effect,
        **_handlers(found.handler),
        host=found.host,
        pod_selector=None if found.pods is None else selector(found.pods),
        container=found.container,
        initial_delay_seconds=found.initial_delay,
        period_seconds=found.period,
        timeout_seconds=found.timeout,
        success_threshold=found.success_threshold,
        failure_threshold=found.failure_threshold,
    )


def _handlers(handler: Handler) -> dict[str, Any]:
    """The four keys for handlers, of which one has a value."""
    found: dict[str, Any] = dict.fromkeys(("http_get", "tcp_socket", "grpc", "exec"))
    match handler:
        case HttpGet():
            found["http_get"] = _http_get(handler)
        case TcpSocket(port):
            found["tcp_socket"] = schemas.TcpSocketAction(port=port)
        case Grpc(port, service):
            found["grpc"] = schemas.GrpcAction(port=port, service=service)
        case Exec(command):
            found["exec"] = schemas.ExecAction(command=_words(command))
        case _:
            assert_never(handler)
    return found


def _http_get(handler: HttpGet) -> schemas.HttpGetAction:
    """An HTTP action without the values of its headers, which may be tokens."""
    return schemas.HttpGetAction(
        scheme=handler.scheme,
        port=handler.port,
        path=redaction.clean(handler.path),
        http_headers=[
            schemas.HttpHeader(name=name, value=redaction.REDACTED) for name, _ in handler.headers
        ],
    )


def _words(command: tuple[str, ...]) -> list[str]:
    """Redact a command word by word, together with the word before it (`--password`, `hunter2`)."""
    befores = ("", *command)
    return [_word(before, word) for before, word in zip(befores, command, strict=False)]


def _word(before: str, word: str) -> str:
    alone = redaction.clean(word)
    together = redaction.clean(f"{before} {word}", 2 * redaction.MAX_VALUE)
    return alone if together.endswith(alone) else redaction.REDACTED


def flags(settings: ServiceSettings) -> dict[str, schemas.FlagValue]:
    """The value of each flag, given or default."""
    fields = type(settings).model_fields
    return {
        flag_name(name): _flag(getattr(settings, name), shown_type(field))
        for name, field in fields.items()
    }


def _flag(value: object, kind: str) -> schemas.FlagValue:
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


def prober(policy: ProberPolicy) -> schemas.ProberFile:
    """The effective prober file, defaults included."""
    most, mode, secrets = policy.max_protection, policy.endpoint_mode, policy.secret_names
    backoff = None if mode is None else format_duration(mode.internal_failure_backoff)
    return schemas.ProberFile(
        kube_config_secret_name=secrets[Route.INTERNAL] if mode is None else None,
        internal_kube_config_secret_name=None if mode is None else secrets[Route.INTERNAL],
        external_kube_config_secret_name=secrets.get(Route.EXTERNAL),
        internal_probe_failure_backoff_duration=backoff,
        probe_interval=format_duration(policy.probe_interval),
        initial_delay=format_duration(policy.initial_delay),
        probe_timeout=format_duration(policy.probe_timeout),
        backoff_jitter_factor=policy.jitter,
        kcm_node_monitor_grace_duration=format_duration(policy.grace),
        node_lease_failure_fraction=policy.limit,
        failure_threshold=policy.failure_threshold,
        success_threshold=policy.success_threshold,
        suspect_probe_interval=format_duration(policy.suspect_interval),
        max_protection_duration=None if most is None else format_duration(most),
        on_scale_down_failure=policy.on_scale_down_failure,
        on_scale_up_failure=policy.on_scale_up_failure,
        endpoint_probes=[probe(each) for each in policy.endpoint_probes],
        dependent_resource_infos=[_dependent(each) for each in policy.dependents],
    )


def _dependent(policy: DependentPolicy) -> schemas.DependentResourceInfo:
    return schemas.DependentResourceInfo(
        ref=schemas.Ref(**policy.ref._asdict()),
        optional=policy.optional,
        scale_up=_scale(policy.scale_up),
        scale_down=_scale(policy.scale_down),
    )


def _scale(policy: ScalePolicy) -> schemas.ScaleInfo:
    return schemas.ScaleInfo(
        level=policy.level,
        initial_delay=format_duration(policy.initial_delay),
        timeout=format_duration(policy.timeout),
    )


def weeder(policy: WeederPolicy) -> schemas.WeederFile:
    """The effective weeder file, defaults included."""
    return schemas.WeederFile(
        watch_duration=format_duration(policy.watch_duration),
        services_and_dependant_selectors={
            name: schemas.PodSelectors(pod_selectors=[selector(each) for each in selectors])
            for name, selectors in policy.services.items()
        },
        max_deletions_per_workload=policy.max_deletions_per_workload,
        min_backoff_remaining=format_duration(policy.min_backoff_remaining),
        weed_bare_pods=policy.weed_bare_pods,
    )
