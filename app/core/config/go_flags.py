"""Command lines as Go programs take them: `--flag=value`, `--flag value`, `-flag`, booleans with or without a value."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.core.config.flag_values import LogLevel
from app.core.config.scalars import nearest
from app.core.errors import Mistake, trimmed
from app.core.model.policy import ConfigWarning

_SHOWN = 60
_HELP = frozenset({"h", "help"})


@dataclass(slots=True)
class Arguments:
    """A command line, taken apart."""

    flags: dict[str, str] = field(default_factory=dict)
    """By name, without dashes; of a flag that is given twice, the last, as in Go."""
    rest: list[str] = field(default_factory=list)
    """What is no flag."""
    help: bool = False
    mistakes: list[Mistake] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a command by name, and whether each is a boolean, which takes its value by `=` only."""

    ours: Mapping[str, bool]
    accepted: Mapping[str, bool] = field(default_factory=dict)
    """Those of another program: understood, and never recommended."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of ours."""

    def boolean(self, name: str) -> bool | None:
        """Whether this flag is a boolean; None where it is unknown."""
        return self.ours.get(name, self.accepted.get(name))


def take_apart(words: Sequence[str], known: Flags) -> Arguments:
    """Sorts the arguments after the command; what is wrong with them is among its result."""
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
            queue.pop()  # its value, most likely: one mistake is enough
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


# The original's logging and profiling flags: mapped where we have the like, accepted with a warning where not.


ORIGINAL_FLAGS: Final = {
    "zap-devel": True,
    "zap-encoder": False,
    "zap-log-level": False,
    "zap-stacktrace-level": False,
    "zap-time-encoding": False,
    "pprof-bind-addr": False,
}
"""Those that prober and weeder accept, and whether each is a boolean."""

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
    """Our flags with the values that the original's among `flags` ask for; ours, where given, win."""
    return {
        ours: _level(flags[theirs]) if ours == "log-level" else flags[theirs]
        for theirs, ours in _MAPPED.items()
        if theirs in flags and ours not in flags
    }


def spelled(ours: str, flags: Mapping[str, str]) -> str:
    """What the operator wrote where `ours` was set."""
    theirs = next((theirs for theirs, mapped_to in _MAPPED.items() if mapped_to == ours), ours)
    return theirs if ours not in flags and theirs in flags else ours


def warnings(flags: Mapping[str, str]) -> Iterator[ConfigWarning]:
    """One for each of the original's among `flags` that has no effect."""
    for name in flags:
        if name in _MAPPED and _MAPPED[name] in flags:
            yield ConfigWarning(f"--{name}", f"has no effect beside --{_MAPPED[name]}")
        elif name in ORIGINAL_FLAGS and name not in _MAPPED:
            yield ConfigWarning(f"--{name}", "is accepted for compatibility and has no effect")


def _level(text: str) -> str:
    """The level of zap as ours: a number above 0 is ever more of debug; what is none is left for ours to refuse."""
    lowered = text.lower()
    if lowered in _LEVELS:
        return _LEVELS[lowered]
    numeric = lowered.isascii() and lowered.isdigit()
    return LogLevel.DEBUG if numeric else trimmed(text, _MOST_SHOWN)
