"""Help: what a command does, and each of its flags with type, default, unit and why."""

import textwrap
from collections.abc import Iterator
from typing import Final

from pydantic.fields import FieldInfo

from app.core.config.durations import format_duration
from app.core.config.environment import CommandSettings, environment_name, flag_only
from app.core.config.flags import flag_name
from app.core.config.flag_values import Shown, ShownDefault

_WIDTH: Final = 100
_INDENT: Final = " " * 6
_FLAGS: Final = (
    "Flags (also -flag, and --flag VALUE where there is one). Each is an environment variable too: --log-level is "
    "DWD_LOG_LEVEL; the flag wins. A duration is a Go duration string: 30s, 1m40s."
)
_CLIENT_FLAGS: Final = (
    "Flags (also -flag, and --flag VALUE where there is one). Each with a variable beside it can be set in the "
    "environment too; the flag wins. A duration is a Go duration string: 30s, 1m40s."
)


def shown_type(field: FieldInfo) -> str:
    """How the type of a flag is named; empty for a boolean."""
    return next(each.as_ for each in field.metadata if isinstance(each, Shown))


def shown_default(field: FieldInfo) -> str:
    """The default as it would be written; `required` or `none` where there is none."""
    if field.is_required():
        return "required"
    for each in field.metadata:
        if isinstance(each, ShownDefault):
            return each.as_
    value = field.default
    if value in (None, ()):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if shown_type(field) == "DURATION":
        return format_duration(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def usage(line: str, about: str, model: type[CommandSettings]) -> str:
    """The help text of a command: its usage line, what it does, its flags."""
    fields = model.model_fields.values()
    head = _CLIENT_FLAGS if any(flag_only(each) for each in fields) else _FLAGS
    flags = [_wrapped(head), *_flags(model)] if fields else []
    parts = [f"Usage: {line}", _wrapped(about), *flags]
    return "\n\n".join(parts) + "\n"


def _flags(model: type[CommandSettings]) -> Iterator[str]:
    fields = model.model_fields.items()
    some_flag_only = any(flag_only(each) for _, each in fields)
    for name, field in sorted(fields, key=lambda each: not each[1].is_required()):
        variable = some_flag_only and not flag_only(field)
        beside = f", {environment_name(name)}" if variable else ""
        text = f"{field.description} ({_default(field)}{beside})"
        yield _head(model, name, shown_type(field)) + "\n" + _wrapped(text, _INDENT)


def _head(model: type[CommandSettings], name: str, kind: str) -> str:
    """A flag and its other names: `--output FORMAT, -o FORMAT`."""
    flag = flag_name(name)
    others = [alias for alias, meant in model.aliases.items() if meant == flag]
    spelled = [f"--{flag}", *(f"-{each}" if len(each) == 1 else f"--{each}" for each in others)]
    return "  " + ", ".join(f"{each} {kind}".rstrip() for each in spelled)


def _default(field: FieldInfo) -> str:
    default = shown_default(field)
    return default if field.is_required() else f"default {default}"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
