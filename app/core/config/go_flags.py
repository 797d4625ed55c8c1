"""Parses command lines with the syntax of Go's `flag` package, so that the original's command lines work unchanged.

`--flag=value`, `--flag value` and `-flag` are accepted; a boolean is set by its name alone or takes a value after `=`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.core.config.flag_values import LogLevel
from app.core.config.yaml_file import nearest
from app.core.errors import Mistake, trimmed
from app.core.model.policy import ConfigWarning

_SHOWN = 60
_HELP = frozenset({"h", "help"})


@dataclass(slots=True)
class Arguments:
    """A parsed command line."""

    flags: dict[str, str] = field(default_factory=dict)
    """Values by flag name, without dashes; if a flag is repeated, the last value wins, as in Go."""
    rest: list[str] = field(default_factory=list)
    """The positional arguments."""
    help: bool = False
    mistakes: list[Mistake] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that a command accepts; the values of the mappings say whether a flag is a boolean."""

    ours: Mapping[str, bool]
    accepted: Mapping[str, bool] = field(default_factory=dict)
    """Flags of the original, accepted for compatibility and never suggested for a misspelt flag."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Short names of our flags."""

    def boolean(self, name: str) -> bool | None:
        """Returns whether a flag is a boolean; None if it is unknown."""
        return self.ours.get(name, self.accepted.get(name))


def take_apart(words: Sequence[str], known: Flags) -> Arguments:
    """Parses the arguments after the command; mistakes are part of the result."""
    found = Arguments()
    queue = list(reversed(words))
    while queue:
        word = queue.pop()
        if word == "--":
            found.rest += reversed(queue)
            break
        if not word.startswith("-") or word == "-":
            found.rest.append(word)
        else:
            _take_flag(word, queue, known, found)
    return found


def _take_flag(word: str, queue: list[str], known: Flags, found: Arguments) -> None:
    written, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
    name = known.aliases.get(written, written)
    if name in _HELP and not equals:
        found.help = True
    elif known.boolean(name) is None:
        found.mistakes.append(_unknown(word.partition("=")[0], known.ours))
        if not equals and queue and not queue[-1].startswith("-"):
            queue.pop()  # most likely the value of the unknown flag: avoid a second error for one mistake
    elif equals:
        found.flags[name] = value
    elif known.boolean(name):
        found.flags[name] = "true"
    elif queue and not queue[-1].startswith("--"):
        found.flags[name] = queue.pop()
    else:
        found.mistakes.append(_mistake(f"--{name}", "needs a value"))


def _mistake(path: str, message: str) -> Mistake:
    return Mistake(None, trimmed(path, _SHOWN), message)


def _unknown(flag: str, known: Iterable[str]) -> Mistake:
    names = list(known)
    hint = f"; the nearest is --{nearest(flag.lstrip('-'), names)}" if names else ""
    return _mistake(flag, f"unknown flag{hint}")


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
_MOST_SHOWN: Final = 60
_LEVELS: Final = {
    "debug": LogLevel.DEBUG,
    "info": LogLevel.INFO,
    "warn": LogLevel.WARNING,
    "warning": LogLevel.WARNING,
    "error": LogLevel.ERROR,
    "dpanic": LogLevel.ERROR,
    "panic": LogLevel.ERROR,
    "fatal": LogLevel.ERROR,
    "0": LogLevel.INFO,
}


def mapped(flags: Mapping[str, str]) -> dict[str, str]:
    """Translates the original's flags among `flags` into ours; our own flag takes precedence if both are given."""
    return {
        ours: _level(flags[theirs]) if ours == "log-level" else flags[theirs]
        for theirs, ours in _MAPPED.items()
        if theirs in flags and ours not in flags
    }


def spelled(ours: str, flags: Mapping[str, str]) -> str:
    """Returns the name of the flag that set `ours`, as the operator wrote it, for error messages."""
    theirs = next((theirs for theirs, mapped_to in _MAPPED.items() if mapped_to == ours), ours)
    return theirs if ours not in flags and theirs in flags else ours


def warnings(flags: Mapping[str, str]) -> Iterator[ConfigWarning]:
    """Yields a warning for each of the original's flags among `flags` that has no effect."""
    for name in flags:
        if name in _MAPPED and _MAPPED[name] in flags:
            yield ConfigWarning(f"--{name}", f"has no effect beside --{_MAPPED[name]}")
        elif name in ORIGINAL_FLAGS and name not in _MAPPED:
            yield ConfigWarning(f"--{name}", "is accepted for compatibility and has no effect")


def _level(text: str) -> str:
    """Translates a zap level: numbers above 0 are levels of verbosity, hence debug; invalid text is passed through."""
    lowered = text.lower()
    if lowered in _LEVELS:
        return _LEVELS[lowered]
    numeric = lowered.isascii() and lowered.isdigit()
    return LogLevel.DEBUG if numeric else trimmed(text, _MOST_SHOWN)
