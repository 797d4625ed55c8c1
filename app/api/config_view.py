"""The effective configuration in the terms of the flags and of the files, as `GET /api/v1/config` shows it; pure.

The files are the policies themselves, whose keys are declared in the model. Secrets do not show (threat T12): flags
have only the names of files with secrets, values of HTTP headers are redacted, and paths and commands of endpoint
probes pass the redacting filter.
"""

from dataclasses import replace
from typing import Annotated, Final

from pydantic import TypeAdapter

from app.api.schemas import ConfigFinding, Example, Schema
from app.core import redaction
from app.core.config.flags import flag_name, shown_type
from app.core.config.settings import ServiceSettings
from app.core.config.values import LogLevel
from app.core.model.durations import format_duration
from app.core.model.endpoints import Effect, EndpointProbeSpec, Exec, HttpGet, Scheme
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.weeding import WeederPolicy
from app.core.model.workloads import ResourceRef

FlagValue = bool | int | float | str | list[str] | None


def prober(policy: ProberPolicy) -> ProberPolicy:
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
        command = Exec(_words(command.command))
    return replace(probe, http_get=http, exec=command)


def _words(command: tuple[str, ...]) -> tuple[str, ...]:
    """Redact a command word by word, together with the word before it (`--password`, `hunter2`)."""
    befores = ("", *command)
    return tuple(_word(before, word) for before, word in zip(befores, command, strict=False))


def _word(before: str, word: str) -> str:
    alone = redaction.clean(word)
    together = redaction.clean(f"{before} {word}", 2 * redaction.MAX_VALUE)
    return alone if together.endswith(alone) else redaction.REDACTED


_EXAMPLE: Final = ProberPolicy(
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


def _shown(policy: ProberPolicy) -> object:
    shown = TypeAdapter(ProberPolicy)
    return shown.dump_python(prober(policy), mode="json", by_alias=True)


class Config(Schema):
    """The effective configuration of this process."""

    log_level: Annotated[LogLevel, Example("info")]
    """The current level; `flags` has the one that the process was started with."""
    flags: Annotated[
        dict[str, FlagValue],
        Example({"kube-api-qps": 5, "dry-run": False, "config-file": "/etc/dwd/prober.yaml"}),
    ]
    """By name; for files the path, never the content."""
    prober: Annotated[ProberPolicy | None, Example(_shown(_EXAMPLE))]
    """Null if the prober does not run in this process."""
    weeder: WeederPolicy | None
    """Null if the weeder does not run in this process."""
    warnings: list[ConfigFinding]


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
