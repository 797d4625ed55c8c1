"""Parses command line and environment to the settings of a command, with all mistakes at once."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from app.core.config.client_settings import CLIENT_SETTINGS, ClientSettings
from app.core.config.env_variables import (
    ENV_PREFIX,
    CommandSettings,
    environment,
    environment_name,
    flag_only,
    variable_of,
)
from app.core.config.flag_values import FlagType, ShownDefault
from app.core.config.go_flags import ORIGINAL_FLAGS, Flags, mapped, spelled, take_apart, warnings
from app.core.config.settings import (
    CheckConfigSettings,
    DemoSettings,
    ProberOptions,
    ProberSettings,
    SeedSettings,
    ServeSettings,
    WeederOptions,
    WeederSettings,
)
from app.core.config.yaml_file import nearest
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.model.durations import format_duration
from app.core.model.policy import ConfigWarning

S = TypeVar("S", bound=CommandSettings)

_SHOWN: Final = 60
COMMAND_SETTINGS: Final[tuple[type[CommandSettings], ...]] = (
    ProberSettings,
    WeederSettings,
    ServeSettings,
    DemoSettings,
    CheckConfigSettings,
    *CLIENT_SETTINGS.values(),
)
# Names of variables that the kubelet sets for each Service: those of one named `dwd-…` would look like ours.
_SERVICE_LINK: Final = re.compile(
    r".*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


@dataclass(frozen=True, slots=True)
class Read(Generic[S]):
    """The result of parsing a command line."""

    settings: S
    rest: tuple[str, ...]
    """Arguments that are not flags."""
    warnings: tuple[ConfigWarning, ...]


def flag_name(field: str) -> str:
    """Returns the flag of a field, without dashes."""
    return field.replace("_", "-")


def flags_of(model: type[CommandSettings]) -> Flags:
    """Returns the flags of a command."""
    return Flags(_booleans(model), _accepted(model), model.aliases)


def _accepted(model: type[CommandSettings]) -> dict[str, bool]:
    """Returns the flags that are accepted: also those of sibling commands, so that two Deployments can share them."""
    if not issubclass(model, SeedSettings):
        return {}
    return dict(ORIGINAL_FLAGS) | _booleans(ProberOptions) | _booleans(WeederOptions)


def _booleans(model: type[CommandSettings]) -> dict[str, bool]:
    """Returns the flags, and whether each is a boolean."""
    fields = model.model_fields.items()
    return {flag_name(name): FlagType("") in field.metadata for name, field in fields}


def wants_help(model: type[CommandSettings], words: Sequence[str]) -> bool:
    """Returns whether `words` ask for help."""
    return take_apart(words, flags_of(model)).help


def read_flags(
    model: type[S], words: Sequence[str], environ: Mapping[str, str], source: str
) -> Read[S]:
    """Returns the settings from `words` and the `DWD_*` variables of `environ`; a flag overrides its variable.

    Raises:
        ConfigurationError: something is wrong; has all mistakes at once, under the name of `source`.
    """
    arguments = take_apart(words, flags_of(model))
    given = arguments.flags | mapped(arguments.flags)
    mistakes = [*arguments.mistakes, *model.wrong_words(arguments.rest)]
    try:
        settings = _validate(model, given, environ)
    except ValidationError as error:
        origin = _Origin(model, arguments.flags, environ)
        mistakes += (_mistake(each, origin) for each in error.errors(include_url=False))
        raise ConfigurationError(source, mistakes) from error
    if mistakes:
        raise ConfigurationError(source, mistakes)
    noted = (
        *warnings(arguments.flags),
        *_of_siblings(model, arguments.flags),
        *_unknown_variables(environ),
    )
    return Read(settings, tuple(arguments.rest), noted)


def _validate(model: type[S], flags: Mapping[str, str], environ: Mapping[str, str]) -> S:
    # Any: pydantic's fields have types of their own, which it makes of the text
    ours: dict[str, Any] = {name.replace("-", "_"): value for name, value in flags.items()}
    with environment(environ):
        return model(**{name: ours[name] for name in ours if name in model.model_fields})


def _mistake(error: Mapping[str, Any], origin: "_Origin") -> Mistake:
    field = str(error["loc"][0])
    if error["type"] == "missing":
        return Mistake(None, f"--{flag_name(field)}", f"is required{origin.or_variable(field)}")
    cause = error.get("ctx", {}).get("error")
    message = trimmed(str(error["msg"] if cause is None else cause))
    return Mistake(None, origin.of(field), message)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The origin of values."""

    model: type[CommandSettings]
    flags: Mapping[str, str]
    environ: Mapping[str, str]

    def or_variable(self, field: str) -> str:
        """Returns the variable of this flag, if there is one, for a message."""
        by_flag_only = flag_only(self.model.model_fields[field])
        return "" if by_flag_only else f" (or {environment_name(field)})"

    def of(self, field: str) -> str:
        """Returns what the operator used: a flag, or its variable if that decided."""
        name = spelled(flag_name(field), self.flags)
        variable = variable_of(field, self.model.model_fields[field], self.environ)
        return f"--{name}" if name in self.flags or variable is None else variable


