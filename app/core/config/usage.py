"""Help: what a command does, and each of its flags with type, default, unit and why."""

import textwrap
from collections.abc import Iterator
from typing import Final

from pydantic.fields import FieldInfo

from app.core.config.durations import format_duration
from app.core.config.environment import CommandSettings
from app.core.config.flags import flag_name
from app.core.config.flagvalues import Shown

_WIDTH: Final = 100
_INDENT: Final = " " * 6
_FLAGS: Final = (
    "Flags (also -flag, and --flag VALUE where there is one). Each is an environment variable too: --log-level is "
    "DWD_LOG_LEVEL; the flag wins. A duration is a Go duration string: 30s, 1m40s."
)


def shown_type(field: FieldInfo) -> str:
    """How the type of a flag is named; empty for a boolean."""
    return next(each.as_ for each in field.metadata if isinstance(each, Shown))


def shown_default(field: FieldInfo) -> str:
    """The default as it would be written; `required` or `none` where there is none."""
    if field.is_required():
        return "required"
    value = field.default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if shown_type(field) == "DURATION":
        return format_duration(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def usage(line: str, about: str, model: type[CommandSettings]) -> str:
    """The help text of a command: its usage line, what it does, its flags."""
    flags = [_wrapped(_FLAGS), *_flags(model)] if model.model_fields else []
    parts = [f"Usage: {line}", _wrapped(about), *flags]
    return "\n\n".join(parts) + "\n"


def _flags(model: type[CommandSettings]) -> Iterator[str]:
    fields = model.model_fields.items()
    for name, field in sorted(fields, key=lambda each: not each[1].is_required()):
        kind = shown_type(field)
        head = f"  --{flag_name(name)}" + (f" {kind}" if kind else "")
        text = f"{field.description} ({_default(field)})"
        yield head + "\n" + _wrapped(text, _INDENT)


def _default(field: FieldInfo) -> str:
    default = shown_default(field)
    return default if field.is_required() else f"default {default}"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
