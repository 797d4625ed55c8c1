"""The original's logging and profiling flags: mapped where we have the like, accepted with a warning where not."""

from collections.abc import Iterator, Mapping
from typing import Final

from app.core.config.flag_values import LogLevel
from app.core.errors import trimmed
from app.core.model.policy import ConfigWarning

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
_SHOWN: Final = 60
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
    return LogLevel.DEBUG if numeric else trimmed(text, _SHOWN)
