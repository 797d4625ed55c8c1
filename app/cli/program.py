"""Runs one command of the client: reads files, builds transport and session, handles signals, returns the exit code."""

import asyncio
import io
import os
import random
import shutil
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from app import own_version
from app.cli import api, events, operations, overrides, process, shoots, weeders
from app.cli.client import CONNECTIONS, PAGE_CONNECTIONS, Client, Reach, TokenSource, token_source
from app.cli.portforward import Kubectl
from app.cli.printing import OutputGone, Printer
from app.cli.problems import CommandFailed, Exit, ServerRefused
from app.cli.session import Session
from app.cli.transports import DirectTransport, ForwardedTransport, Transport
from app.core.clock import Clock
from app.core.config.client_settings import (
    CLIENT_SETTINGS,
    ApiCommandSettings,
    ClientSettings,
    OutputFormat,
    PageSettings,
)
from app.core.config.flags import Read
from app.core.config.values import NamespacedName
from app.core.errors import ConfigurationError, Mistake, WatchdogError

_Work = Coroutine[Any, Any, None]

# Most shoots that a message suggests in place of an unknown name.
_SUGGESTED: Final = 3
# Seconds that completion waits for the API.
_PATIENCE: Final = 3.0
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What files and flags determine before the first request."""

    reach: Reach
    kubectl: Kubectl | None


def run_client(
    command: Read[Any], environ: Mapping[str, str], out: TextIO | None, err: TextIO | None
) -> int:
    """Run `command` and return the exit code.

    The outputs are None, as in `sys`, if the process was started without them. Without standard output no request is
    sent, as nobody would learn of its result.

    Raises:
        ConfigurationError: A file that the command needs is wrong.
    """
    err = io.StringIO() if err is None else err
    err.writelines(f"dwd: warning: {warning}\n" for warning in command.warnings)
    if out is None:
        err.write("dwd: the output cannot be written: it is closed\n")
        return Exit.FAILED
    printer = Printer(out, err, command.settings.output, environ)
    try:
        if isinstance(command.settings, ApiCommandSettings):
            command = replace(command, settings=api.with_body(command.settings))
        prepared = _prepare(command.settings, environ)
        with asyncio.Runner() as runner:
            return runner.run(_until_ended(lambda: _run(command, prepared, printer)))
    except CommandFailed as error:
        err.writelines([f"dwd: {error}\n", *(f"    {note}\n" for note in error.notes)])
        return error.code
    except OutputGone:
        _let_go(out)
        return Exit.NOT_READ
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def look_up(
    ask: Callable[[Session], Awaitable[Sequence[str]]],
    settings: ClientSettings,
    environ: Mapping[str, str],
) -> Sequence[str]:
    """Return what `ask` finds out from the API; nothing if there is no answer, or none in time.

    It is for completion, whose user is typing: there is no message, and nothing is asked with `--service-account`, as
    a login plugin could ask questions of its own.
    """
    if settings.service_account is not None:
        return ()

    async def asked() -> Sequence[str]:
        async with (
            asyncio.timeout(_PATIENCE),
            _session(
                settings, prepared, Printer(io.StringIO(), io.StringIO(), OutputFormat.JSON, {})
            ) as session,
        ):
            return await ask(session)

    try:
        prepared = _prepare(settings, environ)
        with asyncio.Runner() as runner:
            return runner.run(asked())
    except (WatchdogError, TimeoutError, KeyboardInterrupt):
        return ()


def _let_go(out: TextIO) -> None:
    """Redirect buffered output to /dev/null; otherwise the flush at the interpreter's exit fails and complains."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)


async def _until_ended(job: Callable[[], _Work]) -> int:
    """Run `job` and return the exit code; a signal cancels it, so that it ends its child processes and connections."""
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
        return 128 + heard[0]  # the convention of shells
    finally:
        for each in _ENDING:
            loop.remove_signal_handler(each)
    return Exit.DONE


