"""Commands in containers: `exec` over WebSocket, with scripted results in place of real containers."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

from app.core.clock import Clock
from app.core.errors import Forbidden, Invalid, NotFound
from app.simulation.server.answers import NotAllowed
from app.simulation.server.options import RequestedObject
from app.simulation.store import Object, ObjectKey, Store

_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT: Final = 1
_STDERR: Final = 2
_STATUS: Final = 3
_PIECE: Final = 32 * 1024
VERBS: Final = ("get", "create")
"""The verbs that `exec` needs: the upgrade is a GET, and newer servers require `create` as well."""


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
        self._scripts: dict[tuple[str, ...], Script] = {}
        self.running = 0
        """The number of running commands."""
        self.begun: list[tuple[str, ...]] = []
        """Namespace, pod, container and command of each run."""

    def say(self, *command: str, script: Script) -> None:
        """Sets the result of a command in all containers."""
        self._scripts[command] = script

    def find(self, command: tuple[str, ...]) -> Script | None:
        """Returns the result of a command; None if it cannot be started."""
        return self._scripts.get(command)


class Executions:
    """Answers requests for `exec`."""

    def __init__(self, store: Store, clock: Clock, commands: SimulatedCommands) -> None:
        self._store, self._clock, self._commands = store, clock, commands

    async def handle(
        self,
        request: web.BaseRequest,
        target: RequestedObject,
        may: Callable[[str], Awaitable[bool]],
    ) -> web.StreamResponse:
        """Runs a command; `may` tells whether the user has the permission for a verb.

        Raises:
            ClusterError: 400, 403, 404 or 405.
        """
        if request.method not in {"GET", "POST"}:
            raise NotAllowed
        await _authorize(target, may)
        self._check(request, target)
        response = web.WebSocketResponse(protocols=_PROTOCOLS, autoping=True)
        await response.prepare(request)
        command = tuple(request.query.getall("command", ()))
        container = request.query.get("container", "")
        self._commands.begun.append((target.namespace, target.name, container, *command))
        self._commands.running += 1
        try:
            with contextlib.suppress(ConnectionError):  # the caller has disconnected
                await self._run(request, response, command)
        finally:
            self._commands.running -= 1
        return response

    def _check(self, request: web.BaseRequest, target: RequestedObject) -> None:
        pod = self._store.find(ObjectKey("Pod", target.namespace, target.name))
        if pod is None:
            raise NotFound(f'pods "{target.name}" not found', status=HTTPStatus.NOT_FOUND)
        container = request.query.get("container", "")
        if container not in _containers(pod):
            problem = f"container {container} is not valid for pod {target.name}"
            raise Invalid(problem, status=HTTPStatus.BAD_REQUEST)
        if request.headers.get("Upgrade", "").lower() != "websocket":
            raise Invalid("Upgrade request required", status=HTTPStatus.BAD_REQUEST)

    async def _run(
        self, request: web.BaseRequest, response: web.WebSocketResponse, command: tuple[str, ...]
    ) -> None:
        script = self._commands.find(command)
        if script is None:
            await _send(response, _STATUS, _not_started(command))
            return
        await self._speak(response, script)
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

    async def _speak(self, response: web.WebSocketResponse, script: Script) -> None:
        while True:
            await _send(response, _STDOUT, script.stdout)
            await _send(response, _STDERR, script.stderr)
            if not script.endless:
                return
            await self._clock.sleep(0)


async def _authorize(target: RequestedObject, may: Callable[[str], Awaitable[bool]]) -> None:
    for verb in VERBS:
        if not await may(verb):
            raise Forbidden(
                f'pods "{target.name}" is forbidden: cannot {verb} resource "pods/exec" in API '
                f'group "" in the namespace "{target.namespace}"',
                status=HTTPStatus.FORBIDDEN,
            )


def _containers(pod: Object) -> list[str]:
    return [str(each.get("name")) for each in pod.get("spec", {}).get("containers") or ()]


async def _send(response: web.WebSocketResponse, channel: int, data: bytes) -> None:
    """Sends one message for each chunk; as with a real server, an empty channel gets one as well."""
    for start in range(0, max(len(data), 1), _PIECE):
        await response.send_bytes(bytes([channel]) + data[start : start + _PIECE])


def _ended(exit_code: int) -> bytes:
    status: dict[str, Any] = {"metadata": {}, "status": "Success"}
    if exit_code:
        status = {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    return msgspec.json.encode(status)


def _not_started(command: tuple[str, ...]) -> bytes:
    name = command[0] if command else ""
    return msgspec.json.encode(
        {
            "metadata": {},
            "status": "Failure",
            "message": f'error executing command in container: exec: "{name}": executable file '
            "not found in $PATH: unknown",
            "reason": "InternalError",
            "code": int(HTTPStatus.INTERNAL_SERVER_ERROR),
        }
    )
