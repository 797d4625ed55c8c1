"""Entry point of `python -m app`, `dwd` and `dependency-watchdog`.

Exit codes (rules 1): 0 done; 2 no command, wrong flags, or a configuration or credential file that is wrong or
unreadable; 1 everything else, such as a lost Lease or a dead loop. Commands that call the API of a running watchdog
have more (`app.cli.problems`).
"""

import asyncio
import errno
import gc
import io
import os
import resource
import shutil
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

# Else pydantic looks through all that is installed for plugins of its own, before its first model: 20 ms of each `dwd`.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from app import commands
from app.core.config.client_settings import ClientSettings
from app.core.config.flags import WIDTH, Read
from app.core.errors import ConfigurationError, DemoNotInstalled, WatchdogError

EXIT_DIED: Final = 1
_UNWRITTEN: Final = "the output cannot be written"
_CLOSED: Final = "it is closed"
_FILES: Final = 10_240
"""Open files of a process that serves: more than 3,000 shoots and all callers take, and the most that macOS permits."""
_NARROWEST: Final = 40
_WIDEST: Final = 120
"""Columns of help; longer lines are hard to read."""


def main() -> None:
    """Run the program and exit with its code."""
    _exit_with(partial(run, sys.argv[1:], commands.called_by(sys.argv[0])))


def complete() -> None:
    """Complete a command line of `kubectl dwd`: kubectl runs this as `kubectl_complete-dwd`, and exit with the code."""
    _exit_with(partial(run, [commands.COMPLETE, *sys.argv[1:]]))


def _exit_with(work: Callable[[], int]) -> NoReturn:
    """Do the work of the process and exit with its code.

    /dev/null is opened in place of standard streams that the process was started without. Otherwise the event loop
    gets descriptors 0 to 2, and libuv aborts the process when it closes one of those. `sys.stdout` stays None, so that
    commands still know that standard output is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # open(2) returns the lowest free descriptor: this one
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that is not UTF-8 shows ? for a character that it does not have: an error would come too late, when
        # what was asked for has been done.
        sys.stdout.reconfigure(errors="replace")
    code = work()
    try:
        sys.stderr.flush()
    except OSError:  # the disk is full, for one: else the interpreter's flush fails as well, and it exits with 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    # Else the interpreter looks for garbage in all that was imported: a fifth of the time of a command that asks.
    gc.freeze()
    sys.exit(code)


def run(argv: list[str], name: str = "dwd") -> int:
    """Run the command in `argv` and return the exit code; `name` is that by which people call the program."""
    try:
        if argv[:1] == [commands.COMPLETE]:
            from app.cli import completion  # noqa: PLC0415 - what serves needs none

            names = completion.names_of_api
            return _show(completion.shown(completion.candidates(argv[1:], os.environ, names)))
        command = commands.parse(argv, os.environ, _columns())
        if isinstance(command, commands.Help):
            return _show(commands.named(command.text, name))
        return _dispatch(command)
    except ConfigurationError as error:
        sys.stderr.write(commands.named(f"{error}\n", name))
        return commands.EXIT_WRONG
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


def _dispatch(command: Read[Any]) -> int:
    settings = command.settings
    if isinstance(settings, ClientSettings):
        gc.disable()  # what is imported is no garbage, and looking for some takes a quarter of the time
        from app.cli.program import run_client  # noqa: PLC0415 - what serves needs no client

        gc.enable()
        return run_client(command, os.environ, sys.stdout, sys.stderr)
    # Imported here: what calls the API needs nothing of it.
    from app.core.config import settings as kinds  # noqa: PLC0415 - see above

    match settings:
        case kinds.VersionSettings():
            return _show(commands.versions())
        case kinds.DemoSettings(list_scenarios=True):
            return _show(commands.scenarios())
        case kinds.CheckConfigSettings():
            out = io.StringIO()
            code = commands.check_config(command, out, sys.stderr)
            return _show(out.getvalue(), code)
        case kinds.CompletionSettings():
            from app.cli import completion  # noqa: PLC0415 - what serves needs none

            return _show(completion.SCRIPTS[kinds.Shell(command.rest[0])])
        case kinds.DemoSettings() if sys.stdout is None:  # one that nobody can watch has no purpose
            sys.stderr.write(f"dwd: {_UNWRITTEN}: {_CLOSED}\n")
            return EXIT_DIED
        case _:
            pass
    # Imported here: it takes half a second, which would delay every other command.
    from app import main as composition  # noqa: PLC0415 - see above

    match settings:
        case kinds.SeedSettings():
            return _run(composition.run_loops(settings, command.warnings, os.environ))
        case kinds.DemoSettings():
            return _run(composition.run_demo(settings, command.warnings, os.environ, sys.stdout))
        case _:
            raise AssertionError(settings)  # a command of the table that nobody runs


def _show(text: str, code: int = commands.EXIT_DONE) -> int:
    """Write the text of a command that only prints; report on standard error if the output cannot be written."""
    try:
        if sys.stdout is None:  # the process was started with standard output closed
            raise OSError(errno.EBADF, _CLOSED)  # noqa: TRY301 - as if it had been written to
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Otherwise the interpreter's flush at exit fails, and complains, a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"dwd: {_UNWRITTEN}: {error.strerror}\n")
        return EXIT_DIED
    return code


def _open_many_files() -> None:
    """Raise the soft limit on open files as far as the hard one allows, as Go's runtime does.

    Container runtimes set 1,024, and a pod cannot; each shoot takes a connection, and in an outage two.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _run(work: Coroutine[Any, Any, None]) -> int:
    """Run `work` on uvloop and return the exit code; expected errors print one line instead of a traceback."""
    import uvloop  # noqa: PLC0415 - what serves alone needs it

    from app.core.tasks import SharedLoopDied  # noqa: PLC0415 - as above

    _open_many_files()
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
