"""`kubectl port-forward` as a child that does not outlive this process.

Where this process is killed the kernel ends the child; only what a wrapper of kubectl has started is then left.
"""

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from app.cli.problems import NoAnswer
from app.core.config.clientvalues import Deployment
from app.core.config.environment import ENV_PREFIX
from app.core.errors import trimmed
from app.core.tasks import Tasks

# Processes that we start, and that must not outlive us.


_SET_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def tied_to(parent: int) -> Callable[[], None] | None:
    """What a child does first: asks the kernel to kill it when the process `parent` ends, however that may be.

    Returns:
        A `preexec_fn`; None where the kernel cannot do that.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before it could be asked for
            os._exit(1)

    return tie


_PATIENCE: Final = 1.0
"""Seconds from the signal to end until it is killed."""
_LISTENING: Final = 20.0
"""Seconds in which it must have begun to listen."""
_LAST_LINES: Final = 3
_MAX_LINE: Final = 4096
_FORWARDING: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:([0-9]{1,5}) -> ")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """How kubectl is called."""

    path: str
    deployment: Deployment
    """What is forwarded to at first; its namespace is that of all others."""
    port: int
    """In the pod."""
    environ: Mapping[str, str]
    kubeconfig: Path | None = None
    context: str | None = None

    def arguments(self, target: str) -> list[str]:
        """The arguments to forward a free port of this machine to `target`: `pod/NAME` and the like."""
        chosen = [] if self.kubeconfig is None else [f"--kubeconfig={self.kubeconfig}"]
        chosen += [] if self.context is None else [f"--context={self.context}"]
        namespace = f"--namespace={self.deployment.namespace}"
        return ["port-forward", "--address=127.0.0.1", namespace, *chosen, target, f":{self.port}"]

    def variables(self) -> dict[str, str]:
        """Its environment: ours, without what is for this program alone."""
        return {
            name: text for name, text in self.environ.items() if not name.startswith(ENV_PREFIX)
        }


class PortForward:
    """One that listens."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._reading: asyncio.Task[None] | None = None
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._listens: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(cls, kubectl: Kubectl, target: str, tasks: Tasks) -> Self:
        """Starts it and waits until it listens; in a session of its own, so that Ctrl-C reaches this process alone.

        Raises:
            NoAnswer: it cannot be started, or ends before it listens, or takes too long.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                kubectl.path,
                *kubectl.arguments(target),
                env=kubectl.variables(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=_MAX_LINE,
                start_new_session=True,
                preexec_fn=tied_to(os.getpid()),
            )
        except OSError as error:
            raise NoAnswer(
                f"{kubectl.path} cannot be started: {error.strerror}", sent=False
            ) from error
        found = cls(process)
        found._reading = tasks.once(found._read, "output of kubectl")
        await found._wait(target)
        return found

    @property
    def port(self) -> int:
        """The port of this machine."""
        return self._listens.result()

    @property
    def ended(self) -> bool:
        """Whether it forwards no more."""
        return self._process.returncode is not None

    async def stop(self) -> None:
        """Ends it and all that it has started: it is asked first, and killed where that takes too long.

        The kubectl of the PATH may be a wrapper; the one that it calls is in the same session.
        """
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._gone()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._gone()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def _gone(self) -> None:
        """Returns when it has ended, and nobody holds its output any more."""
        await self._process.wait()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def _wait(self, target: str) -> None:
        try:
            async with asyncio.timeout(_LISTENING):
                await self._listens
        except TimeoutError as error:
            await self.stop()
            raise NoAnswer(
                f"kubectl port-forward to {target} takes too long", sent=False
            ) from error
        except _Silent as error:
            await self.stop()
            said = "; ".join(self._said) or "it has ended"
            raise NoAnswer(f"kubectl port-forward to {target} fails: {said}", sent=False) from error
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def _read(self) -> None:
        """Takes what it says, to its end: it says a line for each connection, and would wait for a reader."""
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        try:
            while line := await _line(self._process.stdout):
                self._said.append(trimmed(line.decode("utf-8", "replace")))
                found = _FORWARDING.match(line)
                if found is not None and not self._listens.done():
                    self._listens.set_result(int(found[1]))
        finally:
            if not self._listens.done():
                self._listens.set_exception(_Silent())


class _Silent(Exception):
    """It has ended before it listened."""


async def _line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError:  # longer than any that it says by itself
        return b"(a very long line)\n"
