"""Commands in containers: `exec` over WebSocket, with scripted results in place of real containers."""

import contextlib
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec
from aiohttp import web

from app.core.clock import Clock
from app.core.errors import Invalid, NotFound
from app.simulation.server.options import RequestedObject
from app.simulation.store import ObjectKey, Store

_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT: Final = 1
_STDERR: Final = 2
_STATUS: Final = 3
_PIECE: Final = 32 * 1024


class Ending(Enum):
    """How the connection of a command ends."""

    STATUS = "with its status"
    UNTOLD = "in an orderly way, without a status"
    CUT = "with its connection"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Script:
    """The scripted result of a command."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    """The duration of the command, in seconds."""
    endless: bool = False
    """Whether its output is repeated forever."""
    ending: Ending = Ending.STATUS


class SimulatedCommands:
    """The commands that containers can run; others cannot be started."""

    def __init__(self) -> None:
        self.scripts: dict[tuple[str, ...], Script] = {}
        """The result of each command."""
        self.running = 0
        """The number of running commands."""
        self.begun: list[tuple[str, ...]] = []
        """Namespace, pod, container and command of each run."""

    def say(self, *command: str, script: Script) -> None:
        """Sets the result of a command in all containers."""
        self.scripts[command] = script


class Executions:
    """Answers requests for `exec`."""

    def __init__(self, store: Store, clock: Clock, commands: SimulatedCommands) -> None:
        self._store, self._clock, self._commands = store, clock, commands

    async def handle(self, request: web.BaseRequest, target: RequestedObject) -> web.StreamResponse:
        """Runs a command.

        Raises:
            ClusterError: 400 or 404.
        """
        pod = self._store.find(ObjectKey("Pod", target.namespace, target.name))
        if pod is None:
            raise NotFound(f'pods "{target.name}" not found', status=404)
        container = request.query.get("container", "")
        if container not in [each["name"] for each in pod["spec"]["containers"]]:
            problem = f"container {container} is not valid for pod {target.name}"
            raise Invalid(problem, status=400)
        if request.headers.get("Upgrade", "").lower() != "websocket":
            raise Invalid("Upgrade request required", status=400)
        response = web.WebSocketResponse(protocols=_PROTOCOLS, autoping=True)
        await response.prepare(request)
        command = tuple(request.query.getall("command", ()))
        self._commands.begun.append((target.namespace, target.name, container, *command))
        self._commands.running += 1
        try:
            with contextlib.suppress(ConnectionError):  # the caller has disconnected
                await self._run(request, response, command)
        finally:
            self._commands.running -= 1
        return response

    async def _run(
        self, request: web.BaseRequest, response: web.WebSocketResponse, command: tuple[str, ...]
    ) -> None:
        script = self._commands.scripts.get(command)
        if script is None:
            await _send(response, _STATUS, _not_started(command))
            return
        while True:
            await _send(response, _STDOUT, script.stdout)
            await _send(response, _STDERR, script.stderr)
            if not script.endless:
                break
            await self._clock.sleep(0)
        await self._clock.sleep(script.seconds)
        match script.ending:
            case Ending.STATUS:
                await _send(response, _STATUS, _ended(script.exit_code))
                await response.close()
            case Ending.UNTOLD:
                await response.close()
            case Ending.CUT:
                if request.transport is not None:
                    request.transport.abort()
            case Ending.NEVER:
                await response.receive()  # until the caller disconnects


async def _send(response: web.WebSocketResponse, channel: int, data: bytes) -> None:
    """Sends one message for each chunk; as with a real server, an empty channel gets one as well."""
    for start in range(0, max(len(data), 1), _PIECE):
        await response.send_bytes(bytes([channel]) + data[start : start + _PIECE])


def _failure(message: str, reason: str, **more: object) -> bytes:
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason}
    return msgspec.json.encode({**status, **more})


def _ended(exit_code: int) -> bytes:
    if not exit_code:
        return msgspec.json.encode({"metadata": {}, "status": "Success"})
    cause = {"reason": "ExitCode", "message": str(exit_code)}
    message = f"command terminated with non-zero exit code: exit status {exit_code}"
    return _failure(message, "NonZeroExitCode", details={"causes": [cause]})


def _not_started(command: tuple[str, ...]) -> bytes:
    name = command[0] if command else ""
    message = (
        f'error executing command in container: exec: "{name}": executable file not found in '
        "$PATH: unknown"
    )
    return _failure(message, "InternalError", code=500)