def _of_siblings(model: type[CommandSettings], flags: Iterable[str]) -> Iterator[ConfigWarning]:
    """Returns one warning for each flag that only another command uses."""
    for name in flags:
        if name not in ORIGINAL_FLAGS and name not in _booleans(model):
            yield ConfigWarning(f"--{name}", "has no effect on this command")


def _unknown_variables(environ: Mapping[str, str]) -> list[ConfigWarning]:
    known = {
        environment_name(name)
        for model in COMMAND_SETTINGS
        for name, field in model.model_fields.items()
        if not flag_only(field)
    }
    return [
        ConfigWarning(
            trimmed(name, _SHOWN),
            f"unknown variable; the nearest is {nearest(name, sorted(known))}",
        )
        for name in sorted(environ)
        if name.startswith(ENV_PREFIX) and name not in known and not _SERVICE_LINK.fullmatch(name)
    ]


# Help: what a command does, and each of its flags with type, default, unit and why.


WIDTH: Final = 100
"""Columns of help that is not shown on a terminal."""
_INDENT: Final = " " * 6
_SHARED: Final = "Flags that other commands have too"
_FLAGS: Final = (
    "Flags (also -flag, and --flag VALUE where there is one). Each is an environment variable too: --log-level is "
    "DWD_LOG_LEVEL; the flag wins. A duration is a Go duration string: 30s, 1m40s."
)
_CLIENT_FLAGS: Final = (
    "Flags (also -flag, and --flag VALUE where there is one). Each with a variable beside it can be set in the "
    "environment too; the flag wins. A duration is a Go duration string: 30s, 1m40s."
)


def shown_type(field: FieldInfo) -> str:
    """Returns the name of a flag's type; empty for a boolean."""
    return next(each.as_ for each in field.metadata if isinstance(each, FlagType))


def shown_default(field: FieldInfo) -> str:
    """Returns the default as it would be written; `required` or `none` if there is none."""
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


def usage(line: str, about: str, model: type[CommandSettings], width: int = WIDTH) -> str:
    """Returns the help text of a command: its usage line, its description, its own flags, those that it shares."""
    fields = model.model_fields
    parts = [f"Usage: {line}", wrapped(about, width)]
    if fields:
        head = _CLIENT_FLAGS if any(flag_only(each) for each in fields.values()) else _FLAGS
        shared = _shared(model)
        own = {name: field for name, field in fields.items() if name not in shared}
        parts += [wrapped(head, width), *_flags(model, own, width)]
        if own and shared:
            parts.append(f"{_SHARED}:")
        parts += _flags(model, {name: fields[name] for name in fields if name in shared}, width)
    return "\n\n".join(parts) + "\n"


def _shared(model: type[CommandSettings]) -> frozenset[str]:
    """Returns the fields that a command shares with its siblings."""
    common = next(
        (each for each in (ClientSettings, SeedSettings) if issubclass(model, each)), None
    )
    return frozenset(() if common is None else common.model_fields)


def _flags(
    model: type[CommandSettings], fields: Mapping[str, FieldInfo], width: int
) -> Iterator[str]:
    some_flag_only = any(flag_only(each) for each in model.model_fields.values())
    for name, field in sorted(fields.items(), key=lambda each: not each[1].is_required()):
        variable = some_flag_only and not flag_only(field)
        beside = f", {environment_name(name)}" if variable else ""
        text = f"{field.description} ({_default(field)}{beside})"
        yield _head(model, name, shown_type(field)) + "\n" + wrapped(text, width, _INDENT)


def _head(model: type[CommandSettings], name: str, kind: str) -> str:
    """Returns a flag with its other names: `--output FORMAT, -o FORMAT`."""
    flag = flag_name(name)
    others = [alias for alias, meant in model.aliases.items() if meant == flag]
    spelled = [f"--{flag}", *(f"-{each}" if len(each) == 1 else f"--{each}" for each in others)]
    return "  " + ", ".join(f"{each} {kind}".rstrip() for each in spelled)


def _default(field: FieldInfo) -> str:
    default = shown_default(field)
    return default if field.is_required() else f"default {default}"


def wrapped(text: str, width: int = WIDTH, indent: str = "", hanging: str | None = None) -> str:
    """Returns a text in lines of at most `width` columns.

    The first line is indented by `indent`, the others by `hanging`, or else by `indent`, too.
    """
    others = indent if hanging is None else hanging
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=others, break_on_hyphens=False
    )
