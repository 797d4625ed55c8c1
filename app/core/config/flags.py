"""How a command line and the environment become the settings of a command, with all mistakes at once; and help.

A command declares its flags as fields of a `CommandSettings`; what it does stands in its docstring, and what a flag is
for below the field. A flag is written as Go's `flag` package reads it, so that the original's command lines work
unchanged: `--flag=value`, `--flag value` and `-flag`; a boolean is set by its name alone or takes a value after `=`.
Every flag has an environment variable: `--kube-api-qps` is `DWD_KUBE_API_QPS`; the flag takes precedence. The
exceptions are flags that request an action (`--force`, `--all`) or say who requests it (`FlagOnly`). Only the mapping
that is passed in is read, neither the process's own environment nor a `.env` file.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from app.core.config.values import AsText, LogLevel, nearest
from app.core.docstrings import described
from app.core.errors import ConfigurationError, ConfigWarning, Mistake, trimmed
from app.core.model.instants import format_duration

Together = Iterable[tuple[object, str, str]]
"""What must not be combined: whether it is, the flag or argument, and what is wrong with it."""

ENV_PREFIX: Final = "DWD_"
_SHOWN: Final = 60
_UNEXPECTED: Final = "unexpected argument; a flag's value follows its flag, a boolean's after ="

# What is said of a flag beside its type: metadata of its field.


@dataclass(frozen=True, slots=True)
class FlagOnly:
    """Marks a field that only its flag sets: an action must be requested on the command line itself."""


@dataclass(frozen=True, slots=True)
class AlsoFrom:
    """Names a fallback variable for a field that neither its flag nor its `DWD_` variable sets."""

    variable: str


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of the flag, such as `o` for `--output`."""

    name: str


@dataclass(frozen=True, slots=True)
class ShownDefault:
    """The default of a flag as shown in help and documentation, if it depends on the environment."""

    text: str


def flag_name(field: str) -> str:
    """Returns the flag of a field, without dashes."""
    return field.replace("_", "-")


def environment_name(field: str) -> str:
    """Returns the name of a field's environment variable."""
    return ENV_PREFIX + field.upper()


def flag_only(field: FieldInfo) -> bool:
    """Returns whether a field is marked with `FlagOnly`."""
    return FlagOnly() in field.metadata


def shown_type(field: FieldInfo) -> str:
    """Returns the name of a flag's type; empty for a boolean."""
    return next(each.shown for each in field.metadata if isinstance(each, AsText))