@asynccontextmanager
async def _session(
    settings: ClientSettings, prepared: _Prepared, printer: Printer
) -> AsyncIterator[Session]:
    kubectl = prepared.kubectl
    transport: Transport = (
        DirectTransport(settings.server)
        if kubectl is None
        else ForwardedTransport(settings.server, kubectl)
    )
    try:
        async with Client(transport, prepared.reach) as client:
            chance = random.Random()  # noqa: S311 - it spreads retries
            yield Session(client, printer, Clock.system(), chance)
    finally:
        await transport.close()


async def _run(command: Read[Any], prepared: _Prepared, printer: Printer) -> None:
    settings = command.settings
    async with _session(settings, prepared, printer) as session:
        try:
            await COMMANDS[type(settings)](session, settings, command.rest)
        except ServerRefused as error:
            error.notes = (*error.notes, *await _suggestions(session, command, error))
            raise


async def _suggestions(session: Session, command: Read[Any], error: ServerRefused) -> list[str]:
    """Suggest shoots with a similar name after a 404 for a shoot."""
    name = command.settings.shoot(command.rest)
    if error.status != HTTPStatus.NOT_FOUND or name is None:
        return []
    try:
        found = await shoots.similar(session, name)
    except CommandFailed:
        return []  # the caller may have the right to see single shoots only
    more = f" and {len(found) - _SUGGESTED} more" if len(found) > _SUGGESTED else ""
    return [f"did you mean {', '.join(found[:_SUGGESTED])}{more}?"] if found else []


async def _page(session: Session, settings: PageSettings, words: tuple[str, ...]) -> None:
    from app.cli.page_proxy import page  # noqa: PLC0415 - the server in it is for this command alone

    await page(session, settings, words)


# `Any`, as each function takes the settings of its own command.
_Command = Callable[[Session, Any, tuple[str, ...]], _Work]
_BY_NAME: Final[Mapping[str, _Command]] = {
    "shoots": shoots.shoots,
    "probe": shoots.probe,
    "pause": overrides.pause,
    "resume": overrides.resume,
    "ignore": overrides.ignore,
    "unignore": overrides.unignore,
    "scale": operations.scale,
    "operations": operations.operations,
    "weeders": weeders.weeders,
    "weed": weeders.weed,
    "status": process.status,
    "audit": process.audit,
    "config": process.config,
    "events": events.events,
    "api": api.api,
    "page": _page,
}
COMMANDS: Final[Mapping[type[ClientSettings], _Command]] = {
    CLIENT_SETTINGS[name]: command for name, command in _BY_NAME.items()
}


# Files are read before the event loop starts, which blocking reads would hold up.


def _prepare(settings: ClientSettings, environ: Mapping[str, str]) -> _Prepared:
    reach = Reach(
        _tokens(settings, environ),
        _tls(settings.ca_file),
        settings.timeout,
        f"dwd/{own_version()}",
        settings.allow_plain_http,
        PAGE_CONNECTIONS if isinstance(settings, PageSettings) else CONNECTIONS,
    )
    found = settings.port_forward
    return _Prepared(reach, None if found is None else _kubectl(found, settings, environ))


def _tokens(settings: ClientSettings, environ: Mapping[str, str]) -> TokenSource:
    if settings.service_account is None:
        return token_source(settings)
    from app.cli.service_account import minted_tokens  # noqa: PLC0415 - for this flag alone

    return minted_tokens(settings.service_account, settings, environ, Clock.system())


def _tls(ca: Path | None) -> ssl.SSLContext | Literal[True]:
    """A TLS context that trusts only the CA of `--ca-file`; without it, aiohttp's own, with those of the machine."""
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _wrong(str(ca), "--ca-file", f"is not a CA bundle: {reason}") from error


def _kubectl(
    deployment: NamespacedName, settings: ClientSettings, environ: Mapping[str, str]
) -> Kubectl:
    found = shutil.which("kubectl", path=environ.get("PATH"))
    if found is None:
        raise _wrong("dwd", "--port-forward", "needs kubectl, which is not in PATH")
    port = settings.server.port
    return Kubectl(found, deployment, port, environ, settings.kubeconfig, settings.context)


def _wrong(source: str, path: str, message: str) -> ConfigurationError:
    return ConfigurationError(source, [Mistake(None, path, message)])
