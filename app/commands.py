"""The commands of `dwd`: `parse` turns arguments and environment into one frozen record for each command.

`app.main` runs the commands that serve. The commands that need neither a cluster nor an event loop (`check-config`,
`version`, help, the list of scenarios) are implemented here.
"""

import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from app import own_version
from app.core.config.client_settings import CLIENT_SETTINGS, ClientSettings
from app.core.config.env_variables import CommandSettings
from app.core.config.flag_values import FileKind
from app.core.config.flags import WIDTH, read_flags, usage, wants_help, wrapped
from app.core.config.policy_files import (
    Loaded,
    file_kind,
    parse_prober,
    parse_weeder,
)
from app.core.config.settings import (
    CheckConfigSettings,
    CompletionSettings,
    DemoSettings,
    ProberSettings,
    ServeSettings,
    Shell,
    WeederSettings,
)
from app.core.config.yaml_file import read_text
from app.core.errors import ConfigurationError, DemoNotInstalled, Mistake, trimmed
from app.core.model.policy import ConfigWarning, ProberPolicy
from app.core.model.weeding import WeederPolicy

EXIT_DONE: Final = 0
COMPLETE: Final = "__complete"
"""The command that completes a command line; it is for scripts only."""
_LONGEST: Final = 60
EXIT_WRONG: Final = 2
"""Exit code for a missing command, wrong flags, and a configuration that is wrong or unreadable (rules 1)."""