def shown_default(field: FieldInfo) -> str:
    """Returns the default as it would be written; `required` or `none` if there is none."""
    if field.is_required():
        return "required"
    for each in field.metadata:
        if isinstance(each, ShownDefault):
            return each.text
    value = field.default
    if value in (None, ()):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if shown_type(field) == "DURATION":
        return format_duration(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# The environment, and the settings that read it.


_environment: ContextVar[Mapping[str, str]] = ContextVar(
    "environment", default=MappingProxyType({})
)


def variable(name: str) -> str | None:
    """Returns a variable of the environment that settings are being made of; None if it is missing or empty."""
    return _environment.get().get(name) or None


def _variable_of(name: str, field: FieldInfo) -> str | None:
    """Returns the variable that sets the field `name`, if any does; an empty one does not."""
    others = (each.variable for each in field.metadata if isinstance(each, AlsoFrom))
    names = () if flag_only(field) else (environment_name(name), *others)
    return next(filter(variable, names), None)


def from_environment(model: type[BaseModel]) -> dict[str, Any]:
    """Returns the text of each field that a variable of the environment sets."""
    found = {name: _variable_of(name, field) for name, field in model.model_fields.items()}
    return {name: variable(used) for name, used in found.items() if used}


class CommandSettings(BaseModel):
    """Base class for the flags of a command."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # one of many is run

    line: ClassVar[str] = ""
    """The usage line: `dwd weeders [NAME [SERVICE]] [flags]`; its positional arguments come before its flags."""
    about: ClassVar[str] = ""
    """What the command does, for `--help`: its docstring without the first paragraph, as one line."""

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:  # noqa: ANN401 - as in the base
        super().__pydantic_init_subclass__(**more)
        cls.about = " ".join((cls.__doc__ or "").partition("\n\n")[2].split())

    @classmethod
    def arguments(cls) -> list[str]:
        """Returns the positional arguments as the usage line has them: `[NAME`, `up|down`, `FILE…`, `NAME|--all`."""
        return cls.line.split(" --")[0].replace("[flags]", "").split()[2:]

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        """Yields the mistakes in the positional arguments, each by itself."""
        for word in words[len(cls.arguments()) :]:
            yield Mistake(None, trimmed(word, _SHOWN), _UNEXPECTED)

    def wrong_together(self, words: Sequence[str]) -> Together:
        """Returns what must not be combined."""
        del words
        return ()

    @classmethod
    def shared(cls) -> frozenset[str]:
        """Returns the fields that this command has in common with others like it, which help shows below its own."""
        return frozenset()

    @classmethod
    def accepted(cls) -> Mapping[str, bool]:
        """Returns flags that are accepted without effect, and whether each is a boolean; they are never suggested."""
        return {}

    @classmethod
    def flags(cls) -> dict[str, bool]:
        """Returns the flags, and whether each is a boolean."""
        return {flag_name(name): not shown_type(it) for name, it in cls.model_fields.items()}

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Returns the flag that each other name stands for."""
        return {
            each.name: flag_name(name)
            for name, field in cls.model_fields.items()
            for each in field.metadata
            if isinstance(each, Alias)
        }

    @classmethod
    def of(cls, flags: Mapping[str, Any]) -> Self:
        """Returns the settings of the texts of flags and, where there is no flag, of the environment."""
        return cls(**{**from_environment(cls), **flags})


S = TypeVar("S", bound=CommandSettings)


# The original's logging and profiling flags: mapped to ours where there is an equivalent, otherwise only warned of.


ORIGINAL_FLAGS: Final = {
    "zap-devel": True,
    "zap-encoder": False,
    "zap-log-level": False,
    "zap-stacktrace-level": False,
    "zap-time-encoding": False,
    "pprof-bind-addr": False,
}
"""The original's flags that prober and weeder accept, and whether each is a boolean."""
_MAPPED: Final = {"zap-log-level": "log-level", "zap-encoder": "log-format"}
_LEVELS: Final = {"warn": LogLevel.WARNING, "0": LogLevel.INFO} | dict.fromkeys(
    ("dpanic", "panic", "fatal"), LogLevel.ERROR
)


def _mapped(flags: Mapping[str, str]) -> dict[str, str]:
    """Translates the original's flags among `flags` into ours; our own flag takes precedence if both are given."""
    found = {ours: flags[theirs] for theirs, ours in _MAPPED.items() if theirs in flags}
    if (level := found.get("log-level")) is not None:
        verbosity = level.isascii() and level.isdigit()  # above 0, hence debug
        found["log-level"] = _LEVELS.get(level.lower(), LogLevel.DEBUG if verbosity else level)
    return found


# Words to settings.


@dataclass(slots=True)
class Arguments:
    """A parsed command line."""

    flags: dict[str, str] = field(default_factory=dict)
    """Values by flag name, without dashes; if a flag is repeated, the last value wins, as in Go."""
    rest: list[str] = field(default_factory=list)
    """The positional arguments."""
    help: bool = False
    awaits: str | None = None
    """The flag at the end that still lacks its value."""
    mistakes: list[Mistake] = field(default_factory=list)


def take_apart(words: Sequence[str], model: type[CommandSettings]) -> Arguments:
    """Parses the arguments after the command; mistakes are part of the result."""
    found, ours, aliases = Arguments(), model.flags(), model.aliases()
    known = {**model.accepted(), **ours}
    queue = list(reversed(words))
    while queue:
        word = queue.pop()
        if word == "--":
            found.rest += reversed(queue)
            break
        if not word.startswith("-") or word == "-":
            found.rest.append(word)
            continue
        written, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        name = aliases.get(written, written)
        if name in {"h", "help"} and not equals:
            found.help = True
        elif name not in known:
            flag = word.partition("=")[0]
            hint = f"; the nearest is --{nearest(flag.lstrip('-'), ours)}" if ours else ""
            found.mistakes.append(Mistake(None, trimmed(flag, _SHOWN), f"unknown flag{hint}"))
            if not equals and queue and not queue[-1].startswith("-"):
                queue.pop()  # most likely the value of the unknown flag: avoid a second error for one mistake
        elif equals:
            found.flags[name] = value
        elif known[name]:
            found.flags[name] = "true"
        elif queue and not queue[-1].startswith("--"):
            found.flags[name] = queue.pop()
        else:
            found.mistakes.append(Mistake(None, f"--{name}", "needs a value"))
            found.awaits = None if queue else name
    return found


@dataclass(frozen=True, slots=True)
class Read(Generic[S]):
    """The result of parsing a command line."""

    settings: S
    rest: tuple[str, ...]
    """Arguments that are not flags."""
    warnings: tuple[ConfigWarning, ...]


def read_flags(
    model: type[S], words: Sequence[str], environ: Mapping[str, str], source: str
) -> Read[S]:
    """Returns the settings from `words` and the `DWD_*` variables of `environ`; a flag overrides its variable.

    Raises:
        ConfigurationError: something is wrong; has all mistakes at once, under the name of `source`.
    """
    found = take_apart(words, model)
    given = _mapped(found.flags) | found.flags
    # Any: pydantic's fields have types of their own, which it makes of the text
    values: dict[str, Any] = {
        name: given[flag_name(name)] for name in model.model_fields if flag_name(name) in given
    }
    mistakes = [*found.mistakes, *model.wrong_words(found.rest)]
    token = _environment.set(environ)  # settings that are made elsewhere read none
    try:
        settings = model.of(values)
    except ValidationError as error:
        wrong = error.errors(include_url=False)
        mistakes += [_mistake(model, each, found.flags) for each in wrong]
        raise ConfigurationError(source, mistakes) from error
    finally:
        _environment.reset(token)
    if not mistakes:
        together = settings.wrong_together(found.rest)
        mistakes = [Mistake(None, name, message) for wrong, name, message in together if wrong]
    if mistakes:
        raise ConfigurationError(source, mistakes)
    return Read(settings, tuple(found.rest), tuple(_without_effect(model, found.flags)))


def _mistake(
    model: type[CommandSettings], error: Mapping[str, Any], flags: Mapping[str, str]
) -> Mistake:
    """Returns an error under the name that the operator used: of the flag, the original's too, or of the variable."""
    field = str(error["loc"][0])
    info, name = model.model_fields[field], flag_name(field)
    if error["type"] == "missing":
        or_variable = "" if flag_only(info) else f" (or {environment_name(field)})"
        return Mistake(None, f"--{name}", f"is required{or_variable}")
    theirs = next((each for each, ours in _MAPPED.items() if ours == name), name)
    used = next((each for each in (name, theirs) if each in flags), None)
    by_variable = _variable_of(field, info) if used is None else None
    cause = error.get("ctx", {}).get("error")
    message = trimmed(str(error["msg"] if cause is None else cause))
    return Mistake(None, by_variable or f"--{used or name}", message)


def _without_effect(
    model: type[CommandSettings], flags: Mapping[str, str]
) -> Iterator[ConfigWarning]:
    """Yields a warning for each flag that is accepted and has no effect: the original's, then those of siblings."""
    for name in flags:
        if _MAPPED.get(name) in flags:
            yield ConfigWarning(f"--{name}", f"has no effect beside --{_MAPPED[name]}")
        elif name in ORIGINAL_FLAGS and name not in _MAPPED:
            yield ConfigWarning(f"--{name}", "is accepted for compatibility and has no effect")
    for name in flags:
        if name not in ORIGINAL_FLAGS and name not in model.flags():
            yield ConfigWarning(f"--{name}", "has no effect on this command")


# Help: what a command does, and each of its flags with type, default, unit and why.


WIDTH: Final = 100
"""Columns of help that is not shown on a terminal."""
_INDENT: Final = " " * 6
_FLAGS: Final = (
    "Flags (also -flag, and --flag VALUE where there is one). {} the flag wins. A duration is a Go duration string: "
    "30s, 1m40s."
)
_EACH_VARIABLE: Final = "Each is an environment variable too: --log-level is DWD_LOG_LEVEL;"
_SOME_VARIABLES: Final = "Each with a variable beside it can be set in the environment too;"


def usage(model: type[CommandSettings], width: int = WIDTH) -> str:
    """Returns the help text of a command: its usage line, its description, its own flags, those that it shares."""
    parts = [f"Usage: {model.line}", wrapped(model.about, width)]
    fields = sorted(described(model).items(), key=lambda each: not each[1].is_required())
    if fields:
        some_flag_only = any(flag_only(field) for _, field in fields)
        head = _FLAGS.format(_SOME_VARIABLES if some_flag_only else _EACH_VARIABLE)
        shown = {
            name: _flag(model, name, width, with_variable=some_flag_only) for name, _ in fields
        }
        own = [text for name, text in shown.items() if name not in model.shared()]
        shared = [text for name, text in shown.items() if name in model.shared()]
        parts += [wrapped(head, width), *own]
        parts += ["Flags that other commands have too:"] if own and shared else []
        parts += shared
    return "\n\n".join(parts) + "\n"


def _flag(model: type[CommandSettings], name: str, width: int, *, with_variable: bool) -> str:
    """Returns what help says of a flag: its names (`--output FORMAT, -o FORMAT`), and below them what it is for."""
    field, flag = model.model_fields[name], flag_name(name)
    others = [alias for alias, meant in model.aliases().items() if meant == flag]
    names = [f"--{flag}", *(f"-{each}" if len(each) == 1 else f"--{each}" for each in others)]
    head = ", ".join(f"{each} {shown_type(field)}".rstrip() for each in names)
    default = shown_default(field) if field.is_required() else f"default {shown_default(field)}"
    beside = f", {environment_name(name)}" if with_variable and not flag_only(field) else ""
    return f"  {head}\n" + wrapped(f"{field.description} ({default}{beside})", width, _INDENT)


def wrapped(text: str, width: int = WIDTH, indent: str = "", hanging: str | None = None) -> str:
    """Returns a text in lines of at most `width` columns.

    The first line is indented by `indent`, the others by `hanging`, or else by `indent`, too.
    """
    others = indent if hanging is None else hanging
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=others, break_on_hyphens=False
    )
