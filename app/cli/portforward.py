"""`kubectl port-forward` as a child process that does not outlive this one.

If this process is killed, the kernel kills the child (on Linux). Only a process that a wrapper of kubectl has started
is left then; a regular `stop` ends that one, too.
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
from app.core.config.flags import ENV_PREFIX
from app.core.config.values import NamespacedName
from app.core.errors import trimmed

# Child processes that must not outlive this one.


# PR_SET_PDEATHSIG of prctl(2).
_SET_DEATH_SIGNAL: Final = 1


def tied_to(parent: int) -> Callable[[], None] | None:
    """Make a `preexec_fn` that has the kernel kill the child when the process `parent` ends in any way.

    Returns:
        None on systems other than Linux, which have no such signal.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before prctl: the signal would never come
            os._exit(1)

    return tie


# Seconds from SIGTERM to SIGKILL.
_PATIENCE: Final = 1.0
# Seconds within which kubectl must listen.
_LISTENING: Final = 20.0
_LAST_LINES: Final = 3
_MAX_LINE: Final = 4096
_FORWARDING: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:([0-9]{1,5}) -> ")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """How to call kubectl."""

    path: str
    deployment: NamespacedName
    """The first target; later targets are in the same namespace."""
    port: int
    """Port of the target."""
    environ: Mapping[str, str]
    kubeconfig: Path | None = None
    context: str | None = None

    def arguments(self, target: str) -> list[str]:
        """Arguments that forward a free local port to `target`, such as `pod/NAME`."""
        chosen = [] if self.kubeconfig is None else [f"--kubeconfig={self.kubeconfig}"]
        chosen += [] if self.context is None else [f"--context={self.context}"]
        namespace = f"--namespace={self.deployment.namespace}"
        return ["port-forward", "--address=127.0.0.1", namespace, *chosen, target, f":{self.port}"]

    def variables(self) -> dict[str, str]:
        """The environment of kubectl: that of this process without the `DWD_*` variables."""
        return {
            name: text for name, text in self.environ.items() if not name.startswith(ENV_PREFIX)
        }


class PortForward:
    """A running `kubectl port-forward`; create it with `start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._draining: asyncio.Future[None] | None = None
        self.port = 0
        """The local port."""

    @classmethod
    async def start(cls, kubectl: Kubectl, target: str) -> Self:
        """Start kubectl and wait until it listens.

        It gets a session of its own, so that Ctrl-C reaches this process alone, which then ends kubectl in order.

        Raises:
            NoAnswer: kubectl cannot be started, ends before it listens, or takes too long.
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
            trouble = f"{kubectl.path} cannot be started: {error.strerror}"
            raise NoAnswer(trouble, sent=False) from error
        found = cls(process)
        try:
            async with asyncio.timeout(_LISTENING):
                found.port = await found._listens(target)
        except BaseException as error:
            await found.stop()
            if isinstance(error, TimeoutError):
                trouble = f"kubectl port-forward to {target} takes too long"
                raise NoAnswer(trouble, sent=False) from error
            raise
        found._drain()
        return found

    async def _listens(self, target: str) -> int:
        """Read kubectl's output until it says on which port it listens."""
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        said: deque[str] = deque(maxlen=_LAST_LINES)
        while line := await _line(self._process.stdout):
            if (found := _FORWARDING.match(line)) is not None:
                return int(found[1])
            said.append(trimmed(line.decode("utf-8", "replace")))
        trouble = "; ".join(said) or "it has ended"
        raise NoAnswer(f"kubectl port-forward to {target} fails: {trouble}", sent=False)

    def _drain(self) -> None:
        """Read on until all who have kubectl's output have ended: it writes a line for each connection."""

        async def read(output: asyncio.StreamReader) -> None:
            while await output.read(_MAX_LINE):
                pass

        if self._draining is None and self._process.stdout is not None:
            self._draining = asyncio.ensure_future(read(self._process.stdout))

    @property
    def ended(self) -> bool:
        """Whether kubectl has ended."""
        return self._process.returncode is not None

    async def stop(self) -> None:
        """End kubectl and its own children, by SIGTERM, and after `_PATIENCE` by SIGKILL.

        The signals go to the whole process group: the kubectl in PATH may be a wrapper that runs the real one.
        """
        self._drain()
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
        """Wait until kubectl has ended, and no process has its output open any more."""
        await self._process.wait()
        if self._draining is not None:
            await asyncio.wait([self._draining])


async def _line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError:  # longer than any line of kubectl's own
        return b"(a very long line)\n"
