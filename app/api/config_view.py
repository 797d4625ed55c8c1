"""Translates the effective configuration into schemas of the API, in the terms of the flags and of the files; pure.

Secrets do not show (threat T12): flags have only the names of files with secrets, values of HTTP headers are redacted,
and paths and commands of endpoint probes pass the redacting filter.
"""

from dataclasses import replace

from app.api import schemas
from app.core import redaction
from app.core.config.flags import flag_name, shown_type
from app.core.config.settings import ServiceSettings
from app.core.model.durations import format_duration
from app.core.model.endpoints import EndpointProbeSpec, Exec
from app.core.model.policy import ProberPolicy


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
        command = Exec(tuple(_words(command.command)))
    return replace(probe, http_get=http, exec=command)


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
