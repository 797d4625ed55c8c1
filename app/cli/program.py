"""Runs one command of the client: reads files, chooses the way to the API, handles signals, returns the exit code."""

import asyncio
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from importlib import import_module
from typing import Any, Final, Literal, TextIO

from app.api.schemas import Shoot
from app.cli.client import UNKNOWN, Client
from app.cli.kubectl import Kubectl
from app.cli.printing import OutputGone, Printer
from app.cli.problems import CommandFailed, Exit, ServerRefused
from app.cli.session import Session
from app.cli.tokens import token_source
from app.cli.transports import DirectTransport, ForwardedTransport, Transport
from app.core.config.client_settings import ApiCommandSettings, ClientSettings
from app.core.config.flags import Read
from app.core.errors import ConfigurationError, Mistake

SUBJECTS: Final[Mapping[str, Sequence[str]]] = {
    "shoots": ("shoots", "probe"),
    "overrides": ("pause", "resume", "ignore", "unignore"),
    "operations": ("scale", "operations"),
    "weeders": ("weeders", "weed"),
    "process": ("status", "audit", "config"),
    "events": ("events",),
    "api": ("api",),
    "page_proxy": ("page",),
}
"""The modules of the commands, which are functions of the same names."""

# Most shoots that a message suggests in place of an unknown name.
_SUGGESTED: Final = 3
_DONE: Final = "the server has done what was asked: only its answer is lost"
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


Command = Callable[..., Awaitable[Any]]
"""Takes the session, the settings of its own command, and its arguments.

It returns the Answer to print, which `--watch` asks for again; or None, when it has printed what there was to print.
"""


def function_of(settings: ClientSettings) -> Command:
    """The function that is a command; of all modules of commands only its own is loaded, as that takes a while."""
    name = _name(settings)
    subject = next(each for each, names in SUBJECTS.items() if name in names)
    found: Command = getattr(import_module(f"app.cli.{subject}"), name)
    return found


def _name(settings: ClientSettings) -> str:
    return settings.line.split()[1]


def run_client(
    command: Read[Any], environ: Mapping[str, str], out: TextIO | None, err: TextIO
) -> int:
    """Run `command` and return the exit code.

    `out` is None, as in `sys`, if the process was started without standard output. Then no request is sent, as nobody
    would learn of its result.

    Raises:
        ConfigurationError: A file that the command needs is wrong.
    """
    err.writelines(f"dwd: warning: {warning}\n" for warning in command.warnings)
    if out is None:
        err.write("dwd: the output cannot be written: it is closed\n")
        return Exit.FAILED
    printer = Printer(out, err, command.settings.output, environ)
    try:
        if isinstance(command.settings, ApiCommandSettings):
            from app.cli.api import with_body  # noqa: PLC0415 - for this command alone

            command = replace(command, settings=with_body(command.settings))
        client = client_of(command.settings, environ)
        with asyncio.Runner() as runner:
            return runner.run(_run(command, client, printer))
    except CommandFailed as error:
        if error.notes or error.code is not Exit.NOT_READ:
            err.writelines([f"dwd: {error}\n", *(f"    {note}\n" for note in error.notes)])
        if error.code is Exit.NOT_READ:
            # Otherwise the flush of what is buffered fails at the interpreter's exit, and complains.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return error.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


async def _run(command: Read[Any], client: Client, printer: Printer) -> int:
    """Run the command; a signal cancels it, so that it ends its child processes and connections."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine that runs
    heard: list[int] = []

    def end(number: int) -> None:
        heard.append(number)
        task.cancel()

    for each in _ENDING:
        loop.add_signal_handler(each, end, each)
    try:
        async with client:
            session = Session(client, printer)
            try:
                await carry_out(session, command.settings, command.rest)
            except ServerRefused as error:
                error.notes = (*error.notes, *await _suggestions(session, command, error))
                raise
            except OutputGone as error:
                error.notes = (_DONE,) if client.has_written else ()
                raise
    except asyncio.CancelledError:
        if client.unanswered:
            printer.tell(f"dwd: {UNKNOWN}")
        if not heard:
            raise
        return 128 + heard[0]  # the convention of shells
    finally:
        for each in _ENDING:
            loop.remove_signal_handler(each)
    return Exit.DONE


async def carry_out(session: Session, settings: ClientSettings, words: Sequence[str]) -> None:
    """Ask what the command asks, and print the answer; again and again with `--watch`.

    Raises:
        CommandFailed: There is no answer.
    """
    fetch = partial(function_of(settings), session, settings, *words)
    if getattr(settings, "watch", False):  # a flag of some commands only
        what = " ".join(words) or f"all {_name(settings)}"
        await session.watch(fetch, f"{what} at {settings.server}")
    elif (answer := await fetch()) is not None:
        session.printer.show(answer)


async def _suggestions(session: Session, command: Read[Any], error: ServerRefused) -> list[str]:
    """Suggest shoots that the unknown name may stand for after a 404, such as `shoot--project--NAME`."""
    name = command.settings.shoot(command.rest)
    if error.status != HTTPStatus.NOT_FOUND or name is None:
        return []
    try:
        _, alike = await session.get_all(Shoot, "shoots", query={"q": name})
    except CommandFailed:
        return []  # the caller may have the right to see single shoots only
    found = [each.namespace for each in alike]
    if name in found:
        return []
    found = [each for each in found if each.endswith(f"--{name}")] or found
    more = f" and {len(found) - _SUGGESTED} more" if len(found) > _SUGGESTED else ""
    return [f"did you mean {', '.join(found[:_SUGGESTED])}{more}?"] if found else []


def client_of(settings: ClientSettings, environ: Mapping[str, str]) -> Client:
    """What sends the requests; reads files, and therefore is called before the event loop starts.

    Raises:
        CommandFailed: A token cannot be read.
        ConfigurationError: A file is wrong, or kubectl is missing.
    """
    tokens = token_source(settings, environ)
    # Only the CA of `--ca-file` is trusted; without it aiohttp's own context has those of the machine.
    tls: ssl.SSLContext | Literal[True] = True
    if (ca := settings.ca_file) is not None:
        try:
            tls = ssl.create_default_context(cafile=ca)
            # As Python before 3.13, curl and kubectl: a CA may be one of plain `openssl req -x509`.
            tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            mistake = Mistake(None, "--ca-file", f"is not a CA bundle: {reason}")
            raise ConfigurationError(str(ca), [mistake]) from error
    transport: Transport = DirectTransport(settings.server)
    if (deployment := settings.port_forward) is not None:
        kubectl = Kubectl.chosen(settings, environ, "--port-forward")
        transport = ForwardedTransport(settings.server, kubectl, deployment)
    return Client(
        transport,
        tokens,
        tls,
        timeout=settings.timeout,
        allow_plain_http=settings.allow_plain_http,
    )