@dataclass(frozen=True, slots=True)
class ProberCommand:
    """`dwd prober`."""

    settings: ProberSettings
    warnings: tuple[ConfigWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class WeederCommand:
    """`dwd weeder`."""

    settings: WeederSettings
    warnings: tuple[ConfigWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class ServeCommand:
    """`dwd serve`."""

    settings: ServeSettings
    warnings: tuple[ConfigWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class DemoCommand:
    """`dwd demo`."""

    settings: DemoSettings
    warnings: tuple[ConfigWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class ListScenariosCommand:
    """`dwd demo --list-scenarios`."""


@dataclass(frozen=True, slots=True)
class CheckConfigCommand:
    """`dwd check-config FILE…`."""

    files: tuple[Path, ...]
    kind: FileKind | None = None
    """Kind of all files; None: recognise each file by its keys."""
    strict: bool = True
    allow_exec: bool = False
    warnings: tuple[ConfigWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A command that calls the API of a running watchdog, such as `dwd shoots` or `dwd pause`."""

    settings: ClientSettings
    """The class of the settings determines the command."""
    words: tuple[str, ...] = ()
    """Positional arguments, such as the shoot; already validated, in number and form."""
    warnings: tuple[ConfigWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionCommand:
    """`dwd version`, `dwd --version`."""


@dataclass(frozen=True, slots=True)
class CompletionCommand:
    """`dwd completion SHELL`."""

    shell: Shell


@dataclass(frozen=True, slots=True)
class CompleteCommand:
    """`dwd __complete WORD…`, which the scripts of `dwd completion` call."""

    words: tuple[str, ...]
    """What was typed after the program's name; the last word, which may be empty, is to be completed."""


@dataclass(frozen=True, slots=True)
class HelpCommand:
    """`--help`, anywhere."""

    text: str


Command = (
    ProberCommand
    | WeederCommand
    | ServeCommand
    | DemoCommand
    | ListScenariosCommand
    | CheckConfigCommand
    | ClientCommand
    | VersionCommand
    | CompletionCommand
    | CompleteCommand
    | HelpCommand
)


class CommandEntry(NamedTuple):
    """A command's usage line, help text, settings class and constructor."""

    line: str
    """Its positional arguments are those that completion offers values for (`app.cli.completion`)."""
    about: str
    settings: type[CommandSettings]
    make: Callable[[Sequence[str], Mapping[str, str]], Command]


def parse(argv: Sequence[str], environ: Mapping[str, str], width: int = WIDTH) -> Command:
    """Parse `argv` (without the program's name) and the `DWD_*` variables of `environ` into a command.

    `width` is that of help texts, in columns.

    Raises:
        ConfigurationError: The command is missing or unknown, or flags or variables are wrong; lists all mistakes.
    """
    if not argv:
        raise _wrong("dwd", "command", f"is missing: one of {', '.join(COMMANDS)}; see dwd --help")
    name, words = argv[0], argv[1:]
    if name in {"-h", "-help", "--help", "help"}:
        return HelpCommand(_overview(width))
    if name in {"-version", "--version"}:
        name = "version"
    if name == COMPLETE:
        return CompleteCommand(tuple(words))
    if name not in COMMANDS:
        raise _unknown(name)
    entry = COMMANDS[name]
    if wants_help(entry.settings, words):
        return HelpCommand(usage(entry.line, entry.about, entry.settings, width))
    return entry.make(words, environ)


def called_by(path: str) -> str:
    """The command's name for people, from the path by which it was started: kubectl runs `kubectl-dwd` as a plugin."""
    name = Path(path).name
    return {"kubectl-dwd": "kubectl dwd", "dependency-watchdog": name}.get(name, "dwd")


def named(text: str, name: str) -> str:
    """The usage text, with the command lines in it under the name that the program was called by."""
    return text if name == "dwd" else _COMMAND_LINE.sub(f"{name} ", text)


_COMMAND_LINE: Final = re.compile(r"\bdwd (?=[a-z]|COMMAND)|(?<=see )dwd (?=--help)")


def check_config(command: CheckConfigCommand, out: TextIO, err: TextIO) -> int:
    """Check each file offline and return the exit code; write results to `out`, warnings and mistakes to `err`."""
    err.writelines(f"dwd check-config: warning: {warning}\n" for warning in command.warnings)
    verdicts = [_check_file(path, command, out, err) for path in command.files]
    return EXIT_DONE if all(verdicts) else EXIT_WRONG


@contextmanager
def simulation_needed() -> Iterator[None]:
    """Context for imports of the simulation: turn a missing module into a message that names the remedy.

    The image has no simulation, and the extra `demo` installs its dependencies.

    Raises:
        DemoNotInstalled: The simulation or one of its dependencies is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"app", "cryptography"}:
            raise
        raise DemoNotInstalled(
            "the demo is not installed here, and in no image: run `make demo`, or pip install '.[demo]', in a checkout"
        ) from error


def list_scenarios(out: TextIO) -> int:
    """Write the built-in scenarios, one per line, and return the exit code.

    Raises:
        DemoNotInstalled: The simulation is not installed.
    """
    # Imported here: it loads the whole simulation, which would delay every other command.
    with simulation_needed():
        from app.simulation.scenarios.scenario_file import listed  # noqa: PLC0415 - see above

    out.writelines(f"{each.name:<13} {each.about}\n" for each in listed())
    return EXIT_DONE


def show_version(out: TextIO) -> int:
    """Write the versions of program, Python and platform, and return the exit code."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    out.write(f"dependency-watchdog {own_version()} ({python}, {platform.platform()})\n")
    return EXIT_DONE


def show_help(command: HelpCommand, out: TextIO) -> int:
    """Write the help text and return the exit code."""
    out.write(command.text)
    return EXIT_DONE


def show_mistakes(error: ConfigurationError, err: TextIO) -> int:
    """Write all mistakes, one per line, and return the exit code."""
    err.write(f"{error}\n")
    return EXIT_WRONG


def _check_file(path: Path, command: CheckConfigCommand, out: TextIO, err: TextIO) -> bool:
    try:
        text = read_text(path)
        kind = command.kind or file_kind(text, str(path))
        warnings = _parsed(text, str(path), kind, command).warnings
    except ConfigurationError as error:
        show_mistakes(error, err)
        return False
    err.writelines(f"{path}: warning: {warning}\n" for warning in warnings)
    out.write(f"{path}: the {kind} file is valid\n")
    return True


def _parsed(
    text: str, source: str, kind: FileKind, command: CheckConfigCommand
) -> Loaded[ProberPolicy] | Loaded[WeederPolicy]:
    match kind:
        case FileKind.PROBER:
            return parse_prober(text, source, strict=command.strict, allow_exec=command.allow_exec)
        case FileKind.WEEDER:
            return parse_weeder(text, source, strict=command.strict)


def _prober(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    read = read_flags(ProberSettings, words, environ, "dwd prober")
    return ProberCommand(read.settings, read.warnings)


def _weeder(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    read = read_flags(WeederSettings, words, environ, "dwd weeder")
    return WeederCommand(read.settings, read.warnings)


def _serve(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    read = read_flags(ServeSettings, words, environ, "dwd serve")
    return ServeCommand(read.settings, read.warnings)


def _demo(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    read = read_flags(DemoSettings, words, environ, "dwd demo")
    return (
        ListScenariosCommand()
        if read.settings.list_scenarios
        else DemoCommand(read.settings, read.warnings)
    )


def _check_config(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    read = read_flags(CheckConfigSettings, words, environ, "dwd check-config")
    if not read.rest:
        raise _wrong("dwd check-config", "FILE", "is missing: name the files to check")
    settings = read.settings
    files = tuple(Path(name) for name in read.rest)
    return CheckConfigCommand(
        files, settings.kind, settings.strict_config, settings.allow_exec, read.warnings
    )


def _client(
    model: type[ClientSettings], source: str, words: Sequence[str], environ: Mapping[str, str]
) -> Command:
    read = read_flags(model, words, environ, source)
    if problems := list(read.settings.problems(read.rest)):
        raise ConfigurationError(source, problems)
    return ClientCommand(read.settings, read.rest, read.warnings)


def _completion(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    read = read_flags(CompletionSettings, words, environ, "dwd completion")
    if len(read.rest) != 1 or read.rest[0] not in set(Shell):
        raise _wrong("dwd completion", "SHELL", f"must be one of {', '.join(Shell)}")
    return CompletionCommand(Shell(read.rest[0]))


def _version(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    read_flags(CommandSettings, words, environ, "dwd version")
    return VersionCommand()


_CLIENTS: Final = {
    name: CommandEntry(each.line, each.about, each, partial(_client, each, f"dwd {name}"))
    for name, each in CLIENT_SETTINGS.items()
}
COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "prober": CommandEntry(
        "dwd prober --config-file FILE [flags]",
        "Watches the shoots of a seed, and scales controllers to 0 while a shoot's nodes cannot reach their API "
        "server, and back.",
        ProberSettings,
        _prober,
    ),
    "weeder": CommandEntry(
        "dwd weeder --config-file FILE [flags]",
        "Watches the services of a seed's control planes. When one is ready again, it deletes the pods that depend on "
        "it and wait in CrashLoopBackOff, so that they start at once.",
        WeederSettings,
        _weeder,
    ),
    "serve": CommandEntry(
        "dwd serve --prober-config-file FILE --weeder-config-file FILE [flags]",
        "Runs the prober and the weeder in one process. It weeds only while it leads as prober, too.",
        ServeSettings,
        _serve,
    ),
    "demo": CommandEntry(
        "dwd demo [flags]",
        "Runs the prober and the weeder on a simulated seed, plays outages there, and shows their effect "
        "on the shoots, with the watchdog and without it.",
        DemoSettings,
        _demo,
    ),
    "check-config": CommandEntry(
        "dwd check-config [flags] FILE…",
        "Checks prober and weeder files offline: prints all mistakes with path and line, and questionable settings.",
        CheckConfigSettings,
        _check_config,
    ),
    "version": CommandEntry(
        "dwd version", "Prints version, Python and platform.", CommandSettings, _version
    ),
    "completion": CommandEntry(
        "dwd completion bash|zsh|fish",
        "Prints a script that completes command lines of dwd in your shell, names of shoots included: "
        "source <(dwd completion bash), or dwd completion fish | source.",
        CompletionSettings,
        _completion,
    ),
    **_CLIENTS,
}
"""The commands, by name."""


_PURPOSE: Final = "Keeps a Gardener seed from making an outage worse."
_ASKING: Final = "Commands that call a running watchdog (see --server):"
_EXIT_CODES: Final = (
    "Exit codes: 0 done; 2 no command, wrong flags or configuration; 1 everything else. Those that call a running "
    "watchdog have more: 1 no answer, or an invalid one; 3 a rule forbids it; 4 not found; 5 not allowed; 6 not the "
    "leader, or not possible at the moment; 7 the awaited scaling run did not succeed; 130 Ctrl-C."
)


def _overview(width: int) -> str:
    column = " " * 16
    lines = {
        name: wrapped(entry.about, width, f"  {name:<13} ", column) + "\n"
        for name, entry in COMMANDS.items()
    }
    asking = "".join(lines.pop(name) for name in _CLIENTS)
    return (
        f"Usage: dwd COMMAND [flags]\n\n{wrapped(_PURPOSE, width)}\n\n"
        f"Commands:\n{''.join(lines.values())}\n"
        f"{wrapped(_ASKING, width)}\n{asking}\n"
        f"dwd COMMAND --help has the flags.\n{wrapped(_EXIT_CODES, width)}\n"
    )


def _unknown(name: str) -> ConfigurationError:
    near = get_close_matches(name[:_LONGEST].lower(), COMMANDS, n=3, cutoff=0.6)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return _wrong("dwd", trimmed(name, _LONGEST), f"unknown command; {meant}dwd --help lists all")


def _wrong(source: str, path: str, message: str) -> ConfigurationError:
    return ConfigurationError(source, [Mistake(None, path, message)])
