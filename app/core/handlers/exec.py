"""The exec handler: passes if a command in the container exits with code 0; the API server of the seed runs it."""

import re
from typing import TYPE_CHECKING, Final

import msgspec

from app.core.clock import Clock
from app.core.errors import ClusterError
from app.core.handlers.runs import MOST_READ, CannotRun, HandlerRun, error, failure, success
from app.core.limits import Bucket
from app.core.model.endpoints import Exec, Ran

if TYPE_CHECKING:
    from app.core.kube.pods import ContainerExec

A_SECOND: Final = 10
"""Commands that are started per second (rules 4.3)."""
_OUTPUT: Final = frozenset({1, 2})
_STATUS: Final = 3
_MOST_STATUS: Final = 64 * 1024
# Characters of the output in a message.
_MOST_SHOWN: Final = 60
_CODE: Final = re.compile("[0-9]{1,6}")


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] | None = None


class _ExecStatus(msgspec.Struct, frozen=True):
    """The fields of a `Status` that say how a command ended."""

    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class ExecCommands:
    """Runs commands, at most 10 per second."""

    def __init__(self, container_exec: "ContainerExec", clock: Clock) -> None:
        self._container_exec, self._clock = container_exec, clock
        self._pace = Bucket(A_SECOND, A_SECOND, clock.now())

    async def run(self, handler: Exec, run: HandlerRun) -> Ran:
        """Runs one command. Closing the connection does not end the command: nobody can end it from here.

        Raises:
            CannotRun: too many commands are started.
        """
        # it waits for its turn, unless that comes too late; then it takes none
        now = self._clock.now()
        if self._pace.seconds_to(1, now) > run.probe.timeout:
            raise CannotRun(f"not run: more than {A_SECOND} commands a second")
        await self._clock.sleep(self._pace.owe(now))
        run.begins()
        run.errs_if_late("the API server did not start it")
        place = run.address
        opened = self._container_exec.open(
            place.namespace, place.pod, place.container, handler.command
        )
        output = bytearray()
        try:
            async with opened as frames:
                run.fails_if_late("the command did not end")
                async for frame in frames:
                    if frame.channel == _STATUS:
                        return _ended(frame.data, output)
                    if frame.channel in _OUTPUT and len(output) < MOST_READ:
                        output += frame.data[: MOST_READ - len(output)]
        except ClusterError as problem:
            return error(str(problem))
        return error("the stream ended without the command's exit status")


def _ended(data: bytes, output: bytearray) -> Ran:
    try:
        status = msgspec.json.decode(data[:_MOST_STATUS], type=_ExecStatus)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return error("how the command ended cannot be read")
    if status.status == "Success":
        return success("exit code 0")
    causes = (status.details and status.details.causes) or ()
    code = next((each.message for each in causes if each.reason == "ExitCode"), "")
    known = status.reason == "NonZeroExitCode" and _CODE.fullmatch(code)
    if not known:
        return error(f"not run: {status.message or status.reason or 'no reason given'}")
    if int(code) == 0:
        return success("exit code 0")
    text = bytes(output[: 4 * _MOST_SHOWN]).decode(errors="replace").strip()
    return failure(f"exit code {int(code)}" + (f": {text[:_MOST_SHOWN]}" if text else ""))
