"""The table of the commands of `dwd`, and how a command line is read: arguments and environment become settings.

`app.main` runs the commands that serve, `app.cli` those that call a running watchdog. The commands that need neither a
cluster nor an event loop (`check-config`, `version`, help, the list of scenarios) are implemented here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from app import own_version
from app.core.config import flags
from app.core.config.client_settings import CLIENT_SETTINGS
from app.core.config.values import FileKind, nearest
from app.core.errors import ConfigurationError, ConfigWarning, DemoNotInstalled, Mistake, trimmed

if TYPE_CHECKING:
    from app.core.config.settings import CheckConfigSettings

EXIT_DONE: Final = 0
EXIT_WRONG: Final = 2
"""Exit code for a missing command, wrong flags, and a configuration that is wrong or unreadable (rules 1)."""
COMPLETE: Final = "__complete"
"""The command that completes a command line; it is for scripts only, and takes any words."""
_LONGEST: Final = 60
# Names of variables that the kubelet sets for each Service: those of one named `dwd-…` would look like ours.
_SERVICE_LINK: Final = re.compile(
    r".*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


@dataclass(frozen=True, slots=True)
class Help:
    """What `--help` prints, anywhere."""

    text: str


def parse(
    argv: Sequence[str], environ: Mapping[str, str], width: int = flags.WIDTH
) -> flags.Read[Any] | Help:
    """Read `argv` (without the program's name) and the `DWD_*` variables of `environ`.

    Args:
        argv: The command line.
        environ: The environment.
        width: That of help texts, in columns.

    Returns:
        The settings, whose class determines the command, with its arguments, valid in number and form; or a help text.

    Raises:
        ConfigurationError: The command is missing or unknown, or flags or variables are wrong; lists all mistakes.
    """
    if not argv:
        raise _wrong("command", f"is missing: one of {', '.join(known_commands())}; see dwd --help")
    name, words = argv[0], argv[1:]
    if name == "help" and words:
        return parse([words[0], "--help", *words[1:]], environ, width)
    if name in {"-h", "-help", "--help", "help"}:
        return Help(_overview(width))
    if name in {"-version", "--version"}:
        name = "version"
    model = CLIENT_SETTINGS.get(name) or known_commands().get(name)
    if model is None:
        near = get_close_matches(name[:_LONGEST].lower(), known_commands(), n=3, cutoff=0.6)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise _wrong(trimmed(name, _LONGEST), f"unknown command; {meant}dwd --help lists all")
    if flags.take_apart(words, model).help:
        return Help(flags.usage(model, width))
    read = flags.read_flags(model, words, environ, f"dwd {name}")
    return replace(read, warnings=(*read.warnings, *_unknown_variables(model, environ)))


def _unknown_variables(
    model: type[flags.CommandSettings], environ: Mapping[str, str]
) -> Iterator[ConfigWarning]:
    """Yield a warning for each variable that looks like one of ours and belongs to no command."""

    def variables(models: Iterable[type[flags.CommandSettings]]) -> set[str]:
        return {
            flags.environment_name(name)
            for each in models
            for name, field in each.model_fields.items()
            if not flags.flag_only(field)
        }

    strange = [name for name in sorted(environ) if name.startswith(flags.ENV_PREFIX)]
    if strange and not variables([model]).issuperset(strange):
        known = sorted(variables(known_commands().values()))
        for name in strange:
            if name not in known and not _SERVICE_LINK.fullmatch(name):
                message = f"unknown variable; the nearest is {nearest(name, known)}"
                yield ConfigWarning(trimmed(name, _LONGEST), message)


def _wrong(path: str, message: str) -> ConfigurationError:
    return ConfigurationError("dwd", [Mistake(None, path, message)])


def called_by(path: str) -> str:
    """The command's name for people, from the path by which it was started: kubectl runs `kubectl-dwd` as a plugin."""
    name = Path(path).name
    return {"kubectl-dwd": "kubectl dwd", "dependency-watchdog": name}.get(name, "dwd")


def named(text: str, name: str) -> str:
    """The usage text, with the command lines in it under the name that the program was called by."""
    return text if name == "dwd" else _COMMAND_LINE.sub(f"{name} ", text)


_COMMAND_LINE: Final = re.compile(r"\bdwd (?=[a-z]|COMMAND)|(?<=see )dwd (?=--help)")


def check_config(command: "flags.Read[CheckConfigSettings]", out: TextIO, err: TextIO) -> int:
    """Check each file offline and return the exit code; write results to `out`, warnings and mistakes to `err`."""
    err.writelines(f"dwd check-config: warning: {warning}\n" for warning in command.warnings)
    verdicts = [_check_file(Path(name), command.settings, out, err) for name in command.rest]
    return EXIT_DONE if all(verdicts) else EXIT_WRONG


def _check_file(path: Path, settings: "CheckConfigSettings", out: TextIO, err: TextIO) -> bool:
    from app.core.config import policy_files, yaml_file  # noqa: PLC0415 - for this command alone

    try:
        text = yaml_file.read_text(path)
        kind = settings.kind or policy_files.file_kind(text, str(path))
        strict = settings.strict_config
        if kind is FileKind.PROBER:
            exec_too = settings.allow_exec
            found = policy_files.parse_prober(
                text, str(path), strict=strict, allow_exec=exec_too
            ).warnings
        else:
            found = policy_files.parse_weeder(text, str(path), strict=strict).warnings
    except ConfigurationError as error:
        err.write(f"{error}\n")
        return False
    err.writelines(f"{path}: warning: {warning}\n" for warning in found)
    out.write(f"{path}: the {kind} file is valid\n")
    return True


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


def scenarios() -> str:
    """The built-in scenarios, one per line.

    Raises:
        DemoNotInstalled: The simulation is not installed.
    """
    # Imported here: it loads the whole simulation, which would delay every other command.
    with simulation_needed():
        from app.simulation.scenarios.scenario import listed  # noqa: PLC0415 - see above

    return "".join(f"{each.name:<13} {each.about}\n" for each in listed())


def versions() -> str:
    """The versions of program, Python and platform."""
    import platform  # noqa: PLC0415 - for this command alone

    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"dependency-watchdog {own_version()} ({python}, {platform.platform()})\n"


@cache
def known_commands() -> Mapping[str, type[flags.CommandSettings]]:
    """The settings class of each command, by name."""
    # Imported here: a command that calls the API needs none of the service's.
    from app.core.config import settings  # noqa: PLC0415 - see above

    return {
        "prober": settings.ProberSettings,
        "weeder": settings.WeederSettings,
        "serve": settings.ServeSettings,
        "demo": settings.DemoSettings,
        "check-config": settings.CheckConfigSettings,
        "version": settings.VersionSettings,
        "completion": settings.CompletionSettings,
        **CLIENT_SETTINGS,
    }


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
        name: flags.wrapped(model.about, width, f"  {name:<13} ", column) + "\n"
        for name, model in known_commands().items()
    }
    asking = "".join(lines.pop(name) for name in CLIENT_SETTINGS)
    return (
        f"Usage: dwd COMMAND [flags]\n\n{flags.wrapped(_PURPOSE, width)}\n\n"
        f"Commands:\n{''.join(lines.values())}\n"
        f"{flags.wrapped(_ASKING, width)}\n{asking}\n"
        f"dwd COMMAND --help has the flags.\n{flags.wrapped(_EXIT_CODES, width)}\n"
    )
