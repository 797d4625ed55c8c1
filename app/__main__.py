"""`python -m app`, `dwd`, `dependency-watchdog`: settings to server; ends non-zero when a loop died.

Exit codes: 0 done; 2 no command, wrong flags, a configuration or credential file that is wrong or cannot be read;
1 everything else, a lost Lease and a dead loop included.  The commands that ask a running watchdog have more
(`app.cli.exits`).
"""

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any, Final, assert_never

import uvloop

from app import commands
from app.core.errors import ConfigurationError, WatchdogError
from app.core.runtime.tasks import SharedLoopDied

EXIT_DIED: Final = 1

_Served = commands.Prober | commands.Weeder | commands.Serve | commands.Demo


def main() -> None:
    """Runs the program."""
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Runs the command that `argv` (without the program's name) asks for; returns the exit code."""
    try:
        return _dispatch(commands.parse(argv, os.environ))
    except ConfigurationError as error:
        return commands.show_mistakes(error, sys.stderr)
    except KeyboardInterrupt:  # before there was a loop to hear it
        return commands.EXIT_DONE


def _dispatch(command: commands.Command) -> int:
    match command:
        case commands.Help():
            return commands.show_help(command, sys.stdout)
        case commands.Version():
            return commands.show_version(sys.stdout)
        case commands.ListScenarios():
            return commands.list_scenarios(sys.stdout)
        case commands.CheckConfig():
            return commands.check_config(command, sys.stdout, sys.stderr)
        case commands.Prober() | commands.Weeder() | commands.Serve() | commands.Demo():
            return _serve(command)
        case commands.Client():
            return _ask(command)
        case _:
            assert_never(command)


def _serve(command: _Served) -> int:
    # Imported here: what serves costs half a second that the other commands need not wait for.
    from app import main as composition  # noqa: PLC0415 - see above

    match command:
        case commands.Prober():
            return _run(composition.run_prober(command, os.environ))
        case commands.Weeder():
            return _run(composition.run_weeder(command, os.environ))
        case commands.Serve():
            return _run(composition.run_serve(command, os.environ))
        case commands.Demo():
            return _run(composition.run_demo(command, os.environ, sys.stdout))
        case _:
            assert_never(command)


def _ask(command: commands.Client) -> int:
    from app.cli.program import Streams, run_client  # noqa: PLC0415 - what serves needs no client

    return run_client(command, os.environ, Streams(sys.stdout, sys.stderr))


def _run(work: Coroutine[Any, Any, None]) -> int:
    """Runs `work` on uvloop; what can be foreseen ends in one line, not in a traceback."""
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
