"""Entry point of `python -m app`, `dwd` and `dependency-watchdog`.

Exit codes (rules 1): 0 done; 2 no command, wrong flags, or a configuration or credential file that is wrong or
unreadable; 1 everything else, such as a lost Lease or a dead loop. Commands that call the API of a running watchdog
have more (`app.cli.problems`).
"""

import asyncio
import errno
import io
import os
import shutil
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, assert_never

import uvloop

from app import commands
from app.core.config.flags import WIDTH
from app.core.errors import ConfigurationError, DemoNotInstalled, WatchdogError
from app.core.tasks import SharedLoopDied

EXIT_DIED: Final = 1
_UNWRITTEN: Final = "the output cannot be written"
_CLOSED: Final = "it is closed"
_NARROWEST: Final = 40
_WIDEST: Final = 120
"""Columns of help; longer lines are hard to read."""

_Served = (
    commands.ProberCommand | commands.WeederCommand | commands.ServeCommand | commands.DemoCommand
)


def main() -> None:
    """Run the program and exit with its code."""
    _fill_closed_descriptors()
    sys.exit(run(sys.argv[1:], commands.called_by(sys.argv[0])))


def complete() -> None:
    """Complete a command line of `kubectl dwd`: kubectl runs this as `kubectl_complete-dwd`, and exit with the code."""
    _fill_closed_descriptors()
    sys.exit(run([commands.COMPLETE, *sys.argv[1:]]))


def _fill_closed_descriptors() -> None:
    """Open /dev/null in place of standard streams that the process was started without.

    Otherwise the event loop gets descriptors 0 to 2, and libuv aborts the process when it closes one of those.
    `sys.stdout` stays None, so that commands still know that standard output is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # open(2) returns the lowest free descriptor: this one
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives


def run(argv: list[str], name: str = "dwd") -> int:
    """Run the command in `argv` and return the exit code; `name` is that by which people call the program."""
    try:
        return _dispatch(commands.parse(argv, os.environ, _columns()), name)
    except ConfigurationError as error:
        mistakes = io.StringIO()
        code = commands.show_mistakes(error, mistakes)
        sys.stderr.write(commands.named(mistakes.getvalue(), name))
        return code
    except DemoNotInstalled as error:
        sys.stderr.write(f"dwd: {error}\n")
        return EXIT_DIED
    except KeyboardInterrupt:  # Ctrl-C before an event loop was there to handle the signal
        return commands.EXIT_DONE


def _columns() -> int:
    """The width of help texts: that of the terminal, within reason; a fixed one where the output is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return WIDTH
    return min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)


def _dispatch(command: commands.Command, name: str) -> int:
    match command:
        case commands.HelpCommand():
            shown = replace(command, text=commands.named(command.text, name))
            return _show(partial(commands.show_help, shown))
        case commands.VersionCommand():
            return _show(commands.show_version)
        case commands.ListScenariosCommand():
            return _show(commands.list_scenarios)
        case commands.CompletionCommand():
            return _show(partial(_completion_script, command))
        case commands.CompleteCommand():
            return _show(partial(_complete, command))
        case commands.CheckConfigCommand():
            return _show(lambda out: commands.check_config(command, out, sys.stderr))
        case (
            commands.ProberCommand()
            | commands.WeederCommand()
            | commands.ServeCommand()
            | commands.DemoCommand()
        ):
            return _serve(command)
        case commands.ClientCommand():
            return _ask(command)
        case _:
            assert_never(command)


def _completion_script(command: commands.CompletionCommand, out: TextIO) -> int:
    from app.cli import completion  # noqa: PLC0415 - what serves needs none

    out.write(completion.SCRIPTS[command.shell])
    return commands.EXIT_DONE


def _complete(command: commands.CompleteCommand, out: TextIO) -> int:
    from app.cli import completion  # noqa: PLC0415 - what serves needs none

    completion.write(completion.candidates(command.words, os.environ, completion.names_of_api), out)
    return commands.EXIT_DONE


def _show(command: Callable[[TextIO], int]) -> int:
    """Run a command that only prints; report on standard error if the output cannot be written."""
    text = io.StringIO()
    code = command(text)
    try:
        _write(sys.stdout, text.getvalue())
    except OSError as error:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # otherwise the interpreter's flush at exit fails, and complains, a second time
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"dwd: {_UNWRITTEN}: {error.strerror}\n")
        return EXIT_DIED
    return code


def _write(out: TextIO | None, text: str) -> None:
    if out is None:  # the process was started with standard output closed
        raise OSError(errno.EBADF, _CLOSED)
    out.write(text)
    out.flush()


def _serve(command: _Served) -> int:
    # Imported here: the import takes half a second, which would delay every other command.
    from app import main as composition  # noqa: PLC0415 - see above

    match command:
        case commands.ProberCommand():
            return _run(composition.run_prober(command, os.environ))
        case commands.WeederCommand():
            return _run(composition.run_weeder(command, os.environ))
        case commands.ServeCommand():
            return _run(composition.run_serve(command, os.environ))
        case commands.DemoCommand():
            if sys.stdout is None:  # a demo that nobody can watch has no purpose
                sys.stderr.write(f"dwd: {_UNWRITTEN}: {_CLOSED}\n")
                return EXIT_DIED
            return _run(composition.run_demo(command, os.environ, sys.stdout))
        case _:
            assert_never(command)


def _ask(command: commands.ClientCommand) -> int:
    from app.cli.program import Streams, run_client  # noqa: PLC0415 - what serves needs no client

    return run_client(command, os.environ, Streams(sys.stdout, sys.stderr))


def _run(work: Coroutine[Any, Any, None]) -> int:
    """Run `work` on uvloop and return the exit code; expected errors print one line instead of a traceback."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)
    except ConfigurationError:
        raise
    except SharedLoopDied as death:
        sys.stderr.write(f"dwd: {death}: {death.__cause__ or 'it returned'}\n")
        return EXIT_DIED
    except WatchdogError as error:
        sys.stderr.write(f"dwd: {error}\n")
        return EXIT_DIED
    except KeyboardInterrupt:
        return commands.EXIT_DONE
    return commands.EXIT_DONE


if __name__ == "__main__":
    main()
