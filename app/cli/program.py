"""One command of the client, from start to end: what it is given, what ends it early, and its exit code."""

import asyncio
import io
import os
import random
import shutil
import signal
import ssl
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TextIO

from app import commands
from app.cli import following, reading, writing
from app.cli.client import Client, Reach, token_source
from app.cli.portforward import Kubectl
from app.cli.printing import OutputGone, Printer
from app.cli.problems import CommandFailed, Exit, ServerRefused
from app.cli.session import Session
from app.cli.transports import DirectTransport, ForwardedTransport, Transport
from app.core.about import own_version
from app.core.clock import Clock
from app.core.config.client_settings import (
    AuditSettings,
    ClientSettings,
    ConfigSettings,
    EventsSettings,
    IgnoreSettings,
    OperationsSettings,
    PauseSettings,
    ProbeSettings,
    ResumeSettings,
    ScaleSettings,
    ShootsSettings,
    StatusSettings,
    UnignoreSettings,
    WeedersSettings,
    WeedSettings,
)
from app.core.config.clientvalues import Deployment
from app.core.errors import ConfigurationError, Mistake
from app.core.tasks import Tasks

_Work = Coroutine[Any, Any, None]

_SUGGESTED: Final = 3
"""Shoots that are named where another name was given."""
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Streams:
    """Where things are written; None, as of the interpreter, where the process was started without."""

    out: TextIO | None
    err: TextIO | None


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is read from files, before anything is asked."""

    reach: Reach
    kubectl: Kubectl | None


def run_client(
    command: commands.ClientCommand, environ: Mapping[str, str], streams: Streams
) -> int:
    """Runs `command`; returns the exit code.

    Where there is nothing to write to, nothing is asked either: who calls would not learn what was done.

    Raises:
        ConfigurationError: a file that it needs is wrong.
    """
    out, err = streams.out, io.StringIO() if streams.err is None else streams.err
    err.writelines(f"dwd: warning: {warning}\n" for warning in command.warnings)
    if out is None:
        err.write("dwd: the output cannot be written: it is closed\n")
        return Exit.FAILED
    printer = Printer(out, err, command.settings.output, environ)
    try:
        prepared = _prepare(command.settings, environ)
        with asyncio.Runner() as runner:
            return runner.run(_until_ended(lambda: _run(command, prepared, printer)))
    except CommandFailed as error:
        err.writelines(f"{line}\n" for line in (f"dwd: {error}", *_notes(error)))
        return error.code
    except OutputGone:
        _let_go(out)
        return Exit.NOT_READ
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _notes(error: CommandFailed) -> list[str]:
    return [f"    {note}" for note in error.notes]


def _let_go(out: TextIO) -> None:
    """What is still to be written goes nowhere, so that the end of the process does not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)


async def _until_ended(job: Callable[[], _Work]) -> int:
    """Runs the job; a signal ends it as if it were cancelled, so that what it began is ended too."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine that runs
    heard: list[int] = []

    def end(number: int) -> None:
        heard.append(number)
        task.cancel()

    for each in _ENDING:
        loop.add_signal_handler(each, end, each)
    try:
        await job()
    except asyncio.CancelledError:
        if not heard:
            raise
        return 128 + heard[0]  # as shells have it
    finally:
        for each in _ENDING:
            loop.remove_signal_handler(each)
    return Exit.DONE


async def _run(command: commands.ClientCommand, prepared: _Prepared, printer: Printer) -> None:
    settings = command.settings
    clock = Clock.system()
    async with AsyncExitStack() as stack:
        tasks = Tasks(clock)
        stack.push_async_callback(tasks.stop)
        transport = _transport(settings, prepared.kubectl, tasks)
        stack.push_async_callback(transport.close)
        client = await stack.enter_async_context(Client(transport, prepared.reach))
        session = Session(client, printer, clock, random.Random())  # noqa: S311 - it spreads retries
        try:
            await COMMANDS[type(settings)](session, settings, command.words)
        except ServerRefused as error:
            error.notes = (*error.notes, *await _suggestions(session, command, error))
            raise


async def _suggestions(
    session: Session, command: commands.ClientCommand, error: ServerRefused
) -> list[str]:
    """Which shoot may have been meant, where there is none of the name that was given."""
    word = command.settings.shoot_word
    if error.status != HTTPStatus.NOT_FOUND or word is None or len(command.words) <= word:
        return []
    try:
        found = await reading.similar(session, command.words[word])
    except CommandFailed:
        return []  # the caller may be allowed to see no more than the one
    more = f" and {len(found) - _SUGGESTED} more" if len(found) > _SUGGESTED else ""
    return [f"did you mean {', '.join(found[:_SUGGESTED])}{more}?"] if found else []


def _transport(settings: ClientSettings, kubectl: Kubectl | None, tasks: Tasks) -> Transport:
    if kubectl is None:
        return DirectTransport(settings.server)
    return ForwardedTransport(settings.server, kubectl, tasks)


# Any: each command has settings of its own, and is given no others.
COMMANDS: Final[Mapping[type[ClientSettings], Callable[[Session, Any, tuple[str, ...]], _Work]]] = {
    ShootsSettings: reading.shoots,
    OperationsSettings: reading.operations,
    PauseSettings: writing.pause,
    ResumeSettings: writing.resume,
    IgnoreSettings: writing.ignore,
    UnignoreSettings: writing.unignore,
    ScaleSettings: writing.scale,
    ProbeSettings: writing.probe,
    WeedSettings: writing.weed,
    EventsSettings: following.events,
    WeedersSettings: reading.weeders,
    StatusSettings: reading.status,
    AuditSettings: reading.audit,
    ConfigSettings: reading.config,
}


# What is read from files, before there is an event loop that would wait for them.


def _prepare(settings: ClientSettings, environ: Mapping[str, str]) -> _Prepared:
    reach = Reach(
        token_source(settings),
        _tls(settings),
        settings.timeout,
        f"dwd/{own_version()}",
        settings.allow_plain_http,
    )
    found = settings.port_forward
    return _Prepared(reach, None if found is None else _kubectl(found, settings, environ))


def _tls(settings: ClientSettings) -> ssl.SSLContext:
    """Trusts the CA that was given, and no other; without one, those of the machine."""
    ca = settings.ca_file
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _wrong(str(ca), "--ca-file", f"is no CA bundle: {reason}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _kubectl(
    deployment: Deployment, settings: ClientSettings, environ: Mapping[str, str]
) -> Kubectl:
    found = shutil.which("kubectl", path=environ.get("PATH"))
    if found is None:
        raise _wrong("dwd", "--port-forward", "needs kubectl, which is not in PATH")
    port = settings.server.port
    return Kubectl(found, deployment, port, environ, settings.kubeconfig, settings.context)


def _wrong(source: str, path: str, message: str) -> ConfigurationError:
    return ConfigurationError(source, [Mistake(None, path, message)])
